#include "workload/launch_slurm.h"

#include "common/cleanup.h"
#include "common/hostlist.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"

#include <stdlib.h>

#define FIRST_PORT 20000
#define PORTS 12000

/* 1: read; 0: not set; negative: an error. */
static int read_variable(const char *name, int64_t *out, struct error *err)
{
    const char *text = getenv(name);
    if (!text)
        return 0;
    if (!num_parse_i64(text, out) || *out < 0)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "environment variable %s: \"%s\", expected a number", name, text);
    return 1;
}

static int need(const char *name, const char *option, struct error *err)
{
    return error_set(err, NANOCHAT_EXIT_USAGE,
                     "--rendezvous=slurm without %s in the environment: not inside a step of srun, "
                     "or in a container that does not pass it on; %s gives it by hand",
                     name, option);
}

static int count_nodes(struct launch_place *r, struct error *err)
{
    int64_t nodes = 0, tasks = 0;
    int has = read_variable("SLURM_STEP_NUM_NODES", &nodes, err);
    int has_tasks = has < 0 ? has : read_variable("SLURM_STEP_NUM_TASKS", &tasks, err);
    if (has < 0 || has_tasks < 0)
        return -err->code;
    if (!r->nnodes && !has)
        return need("SLURM_STEP_NUM_NODES", "--nnodes", err);
    if (has && r->nnodes && r->nnodes != nodes)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "--nnodes=%lld, but the step has %lld nodes (SLURM_STEP_NUM_NODES)",
                         (long long)r->nnodes, (long long)nodes);
    if (has && has_tasks && tasks != nodes)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "the step has %lld tasks on %lld nodes, expected one task a node, which "
                         "starts the ranks of its node",
                         (long long)tasks, (long long)nodes);
    if (has)
        r->nnodes = nodes;
    return 0;
}

static int find_master(struct launch_place *r, struct error *err)
{
    const char *list = getenv("SLURM_STEP_NODELIST");
    auto_strv names = STRV_INIT;
    if (r->master_addr)
        return 0;
    if (!list)
        return need("SLURM_STEP_NODELIST", "--master-addr", err);
    if (hostlist_expand(list, &names, NANOCHAT_EXIT_USAGE, err))
        return error_wrap(err, "SLURM_STEP_NODELIST");
    if ((int64_t)names.count != r->nnodes)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "SLURM_STEP_NODELIST \"%s\" names %zu nodes, expected %lld nodes", list,
                         names.count, (long long)r->nnodes);
    r->master_addr = mem_strdup(names.items[0]);
    return 0;
}

int launch_place_from_slurm(struct launch_place *r, struct error *err)
{
    int64_t job = 0, step = 0;
    if (r->node_rank < 0) {
        int has = read_variable("SLURM_NODEID", &r->node_rank, err);
        if (has <= 0)
            return has < 0 ? has : need("SLURM_NODEID", "--node-rank", err);
    }
    if (count_nodes(r, err) || find_master(r, err))
        return -err->code;
    if (r->node_rank >= r->nnodes)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "node number %lld of %lld nodes, expected less than their number",
                         (long long)r->node_rank, (long long)r->nnodes);
    if (!r->master_port) {
        if (read_variable("SLURM_JOB_ID", &job, err) < 0 ||
            read_variable("SLURM_STEP_ID", &step, err) < 0)
            return -err->code;
        r->master_port = FIRST_PORT + (job * 131 + step) % PORTS;
    }
    return 0;
}

void launch_place_release(struct launch_place *r)
{
    free(r->master_addr);
    *r = (struct launch_place){0};
}
