/* The event file: strict JSON, hello first, done last and once, nothing lost, full disks. */
#include "workload/events.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/count_allocations.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *const test_argv[] = {"nanochat", "base-train", "--depth=4", "a\"b\xff", NULL};

static struct events *opened(char **dir, int rank)
{
    struct events *e = NULL;
    struct error err = ERROR_INIT;
    if (!*dir)
        *dir = unit_tmpdir();
    setenv(ENV_TRIAL_DIR, *dir, 1);
    CU_ASSERT_EQUAL(events_open(&e, rank, clock_mono_s(), 4, test_argv, &err), 0);
    CU_ASSERT_STR(err.message, NULL);
    unsetenv(ENV_TRIAL_DIR);
    return e;
}

struct lines {
    json_t *items[4096];
    size_t count;
};

/* Every line of the file by the strict parser. */
static struct lines *read_lines(const char *dir, int rank)
{
    static struct lines l;
    auto_free char *path = mem_printf("%s/" EVENTS_FILE_FMT, dir, rank);
    auto_str text = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    for (size_t i = 0; i < l.count; i++)
        json_decref(l.items[i]);
    l.count = 0;
    fs_read_file(path, &text, 1, &err);
    CU_ASSERT(text.len > 0 && text.data[text.len - 1] == '\n');
    for (char *line = text.data, *end; *line && l.count < 4096; line = end + 1) {
        if (!(end = strchr(line, '\n')))
            break;
        json_t *j = NULL;
        json_parse(line, (size_t)(end - line), path, 1, &j, &err);
        CU_ASSERT_STR(err.message, NULL);
        l.items[l.count++] = j;
    }
    return &l;
}

static size_t count_events(const struct lines *l, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += !strcmp(json_read_str(l->items[i], "event"), name);
    return n;
}

static const json_t *first_event(const struct lines *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(json_read_str(l->items[i], "event"), name))
            return l->items[i];
    return NULL;
}

static struct step_record a_step(int64_t step)
{
    double t = clock_mono_s();
    return (struct step_record){.step = step,
                                .epoch = 1,
                                .t_start_s = t,
                                .t_end_s = t + 0.1,
                                .data_wait_s = 0.001,
                                .fwd_s = 0.03,
                                .bwd_s = 0.05,
                                .comm_s = 0,
                                .opt_s = 0.02,
                                .loss = 5.25,
                                .grad_norm = 0.5,
                                .tokens = 512};
}

static void without_a_trial_directory_nothing_happens(void)
{
    struct events *e = NULL;
    struct error err = ERROR_INIT;
    unsetenv(ENV_TRIAL_DIR);
    CU_ASSERT_EQUAL(events_open(&e, 0, 0, 4, test_argv, &err), 0);
    CU_ASSERT(!events_enabled(e));
    struct step_record step = a_step(0);
    events_step(e, &step);
    events_path(e, "data", "/tmp");
    CU_ASSERT_EQUAL(events_phase_begin(e, PHASE_EVAL, &err), 0);
    CU_ASSERT_EQUAL(events_put(e, EVENT_EVAL, json_object(), &err), 0);
    CU_ASSERT_EQUAL(events_env(e, &(struct env_context){0}, &err), 0);
    CU_ASSERT_EQUAL(events_flush(e, &err), 0);
    CU_ASSERT_EQUAL(events_finish(e, 6, NULL), 6);
    CU_ASSERT_EQUAL(events_finish(NULL, 3, NULL), 3);
    CU_ASSERT_EQUAL(err.code, 0);
}

