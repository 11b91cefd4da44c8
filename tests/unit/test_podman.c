/* The podman adapter with the real podman, on a directory that holds the test payload and nothing
 * else. Skipped, with the reason, where podman or root is missing. */
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/spawn.h"
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/host.h"
#include "runtimes/oci_cli.h"
#include "runtimes/podman_priv.h"
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    bool ready;
    char *dir, *rootfs, *session;
    int trials;
} world;

/* One directory for the suite: the root file system and a session with its containers.conf. */
static bool world_ready(void)
{
    auto_free char *podman = spawn_find_program("podman");
    if (!podman || geteuid() != 0) {
        unit_skip(podman ? "not root" : "podman is not installed");
        return false;
    }
    if (world.ready)
        return true;
    auto_error struct error err = ERROR_INIT;
    const char *build = getenv("BUILD");
    auto_free char *payload = mem_printf("%s/payload", build ? build : "build/release");
    world.dir = unit_tmpdir();
    world.rootfs = mem_printf("%s/rootfs", world.dir);
    world.session = mem_printf("%s/session", world.dir);
    auto_free char *target = mem_printf("%s/payload", world.rootfs);
    auto_free char *text = mem_printf("%s/not-executable", world.rootfs);
    auto_free char *format = mem_printf("%s/bad-format", world.rootfs);
    CU_ASSERT_EQUAL_FATAL(fs_mkdir_p(world.rootfs, 1, &err), 0);
    CU_ASSERT_EQUAL_FATAL(fs_copy_file(payload, target, 0755, 1, &err), 0);
    CU_ASSERT_EQUAL_FATAL(fs_write_atomic(text, "x", 1, 1, &err), 0);
    CU_ASSERT_EQUAL_FATAL(fs_write_atomic(format, "x", 1, 1, &err), 0);
    chmod(text, 0644);
    chmod(format, 0755);
    struct runtime_spec spec = {.name = (char *)"podman"};
    CU_ASSERT_EQUAL_FATAL(runtime_podman.prepare(&spec, world.session, &err), 0);
    world.ready = true;
    return true;
}

/* A trial: what the harness would do around argv. */
struct trial {
    struct runtime_spec spec;
    struct mounts mounts;
    struct strv argv, env;
    char *id, *dir;
    struct runtime_launch launch;
    struct str out, errout;
    int status;
};

static void trial_init(struct trial *t, const char *const *words)
{
    memset(t, 0, sizeof *t);
    t->out = t->errout = (struct str)STR_INIT;
    t->spec.name = mem_strdup("podman");
    t->spec.kind = mem_strdup("podman");
    t->spec.rootfs = mem_strdup(world.rootfs);
    t->id = mem_printf("unit.t%02d", world.trials++);
    t->dir = mem_printf("%s/trials/%s", world.session, t->id);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(fs_mkdir_p(t->dir, 1, &err), 0);
    mounts_add(&t->mounts, t->dir, t->dir, false);
    for (; *words; words++)
        strv_push(&t->argv, *words);
    strv_pushf(&t->env, ENV_TRIAL_ID "=%s", t->id);
    strv_pushf(&t->env, ENV_TRIAL_DIR "=%s", t->dir);
    t->launch = (struct runtime_launch){&t->spec, t->id,   t->dir,     world.session,
                                        &t->argv, &t->env, &t->mounts, t->dir};
}

static void trial_release(struct trial *t)
{
    runtime_spec_release(&t->spec);
    mounts_release(&t->mounts);
    strv_release(&t->argv);
    strv_release(&t->env);
    str_release(&t->out);
    str_release(&t->errout);
    free(t->id);
    free(t->dir);
}

static void trial_run(struct trial *t)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(runtime_podman.argv(&t->launch, &argv, &env, &err), 0);
    CU_ASSERT_EQUAL(
        spawn_capture(argv.items, env.items, 60, &t->out, &t->errout, &t->status, 4, &err), 0);
    if (err.message)
        printf("  %s\n", err.message);
}

static int exit_code(const struct trial *t)
{
    return WIFEXITED(t->status) ? WEXITSTATUS(t->status) : 128 + WTERMSIG(t->status);
}

