/* The launcher with shell programs as ranks, and with ranks that really communicate. Each launch
 * runs in a child of the test, for the launcher changes its process for good. */
#include "workload/launch.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"
#include "workload/comm.h"
#include "workload/env_priv.h"
#include "workload/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK "LAUNCH_TEST_MARK"
#define RANK_PROGRAM "LAUNCH_TEST_RANK"

/* ---- this very program as a rank: the environment says what it does ----------------------------
 */

static int rank_program(const char *how)
{
    struct comm_config config;
    struct comm *c = NULL;
    auto_error struct error err = ERROR_INIT;
    float buf[64] = {0};
    if (comm_config_from_env(&config, &err))
        return err.code;
    config.timeout_s = 2;
    comm_open(&c, &config, &err);
    for (int step = 0; !err.code && step < 1000; step++) {
        comm_set_step(c, step);
        if (step == 3 && config.rank == 1)
            raise(!strcmp(how, "stop") ? SIGSTOP : SIGKILL);
        comm_all_reduce_sum(c, buf, 64, &err);
    }
    comm_close(c);
    if (err.code)
        error_print(&err, "rank");
    return err.code;
}

__attribute__((constructor)) static void run_as_rank(void)
{
    const char *how = getenv(RANK_PROGRAM);
    if (how)
        _exit(rank_program(how));
}

/* ---- launching ------------------------------------------------------------------------------- */

struct report {
    int code;
    char message[512];
};
static struct report *report; /* shared with the child */
static char mark[32];

static struct launch_config config_of(int nproc, char *const *argv, const char *dir)
{
    return (struct launch_config){
        .nproc = nproc, .nnodes = 1, .log_dir = dir, .grace_s = 20, .argv = argv};
}

static pid_t start(const struct launch_config *config)
{
    if (!report)
        report = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(report, 0, sizeof *report);
    snprintf(mark, sizeof mark, "%d-%.6f", getpid(), clock_mono_s());
    fflush(stdout);
    pid_t pid = fork();
    if (pid)
        return pid;
    struct error err = ERROR_INIT;
    setenv(MARK, mark, 1);
    launch_run(config, &err);
    snprintf(report->message, sizeof report->message, "%s", err.message ? err.message : "");
    _exit(report->code = err.code);
}

static void finish(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    CU_ASSERT(WIFEXITED(status));
}

static void launch(int nproc, const char *script, const char *dir)
{
    char *const argv[] = {"/bin/sh", "-c", (char *)script, NULL};
    const struct launch_config config = config_of(nproc, argv, dir);
    finish(start(&config));
}

/* Processes whose environment has the mark of the last launch. */
static int survivors(void)
{
    auto_strv names = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    auto_free char *needle = mem_printf(MARK "=%s", mark);
    int n = 0;
    fs_list_dir("/proc", &names, 1, &err);
    for (size_t i = 0; i < names.count; i++) {
        auto_free char *path = mem_printf("/proc/%s/environ", names.items[i]);
        auto_str text = STR_INIT;
        auto_error struct error ignored = ERROR_INIT;
        int64_t pid;
        if (num_parse_i64(names.items[i], &pid) && pid != getpid() &&
            !fs_read_file(path, &text, 1, &ignored))
            n += memmem(text.data, text.len, needle, strlen(needle)) != NULL;
    }
    return n;
}

/* A rank's output; static, valid until the next call. */
static const char *output(const char *dir, const char *format, int rank)
{
    static struct str text = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    char name[32];
    snprintf(name, sizeof name, format, rank);
    auto_free char *path = mem_printf("%s/%s", dir, name);
    str_clear(&text);
    fs_read_file(path, &text, 1, &err);
    return text.data;
}

static bool wait_for_output(const char *dir, int rank, const char *what)
{
    for (int i = 0; i < 1000; i++) {
        if (strstr(output(dir, RANK_OUT_FMT, rank), what))
            return true;
        clock_sleep_s(0.01);
    }
    return false;
}

