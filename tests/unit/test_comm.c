/* Collectives between forked ranks, against sums computed alone; losses of every kind. */
#include "workload/comm.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"
#include "workload/comm_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORLD 4

struct outcome_of_rank {
    int code; /* exit code, or -signal */
    double seconds;
    char message[512];
};
static struct outcome_of_rank *shared; /* [MAX_WORLD], written by the ranks */

typedef int rank_function(struct comm *c, struct error *err);

static int next_port = 20000;
static const char *backend = "shm";

static struct comm_config config_of(int rank, int world)
{
    return (struct comm_config){.rank = rank,
                                .world = world,
                                .local_rank = rank,
                                .local_world = world,
                                .master_port = next_port,
                                .backend = backend,
                                .timeout_s = 20};
}

static void rank_main(const struct comm_config *config, rank_function *run)
{
    struct outcome_of_rank *mine = &shared[config->rank];
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

static pid_t start_rank(const struct comm_config *config, rank_function *run)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        rank_main(config, run);
    return pid;
}

static void reap(pid_t pid, struct outcome_of_rank *o)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    o->code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void prepare(void)
{
    if (!shared)
        shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 0, 4096);
    next_port = 20000 + (next_port + getpid() * 7 + 1) % 20000;
}

/* All ranks but the `absent` ones run the function. */
static void run_ranks_timeout(int world, rank_function *run, double timeout_s, int absent)
{
    pid_t pids[MAX_WORLD];
    prepare();
    for (int r = 0; r < world; r++) {
        struct comm_config config = config_of(r, world);
        config.timeout_s = timeout_s;
        pids[r] = r == absent ? -1 : start_rank(&config, run);
    }
    for (int r = 0; r < world; r++)
        if (pids[r] > 0)
            reap(pids[r], &shared[r]);
}

static void run_ranks(int world, rank_function *run)
{
    run_ranks_timeout(world, run, 20, -1);
}

static void expect_message(int r, const char *part)
{
    if (!strstr(shared[r].message, part))
        CU_ASSERT_STR(shared[r].message, part);
}

static void expect_all_fine(int world)
{
    for (int r = 0; r < world; r++) {
        CU_ASSERT_STR(shared[r].message, "");
        CU_ASSERT_EQUAL(shared[r].code, 0);
    }
}

/* Of the current port: other runs of this machine do not count. */
static bool segment_has_a_name(void)
{
    struct comm_config config = config_of(0, 2);
    auto_free char *path = comm_shm_path(&config);
    return fs_exists(path);
}

/* ---- right results ----------------------------------------------------------------------------
 */

static float value(int rank, int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ ((uint32_t)rank + 1) * 40503u;
    x ^= x >> 13;
    x *= 0x5bd1e995u;
    x ^= x >> 15;
    return (float)x / 4294967296.0f - 0.3f + (float)rank;
}

static float sum_of_all(int world, int64_t i)
{
    float s = value(0, i);
    for (int r = 1; r < world; r++)
        s += value(r, i);
    return s;
}

static int wrong(struct error *err, const char *op, int64_t at, double got, double expected)
{
    return error_set(err, 99, "%s: element %lld is %.9g, expected %.9g", op, (long long)at, got,
                     expected);
}

static float *filled(const struct comm *c, int64_t n)
{
    float *buf = mem_alloc((size_t)n * sizeof *buf + 1);
    for (int64_t i = 0; i < n; i++)
        buf[i] = value(comm_rank(c), i);
    return buf;
}

static int check_all_reduce(struct comm *c, int64_t n, struct error *err)
{
    auto_free float *buf = filled(c, n);
    if (comm_all_reduce_sum(c, buf, n, err))
        return -err->code;
    for (int64_t i = 0; i < n; i++) /* bitwise: the order of summation is promised */
        if (buf[i] != sum_of_all(comm_world(c), i))
            return wrong(err, "all_reduce", i, buf[i], sum_of_all(comm_world(c), i));
    return 0;
}

static int all_reduce_sizes(struct comm *c, struct error *err)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 17, 2047, 2048, 2049, 5000, 300001, 131072 * 3 + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (check_all_reduce(c, sizes[i], err))
            return -err->code;
    return 0;
}