static void expect_exit(const struct trial *t, int code)
{
    CU_ASSERT_EQUAL(exit_code(t), code);
    if (exit_code(t) != code)
        printf("  exit %d, expected %d: %s\n", exit_code(t), code, t->errout.data);
}

#define PAYLOAD(...) ((const char *const[]){"/payload", __VA_ARGS__, NULL})

/* ---- what the program sees ------------------------------------------------------------------- */
/* Every value reaches the program byte for byte (podman#18724, podman#19565, podman#2809). */
static void environment(void)
{
    static const char *const given[] = {
        "NL=a\nb\n", "LITERAL=a\\nb", "QUOTES=\"x\" 'y'", "EQUALS=a=b=c",
        "EMPTY=",    "UTF8=grüße 🙋",  "SPACE= lead ",     "DOLLAR=$HOME `id`",
        "STAR=*",    "TAB=a\tb",      "HASH=#no comment", "COMMA=a,b;c:d"};
    if (!world_ready())
        return;
    struct trial t;
    trial_init(&t, PAYLOAD("print-env0"));
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        strv_push(&t.env, given[i]);
    setenv("NCBENCH_TEST_LEAK", "1", 1);
    setenv("http_proxy", "http://leak", 1);
    trial_run(&t);
    unsetenv("NCBENCH_TEST_LEAK");
    unsetenv("http_proxy");
    expect_exit(&t, 0);
    auto_strv seen = STRV_INIT;
    for (size_t at = 0; at < t.out.len; at += strlen(t.out.data + at) + 1)
        strv_push(&seen, t.out.data + at);
    for (size_t i = 0; i < t.env.count; i++) {
        CU_ASSERT(strv_contains(&seen, t.env.items[i]));
        if (!strv_contains(&seen, t.env.items[i]))
            printf("  not seen inside: %s\n", t.env.items[i]);
    }
    CU_ASSERT_PTR_NULL(strv_env_get(&seen, "NCBENCH_TEST_LEAK"));
    CU_ASSERT_PTR_NULL(strv_env_get(&seen, "http_proxy"));
    CU_ASSERT_PTR_NULL(strv_env_get(&seen, "CONTAINERS_CONF"));
    trial_release(&t);
}

/* Arguments too; and the working directory is the launch's. */
static void arguments(void)
{
    if (!world_ready())
        return;
    struct trial t;
    trial_init(&t, PAYLOAD("print-cwd", "print-args0", "a b", "", "*", "\"q\"", "n\nl", "--rm"));
    trial_run(&t);
    expect_exit(&t, 0);
    auto_str want = STR_INIT;
    str_appendf(&want, "%s\n", t.dir);
    str_append_n(&want, "a b\0\0*\0\"q\"\0n\nl\0--rm\0", 20);
    CU_ASSERT_EQUAL(t.out.len, want.len);
    CU_ASSERT(t.out.len == want.len && !memcmp(t.out.data, want.data, want.len));
    trial_release(&t);
}

/* Odd names in source and target: each mounts the right file. */
static void mounts(void)
{
    static const char *const names[] = {"my run", "tab\there", "new\nline", "back\\slash",
                                        "so:me",  "foo,bar",   "q\"uote",   "eq=ual",
                                        "grüße",  "'single'",  "$HOME",     "-dash"};
    if (!world_ready())
        return;
    struct trial t;
    trial_init(&t, PAYLOAD("print", "all:"));
    auto_error struct error err = ERROR_INIT;
    auto_str want = STR_INIT;
    str_append(&want, "all:\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        auto_free char *source = mem_printf("%s/src %s", t.dir, names[i]);
        auto_free char *target = mem_printf("/in put/%s", names[i]);
        CU_ASSERT_EQUAL(fs_write_atomic(source, names[i], strlen(names[i]), 1, &err), 0);
        mounts_add(&t.mounts, source, target, i % 2 == 0);
        strv_push(&t.argv, "print-file");
        strv_push(&t.argv, target);
        str_append(&want, names[i]);
    }
    CU_ASSERT_EQUAL(runtime_podman.check(&t.spec, &t.mounts, false, &err), 0);
    trial_run(&t);
    expect_exit(&t, 0);
    CU_ASSERT_STR(t.out.data, want.data);
    trial_release(&t);

    trial_init(&t, PAYLOAD("write-file", "/ro/x", "y"));
    mounts_add(&t.mounts, t.dir, "/ro", true);
    trial_run(&t);
    expect_exit(&t, 99);
    CU_ASSERT_PTR_NOT_NULL(strstr(t.errout.data, "Read-only file system"));
    trial_release(&t);
}