static void hello_comes_first(void)
{
    char *dir = NULL;
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "5", 1);
    struct events *e = opened(&dir, 3);
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    CU_ASSERT_EQUAL(events_finish(e, 0, NULL), 0);
    struct lines *l = read_lines(dir, 3);
    const json_t *h = l->items[0];
    int64_t pid = 0, rank = 0, world = 0;
    double entry = 0, start = 0;
    char digest[SHA256_HEX];
    struct error err = ERROR_INIT;
    CU_ASSERT_STR(json_read_str(h, "event"), EVENT_HELLO);
    CU_ASSERT_STR(json_read_str(h, "schema"), EVENT_SCHEMA);
    CU_ASSERT(json_read_i64(h, "pid", &pid) && pid == getpid());
    CU_ASSERT(json_read_i64(h, "rank", &rank) && rank == 3);
    CU_ASSERT(json_read_i64(h, "world", &world) && world == 5);
    CU_ASSERT(json_read_f64(h, "entry_s", &entry) && json_read_f64(h, "process_start_s", &start));
    CU_ASSERT(start < entry + 0.02 && entry <= clock_mono_s());
    sha256_file("/proc/self/exe", digest, 1, &err);
    CU_ASSERT_STR(json_read_str(h, "exe.sha256"), digest);
    CU_ASSERT_STR(json_read_str(h, "versions.nanochat"), NCBENCH_VERSION);
    CU_ASSERT(json_read_str(h, "build.config") != NULL);
    CU_ASSERT_EQUAL(json_array_size(json_at(h, "argv")), 4);
    CU_ASSERT_STR(json_string_value(json_array_get(json_at(h, "argv"), 2)), "--depth=4");
    CU_ASSERT_STR(json_read_str(l->items[1], "name"), PHASE_EXEC);
    CU_ASSERT_STR(json_read_str(l->items[l->count - 1], "event"), EVENT_DONE);
    CU_ASSERT_EQUAL(count_events(l, EVENT_DONE), 1);
    free(dir);
}

static void missing_numbers_are_null_with_a_reason(void)
{
    char *dir = NULL;
    struct error err = ERROR_INIT;
    struct events *e = opened(&dir, 0);
    static const double losses[] = {NAN, INFINITY, -INFINITY};
    static const char *const whys[] = {"nan", "inf", "-inf"};
    for (int i = 0; i < 3; i++) {
        struct step_record s = a_step(i);
        s.loss = losses[i];
        s.grad_norm = i ? -1 : NAN;
        s.fwd_s = NAN;
        events_step(e, &s);
    }
    events_flush(e, &err);
    CU_ASSERT_EQUAL(events_finish(e, NANOCHAT_EXIT_NUMERIC, NULL), NANOCHAT_EXIT_NUMERIC);
    struct lines *l = read_lines(dir, 0);
    for (int i = 0; i < 3; i++) {
        const json_t *s = l->items[3 + i];
        CU_ASSERT_STR(json_read_str(s, "event"), EVENT_STEP);
        CU_ASSERT(json_is_null(json_at(s, "loss")));
        CU_ASSERT_STR(json_read_str(s, "loss_why"), whys[i]);
        CU_ASSERT(json_is_null(json_at(s, "grad_norm")));
        CU_ASSERT_STR(json_read_str(s, "grad_norm_why"), i ? "not computed" : "nan");
        CU_ASSERT_STR(json_read_str(s, "fwd_s_why"), "not measured");
    }
    free(dir);
}

static void events_keep_their_order_and_values(void)
{
    char *dir = NULL;
    struct error err = ERROR_INIT;
    struct events *e = opened(&dir, 0);
    struct comm_record c = {
        .step = 7, .seq = 12, .op = "all_reduce", .bytes = 4096, .time_us = 12.5, .lost_rank = -1};
    struct step_record s = a_step(7);
    events_comm(e, &c);
    events_step(e, &s);
    json_t *fields = json_object();
    json_put_f64(fields, "val_bpb", 1.25);
    CU_ASSERT_EQUAL(events_put(e, EVENT_EVAL, fields, &err), 0);
    struct error why = ERROR_INIT;
    error_set(&why, NANOCHAT_EXIT_DATA, "no data");
    CU_ASSERT_EQUAL(events_finish(e, why.code, &why), NANOCHAT_EXIT_DATA);
    error_release(&why);
    struct lines *l = read_lines(dir, 0);
    CU_ASSERT_EQUAL(l->count, 7);
    double us = 0, loss = 0, t_s = 0;
    int64_t seq = 0, code = 0;
    CU_ASSERT(json_read_f64(l->items[3], "time_us", &us) && us == 12.5);
    CU_ASSERT(json_read_i64(l->items[3], "seq", &seq) && seq == 12);
    CU_ASSERT_STR(json_read_str(l->items[3], "op"), "all_reduce");
    CU_ASSERT(json_read_f64(l->items[4], "loss", &loss) && loss == 5.25);
    CU_ASSERT(json_read_f64(l->items[4], "t_start_s", &t_s) && t_s == s.t_start_s);
    CU_ASSERT_STR(json_read_str(l->items[5], "event"), EVENT_EVAL);
    CU_ASSERT(json_read_i64(l->items[6], "exit_code", &code) && code == NANOCHAT_EXIT_DATA);
    CU_ASSERT_STR(json_read_str(l->items[6], "error"), "no data");
    free(dir);
}

