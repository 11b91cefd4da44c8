/* Who am I among the ranks: from torchrun's variables, else from those of mpirun, else from
 * Slurm's. */
#include "workload/comm.h"

#include "common/num.h"
#include "common/protocol.h"
#include "workload/comm_priv.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS (1 << 20)

/* Sets *found; a variable that is set, also to nothing, must be an integer within low..high. */
static int read_int(const char *name, int64_t low, int64_t high, int *out, bool *found,
                    struct error *err)
{
    const char *text = getenv(name);
    *found = text != NULL;
    if (!text)
        return 0;
    int64_t value;
    if (!num_parse_i64(text, &value) || value < low || value > high)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "environment variable %s: \"%s\", expected an integer from %lld to %lld",
                         name, text, (long long)low, (long long)high);
    *out = (int)value;
    return 0;
}

/* Slurm's "2(x3),1": tasks on the nodes in order. The entry of `node`, or -1. */
static int tasks_on_node(const char *text, int node)
{
    while (*text) {
        char *end;
        long tasks = strtol(text, &end, 10), times = 1;
        if (end == text || tasks < 1)
            return -1;
        if (!strncmp(end, "(x", 2)) {
            times = strtol(end + 2, &end, 10);
            if (*end++ != ')')
                return -1;
        }
        if (node < times)
            return (int)tasks;
        node -= (int)times;
        text = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            return -1;
    }
    return -1;
}

static int from_slurm(struct comm_config *c, struct error *err)
{
    bool has_rank, has_world, has_local, has_node;
    int node = 0;
    const char *world_name =
        getenv("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    if (read_int("SLURM_PROCID", 0, MAX_RANKS, &c->rank, &has_rank, err) ||
        read_int(world_name, 1, MAX_RANKS, &c->world, &has_world, err) ||
        read_int("SLURM_LOCALID", 0, MAX_RANKS, &c->local_rank, &has_local, err) ||
        read_int("SLURM_NODEID", 0, MAX_RANKS, &node, &has_node, err))
        return -err->code;
    if (!has_rank || !has_world) /* an allocation without a step: one rank */
        return c->rank = c->local_rank = 0, c->world = c->local_world = 1, 0;
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    c->nameless = !job || !step;
    if (!c->nameless)
        snprintf(c->job, sizeof c->job, "slurm %s.%s", job, step);
    if (!has_local)
        c->local_rank = c->rank;
    const char *per_node = getenv("SLURM_STEP_TASKS_PER_NODE");
    if (!per_node)
        per_node = getenv("SLURM_TASKS_PER_NODE");
    c->local_world = c->world;
    if (per_node && (c->local_world = tasks_on_node(per_node, node)) < 0)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "the Slurm task layout \"%s\" has no entry for node %d", per_node, node);
    return 0;
}

/* The variables that an MPI launcher sets: of Open MPI's mpirun, and of those that speak PMI (Hydra
 * of MPICH and Intel MPI). They come before Slurm's, which inside a job are those of the step, or
 * the batch script, that called mpirun. */
static const struct mpi_variables {
    const char *rank, *world, *local_rank, *local_world;
    const char *job[4]; /* its name of the run, the first that is set */
} mpi_launchers[] = {
    {"OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid", NULL}},
    {"PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {"PMI_JOBID", "PMI_KVSNAME", "PMIX_NAMESPACE", NULL}},
};

static void name_job(struct comm_config *c, const char *const names[])
{
    for (; *names && !*c->job; names++)
        snprintf(c->job, sizeof c->job, "%s", getenv(*names) ? getenv(*names) : "");
    c->nameless = !*c->job;
}

/* Without the local two it is none of these launchers: srun --mpi=pmi2 sets PMI_RANK and PMI_SIZE,
 * and says the rest in its own variables. */
