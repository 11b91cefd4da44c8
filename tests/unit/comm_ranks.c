#include "tests/unit/comm_ranks.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/mem.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct rank_outcome *ranks;
const char *ranks_backend = "shm";
static int port;

void ranks_over_tcp(void (*test)(void))
{
    ranks_backend = "tcp";
    test();
    ranks_backend = "shm";
}

void ranks_prepare(void)
{
    if (!ranks)
        ranks = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(ranks, 0, 4096);
    port = unit_port();
}

struct comm_config ranks_config(int rank, int world)
{
    return (struct comm_config){.rank = rank,
                                .world = world,
                                .local_rank = rank,
                                .local_world = world,
                                .master_port = port,
                                .backend = ranks_backend,
                                .timeout_s = 20};
}

void ranks_main(const struct comm_config *config, rank_function *run)
{
    struct rank_outcome *mine = &ranks[config->rank];
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    double begin = clock_mono_s();
    if (!comm_open(&c, config, &err))
        run(c, &err);
    comm_close(c);
    mine->seconds = clock_mono_s() - begin;
    snprintf(mine->message, sizeof mine->message, "%s", err.message ? err.message : "");
    int code = err.code;
    error_release(&err);
    _exit(code);
}

pid_t ranks_start(const struct comm_config *config, rank_function *run)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        ranks_main(config, run);
    return pid;
}

void ranks_reap(pid_t pid, struct rank_outcome *o)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    o->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void ranks_run_timeout(int world, rank_function *run, double timeout_s, int absent)
{
    pid_t pids[RANKS_MAX];
    ranks_prepare();
    for (int r = 0; r < world; r++) {
        struct comm_config config = ranks_config(r, world);
        config.timeout_s = timeout_s;
        pids[r] = r == absent ? -1 : ranks_start(&config, run);
    }
    for (int r = 0; r < world; r++)
        if (pids[r] > 0)
            ranks_reap(pids[r], &ranks[r]);
}

void ranks_run(int world, rank_function *run)
{
    ranks_run_timeout(world, run, 20, -1);
}

void ranks_expect_message(int r, const char *part)
{
    if (!strstr(ranks[r].message, part))
        CU_ASSERT_STR(ranks[r].message, part);
}

void ranks_expect_all_fine(int world)
{
    for (int r = 0; r < world; r++) {
        CU_ASSERT_STR(ranks[r].message, "");
        CU_ASSERT_EQUAL(ranks[r].code, 0);
    }
}

float ranks_value(int rank, int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ ((uint32_t)rank + 1) * 40503u;
    x ^= x >> 13;
    x *= 0x5bd1e995u;
    x ^= x >> 15;
    return (float)x / 4294967296.0f - 0.3f + (float)rank;
}

float *ranks_values(const struct comm *c, int64_t n)
{
    float *buf = mem_alloc((size_t)n * sizeof *buf + 1);
    for (int64_t i = 0; i < n; i++)
        buf[i] = ranks_value(comm_rank(c), i);
    return buf;
}

float ranks_sum(int world, int64_t i)
{
    float s = ranks_value(0, i);
    for (int r = 1; r < world; r++)
        s += ranks_value(r, i);
    return s;
}

int ranks_wrong(struct error *err, const char *op, int64_t at, double got, double expected)
{
    return error_set(err, 99, "%s: element %lld is %.9g, expected %.9g", op, (long long)at, got,
                     expected);
}

static int check_all_reduce(struct comm *c, int64_t n, struct error *err)
{
    auto_free float *buf = ranks_values(c, n);
    if (comm_all_reduce_sum(c, buf, n, err))
        return -err->code;
    for (int64_t i = 0; i < n; i++) /* bitwise: the order of summation is promised */
        if (buf[i] != ranks_sum(comm_world(c), i))
            return ranks_wrong(err, "all_reduce", i, buf[i], ranks_sum(comm_world(c), i));
    return 0;
}

int ranks_all_reduce(struct comm *c, struct error *err)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 17, 2047, 2048, 2049, 5000, 300001, 131072 * 3 + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (check_all_reduce(c, sizes[i], err))
            return -err->code;
    return 0;
}

int ranks_nothing(struct comm *c, struct error *err)
{
    (void)c, (void)err;
    return 0;
}
