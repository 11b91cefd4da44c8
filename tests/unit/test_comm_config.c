/* What a rank is told: by the environment of each launcher, and what contradicts itself. */
#include "workload/comm.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/comm_ranks.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const rank_variables[] = {"RANK",
                                             "WORLD_SIZE",
                                             "LOCAL_RANK",
                                             "LOCAL_WORLD_SIZE",
                                             "MASTER_ADDR",
                                             "MASTER_PORT",
                                             "SLURM_PROCID",
                                             "SLURM_NTASKS",
                                             "SLURM_LOCALID",
                                             "SLURM_NODEID",
                                             "SLURM_STEP_ID",
                                             "SLURM_NNODES",
                                             "SLURM_STEP_NUM_TASKS",
                                             "SLURM_TASKS_PER_NODE",
                                             "SLURM_STEP_TASKS_PER_NODE",
                                             "OMPI_COMM_WORLD_RANK",
                                             "OMPI_COMM_WORLD_SIZE",
                                             "OMPI_COMM_WORLD_LOCAL_RANK",
                                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                                             "PMI_RANK",
                                             "PMI_SIZE",
                                             "MPI_LOCALRANKID",
                                             "MPI_LOCALNRANKS",
                                             "PMIX_NAMESPACE",
                                             "OMPI_MCA_ess_base_jobid",
                                             "OMPI_MCA_orte_ess_jobid",
                                             "PMI_JOBID",
                                             "PMI_KVSNAME",
                                             "SLURM_JOB_ID"};

#define OPEN_MPI_5_OF_8                                                                            \
    "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=4"

/* "A=1 B=2" into a clean environment, then comm_config_from_env; the code. */
static int config_from(const char *assignments, struct comm_config *config, char **message)
{
    for (size_t i = 0; i < sizeof rank_variables / sizeof *rank_variables; i++)
        unsetenv(rank_variables[i]);
    auto_free char *copy = mem_strdup(assignments);
    char *save = NULL;
    for (char *a = strtok_r(copy, " ", &save); a; a = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(a, '=');
        *eq = '\0';
        setenv(a, eq + 1, 1);
    }
    struct error err = ERROR_INIT;
    comm_config_from_env(config, &err);
    int code = err.code;
    if (message)
        *message = mem_strdup(err.message);
    error_release(&err);
    return code;
}