static void all_reduces(void)
{
    for (int world = 1; world <= MAX_WORLD; world++) {
        run_ranks(world, all_reduce_sizes);
        expect_all_fine(world);
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Arbitrary segments: empty ones, one that is everything, random ones. */
static int64_t draw_counts(uint32_t *state, int world, int64_t *counts)
{
    int64_t n = 0;
    uint32_t kind = next_random(state) % 4;
    int only = (int)(next_random(state) % (uint32_t)world);
    for (int r = 0; r < world; r++) {
        uint32_t top = kind == 0 ? 40 : kind == 1 ? 3000 : 200000;
        counts[r] = next_random(state) % 3 ? (int64_t)(next_random(state) % top) : 0;
        if (kind == 3 && r != only)
            counts[r] = 0;
        n += counts[r];
    }
    return n;
}

static int check_segments(struct comm *c, const int64_t *counts, int64_t n, struct error *err)
{
    int me = comm_rank(c), world = comm_world(c);
    auto_free float *buf = filled(c, n);
    int64_t start = 0;
    for (int r = 0; r < me; r++)
        start += counts[r];
    if (comm_reduce_scatter_sum(c, buf, counts, err))
        return -err->code;
    for (int64_t i = start; i < start + counts[me]; i++)
        if (buf[i] != sum_of_all(world, i))
            return wrong(err, "reduce_scatter", i, buf[i], sum_of_all(world, i));
    for (int64_t i = 0; i < n; i++)
        if (i < start || i >= start + counts[me])
            buf[i] = -1e30f;
    if (comm_all_gather(c, buf, counts, err))
        return -err->code;
    for (int64_t i = 0; i < n; i++)
        if (buf[i] != sum_of_all(world, i))
            return wrong(err, "all_gather", i, buf[i], sum_of_all(world, i));
    return 0;
}

static int random_segments(struct comm *c, struct error *err)
{
    uint32_t state = 12345;
    int64_t counts[MAX_WORLD];
    for (int i = 0; i < 25; i++) {
        int64_t n = draw_counts(&state, comm_world(c), counts);
        if (check_segments(c, counts, n, err))
            return -err->code;
    }
    return 0;
}

static void segments_of_any_length(void)
{
    for (int world = 1; world <= MAX_WORLD; world++) {
        run_ranks(world, random_segments);
        expect_all_fine(world);
    }
}

static int doubles_and_broadcast(struct comm *c, struct error *err)
{
    int me = comm_rank(c), world = comm_world(c);
    double sums[3] = {1e-300, 1.0 / 3 * (me + 1), me}, top[2] = {-me, me};
    if (comm_all_reduce_sum_f64(c, sums, 3, err) || comm_all_reduce_max_f64(c, top, 2, err))
        return -err->code;
    double expected = 1.0 / 3;
    for (int r = 1; r < world; r++)
        expected += 1.0 / 3 * (r + 1);
    if (sums[1] != expected || sums[2] != world * (world - 1) / 2.0)
        return wrong(err, "sum of doubles", 1, sums[1], expected);
    if (top[0] != 0 || top[1] != world - 1)
        return wrong(err, "max of doubles", 1, top[1], world - 1);
    size_t bytes = 1500001;
    auto_free unsigned char *text = mem_alloc(bytes);
    for (int root = 0; root < world; root++) {
        for (size_t i = 0; i < bytes; i++)
            text[i] = me == root ? (unsigned char)(i * 31 + (size_t)root) : 0;
        if (comm_broadcast(c, text, (int64_t)bytes, root, err))
            return -err->code;
        for (size_t i = 0; i < bytes; i++)
            if (text[i] != (unsigned char)(i * 31 + (size_t)root))
                return wrong(err, "broadcast", (int64_t)i, text[i], 0);
    }
    return comm_barrier(c, err);
}

static void doubles_broadcast_barrier(void)
{
    for (int world = 1; world <= MAX_WORLD; world++) {
        run_ranks(world, doubles_and_broadcast);
        expect_all_fine(world);
    }
}

static int tell_id(struct comm *c, struct error *err)
{
    (void)err;
    snprintf(shared[comm_rank(c)].message, sizeof shared->message, "%s", comm_id(c));
    return error_set(err, 1, "%s", comm_id(c)); /* the message is carried to the parent */
}

static void one_id_a_run(void)
{
    char first[512];
    run_ranks(3, tell_id);
    CU_ASSERT_STR(shared[1].message, shared[0].message);
    CU_ASSERT_STR(shared[2].message, shared[0].message);
    CU_ASSERT_EQUAL(strlen(shared[0].message), 32);
    memcpy(first, shared[0].message, sizeof first);
    run_ranks(3, tell_id);
    CU_ASSERT(strcmp(first, shared[0].message) != 0);
}

static struct comm_record records[8];
static int n_records;

static void remember(void *user, const struct comm_record *record)
{
    (void)user;
    if (n_records < 8)
        records[n_records++] = *record;
}

static int observed(struct comm *c, struct error *err)
{
    float buf[12] = {0};
    int64_t counts[2] = {5, 7};
    n_records = 0;
    comm_set_observer(c, remember, NULL);
    comm_set_step(c, 41);
    comm_take_time_s(c);
    if (comm_all_reduce_sum(c, buf, 12, err) || comm_reduce_scatter_sum(c, buf, counts, err) ||
        comm_all_gather(c, buf, counts, err) || comm_broadcast(c, buf, 9, 1, err) ||
        comm_barrier(c, err))
        return -err->code;
    static const char *const ops[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                      "barrier"};
    static const int64_t bytes[] = {48, 48, 48, 9, 0};
    double total = 0;
    if (n_records != 5)
        return error_set(err, 99, "%d records", n_records);
    for (int i = 0; i < 5; i++) {
        const struct comm_record *r = &records[i];
        if (strcmp(r->op, ops[i]) != 0 || r->bytes != bytes[i] || r->seq != i || r->step != 41 ||
            r->lost_rank != -1 || r->time_us < 0)
            return error_set(err, 99, "record %d: %s %lld", i, r->op, (long long)r->bytes);
        total += r->time_us * 1e-6;
    }
    double taken = comm_take_time_s(c);
    if (taken < total * 0.999 || taken > total * 1.001 + 1e-9 || comm_take_time_s(c) != 0)
        return error_set(err, 99, "time %g, records %g", taken, total);
    return 0;
}

static void observer_sees_every_collective(void)
{
    run_ranks(2, observed);
    expect_all_fine(2);
}

/* ---- losses -----------------------------------------------------------------------------------
 */

static int lose_rank_1(struct comm *c, int signal_number, struct error *err)
{
    float buf[5000] = {0};
    for (int step = 0; step < 6; step++) {
        comm_set_step(c, step);
        if (step == 3 && comm_rank(c) == 1)
            raise(signal_number);
        if (comm_all_reduce_sum(c, buf, 5000, err))
            return -err->code;
    }
    return 0;
}

static int kill_rank_1(struct comm *c, struct error *err)
{
    return lose_rank_1(c, SIGKILL, err);
}

static void killed_rank_is_named_at_once(void)
{
    run_ranks_timeout(4, kill_rank_1, 60, -1);
    CU_ASSERT_EQUAL(shared[1].code, -SIGKILL);
    for (int r = 0; r < 4; r++) {
        if (r == 1)
            continue;
        CU_ASSERT_EQUAL(shared[r].code, NANOCHAT_EXIT_PEER);
        /* over tcp a rank may hear of it from a faster one while it is still in step 2 */
        expect_message(r, !strcmp(backend, "shm") ? "lost rank 1 in all_reduce of step 3: its "
                                                  : "lost rank 1 in all_reduce of step ");
        expect_message(r, "dead");
        CU_ASSERT(shared[r].seconds < 20); /* noticed, not timed out */
    }
    CU_ASSERT(!segment_has_a_name());
}

static int leave_at_2(struct comm *c, struct error *err)
{
    float buf[10] = {0};
    for (int step = 0; step < 4; step++) {
        comm_set_step(c, step);
        if (step == 2 && comm_rank(c) == 2)
            return error_set(err, NANOCHAT_EXIT_NUMERIC, "loss is nan");
        if (comm_all_reduce_sum(c, buf, 10, err))
            return -err->code;
    }
    return 0;
}

static void rank_that_gives_up_is_named(void)
{
    run_ranks_timeout(3, leave_at_2, 60, -1);
    CU_ASSERT_EQUAL(shared[2].code, NANOCHAT_EXIT_NUMERIC);
    for (int r = 0; r < 2; r++) {
        CU_ASSERT_EQUAL(shared[r].code, NANOCHAT_EXIT_PEER);
        expect_message(r, "lost rank 2 in all_reduce of step 2: it ended early");
    }
}

static int stop_rank_1(struct comm *c, struct error *err)
{
    return lose_rank_1(c, SIGSTOP, err);
}

static void stopped_rank_runs_into_the_deadline(void)
{
    pid_t pids[3];
    prepare();
    for (int r = 0; r < 3; r++) {
        struct comm_config config = config_of(r, 3);
        config.timeout_s = 1;
        pids[r] = start_rank(&config, stop_rank_1);
    }
    for (int r = 0; r < 3; r += 2) {
        reap(pids[r], &shared[r]);
        CU_ASSERT_EQUAL(shared[r].code, NANOCHAT_EXIT_PEER);
        expect_message(r, "lost rank 1 in all_reduce of step 3");
        expect_message(r, "did not arrive within 1 s");
        CU_ASSERT(shared[r].seconds < 1 + 10);
    }
    kill(pids[1], SIGCONT); /* too late: it must not go on alone */
    reap(pids[1], &shared[1]);
    CU_ASSERT_EQUAL(shared[1].code, NANOCHAT_EXIT_PEER);
    expect_message(1, "the other ranks gave this rank (1) up");
}

static int nothing(struct comm *c, struct error *err)
{
    (void)c, (void)err;
    return 0;
}

static void rank_that_never_arrives_is_named(void)
{
    for (int absent = 0; absent < 3; absent++) {
        char expected[64];
        run_ranks_timeout(3, nothing, 0.4, absent);
        snprintf(expected, sizeof expected, "lost rank %d in init before the first step", absent);
        for (int r = 0; r < 3; r++) {
            if (r == absent)
                continue;
            CU_ASSERT_EQUAL(shared[r].code, NANOCHAT_EXIT_PEER);
            expect_message(r, expected);
        }
        CU_ASSERT(!segment_has_a_name());
    }
}

static int keep_going(struct comm *c, struct error *err)
{
    float buf[4] = {0};
    for (int step = 0;; step++)
        if (comm_all_reduce_sum(c, buf, 4, err))
            return -err->code;
}

static void nothing_is_left_when_all_are_killed(void)
{
    pid_t pids[2];
    prepare();
    for (int r = 0; r < 2; r++) {
        struct comm_config config = config_of(r, 2);
        pids[r] = start_rank(&config, keep_going);
    }
    clock_sleep_s(0.3);
    for (int r = 0; r < 2; r++)
        kill(pids[r], SIGKILL);
    for (int r = 0; r < 2; r++)
        reap(pids[r], &shared[r]);
    CU_ASSERT(!segment_has_a_name());
}

/* Rank 0 is killed while it waits for the others: its name stays, and must not hurt. */
static void segment_of_a_dead_run_is_taken_over(void)
{
    prepare();
    struct comm_config config = config_of(0, 2);
    pid_t pid = start_rank(&config, nothing);
    for (int i = 0; i < 500 && !segment_has_a_name(); i++)
        clock_sleep_s(0.01);
    CU_ASSERT(segment_has_a_name());
    kill(pid, SIGKILL);
    reap(pid, &shared[0]);
    CU_ASSERT(segment_has_a_name());

    pid_t pids[2];
    for (int r = 1; r >= 0; r--) { /* rank 1 first: it sees the stale one */
        config = config_of(r, 2);
        pids[r] = start_rank(&config, all_reduce_sizes);
        clock_sleep_s(0.05);
    }
    for (int r = 0; r < 2; r++)
        reap(pids[r], &shared[r]);
    expect_all_fine(2);
    CU_ASSERT(!segment_has_a_name());
}

static void launcher_can_remove_a_dead_name_but_no_live_one(void)
{
    prepare();
    struct comm_config config = config_of(0, 2);
    pid_t pid = start_rank(&config, nothing);
    for (int i = 0; i < 500 && !segment_has_a_name(); i++)
        clock_sleep_s(0.01);
    comm_forget(&config);
    CU_ASSERT(segment_has_a_name());
    kill(pid, SIGKILL);
    reap(pid, &shared[0]);
    comm_forget(&config);
    CU_ASSERT(!segment_has_a_name());
}

static void same_rank_twice_is_refused(void)
{
    prepare();
    pid_t pids[2];
    struct comm_config config = config_of(0, 3);
    config.timeout_s = 3;
    pid_t zero = start_rank(&config, nothing);
    config.rank = config.local_rank = 1;
    pids[0] = start_rank(&config, nothing);
    pids[1] = start_rank(&config, nothing);
    struct outcome_of_rank o[2];
    reap(pids[0], &o[0]);
    reap(pids[1], &o[1]);
    CU_ASSERT((o[0].code == NANOCHAT_EXIT_USAGE) != (o[1].code == NANOCHAT_EXIT_USAGE));
    reap(zero, &shared[0]);
}

/* ---- one deadline a call; ranks that cannot see each other's processes -------------------------
 */

static int rank_2_never_comes(struct comm *c, struct error *err)
{
    if (comm_rank(c) == 2)
        pause();
    if (comm_rank(c) == 1)
        clock_sleep_s(2.5);
    return comm_barrier(c, err);
}

/* Waiting for one rank takes from the time for the next. */
static void a_call_has_one_deadline(void)
{
    pid_t pids[3];
    prepare();
    for (int r = 0; r < 3; r++) {
        struct comm_config config = config_of(r, 3);
        config.timeout_s = 3;
        pids[r] = start_rank(&config, rank_2_never_comes);
    }
    reap(pids[0], &shared[0]);
    reap(pids[1], &shared[1]);
    kill(pids[2], SIGKILL);
    reap(pids[2], &shared[2]);
    CU_ASSERT_EQUAL(shared[0].code, NANOCHAT_EXIT_PEER);
    expect_message(0, "lost rank 2 in barrier before the first step");
    CU_ASSERT(shared[0].seconds < 2.5 + 3); /* what it would be with a deadline a rank */
}

static int rank_1_is_late(struct comm *c, struct error *err)
{
    if (comm_rank(c) == 1)
        clock_sleep_s(0.5); /* long enough for rank 0 to look after it */
    return comm_barrier(c, err);
}

/* Every rank is process 1 of a PID namespace with its own /proc, as in a container a rank. */
static pid_t start_alone(const struct comm_config *config, rank_function *run)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid)
        return pid;
    if (unshare(CLONE_NEWPID | CLONE_NEWNS))
        _exit(77);
    pid = fork();
    if (pid == 0) {
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("proc", "/proc", "proc", 0, NULL))
            _exit(77);
        rank_main(config, run);
    }
    struct outcome_of_rank o;
    reap(pid, &o);
    _exit(o.code);
}

