/* Ranks that die, stop, give up or never come: their peers name them, and nothing is left in
 * /dev/shm. */
#include "workload/comm.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/fs.h"
#include "common/protocol.h"
#include "tests/unit/comm_ranks.h"
#include "tests/unit/unit.h"
#include "workload/comm_priv.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of the current port: other runs of this machine do not count. */
static bool segment_has_a_name(void)
{
    struct comm_config config = ranks_config(0, 2);
    auto_free char *path = comm_shm_path(&config);
    return fs_exists(path);
}

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
    const double timeout_s = 60;
    ranks_run_timeout(4, kill_rank_1, timeout_s, -1);
    CU_ASSERT_EQUAL(ranks[1].code, -SIGKILL);
    for (int r = 0; r < 4; r++) {
        if (r == 1)
            continue;
        CU_ASSERT_EQUAL(ranks[r].code, NANOCHAT_EXIT_PEER);
        /* over tcp a rank may hear of it from a faster one while it is still in step 2 */
        ranks_expect_message(r, !strcmp(ranks_backend, "shm")
                                    ? "lost rank 1 in all_reduce of step 3: its "
                                    : "lost rank 1 in all_reduce of step ");
        ranks_expect_message(r, "dead");
        CU_ASSERT(ranks[r].seconds < timeout_s); /* noticed, not timed out */
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
    ranks_run_timeout(3, leave_at_2, 60, -1);
    CU_ASSERT_EQUAL(ranks[2].code, NANOCHAT_EXIT_NUMERIC);
    for (int r = 0; r < 2; r++) {
        CU_ASSERT_EQUAL(ranks[r].code, NANOCHAT_EXIT_PEER);
        ranks_expect_message(r, "lost rank 2 in all_reduce of step 2: it ended early");
    }
}

static int stop_rank_1(struct comm *c, struct error *err)
{
    return lose_rank_1(c, SIGSTOP, err);
}

static void stopped_rank_runs_into_the_deadline(void)
{
    pid_t pids[3];
    ranks_prepare();
    for (int r = 0; r < 3; r++) {
        struct comm_config config = ranks_config(r, 3);
        config.timeout_s = 1;
        pids[r] = ranks_start(&config, stop_rank_1);
    }
    for (int r = 0; r < 3; r += 2) {
        ranks_reap(pids[r], &ranks[r]);
        CU_ASSERT_EQUAL(ranks[r].code, NANOCHAT_EXIT_PEER);
        ranks_expect_message(r, "lost rank 1 in all_reduce of step 3");
        ranks_expect_message(r, "did not arrive within 1 s");
    }
    kill(pids[1], SIGCONT); /* too late: it must not go on alone */
    ranks_reap(pids[1], &ranks[1]);
    CU_ASSERT_EQUAL(ranks[1].code, NANOCHAT_EXIT_PEER);
    ranks_expect_message(1, "the other ranks gave this rank (1) up");
}