/* What a trial writes into its directory is on the host; what it writes elsewhere is gone. */
static void root_file_system_is_left_alone(void)
{
    if (!world_ready())
        return;
    struct trial t;
    trial_init(&t, PAYLOAD("write-file", "/written", "x", "hello"));
    trial_run(&t);
    expect_exit(&t, 0);
    auto_free char *written = mem_printf("%s/written", world.rootfs);
    auto_free char *events = mem_printf("%s/events.rank00000.jsonl", t.dir);
    CU_ASSERT_FALSE(fs_exists(written));
    CU_ASSERT(fs_exists(events));
    trial_release(&t);
}

static void limit_row(const struct trial *t, const char *label, char *row, size_t size)
{
    const char *hit = strstr(t->out.data, label);
    snprintf(row, size, "%.*s", hit ? (int)strcspn(hit, "\n") : 0, hit ? hit : "");
}

/* The host's limits, /dev/shm and number of processes: nothing is ours to change. */
static void allocation_is_the_hosts(void)
{
    if (!world_ready())
        return;
    struct trial t;
    trial_init(&t, PAYLOAD("print-file", "/proc/self/limits", "print-file", "/proc/self/mounts"));
    trial_run(&t);
    expect_exit(&t, 0);
    struct trial host = {.out = STR_INIT};
    fs_sys_read("/proc/self/limits", &host.out);
    static const char *const rows[] = {"Max open files", "Max locked memory", "Max stack size",
                                       "Max address space"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char inside[128], outside[128];
        limit_row(&t, rows[i], inside, sizeof inside);
        limit_row(&host, rows[i], outside, sizeof outside);
        CU_ASSERT_STR(inside, outside);
    }
    CU_ASSERT_PTR_NULL(
        strstr(t.out.data, "/dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=64000k"));
    str_release(&host.out);
    trial_release(&t);

    trial_init(&t, PAYLOAD("print-file", "/proc/self/mounts", "print-file", "/proc/self/limits"));
    t.spec.shm_size_bytes = 100 << 20;
    strv_push(&t.spec.ulimits, "memlock=65536");
    trial_run(&t);
    expect_exit(&t, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(t.out.data, "size=102400k"));
    char row[128];
    limit_row(&t, "Max locked memory", row, sizeof row);
    CU_ASSERT_PTR_NOT_NULL(strstr(row, "65536"));
    trial_release(&t);
}

/* As root the controllers of cgroups are there: a limit that is asked for is in force. */
static void asked_limits_are_in_force(void)
{
    auto_str controllers = STR_INIT;
    if (!world_ready())
        return;
    host_controllers(&controllers);
    if (!host_words_contain(controllers.data, "memory") ||
        !host_words_contain(controllers.data, "cpuset")) {
        unit_skip("no memory or cpuset controller here");
        return;
    }
    struct trial t;
    trial_init(&t, PAYLOAD("print-file", "/proc/self/status", "eat-memory", "256"));
    t.spec.cpuset = mem_strdup("0");
    t.spec.memory_bytes = 64 << 20;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(runtime_podman.check(&t.spec, &t.mounts, false, &err), 0);
    trial_run(&t);
    expect_exit(&t, 137);
    CU_ASSERT_PTR_NOT_NULL(strstr(t.out.data, "Cpus_allowed_list:\t0\n"));
    struct runtime_evidence evidence = {t.status, false, t.errout.data};
    auto_str reason = STR_INIT;
    CU_ASSERT_EQUAL(runtime_podman.classify(&evidence, &reason), OUTCOME_SIGNALLED);
    trial_release(&t);
}