static void ranks_in_namespaces_of_their_own(void)
{
    pid_t pids[2];
    prepare();
    for (int r = 0; r < 2; r++) {
        struct comm_config config = config_of(r, 2);
        config.timeout_s = 20;
        pids[r] = start_alone(&config, rank_1_is_late);
        clock_sleep_s(0.05); /* another start time */
    }
    for (int r = 0; r < 2; r++)
        reap(pids[r], &shared[r]);
    if (shared[0].code == 77 || shared[1].code == 77)
        unit_skip("cannot make PID namespaces (needs root)");
    else
        expect_all_fine(2);
}

/* A /dev/shm of 64 KiB, in a mount namespace of this test's children. */
static int in_tiny_dev_shm(void)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k"))
        return 77;
    for (int r = 0; r < 4; r++) {
        struct comm_config config = config_of(r, 4);
        config.timeout_s = 2;
        start_rank(&config, all_reduce_sizes);
    }
    for (int i = 0; i < 4; i++)
        wait(NULL);
    return fs_free_bytes("/dev/shm") == 65536 ? 0 : 1;
}

static void tiny_dev_shm_is_an_error_with_numbers(void)
{
    prepare();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_tiny_dev_shm());
    struct outcome_of_rank o;
    reap(pid, &o);
    if (o.code == 77) {
        unit_skip("cannot mount a tmpfs in a mount namespace of its own (needs root)");
        return;
    }
    CU_ASSERT_EQUAL(o.code, 0); /* nothing left in it */
    expect_message(0, "/dev/shm is too small: ");
    expect_message(0, " bytes needed, 65536 available");
    for (int r = 1; r < 4; r++)
        expect_message(r, "lost rank 0");
}