static int from_mpi(struct comm_config *c, const struct mpi_variables *v, bool *found,
                    struct error *err)
{
    bool has_rank, has_world, has_local, has_local_world;
    if (read_int(v->rank, 0, MAX_RANKS, &c->rank, &has_rank, err) ||
        read_int(v->world, 1, MAX_RANKS, &c->world, &has_world, err) ||
        read_int(v->local_rank, 0, MAX_RANKS, &c->local_rank, &has_local, err) ||
        read_int(v->local_world, 1, MAX_RANKS, &c->local_world, &has_local_world, err))
        return -err->code;
    *found = has_rank && has_world && has_local && has_local_world;
    if (*found)
        name_job(c, v->job);
    return 0;
}

static int from_torchrun(struct comm_config *c, bool *found, struct error *err)
{
    bool has_rank, has_world, has_local, has_local_world;
    if (read_int(ENV_RANK, 0, MAX_RANKS, &c->rank, &has_rank, err) ||
        read_int(ENV_WORLD_SIZE, 1, MAX_RANKS, &c->world, &has_world, err) ||
        read_int(ENV_LOCAL_RANK, 0, MAX_RANKS, &c->local_rank, &has_local, err) ||
        read_int(ENV_LOCAL_WORLD_SIZE, 1, MAX_RANKS, &c->local_world, &has_local_world, err))
        return -err->code;
    *found = has_rank || has_world;
    if (has_rank != has_world)
        return error_set(err, NANOCHAT_EXIT_USAGE, "%s is set but %s is not; set both or neither",
                         has_rank ? ENV_RANK : ENV_WORLD_SIZE,
                         has_rank ? ENV_WORLD_SIZE : ENV_RANK);
    if (!has_local_world)
        c->local_world = c->world;
    if (!has_local)
        c->local_rank = c->rank % c->local_world;
    return 0;
}

static int check_consistent(const struct comm_config *c, struct error *err)
{
    const char *problem = NULL;
    if (c->rank >= c->world)
        problem = "the rank must be less than the world size";
    else if (c->local_world > c->world)
        problem = "the local world size must not exceed the world size";
    else if (c->local_rank >= c->local_world)
        problem = "the local rank must be less than the local world size";
    else if (c->local_rank > c->rank)
        problem = "the local rank must not exceed the rank";
    else if (c->local_world == c->world && c->local_rank != c->rank)
        problem = "on a single node the local rank is the rank";
    if (!problem)
        return 0;
    return error_set(err, NANOCHAT_EXIT_USAGE,
                     "contradictory ranks in the environment: rank %d of %d, local rank %d of %d; "
                     "%s",
                     c->rank, c->world, c->local_rank, c->local_world, problem);
}

/* The first launcher that has set its variables. */
static int from_launcher(struct comm_config *c, struct error *err)
{
    bool found;
    if (from_torchrun(c, &found, err) || found)
        return -err->code;
    for (size_t i = 0; i < sizeof mpi_launchers / sizeof *mpi_launchers; i++)
        if (from_mpi(c, &mpi_launchers[i], &found, err) || found)
            return -err->code;
    return from_slurm(c, err);
}

/* A port that most other runs do not have; who does have it is told by the name itself. */
static int port_of_job(const char *job)
{
    return 20000 + (int)(comm_hash(COMM_HASH, job) % 10000);
}

int comm_config_from_env(struct comm_config *config, struct error *err)
{
    *config = (struct comm_config){.world = 1, .local_world = 1, .master_port = 29500};
    bool has_port;
    if (from_launcher(config, err) ||
        read_int(ENV_MASTER_PORT, 1, 65535, &config->master_port, &has_port, err))
        return -err->code;
    const char *addr = getenv(ENV_MASTER_ADDR);
    const bool by_launcher = *config->job || config->nameless;
    config->master_addr = addr && *addr ? addr : "127.0.0.1";
    config->no_address = by_launcher && !(addr && *addr) && config->local_world != config->world;
    if (has_port)
        config->nameless = false;
    else if (*config->job)
        config->master_port = port_of_job(config->job);
    return check_consistent(config, err);
}