/* ---- failures -------------------------------------------------------------------------------- */
static void classifies(const char *const *argv, int code, enum outcome want, const char *fragment)
{
    struct trial t;
    trial_init(&t, argv);
    trial_run(&t);
    expect_exit(&t, code);
    struct runtime_evidence evidence = {t.status, false, t.errout.data};
    auto_str reason = STR_INIT;
    CU_ASSERT_STR(outcome_name(runtime_podman.classify(&evidence, &reason)), outcome_name(want));
    bool told = strstr(reason.data, fragment) != NULL;
    CU_ASSERT(told);
    if (!told)
        printf("  reason: %s\n", reason.data);
    trial_release(&t);
}

static void exit_codes(void)
{
    if (!world_ready())
        return;
    /* The program's own codes pass; without hello they are judged by the code. */
    classifies(PAYLOAD("exit", "125"), 125, OUTCOME_RUNTIME_FAILED, "exit 125");
    classifies(PAYLOAD("exit", "126"), 126, OUTCOME_NOT_EXECUTABLE, "exit 126");
    classifies(PAYLOAD("exit", "127"), 127, OUTCOME_NOT_FOUND, "exit 127");
    classifies(PAYLOAD("exit", "7"), 7, OUTCOME_RUNTIME_FAILED, "exit 7");
    classifies(PAYLOAD("warn", "boom", "exit", "1"), 1, OUTCOME_RUNTIME_FAILED, "boom");
    /* podman's own. */
    auto_free char *init = podman_init_path();
    bool tini = init && strstr(init, "tini"); /* has the shell's codes, catatonit only 1 */
    classifies((const char *const[]){"/nosuch", NULL}, init && !tini ? 1 : 127, OUTCOME_NOT_FOUND,
               "o such file");
    classifies((const char *const[]){"/not-executable", NULL}, init && !tini ? 1 : 126,
               OUTCOME_NOT_EXECUTABLE, "ermission denied");
    /* tini hands it to a shell, which is what is missing then. */
    classifies((const char *const[]){"/bad-format", NULL}, tini ? 127 : 1,
               tini ? OUTCOME_NOT_FOUND : OUTCOME_NOT_EXECUTABLE,
               tini ? "o such file" : "xec format error");
}

static void missing_parts(void)
{
    if (!world_ready())
        return;
    struct trial t;
    auto_error struct error err = ERROR_INIT;
    trial_init(&t, PAYLOAD("exit", "0"));
    free(t.spec.rootfs);
    t.spec.rootfs = NULL;
    t.spec.image = mem_strdup("ncbench-nosuch-image");
    CU_ASSERT_EQUAL(runtime_podman.check(&t.spec, &t.mounts, false, &err),
                    -NCBENCH_EXIT_ENVIRONMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "image \"ncbench-nosuch-image\" not found locally; "
                                               "use a full reference such as docker.io/"));
    trial_run(&t); /* the image vanished after the check */
    expect_exit(&t, 125);
    struct runtime_evidence evidence = {t.status, false, t.errout.data};
    auto_str reason = STR_INIT;
    CU_ASSERT_EQUAL(runtime_podman.classify(&evidence, &reason), OUTCOME_UNAVAILABLE);
    error_release(&err);
    free(t.spec.image);
    t.spec.image = mem_strdup("localhost/ncbench/nosuch:1");
    CU_ASSERT_EQUAL(runtime_podman.check(&t.spec, &t.mounts, false, &err),
                    -NCBENCH_EXIT_ENVIRONMENT);
    CU_ASSERT_STR(err.hint, "ncbench image build --name localhost/ncbench/nosuch:1");
    trial_release(&t);
}

/* ---- stop ------------------------------------------------------------------------------------ */
static bool process_with_id(const char *id)
{
    auto_strv names = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    auto_free char *marker = mem_printf(ENV_TRIAL_ID "=%s", id);
    if (fs_list_dir("/proc", &names, 1, &err))
        return false;
    for (size_t i = 0; i < names.count; i++) {
        int64_t pid;
        if (!num_parse_i64(names.items[i], &pid))
            continue;
        auto_free char *path = mem_printf("/proc/%s/environ", names.items[i]);
        auto_str text = STR_INIT;
        fs_sys_read(path, &text);
        for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1)
            if (!strcmp(text.data + at, marker))
                return true;
    }
    return false;
}