/* ---- environment ------------------------------------------------------------------------------
 */

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
                                             "SLURM_STEP_TASKS_PER_NODE"};

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
    struct comm_config config = config_of(0, 4);
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

/* ---- tcp --------------------------------------------------------------------------------------
 */

/* The same over tcp; `auto` chooses it for ranks that are on several nodes. */
static void over_tcp(void (*test)(void))
{
    backend = "tcp";
    test();
    backend = "shm";
}

static void tcp_all_reduces(void)
{
    over_tcp(all_reduces);
}

static void tcp_segments(void)
{
    over_tcp(segments_of_any_length);
}

static void tcp_doubles(void)
{
    over_tcp(doubles_broadcast_barrier);
}

static void tcp_one_id(void)
{
    over_tcp(one_id_a_run);
}

static void tcp_observer(void)
{
    over_tcp(observer_sees_every_collective);
}

static void tcp_killed(void)
{
    over_tcp(killed_rank_is_named_at_once);
}

static void tcp_gives_up(void)
{
    over_tcp(rank_that_gives_up_is_named);
}

static void tcp_stopped(void)
{
    over_tcp(stopped_rank_runs_into_the_deadline);
}

static void tcp_absent(void)
{
    over_tcp(rank_that_never_arrives_is_named);
}

static void tcp_same_rank(void)
{
    over_tcp(same_rank_twice_is_refused);
}