static void steps_are_never_dropped_collectives_are_counted(void)
{
    char *dir = NULL;
    struct events *e = opened(&dir, 0);
    struct comm_record c = {.op = "barrier", .lost_rank = -1};
    for (int i = 0; i < 3000; i++) {
        struct step_record s = a_step(i);
        events_step(e, &s); /* without a single flush */
    }
    for (int i = 0; i < 40000; i++)
        events_comm(e, &c);
    CU_ASSERT_EQUAL(events_finish(e, 0, NULL), 0);
    auto_free char *path = mem_printf("%s/" EVENTS_FILE_FMT, dir, 0);
    auto_str text = STR_INIT;
    struct error err = ERROR_INIT;
    fs_read_file(path, &text, 1, &err);
    size_t steps = 0, comms = 0;
    for (const char *p = text.data; (p = strstr(p, "\"event\":\"step\"")); p++)
        steps++;
    for (const char *p = text.data; (p = strstr(p, "\"event\":\"comm\"")); p++)
        comms++;
    CU_ASSERT_EQUAL(steps, 3000);
    auto_free char *dropped = mem_printf("\"comm_dropped\": %zu", 40000 - comms);
    auto_free char *dense = mem_printf("\"comm_dropped\":%zu", 40000 - comms);
    CU_ASSERT(comms < 40000 && (strstr(text.data, dropped) || strstr(text.data, dense)));
    free(dir);
}

static void a_lost_peer_becomes_an_event(void)
{
    char *dir = NULL;
    struct error err = ERROR_INIT;
    struct events *e = opened(&dir, 0);
    struct comm_record c = {.step = 3, .op = "all_reduce", .time_us = 2e6, .lost_rank = 1};
    events_comm(e, &c);
    events_flush(e, &err);
    events_finish(e, NANOCHAT_EXIT_PEER, NULL);
    struct lines *l = read_lines(dir, 0);
    const json_t *lost = first_event(l, EVENT_PEER_LOST);
    int64_t rank = -1, step = -1;
    CU_ASSERT(json_read_i64(lost, "rank", &rank) && rank == 1);
    CU_ASSERT(json_read_i64(lost, "step", &step) && step == 3);
    CU_ASSERT_STR(json_read_str(lost, "op"), "all_reduce");
    CU_ASSERT_EQUAL(count_events(l, EVENT_PEER_LOST), 1);
    free(dir);
}

static void one_file_a_rank(void)
{
    char *dir = NULL;
    struct events *e = opened(&dir, 2), *second = NULL;
    struct error err = ERROR_INIT;
    setenv(ENV_TRIAL_DIR, dir, 1);
    CU_ASSERT(events_open(&second, 2, 0, 4, test_argv, &err) != 0);
    CU_ASSERT_EQUAL(err.code, NANOCHAT_EXIT_WRITE);
    CU_ASSERT(second == NULL && err.hint != NULL);
    error_release(&err);
    setenv(ENV_TRIAL_DIR, "/nonexistent/directory", 1);
    CU_ASSERT(events_open(&second, 2, 0, 4, test_argv, &err) != 0);
    CU_ASSERT_EQUAL(err.code, NANOCHAT_EXIT_WRITE);
    CU_ASSERT(strstr(err.message, "/nonexistent/directory") != NULL);
    error_release(&err);
    unsetenv(ENV_TRIAL_DIR);
    events_finish(e, 0, NULL);
    free(dir);
}

/* The child's part: a limit on the file's size fails writes as a full disk does. */
static int write_until_full(char *dir, bool flush)
{
    struct rlimit limit = {20000, 20000};
    struct error err = ERROR_INIT;
    struct events *e = opened(&dir, 0);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    int failed_at = -1;
    for (int i = 0; i < 200; i++) {
        struct step_record s = a_step(i);
        events_step(e, &s);
        if (flush && failed_at < 0 && events_flush(e, &err))
            failed_at = i;
    }
    if (flush && (failed_at < 20 || err.code != NANOCHAT_EXIT_WRITE))
        return 1;
    return events_finish(e, 0, NULL);
}