static void expect_message(const char *part)
{
    if (!strstr(report->message, part))
        CU_ASSERT_STR(report->message, part);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void ranks_get_their_environment(void)
{
    auto_free char *dir = unit_tmpdir();
    setenv("OMP_NUM_THREADS", "7", 1);
    launch(3,
           "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $OMP_NUM_THREADS; "
           "test $MASTER_PORT -gt 1023 && readlink /proc/self/fd/0; wc -c; echo oops >&2",
           dir);
    unsetenv("OMP_NUM_THREADS");
    CU_ASSERT_EQUAL(report->code, 0);
    for (int r = 0; r < 3; r++) {
        char expected[80];
        snprintf(expected, sizeof expected, "%d %d 3 3 127.0.0.1 7\n/dev/null\n0\n", r, r);
        CU_ASSERT_STR(output(dir, RANK_OUT_FMT, r), expected);
        CU_ASSERT_STR(output(dir, RANK_ERR_FMT, r), "oops\n");
    }
}

static void a_second_node_has_higher_ranks(void)
{
    auto_free char *dir = unit_tmpdir();
    char *const argv[] = {"/bin/sh", "-c", "echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_PORT", NULL};
    struct launch_config config = config_of(2, argv, dir);
    config.nnodes = 3;
    config.node_rank = 2;
    config.master_port = 4567;
    config.master_addr = "10.0.0.1";
    finish(start(&config));
    CU_ASSERT_EQUAL(report->code, 0);
    CU_ASSERT_STR(output(dir, RANK_OUT_FMT, 5), "5 1 6 4567\n");
}

static void threads_share_the_usable_pus(void)
{
    auto_free char *dir = unit_tmpdir();
    char expected[16];
    unsetenv("OMP_NUM_THREADS");
    auto_pus usable = {0};
    CU_ASSERT_EQUAL(pus_usable(&usable), 0);
    int share = pus_count(&usable) / 2;
    snprintf(expected, sizeof expected, "%d\n", share > 1 ? share : 1);
    launch(2, "echo $OMP_NUM_THREADS", dir);
    CU_ASSERT_STR(output(dir, RANK_OUT_FMT, 1), expected);
}

static void first_failing_code_is_returned(void)
{
    auto_free char *dir = unit_tmpdir();
    launch(3, "[ $RANK = 1 ] && exit 6; sleep 1000", dir);
    CU_ASSERT_EQUAL(report->code, 6);
    expect_message("rank 1 ended with exit code 6");
    CU_ASSERT_EQUAL(survivors(), 0);
    launch(2, "[ $RANK = 1 ] && exit 137; sleep 1000", dir);
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_BUG); /* shells mean a signal by it */
}

static void a_signal_is_named(void)
{
    auto_free char *dir = unit_tmpdir();
    launch(3, "[ $RANK = 2 ] && kill -SEGV $$; sleep 1000", dir);
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_PEER);
    expect_message("rank 2 was ended by signal 11 (Segmentation fault) before the first step");
    CU_ASSERT_EQUAL(survivors(), 0);
}

static void a_missed_peer_is_not_the_cause(void)
{
    auto_free char *dir = unit_tmpdir();
    /* rank 1 fails first but is slow to end; rank 0 has noticed */
    auto_free char *script = mem_printf(
        "if [ $RANK = 1 ]; then trap 'exit 9' TERM; echo trapped; sleep 1000 & wait; fi; "
        "until grep -qs trapped '%s/rank00001.out'; do sleep 0.05; done; exit 8",
        dir);
    launch(2, script, dir);
    CU_ASSERT_EQUAL(report->code, 9);
    launch(2, "[ $RANK = 0 ] && exit 8; sleep 1000", dir);
    CU_ASSERT_EQUAL(report->code, 8);
    expect_message("rank 0 ended with exit code 8");
}