static void rank_that_never_arrives_is_named(void)
{
    for (int absent = 0; absent < 3; absent++) {
        char expected[64];
        ranks_run_timeout(3, ranks_nothing, 0.4, absent);
        snprintf(expected, sizeof expected, "lost rank %d in init before the first step", absent);
        for (int r = 0; r < 3; r++) {
            if (r == absent)
                continue;
            CU_ASSERT_EQUAL(ranks[r].code, NANOCHAT_EXIT_PEER);
            ranks_expect_message(r, expected);
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
    ranks_prepare();
    for (int r = 0; r < 2; r++) {
        struct comm_config config = ranks_config(r, 2);
        pids[r] = ranks_start(&config, keep_going);
    }
    clock_sleep_s(0.3);
    for (int r = 0; r < 2; r++)
        kill(pids[r], SIGKILL);
    for (int r = 0; r < 2; r++)
        ranks_reap(pids[r], &ranks[r]);
    CU_ASSERT(!segment_has_a_name());
}

/* Rank 0 is killed while it waits for the others: its name stays, and must not hurt. */
static void segment_of_a_dead_run_is_taken_over(void)
{
    ranks_prepare();
    struct comm_config config = ranks_config(0, 2);
    pid_t pid = ranks_start(&config, ranks_nothing);
    for (int i = 0; i < 500 && !segment_has_a_name(); i++)
        clock_sleep_s(0.01);
    CU_ASSERT(segment_has_a_name());
    kill(pid, SIGKILL);
    ranks_reap(pid, &ranks[0]);
    CU_ASSERT(segment_has_a_name());

    pid_t pids[2];
    for (int r = 1; r >= 0; r--) { /* rank 1 first: it sees the stale one */
        config = ranks_config(r, 2);
        pids[r] = ranks_start(&config, ranks_all_reduce);
        clock_sleep_s(0.05);
    }
    for (int r = 0; r < 2; r++)
        ranks_reap(pids[r], &ranks[r]);
    ranks_expect_all_fine(2);
    CU_ASSERT(!segment_has_a_name());
}

static void launcher_can_remove_a_dead_name_but_no_live_one(void)
{
    ranks_prepare();
    struct comm_config config = ranks_config(0, 2);
    pid_t pid = ranks_start(&config, ranks_nothing);
    for (int i = 0; i < 500 && !segment_has_a_name(); i++)
        clock_sleep_s(0.01);
    comm_forget(&config);
    CU_ASSERT(segment_has_a_name());
    kill(pid, SIGKILL);
    ranks_reap(pid, &ranks[0]);
    comm_forget(&config);
    CU_ASSERT(!segment_has_a_name());
}

static void same_rank_twice_is_refused(void)
{
    ranks_prepare();
    pid_t pids[2];
    struct comm_config config = ranks_config(0, 3);
    config.timeout_s = 3;
    pid_t zero = ranks_start(&config, ranks_nothing);
    config.rank = config.local_rank = 1;
    pids[0] = ranks_start(&config, ranks_nothing);
    pids[1] = ranks_start(&config, ranks_nothing);
    struct rank_outcome o[2];
    ranks_reap(pids[0], &o[0]);
    ranks_reap(pids[1], &o[1]);
    CU_ASSERT((o[0].code == NANOCHAT_EXIT_USAGE) != (o[1].code == NANOCHAT_EXIT_USAGE));
    ranks_reap(zero, &ranks[0]);
}

/* ---- one deadline a call; ranks that cannot see each other's processes ----------------------- */

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
    ranks_prepare();
    for (int r = 0; r < 3; r++) {
        struct comm_config config = ranks_config(r, 3);
        config.timeout_s = 3;
        pids[r] = ranks_start(&config, rank_2_never_comes);
    }
    ranks_reap(pids[0], &ranks[0]);
    ranks_reap(pids[1], &ranks[1]);
    kill(pids[2], SIGKILL);
    ranks_reap(pids[2], &ranks[2]);
    CU_ASSERT_EQUAL(ranks[0].code, NANOCHAT_EXIT_PEER);
    ranks_expect_message(0, "lost rank 2 in barrier before the first step");
    CU_ASSERT(ranks[0].seconds < 2.5 + 3); /* what it would be with a deadline a rank */
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
        ranks_main(config, run);
    }
    struct rank_outcome o;
    ranks_reap(pid, &o);
    _exit(o.code);
}

static void ranks_in_namespaces_of_their_own(void)
{
    pid_t pids[2];
    ranks_prepare();
    for (int r = 0; r < 2; r++) {
        struct comm_config config = ranks_config(r, 2);
        config.timeout_s = 20;
        pids[r] = start_alone(&config, rank_1_is_late);
        clock_sleep_s(0.05); /* another start time */
    }
    for (int r = 0; r < 2; r++)
        ranks_reap(pids[r], &ranks[r]);
    if (ranks[0].code == 77 || ranks[1].code == 77)
        unit_skip("cannot make PID namespaces (needs root)");
    else
        ranks_expect_all_fine(2);
}

/* A /dev/shm of 64 KiB, in a mount namespace of this test's children. */
static int in_tiny_dev_shm(void)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k"))
        return 77;
    for (int r = 0; r < 4; r++) {
        struct comm_config config = ranks_config(r, 4);
        config.timeout_s = 2;
        ranks_start(&config, ranks_all_reduce);
    }
    for (int i = 0; i < 4; i++)
        wait(NULL);
    return fs_free_bytes("/dev/shm") == 65536 ? 0 : 1;
}

static void tiny_dev_shm_is_an_error_with_numbers(void)
{
    ranks_prepare();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_tiny_dev_shm());
    struct rank_outcome o;
    ranks_reap(pid, &o);
    if (o.code == 77) {
        unit_skip("cannot mount a tmpfs in a mount namespace of its own (needs root)");
        return;
    }
    CU_ASSERT_EQUAL(o.code, 0); /* nothing left in it */
    ranks_expect_message(0, "/dev/shm is too small: ");
    ranks_expect_message(0, " bytes needed, 65536 available");
    for (int r = 1; r < 4; r++)
        ranks_expect_message(r, "lost rank 0");
}

/* ---- the same over tcp ------------------------------------------------------------------------
 */

static void tcp_killed(void)
{
    ranks_over_tcp(killed_rank_is_named_at_once);
}

static void tcp_gives_up(void)
{
    ranks_over_tcp(rank_that_gives_up_is_named);
}

static void tcp_stopped(void)
{
    ranks_over_tcp(stopped_rank_runs_into_the_deadline);
}

static void tcp_absent(void)
{
    ranks_over_tcp(rank_that_never_arrives_is_named);
}

static void tcp_same_rank(void)
{
    ranks_over_tcp(same_rank_twice_is_refused);
}

UNIT_MAIN({"a killed rank is named at once", killed_rank_is_named_at_once},
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
          {"tcp: a killed rank is named at once", tcp_killed},
          {"tcp: a rank that gives up is named", tcp_gives_up},
          {"tcp: a stopped rank runs into the deadline", tcp_stopped},
          {"tcp: a rank that never arrives is named", tcp_absent},
          {"tcp: the same rank twice is refused", tcp_same_rank})