static void a_full_disk_is_exit_10_and_leaves_whole_lines(void)
{
    for (int flush = 0; flush < 2; flush++) {
        char *dir = unit_tmpdir();
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            if (!freopen("/dev/null", "w", stderr))
                _exit(99);
            _exit(write_until_full(dir, flush));
        }
        int status = 0;
        waitpid(pid, &status, 0);
        CU_ASSERT(WIFEXITED(status));
        CU_ASSERT_EQUAL(WEXITSTATUS(status), NANOCHAT_EXIT_WRITE);
        struct lines *l = read_lines(dir, 0);
        CU_ASSERT(l->count >= 3);
        CU_ASSERT(count_events(l, EVENT_STEP) < 200);
        free(dir);
    }
}

/* What one rank could not finish spoils nothing of another's. */
static void a_full_disk_in_a_shared_file(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/" EVENTS_NODE_FILE_FMT, dir, 3);
    setenv(ENV_TRIAL_FILES, "node", 1);
    setenv(ENV_GROUP_RANK, "3", 1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(99);
        _exit(write_until_full(dir, true));
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == NANOCHAT_EXIT_WRITE);
    char *again = dir;
    struct events *e = opened(&again, 1);
    struct step_record s = a_step(0);
    events_step(e, &s);
    CU_ASSERT_EQUAL(events_finish(e, 0, NULL), 0);
    unsetenv(ENV_TRIAL_FILES);
    unsetenv(ENV_GROUP_RANK);

    auto_str text = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    int whole[2] = {0, 0}, broken = 0, steps_of_second = 0;
    CU_ASSERT_EQUAL_FATAL(fs_read_file(path, &text, 1, &err), 0);
    for (char *save = NULL, *line = strtok_r(text.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        json_error_t why;
        json_t *event = json_loads(line, 0, &why);
        int64_t rank = -1;
        if (json_read_i64(event, EVENT_BY_RANK, &rank) && (rank == 0 || rank == 1))
            whole[rank]++;
        else
            broken++;
        steps_of_second += rank == 1 && !strcmp(json_read_str(event, "event"), EVENT_STEP);
        json_decref(event);
    }
    CU_ASSERT(whole[0] > 20);
    CU_ASSERT_EQUAL(whole[1], 5); /* hello, two of exec, step, done */
    CU_ASSERT_EQUAL(steps_of_second, 1);
    CU_ASSERT(broken <= 1);
}

static void no_allocation_in_a_step(void)
{
    if (!COUNTING) {
        unit_skip("allocations belong to the sanitizer here");
        return;
    }
    char *dir = NULL;
    struct events *e = opened(&dir, 0);
    struct error err = ERROR_INIT;
    struct comm_record c = {.op = "reduce_scatter", .bytes = 1 << 20, .lost_rank = -1};
    atomic_store(&counting, true);
    for (int i = 0; i < 500; i++) {
        struct step_record s = a_step(i);
        s.loss = i == 3 ? NAN : 1.0 / (i + 3);
        for (int k = 0; k < 40; k++) {
            c.seq++;
            c.time_us = 1e6 / 7;
            events_comm(e, &c);
        }
        events_step(e, &s);
        events_flush(e, &err);
    }
    CU_ASSERT_EQUAL(atomic_load(&allocations), 0);
    free(mem_strdup("x"));
    CU_ASSERT_EQUAL(atomic_load(&allocations), 1); /* the counter counts */
    atomic_store(&counting, false);
    events_finish(e, 0, NULL);
    free(dir);
}

UNIT_MAIN({"without a trial directory nothing happens", without_a_trial_directory_nothing_happens},
          {"hello comes first", hello_comes_first},
          {"missing numbers are null with a reason", missing_numbers_are_null_with_a_reason},
          {"events keep their order and values", events_keep_their_order_and_values},
          {"steps are never dropped, collectives are counted",
           steps_are_never_dropped_collectives_are_counted},
          {"a lost peer becomes an event", a_lost_peer_becomes_an_event},
          {"one file a rank", one_file_a_rank},
          {"a full disk is exit 10 and leaves whole lines",
           a_full_disk_is_exit_10_and_leaves_whole_lines},
          {"a full disk in a shared file", a_full_disk_in_a_shared_file},
          {"no allocation in a step", no_allocation_in_a_step})