static void environment_of_each_launcher(void)
{
    static const struct {
        const char *env;
        int rank, world, local_rank, local_world, port;
    } cases[] = {
        {"", 0, 1, 0, 1, 29500},
        {"RANK=1 WORLD_SIZE=2", 1, 2, 1, 2, 29500},
        {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_PORT=1234", 5, 8, 1, 4, 1234},
        {"SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_NTASKS=2", 1, 2, 1, 2, 29500},
        {"SLURM_PROCID=4 SLURM_LOCALID=0 SLURM_NODEID=2 SLURM_NTASKS=6 "
         "SLURM_TASKS_PER_NODE=2(x3)",
         4, 6, 0, 2, 29500},
        {"SLURM_PROCID=6 SLURM_LOCALID=0 SLURM_NODEID=3 SLURM_NTASKS=7 "
         "SLURM_TASKS_PER_NODE=2(x3),1",
         6, 7, 0, 1, 29500},
        {"SLURM_NTASKS=4", 0, 1, 0, 1, 29500}, /* an allocation, no step */
        {"SLURM_PROCID=0 SLURM_NTASKS=1 RANK=1 WORLD_SIZE=2", 1, 2, 1, 2, 29500},
        {"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=1", 0, 1, 0, 1, 29500},
        {OPEN_MPI_5_OF_8, 5, 8, 1, 4, 29500},
        {OPEN_MPI_5_OF_8 " RANK=1 WORLD_SIZE=2", 1, 2, 1, 2, 29500},
        /* mpirun in a job of Slurm: the variables of the batch script are there too */
        {OPEN_MPI_5_OF_8 " SLURM_PROCID=0 SLURM_NTASKS=8", 5, 8, 1, 4, 29500},
        {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 SLURM_PROCID=0", 3, 4, 1, 2,
         29500},
        /* srun --mpi=pmi2 */
        {"PMI_RANK=3 PMI_SIZE=4 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_NTASKS=4 "
         "SLURM_TASKS_PER_NODE=2(x2)",
         3, 4, 1, 2, 29500},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comm_config c;
        CU_ASSERT_EQUAL(config_from(cases[i].env, &c, NULL), 0);
        CU_ASSERT_EQUAL(c.rank, cases[i].rank);
        CU_ASSERT_EQUAL(c.world, cases[i].world);
        CU_ASSERT_EQUAL(c.local_rank, cases[i].local_rank);
        CU_ASSERT_EQUAL(c.local_world, cases[i].local_world);
        CU_ASSERT_EQUAL(c.master_port, cases[i].port);
    }
}

/* Two runs of one user on one node must not find each other. */
static void runs_are_told_apart(void)
{
    static const char *const named[] = {
        OPEN_MPI_5_OF_8 " PMIX_NAMESPACE=%d",
        OPEN_MPI_5_OF_8 " OMPI_MCA_ess_base_jobid=%d",
        "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_JOBID=%d",
        "SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_STEP_ID=%d",
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        struct comm_config runs[3];
        for (int run = 0; run < 3; run++) { /* the last is the first once more */
            auto_free char *env = mem_printf("%s", named[i]);
            snprintf(strstr(env, "%d"), 3, "%d", run % 2 + 1);
            CU_ASSERT_EQUAL(config_from(env, &runs[run], NULL), 0);
            CU_ASSERT(!runs[run].nameless);
        }
        CU_ASSERT_NOT_EQUAL(runs[0].master_port, runs[1].master_port);
        CU_ASSERT(strcmp(runs[0].job, runs[1].job) != 0);
        CU_ASSERT_EQUAL(runs[0].master_port, runs[2].master_port);
        CU_ASSERT_STRING_EQUAL(runs[0].job, runs[2].job);
    }
}

static void who_cannot_meet_is_refused(void)
{
    static const struct {
        const char *env, *message;
    } cases[] = {
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "
         "OMPI_COMM_WORLD_LOCAL_SIZE=2",
         "gives this run no name"},
        {OPEN_MPI_5_OF_8 " PMIX_NAMESPACE=1", "nothing says on which rank 0 is"},
        {OPEN_MPI_5_OF_8 " MASTER_PORT=1234", "nothing says on which rank 0 is"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comm_config config;
        struct comm *c = NULL;
        struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(config_from(cases[i].env, &config, NULL), 0);
        comm_open(&c, &config, &err);
        CU_ASSERT_EQUAL(err.code, NANOCHAT_EXIT_USAGE);
        CU_ASSERT(err.message && strstr(err.message, cases[i].message));
        CU_ASSERT(c == NULL);
        error_release(&err);
    }
}

static void contradictions_are_usage_errors(void)
{
    static const char *const cases[] = {
        "RANK=0",
        "WORLD_SIZE=2",
        "RANK=2 WORLD_SIZE=2",
        "RANK=-1 WORLD_SIZE=2",
        "RANK= WORLD_SIZE=2",
        "RANK=0x1 WORLD_SIZE=2",
        "RANK=1 WORLD_SIZE=0",
        "RANK=1 WORLD_SIZE=4 LOCAL_RANK=3 LOCAL_WORLD_SIZE=2",
        "RANK=1 WORLD_SIZE=4 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4",
        "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2",
        "RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=4",
        "RANK=0 WORLD_SIZE=2 MASTER_PORT=70000",
        "SLURM_PROCID=4 SLURM_NTASKS=4",
        "OMPI_COMM_WORLD_RANK=one",
        OPEN_MPI_5_OF_8 " OMPI_COMM_WORLD_RANK=8",
        "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=9 SLURM_TASKS_PER_NODE=2(x2)",
        "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comm_config c;
        int code = config_from(cases[i], &c, NULL);
        if (code != NANOCHAT_EXIT_USAGE)
            printf("  accepted: %s\n", cases[i]);
        CU_ASSERT_EQUAL(code, NANOCHAT_EXIT_USAGE);
    }
    char *message = NULL;
    struct comm_config c;
    config_from("RANK=3 WORLD_SIZE=2", &c, &message);
    CU_ASSERT(strstr(message, "rank 3 of 2") != NULL);
    free(message);
    config_from("", &c, NULL);
}

static void several_nodes_need_tcp(void)
{
    struct comm_config config = ranks_config(0, 4);
    struct comm *c = NULL;
    struct error err = ERROR_INIT;
    config.local_world = 2;
    comm_open(&c, &config, &err);
    CU_ASSERT_EQUAL(err.code, NANOCHAT_EXIT_PLAN);
    CU_ASSERT(c == NULL);
    error_release(&err);
    config.backend = "infiniband";
    comm_open(&c, &config, &err);
    CU_ASSERT_EQUAL(err.code, NANOCHAT_EXIT_USAGE);
    error_release(&err);
}

UNIT_MAIN({"the environment of each launcher", environment_of_each_launcher},
          {"runs are told apart", runs_are_told_apart},
          {"who cannot meet is refused", who_cannot_meet_is_refused},
          {"contradictions are usage errors", contradictions_are_usage_errors},
          {"several nodes need tcp", several_nodes_need_tcp})