static pid_t start_script(const char *script, const char *dir, double grace_s)
{
    static char *argv[] = {"/bin/sh", "-c", NULL, NULL};
    argv[2] = (char *)script;
    struct launch_config config = config_of(2, argv, dir);
    config.grace_s = grace_s;
    return start(&config);
}

static void signals_are_forwarded(void)
{
    auto_free char *dir = unit_tmpdir();
    pid_t pid = start_script("trap 'echo usr1' USR1; trap 'echo term; exit 0' TERM; echo ready; "
                             "while :; do sleep 0.05; done",
                             dir, 20);
    CU_ASSERT(wait_for_output(dir, 0, "ready") && wait_for_output(dir, 1, "ready"));
    kill(pid, SIGUSR1);
    CU_ASSERT(wait_for_output(dir, 0, "usr1") && wait_for_output(dir, 1, "usr1"));
    kill(pid, SIGTERM);
    finish(pid);
    CU_ASSERT_EQUAL(report->code, 0); /* the ranks' own word: both ended well */
    CU_ASSERT(strstr(output(dir, RANK_OUT_FMT, 0), "term") != NULL);
    CU_ASSERT(strstr(output(dir, RANK_OUT_FMT, 1), "term") != NULL);
}

static void deaf_ranks_are_killed_after_the_grace_time(void)
{
    auto_free char *dir = unit_tmpdir();
    pid_t pid = start_script("trap '' TERM; echo ready; while :; do sleep 0.05; done", dir, 0.3);
    CU_ASSERT(wait_for_output(dir, 0, "ready") && wait_for_output(dir, 1, "ready"));
    kill(pid, SIGTERM);
    finish(pid);
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_PEER);
    expect_message("was ended by signal 9 (Killed)");
    expect_message("after it was told to end");
    CU_ASSERT_EQUAL(survivors(), 0);
}

/* Unless it comes with the first: then a client has handed on what the group got as well. */
static void a_second_signal_kills_at_once(void)
{
    auto_free char *dir = unit_tmpdir();
    pid_t pid = start_script("trap '' INT; echo ready; while :; do sleep 0.05; done", dir, 1000);
    CU_ASSERT(wait_for_output(dir, 0, "ready") && wait_for_output(dir, 1, "ready"));
    kill(pid, SIGINT);
    clock_sleep_s(0.1);
    kill(pid, SIGINT);
    clock_sleep_s(STOP_TWICE_S);
    CU_ASSERT(kill(pid, 0) == 0 && survivors() > 0);
    kill(pid, SIGINT);
    finish(pid);
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_PEER);
    CU_ASSERT_EQUAL(survivors(), 0);
}

static void nothing_survives(void)
{
    if (!unit_has_subreaper())
        return;
    auto_free char *dir = unit_tmpdir();
    static const char *const scripts[] = {
        "sleep 1000 & exit 0",                                 /* left by a rank that is done */
        "setsid sh -c 'sleep 1000 & sleep 1000' & exit 0",     /* left its group, has a child */
        "setsid setsid sleep 1000 & sleep 0.1; kill -KILL $$", /* and the rank is killed */
        "(trap '' TERM HUP; setsid sleep 1000) & exit 6",      /* deaf */
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        launch(2, scripts[i], dir);
        CU_ASSERT_EQUAL(survivors(), 0);
    }
}

static void ranks_die_with_the_launcher(void)
{
    auto_free char *dir = unit_tmpdir();
    pid_t pid = start_script("trap '' TERM HUP; echo ready; while :; do :; done", dir, 20);
    CU_ASSERT(wait_for_output(dir, 0, "ready") && wait_for_output(dir, 1, "ready"));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 500 && survivors(); i++)
        clock_sleep_s(0.01);
    CU_ASSERT_EQUAL(survivors(), 0);
}