static int is_tcp(struct comm *c, struct error *err)
{
    if (strcmp(comm_backend(c), "tcp") != 0)
        return error_set(err, 99, "backend %s", comm_backend(c));
    return all_reduce_sizes(c, err);
}

static void auto_takes_tcp_for_several_nodes(void)
{
    pid_t pids[4];
    prepare();
    for (int r = 0; r < 4; r++) {
        struct comm_config config = config_of(r, 4);
        config.backend = NULL;
        config.local_world = 2;
        config.local_rank = r % 2;
        pids[r] = start_rank(&config, is_tcp);
    }
    for (int r = 0; r < 4; r++)
        reap(pids[r], &shared[r]);
    expect_all_fine(4);
}

/* A rank that dies with a large frame half sent: its peers are in the middle of reading. */
static int die_in_large(struct comm *c, struct error *err)
{
    const int64_t n = 3 << 20;
    auto_free float *buf = filled(c, n);
    if (comm_all_reduce_sum(c, buf, n, err))
        return -err->code;
    comm_set_step(c, 1);
    if (comm_rank(c) == 2) {
        struct itimerval soon = {.it_value.tv_usec = 3000};
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    for (;;)
        if (comm_all_reduce_sum(c, buf, n, err))
            return -err->code;
}

static void death_in_a_large_frame_is_blamed_on_the_dead(void)
{
    backend = "tcp";
    for (int i = 0; i < 3; i++) {
        run_ranks_timeout(4, die_in_large, 30, -1);
        CU_ASSERT_EQUAL(shared[2].code, -SIGALRM);
        for (int r = 0; r < 4; r++)
            if (r != 2)
                expect_message(r, "lost rank 2 in all_reduce");
    }
    backend = "shm";
}

/* Who is no rank of ours, or of another run, must not disturb the rendezvous. */
static void strangers_are_ignored(void)
{
    pid_t pids[2];
    prepare();
    backend = "tcp";
    struct comm_config config = config_of(0, 2);
    pids[0] = start_rank(&config, all_reduce_sizes);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)config.master_port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int silent = -1;
    for (int i = 0; i < 200 && silent < 0; i++) {
        silent = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(silent, (struct sockaddr *)&a, sizeof a)) {
            close(silent);
            silent = -1;
            clock_sleep_s(0.02);
        }
    }
    CU_ASSERT(silent >= 0);
    int noise = socket(AF_INET, SOCK_STREAM, 0);
    CU_ASSERT_EQUAL(connect(noise, (struct sockaddr *)&a, sizeof a), 0);
    char text[200];
    memset(text, 'x', sizeof text);
    CU_ASSERT_EQUAL(send(noise, text, sizeof text, MSG_NOSIGNAL), (ssize_t)sizeof text);
    setenv(ENV_TRIAL_ID, "another-run", 1);
    config = config_of(1, 2);
    config.timeout_s = 0.3;
    pid_t other = start_rank(&config, nothing);
    unsetenv(ENV_TRIAL_ID);
    struct outcome_of_rank o;
    reap(other, &o);
    CU_ASSERT_EQUAL(o.code, NANOCHAT_EXIT_PEER);
    config = config_of(1, 2);
    pids[1] = start_rank(&config, all_reduce_sizes);
    for (int r = 0; r < 2; r++)
        reap(pids[r], &shared[r]);
    expect_all_fine(2);
    close(silent);
    close(noise);
    backend = "shm";
}

