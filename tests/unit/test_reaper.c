#include "common/cleanup.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "common/str.h"
#include "harness/launchers/launcher.h"
#include "harness/reaper.h"
#include "harness/signals.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void stat_lines_are_parsed(void)
{
    static const char tail[] = " 1 7 7 0 -1 4194560 90 0 0 0 1 2 0 0 20 0 1 0 987654 2 3\n";
    struct process p;
    auto_str text = STR_INIT;
    str_appendf(&text, "42 (cat) S%s", tail);
    CU_ASSERT(process_parse_stat(text.data, &p));
    CU_ASSERT_EQUAL(p.pid, 42);
    CU_ASSERT_EQUAL(p.parent, 1);
    CU_ASSERT_EQUAL(p.state, 'S');
    CU_ASSERT_EQUAL(p.start_ticks, 987654);
    CU_ASSERT_STR(p.name, "cat");
    str_clear(&text); /* a name that tries to look like the fields behind it */
    str_appendf(&text, "42 (a) R 9 (b) Z%s", tail);
    CU_ASSERT(process_parse_stat(text.data, &p));
    CU_ASSERT_EQUAL(p.state, 'Z');
    CU_ASSERT_EQUAL(p.parent, 1);
    static const char *const bad[] = {"", "42", "42 (cat", "42 (cat)", "42 (cat) S", "x (cat) S 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT(!process_parse_stat(bad[i], &p));
}

static struct reaper_child start(const char *script, const char *marker)
{
    struct error err = ERROR_INIT;
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    strv_push(&argv, "/bin/sh");
    strv_push(&argv, "-c");
    strv_push(&argv, script);
    strv_push(&env, "PATH=/usr/bin:/bin");
    if (marker)
        strv_push(&env, marker);
    struct launcher_job job = {.argv = &argv, .env = &env, .stdout_path = "/dev/null"};
    CU_ASSERT_FATAL(launcher_local.start(&job, &err) == 0);
    error_release(&err);
    return (struct reaper_child){.pid = job.pid};
}

/* Until so many processes belong to the marker. */
static size_t find_until(const char *marker, size_t want)
{
    struct reaper_scope scope = {.marker = marker};
    struct processes found = {0};
    size_t count = 0;
    for (int i = 0; i < 200; i++) {
        reaper_find(&scope, &found);
        count = found.count;
        if (count == want)
            break;
        clock_sleep_s(0.02);
    }
    processes_release(&found);
    return count;
}

static bool kill_all(const char *marker, struct str *left)
{
    return reaper_kill_all(&(struct reaper_scope){.marker = marker}, 10, left);
}

static void what_hides_is_found_and_killed(void)
{
    if (!unit_has_subreaper())
        return;
    struct error err = ERROR_INIT;
    auto_str left = STR_INIT;
    CU_ASSERT(reaper_init(&err) == 0);
    /* Two children that leave session and group, and whose parent is gone at once. */
    struct reaper_child child =
        start("trap '' TERM; setsid sleep 300 & setsid sh -c 'trap \"\" TERM; sleep 301' &",
              "NCBENCH_TRIAL_ID=unit.1");
    for (int i = 0; i < 400 && !child.reaped; i++) {
        clock_sleep_s(0.02);
        reaper_collect(&child, 1);
    }
    CU_ASSERT(child.reaped && child.status == 0);
    CU_ASSERT_EQUAL(find_until("NCBENCH_TRIAL_ID=unit.1", 3), 3); /* sleep, sh, its sleep */
    CU_ASSERT(kill_all("NCBENCH_TRIAL_ID=unit.1", &left));
    CU_ASSERT_STR(left.data, "");
    CU_ASSERT_EQUAL(find_until("NCBENCH_TRIAL_ID=unit.1", 0), 0);
    CU_ASSERT(waitpid(-1, NULL, WNOHANG) == -1); /* no zombie of it is left either */
    error_release(&err);
}

static void descent_is_enough(void)
{
    auto_str left = STR_INIT;
    struct reaper_child child = start("exec sleep 300", NULL); /* it wiped its environment */
    CU_ASSERT_EQUAL(find_until("NCBENCH_TRIAL_ID=unit.2", 1), 1);
    CU_ASSERT(kill_all("NCBENCH_TRIAL_ID=unit.2", &left));
    (void)child;
}

/* Older than the trial, so that only the marker tells: one of the trial, one of another whose id
 * goes on. */
static void another_trial_is_left_alone(void)
{
    auto_str left = STR_INIT;
    struct reaper_scope scope = {.marker = "NCBENCH_TRIAL_ID=unit.5", .since_ticks = ~0ull};
    struct processes found = {0};
    reaper_find(&scope, &found);
    CU_ASSERT_EQUAL(found.count, 0); /* not this program, not its parent */
    struct reaper_child children[] = {start("exec sleep 300", "NCBENCH_TRIAL_ID=unit.5"),
                                      start("exec sleep 300", "NCBENCH_TRIAL_ID=unit.50")};
    CU_ASSERT_EQUAL(find_until(NULL, 2), 2);
    clock_sleep_s(0.1); /* both have exec'ed, and their environment is the new one */
    reaper_find(&scope, &found);
    CU_ASSERT_EQUAL_FATAL(found.count, 1);
    CU_ASSERT_EQUAL(found.items[0].pid, children[0].pid);
    CU_ASSERT(reaper_kill_all(&scope, 10, &left));
    reaper_collect(children, 2);
    CU_ASSERT(!children[1].reaped);
    CU_ASSERT_EQUAL(kill(children[1].pid, 0), 0);
    processes_release(&found);
    CU_ASSERT(kill_all(NULL, &left));
}

/* `monitor & exec ncbench run …`: the monitor is a child of ncbench, and nobody's trial. */
static void an_older_child_is_left_alone(void)
{
    auto_str left = STR_INIT;
    struct reaper_child older = start("exec sleep 300", NULL);
    CU_ASSERT_EQUAL(find_until(NULL, 1), 1);
    clock_sleep_s(0.05);
    struct reaper_scope scope = {.marker = "NCBENCH_TRIAL_ID=unit.4",
                                 .since_ticks = reaper_now_ticks()};
    struct reaper_child younger = start("exec sleep 300", NULL);
    CU_ASSERT_EQUAL(find_until(NULL, 2), 2);
    CU_ASSERT(reaper_kill_all(&scope, 10, &left));
    CU_ASSERT_EQUAL(find_until(NULL, 1), 1);
    reaper_collect(&older, 1);
    CU_ASSERT(!older.reaped);
    (void)younger;
    CU_ASSERT(kill_all(NULL, &left));
}

static void all_trials_of_a_session_have_one_prefix(void)
{
    auto_str left = STR_INIT;
    start("exec sleep 300", "NCBENCH_TRIAL_ID=unit-session.c00.b00.bare");
    start("exec sleep 300", "NCBENCH_TRIAL_ID=unit-session.c01.b00.bare");
    struct reaper_child other = start("exec sleep 300", "NCBENCH_TRIAL_ID=unit-session2.x");
    CU_ASSERT_EQUAL(find_until(NULL, 3), 3);
    struct reaper_scope scope = {
        .marker = "NCBENCH_TRIAL_ID=unit-session.", .prefix = true, .since_ticks = ~0ull};
    CU_ASSERT(reaper_kill_all(&scope, 10, &left));
    CU_ASSERT_EQUAL(find_until(NULL, 1), 1);
    reaper_collect(&other, 1);
    CU_ASSERT(!other.reaped);
    CU_ASSERT(kill_all(NULL, &left));
}

static void a_zombie_has_ended(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    CU_ASSERT_EQUAL(find_until(NULL, 0), 0);
    struct reaper_child child = {.pid = pid};
    for (int i = 0; i < 100 && !child.reaped; i++) {
        reaper_collect(&child, 1);
        clock_sleep_s(0.01);
    }
    CU_ASSERT(child.reaped && WIFEXITED(child.status) && WEXITSTATUS(child.status) == 7);
    CU_ASSERT(child.reaped_s > 0);
}

static void a_recycled_pid_is_not_signalled(void)
{
    auto_str left = STR_INIT;
    struct reaper_child child = start("exec sleep 300", NULL);
    CU_ASSERT_EQUAL(find_until(NULL, 1), 1);
    struct processes stale = {0};
    reaper_find(&(struct reaper_scope){0}, &stale);
    CU_ASSERT_EQUAL_FATAL(stale.count, 1);
    stale.items[0].start_ticks--; /* as if another process had had this pid */
    reaper_signal(&stale, SIGKILL);
    clock_sleep_s(0.05);
    reaper_collect(&child, 1);
    CU_ASSERT(!child.reaped);
    processes_release(&stale);
    CU_ASSERT(kill_all(NULL, &left));
}

static void signals_are_counted_where_we_wait(void)
{
    struct interrupt i;
    interrupt_open(&i);
    interrupt_poll(&i);
    CU_ASSERT_EQUAL(i.signal, 0);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    const double before = clock_mono_s(), most = 60;
    interrupt_wait(&i, most);
    CU_ASSERT(clock_mono_s() - before < most);
    CU_ASSERT(i.signal == SIGTERM || i.signal == SIGINT);
    CU_ASSERT_EQUAL(i.count, 2);
    interrupt_close(&i);
    /* What was ignored before stays ignored: nohup. */
    signal(SIGHUP, SIG_IGN);
    interrupt_open(&i);
    kill(getpid(), SIGHUP);
    interrupt_wait(&i, 0.02);
    CU_ASSERT_EQUAL(i.count, 0);
    interrupt_close(&i);
    signal(SIGHUP, SIG_DFL);
}

static void a_dead_harness_takes_its_child_along(void)
{
    if (!unit_has_subreaper())
        return;
    auto_error struct error err = ERROR_INIT;
    int fds[2];
    CU_ASSERT(reaper_init(&err) == 0); /* what is left behind is ours to collect */
    CU_ASSERT_FATAL(pipe(fds) == 0);
    pid_t pid = fork();
    if (pid == 0) { /* a harness that is killed */
        struct reaper_child child = start("exec sleep 300", "NCBENCH_TRIAL_ID=unit.3");
        if (write(fds[1], &child.pid, sizeof child.pid) < 0)
            _exit(1);
        raise(SIGKILL);
    }
    pid_t orphan = 0;
    CU_ASSERT(read(fds[0], &orphan, sizeof orphan) == (ssize_t)sizeof orphan);
    waitpid(pid, NULL, 0);
    CU_ASSERT_EQUAL(find_until("NCBENCH_TRIAL_ID=unit.3", 0), 0);
    reaper_collect(NULL, 0);
    CU_ASSERT_FATAL(orphan > 0);
    CU_ASSERT(kill(orphan, 0) == -1 && errno == ESRCH);
    close(fds[0]);
    close(fds[1]);
}

UNIT_MAIN({"stat lines are parsed", stat_lines_are_parsed},
          {"what hides is found and killed", what_hides_is_found_and_killed},
          {"descent is enough", descent_is_enough},
          {"another trial is left alone", another_trial_is_left_alone},
          {"an older child is left alone", an_older_child_is_left_alone},
          {"all trials of a session have one prefix", all_trials_of_a_session_have_one_prefix},
          {"a zombie has ended", a_zombie_has_ended},
          {"a recycled pid is not signalled", a_recycled_pid_is_not_signalled},
          {"signals are counted where we wait", signals_are_counted_where_we_wait},
          {"a dead harness takes its child along", a_dead_harness_takes_its_child_along})