static void ranks_are_bound_to_shares(void)
{
    auto_free char *dir = unit_tmpdir();
    char *const argv[] = {"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status", NULL};
    auto_pus usable = {0};
    CU_ASSERT_EQUAL(pus_usable(&usable), 0);
    int pus = pus_count(&usable);
    struct launch_config config = config_of(pus + 1, argv, dir);
    config.bind = TOPO_BIND_CORES;
    finish(start(&config));
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_PLAN);
    expect_message("usable PU");
    if (pus < 2) {
        unit_skip("one usable PU only");
        return;
    }
    config.nproc = 2;
    finish(start(&config));
    CU_ASSERT_EQUAL(report->code, 0);
    auto_free char *first = mem_strdup(output(dir, RANK_OUT_FMT, 0));
    CU_ASSERT(strlen(first) > strlen("Cpus_allowed_list:\t"));
    CU_ASSERT(strcmp(first, output(dir, RANK_OUT_FMT, 1)) != 0);
}

static void logs_that_cannot_be_written_are_exit_10(void)
{
    launch(2, "exit 0", "/nonexistent");
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_WRITE);
    expect_message("cannot create /nonexistent/rank00000.out");
}

static void a_rank_that_cannot_start_ends_the_others(void)
{
    auto_free char *dir = unit_tmpdir();
    char *const argv[] = {"/nonexistent/program", NULL};
    const struct launch_config config = config_of(2, argv, dir);
    finish(start(&config));
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_PEER);
    expect_message("rank 0: cannot execute /nonexistent/program");
    CU_ASSERT_EQUAL(survivors(), 0);
}

static void launch_communicating_ranks(const char *how, const char *dir)
{
    char *const argv[] = {"/proc/self/exe", NULL};
    struct launch_config config = config_of(4, argv, dir);
    config.grace_s = 1;
    setenv(RANK_PROGRAM, how, 1);
    finish(start(&config));
    unsetenv(RANK_PROGRAM);
}

static void a_killed_rank_ends_the_run(void)
{
    auto_free char *dir = unit_tmpdir();
    launch_communicating_ranks("kill", dir);
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_PEER);
    CU_ASSERT_STR(report->message, "rank 1 was ended by signal 9 (Killed) at step 3");
    CU_ASSERT_EQUAL(survivors(), 0);
}

static void a_stopped_rank_ends_the_run(void)
{
    auto_free char *dir = unit_tmpdir();
    launch_communicating_ranks("stop", dir);
    CU_ASSERT_EQUAL(report->code, NANOCHAT_EXIT_PEER);
    expect_message("ended with exit code 8 at step 3"); /* of one that noticed it */
    bool named = false;
    for (int r = 0; r < 4; r++)
        named =
            named || strstr(output(dir, RANK_ERR_FMT, r), "lost rank 1 in all_reduce of step 3");
    CU_ASSERT(named);
    CU_ASSERT_EQUAL(survivors(), 0);
}

UNIT_MAIN({"ranks get their environment", ranks_get_their_environment},
          {"a second node has higher ranks", a_second_node_has_higher_ranks},
          {"threads share the usable PUs", threads_share_the_usable_pus},
          {"the first failing code is returned", first_failing_code_is_returned},
          {"a signal is named", a_signal_is_named},
          {"a missed peer is not the cause", a_missed_peer_is_not_the_cause},
          {"signals are forwarded", signals_are_forwarded},
          {"deaf ranks are killed after the grace time",
           deaf_ranks_are_killed_after_the_grace_time},
          {"a second signal kills at once", a_second_signal_kills_at_once},
          {"nothing survives", nothing_survives},
          {"ranks die with the launcher", ranks_die_with_the_launcher},
          {"ranks are bound to shares", ranks_are_bound_to_shares},
          {"logs that cannot be written are exit 10", logs_that_cannot_be_written_are_exit_10},
          {"a rank that cannot start ends the others", a_rank_that_cannot_start_ends_the_others},
          {"a killed rank ends the run", a_killed_rank_ends_the_run},
          {"a stopped rank ends the run", a_stopped_rank_ends_the_run})