static bool wait_for_file(const char *path)
{
    for (int i = 0; i < 1000 && !fs_exists(path); i++)
        clock_sleep_s(0.02);
    return fs_exists(path);
}

/* Killing the client leaves conmon and the container (podman#15557, podman#6412); stop does not,
 * whatever the program ignores and wherever its children went. */
static void stop_leaves_nothing(void)
{
    if (!world_ready())
        return;
    struct trial t;
    trial_init(&t, PAYLOAD("ignore-term", "fork-setsid", "hello", "sleep", "600"));
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(runtime_podman.argv(&t.launch, &argv, &env, &err), 0);
    auto_free char *log = mem_printf("%s/log", t.dir);
    struct spawn child = {.argv = argv.items,
                          .env = env.items,
                          .stdout_path = log,
                          .stderr_path = log,
                          .new_session = true};
    CU_ASSERT_EQUAL_FATAL(spawn_start(&child, 4, &err), 0);
    auto_free char *hello = mem_printf("%s/events.rank00000.jsonl", t.dir);
    CU_ASSERT(wait_for_file(hello));
    kill(-child.pid, SIGKILL);
    int status;
    CU_ASSERT_EQUAL(waitpid(child.pid, &status, 0), child.pid);
    auto_str what = STR_INIT;
    CU_ASSERT(runtime_podman.leftover(&t.launch, &what));
    CU_ASSERT_PTR_NOT_NULL(strstr(what.data, "container ncbench-unit.t"));
    CU_ASSERT(process_with_id(t.id));

    CU_ASSERT_EQUAL(runtime_podman.stop(&t.launch, &err), 0);
    str_clear(&what);
    CU_ASSERT_FALSE(runtime_podman.leftover(&t.launch, &what));
    CU_ASSERT_STR(what.data, "");
    for (int i = 0; i < 200 && process_with_id(t.id); i++)
        clock_sleep_s(0.02);
    CU_ASSERT_FALSE(process_with_id(t.id));
    CU_ASSERT_EQUAL(runtime_podman.stop(&t.launch, &err), 0); /* absent is success */
    trial_release(&t);
}

static void description(void)
{
    if (!world_ready())
        return;
    struct trial t;
    trial_init(&t, PAYLOAD("exit", "0"));
    auto_json *obj = json_object();
    runtime_podman.describe(&t.spec, world.session, obj);
    CU_ASSERT_PTR_NOT_NULL(json_read_str(obj, "podman"));
    CU_ASSERT_PTR_NOT_NULL(json_read_str(obj, "conmon"));
    CU_ASSERT_PTR_NOT_NULL(json_read_str(obj, "oci_runtime"));
    CU_ASSERT_PTR_NOT_NULL(json_read_str(obj, "storage_driver"));
    CU_ASSERT_STR(json_read_str(obj, "rootfs"), world.rootfs);
    CU_ASSERT_STR(json_read_str(obj, "cgroups"), host_cgroups_name(host_cgroups()));
    const char *hash = json_read_str(obj, "containers_conf_sha256");
    CU_ASSERT(hash && strlen(hash) == 64);
    if (host_hybrid_owns_controllers())
        CU_ASSERT_STR(json_read_str(obj, "oci_runtime"), "runc");
    struct runtime_probe probe = {0};
    runtime_podman.probe(&probe);
    CU_ASSERT(probe.available);
    CU_ASSERT_STR(json_read_str(probe.versions, "podman"), json_read_str(obj, "podman"));
    runtime_probe_release(&probe);
    trial_release(&t);
}

UNIT_MAIN({"environment", environment}, {"arguments", arguments}, {"mounts", mounts},
          {"root file system is left alone", root_file_system_is_left_alone},
          {"allocation is the host's", allocation_is_the_hosts},
          {"asked limits are in force", asked_limits_are_in_force}, {"exit codes", exit_codes},
          {"missing parts", missing_parts}, {"stop leaves nothing", stop_leaves_nothing},
          {"description", description})