static void taken_port_is_an_error(void)
{
    backend = "tcp";
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6};
    socklen_t size = sizeof a;
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 1) ||
        getsockname(fd, (struct sockaddr *)&a, &size)) {
        unit_skip("no IPv6 here");
    } else {
        struct comm_config config = config_of(0, 2);
        struct comm *c = NULL;
        struct error err = ERROR_INIT;
        config.master_port = ntohs(a.sin6_port);
        comm_open(&c, &config, &err);
        CU_ASSERT_EQUAL(err.code, NANOCHAT_EXIT_PEER);
        CU_ASSERT(strstr(err.message, "cannot listen at port") != NULL);
        error_release(&err);
    }
    if (fd >= 0)
        close(fd);
    backend = "shm";
}

UNIT_MAIN({"all_reduce: bitwise the sum in rank order", all_reduces},
          {"segments of any length", segments_of_any_length},
          {"doubles, broadcast, barrier", doubles_broadcast_barrier},
          {"one id a run", one_id_a_run},
          {"the observer sees every collective", observer_sees_every_collective},
          {"a killed rank is named at once", killed_rank_is_named_at_once},
          {"a rank that gives up is named", rank_that_gives_up_is_named},
          {"a stopped rank runs into the deadline", stopped_rank_runs_into_the_deadline},
          {"a call has one deadline", a_call_has_one_deadline},
          {"ranks in namespaces of their own", ranks_in_namespaces_of_their_own},
          {"a rank that never arrives is named", rank_that_never_arrives_is_named},
          {"nothing is left when all are killed", nothing_is_left_when_all_are_killed},
          {"the segment of a dead run is taken over", segment_of_a_dead_run_is_taken_over},
          {"comm_forget spares the living", launcher_can_remove_a_dead_name_but_no_live_one},
          {"the same rank twice is refused", same_rank_twice_is_refused},
          {"a tiny /dev/shm is an error with numbers", tiny_dev_shm_is_an_error_with_numbers},
          {"the environment of each launcher", environment_of_each_launcher},
          {"contradictions are usage errors", contradictions_are_usage_errors},
          {"several nodes need tcp", several_nodes_need_tcp},
          {"tcp: all_reduce: bitwise the sum in rank order", tcp_all_reduces},
          {"tcp: segments of any length", tcp_segments},
          {"tcp: doubles, broadcast, barrier", tcp_doubles}, {"tcp: one id a run", tcp_one_id},
          {"tcp: the observer sees every collective", tcp_observer},
          {"tcp: a killed rank is named at once", tcp_killed},
          {"tcp: a rank that gives up is named", tcp_gives_up},
          {"tcp: a stopped rank runs into the deadline", tcp_stopped},
          {"tcp: a rank that never arrives is named", tcp_absent},
          {"tcp: the same rank twice is refused", tcp_same_rank},
          {"tcp: taken for ranks on several nodes", auto_takes_tcp_for_several_nodes},
          {"tcp: death in a large frame", death_in_a_large_frame_is_blamed_on_the_dead},
          {"tcp: strangers are ignored", strangers_are_ignored},
          {"tcp: a port that is taken", taken_port_is_an_error})
