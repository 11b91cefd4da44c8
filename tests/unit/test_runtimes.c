/* The adapters without any runtime: golden argument vectors, tables of messages, checks against
 * fixture machines (tests/fixtures/fsroot). */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/host.h"
#include "runtimes/oci_cli.h"
#include "runtimes/podman_priv.h"
#include "tests/unit/launch_bench.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fill(struct strv *v, const char *const *items)
{
    for (; *items; items++)
        strv_push(v, *items);
}

static void omp_init(struct bench *b, const char *kind)
{
    bench_init(b, kind, "/s/trials/c00.b01.arm");
    strv_push(&b->env, "OMP_NUM_THREADS=1");
}

static int check(struct bench *b, bool portable, struct error *err)
{
    return runtime_find(b->spec.kind)->check(&b->spec, &b->mounts, portable, err);
}

/* ---- registry -------------------------------------------------------------------------------- */
static void registry(void)
{
    runtime_registry_check();
    runtime_ops_check(&runtime_skeleton);
    CU_ASSERT_PTR_NOT_NULL(runtime_find("bare"));
    CU_ASSERT_PTR_NOT_NULL(runtime_find("podman"));
    CU_ASSERT_PTR_NULL(runtime_find("podmann"));
    CU_ASSERT_PTR_NULL(runtime_find("skeleton"));
}

static void program_path(void)
{
    const struct {
        const char *kind, *image, *rootfs, *nanochat, *want;
    } rows[] = {
        {"bare", NULL, NULL, NULL, "/host/nanochat"},
        {"command", NULL, NULL, "/ignored", "/host/nanochat"},
        {"podman", "localhost/x:1", NULL, NULL, "/usr/local/bin/nanochat"},
        {"podman", "localhost/x:1", NULL, "/opt/nanochat", "/opt/nanochat"},
        {"podman", NULL, "/", NULL, "/host/nanochat"},
        {"podman", NULL, "/root", NULL, "/usr/local/bin/nanochat"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct runtime_spec spec = {.kind = (char *)rows[i].kind,
                                    .image = (char *)rows[i].image,
                                    .rootfs = (char *)rows[i].rootfs,
                                    .nanochat = (char *)rows[i].nanochat};
        CU_ASSERT_STR(runtime_nanochat_path(&spec, "/host/nanochat"), rows[i].want);
    }
}

/* ---- mounts ---------------------------------------------------------------------------------- */
static void mounts_parse(void)
{
    const struct {
        const char *text, *source, *target;
        int ro; /* -1: an error */
    } rows[] = {
        {"/a", "/a", "/a", 0},
        {"/a:/b", "/a", "/b", 0},
        {"/a:/b:ro", "/a", "/b", 1},
        {"/a:/b:rw", "/a", "/b", 0},
        {"/my run:/in put", "/my run", "/in put", 0},
        {"/some\\:file:/b\\:c:ro", "/some:file", "/b:c", 1},
        {"/back\\slash:/b", "/back\\slash", "/b", 0},
        {"/a:/b:z", NULL, NULL, -1},
        {"/a:/b:ro:x", NULL, NULL, -1},
        {"a:/b", NULL, NULL, -1},
        {"/a:mnt", NULL, NULL, -1},
        {"/a:", NULL, NULL, -1},
        {"", NULL, NULL, -1},
        {":/b", NULL, NULL, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mount m = {0};
        auto_error struct error err = ERROR_INIT;
        int rc = mount_parse(rows[i].text, &m, &err);
        CU_ASSERT_EQUAL(rc, rows[i].ro < 0 ? -NCBENCH_EXIT_SCENARIO : 0);
        if (rc)
            continue;
        CU_ASSERT_STR(m.source, rows[i].source);
        CU_ASSERT_STR(m.target, rows[i].target);
        CU_ASSERT_EQUAL(m.read_only, rows[i].ro == 1);
        free(m.source);
        free(m.target);
    }
}

static void mounts_csv(void)
{
    const struct {
        const char *path, *want;
    } rows[] = {
        {"/my run", "type=bind,source=/my run,target=/my run"},
        {"/t\tab", "type=bind,source=/t\tab,target=/t\tab"},
        {"/b\\s", "type=bind,source=/b\\s,target=/b\\s"},
        {"/some:file", "type=bind,source=/some:file,target=/some:file"},
        {"/foo,bar", "type=bind,\"source=/foo,bar\",\"target=/foo,bar\""},
        {"/q\"uote", "type=bind,\"source=/q\"\"uote\",\"target=/q\"\"uote\""},
        {"/n\nl", "type=bind,\"source=/n\nl\",\"target=/n\nl\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mount m = {(char *)rows[i].path, (char *)rows[i].path, false, false};
        auto_str text = STR_INIT;
        mount_append_csv(&text, &m);
        CU_ASSERT_STR(text.data, rows[i].want);
    }
    struct mount ro = {(char *)"/a", (char *)"/b", true, false};
    auto_str text = STR_INIT;
    mount_append_csv(&text, &ro);
    CU_ASSERT_STR(text.data, "type=bind,source=/a,target=/b,readonly");
}

static void mounts_are_checked(void)
{
    struct bench b;
    omp_init(&b, "bare");
    mounts_add(&b.mounts, "/dev/ss0", "/dev/ss0", false);
    bench_refuses(&b, false, NCBENCH_EXIT_ENVIRONMENT, "mount source /dev/ss0 does not exist");
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(check(&b, true, &err), 0); /* the file alone is fine */
    b.mounts.items[0].optional = true;
    CU_ASSERT_EQUAL(check(&b, false, &err), 0);
    auto_strv warnings = STRV_INIT;
    mounts_add(&b.mounts, "/tmp", "/tmp", false);
    mounts_drop_absent(&b.mounts, &warnings);
    CU_ASSERT_EQUAL(b.mounts.count, 1);
    CU_ASSERT_STR(b.mounts.items[0].source, "/tmp");
    CU_ASSERT_EQUAL(warnings.count, 1);
    bench_release(&b);

    omp_init(&b, "bare");
    mounts_add(&b.mounts, "/tmp", "/elsewhere", false);
    bench_refuses(&b, true, NCBENCH_EXIT_SCENARIO, "runtime bare cannot mount /tmp at /elsewhere");
    bench_release(&b);

    omp_init(&b, "podman");
    b.spec.image = mem_strdup("localhost/x:1");
    mounts_add(&b.mounts, "/tmp", "mnt", false);
    bench_refuses(&b, true, NCBENCH_EXIT_SCENARIO, "\"mnt\" is relative");
    bench_release(&b);

    omp_init(&b, "podman");
    b.spec.image = mem_strdup("localhost/x:1");
    mounts_add(&b.mounts, "/proc/self/status", "/in/", false);
    bench_refuses(&b, false, NCBENCH_EXIT_ENVIRONMENT, "is a file, its target /in/ a directory");
    bench_release(&b);

    omp_init(&b, "podman");
    b.spec.image = mem_strdup("localhost/x:1");
    mounts_add(&b.mounts, "/a\r\nb", "/x", false);
    bench_refuses(&b, true, NCBENCH_EXIT_SCENARIO, "CR LF");
    bench_release(&b);
}

/* ---- argv ------------------------------------------------------------------------------------ */
static void bare_argv(void)
{
    struct bench b;
    omp_init(&b, "bare");
    strv_push(&b.argv, "a b");
    strv_push(&b.env, "K=a\nb");
    auto_strv env = STRV_INIT;
    auto_free char *text = bench_argv(&b, &env);
    CU_ASSERT_STR(text, "/usr/local/bin/nanochat\ninfo\na b\n");
    CU_ASSERT_EQUAL(env.count, 2);
    CU_ASSERT_STR(env.items[1], "K=a\nb");
    bench_release(&b);
}

static void command_argv(void)
{
    struct bench b;
    omp_init(&b, "command");
    fill(&b.spec.prefix, (const char *const[]){"env", "X={trial_id}:{trial_dir}", "{argv}",
                                               "--last", "{json: 1}", NULL});
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(check(&b, false, &err), 0);
    auto_strv env = STRV_INIT;
    auto_free char *text = bench_argv(&b, &env);
    CU_ASSERT_STR(text, "env\nX=c00.b01.arm:/s/trials/c00.b01.arm\n/usr/local/bin/nanochat\n"
                        "info\n--last\n{json: 1}\n");
    bench_release(&b);

    omp_init(&b, "command");
    fill(&b.spec.prefix, (const char *const[]){"nice", "-n", "0", NULL});
    auto_free char *appended = bench_argv(&b, &env);
    CU_ASSERT_STR(appended, "nice\n-n\n0\n/usr/local/bin/nanochat\ninfo\n");
    bench_release(&b);
}

static void command_checks(void)
{
    const struct {
        const char *const *prefix;
        int code;
        const char *fragment;
    } rows[] = {
        {(const char *const[]){NULL}, 3, "needs a prefix"},
        {(const char *const[]){"env", "--x={argv}", NULL}, 3, "must be an element of its own"},
        {(const char *const[]){"env", "{trialid}", NULL}, 3, "unknown place {trialid}"},
        {(const char *const[]){"env", "{argv}", "{argv}", NULL}, 3, "2 times"},
        {(const char *const[]){"/nosuch/program", NULL}, 4, "not found on PATH"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b;
        omp_init(&b, "command");
        fill(&b.spec.prefix, rows[i].prefix);
        bench_refuses(&b, false, rows[i].code, rows[i].fragment);
        bench_release(&b);
    }
}

static void podman_argv_image(void)
{
    struct bench b;
    omp_init(&b, "podman");
    use_machine("hybrid"); /* without an init program */
    b.spec.image = mem_strdup("localhost/ncbench/nanochat:latest");
    strv_push(&b.env, "KEY=a\nb");
    strv_push(&b.env, "Q=\"x\" \\n =ü");
    strv_push(&b.env, "EMPTY=");
    strv_push(&b.spec.options, "--security-opt=seccomp=unconfined");
    strv_push(&b.spec.devices, "/dev/null");
    mounts_add(&b.mounts, "/s/trials/c00.b01.arm", "/s/trials/c00.b01.arm", false);
    mounts_add(&b.mounts, "/data/my run", "/in put", true);
    mounts_add(&b.mounts, "/tmp/foo,bar", "/x:y", true);
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("KEY", "host", 1);
    auto_strv env = STRV_INIT;
    auto_free char *text = bench_argv(&b, &env);
    CU_ASSERT_STR(text, "podman\nrun\n--rm\n--name=ncbench-c00.b01.arm-6486df41\n--pull=never\n"
                        "--network=host\n--ipc=host\n"
                        "--env=OMP_NUM_THREADS=1\n--env=KEY=a\nb\n--env=Q=\"x\" \\n =ü\n"
                        "--env=EMPTY=\n"
                        "--mount=type=bind,source=/s/trials/c00.b01.arm,"
                        "target=/s/trials/c00.b01.arm\n"
                        "--mount=type=bind,source=/data/my run,target=/in put,readonly\n"
                        "--mount=type=bind,\"source=/tmp/foo,bar\",target=/x:y,readonly\n"
                        "--device=/dev/null\n--security-opt=seccomp=unconfined\n"
                        "--workdir=/s/trials/c00.b01.arm\n--entrypoint=\n"
                        "localhost/ncbench/nanochat:latest\n/usr/local/bin/nanochat\ninfo\n");
    CU_ASSERT_STR(strv_env_get(&env, "CONTAINERS_CONF"), "/s/podman/containers.conf");
    CU_ASSERT_STR(strv_env_get(&env, ENV_TRIAL_ID), "c00.b01.arm");
    CU_ASSERT_STR(strv_env_get(&env, "PATH"), "/usr/bin:/bin");
    /* The workload's variables are not podman's, nor are the host's. */
    CU_ASSERT_PTR_NULL(strv_env_get(&env, "OMP_NUM_THREADS"));
    CU_ASSERT_PTR_NULL(strv_env_get(&env, "KEY"));
    bench_release(&b);
}

static void podman_argv_rootfs(void)
{
    struct bench b;
    omp_init(&b, "podman");
    use_machine("hybrid");
    b.spec.rootfs = mem_strdup("/");
    b.spec.network = mem_strdup("none");
    b.spec.shm_size_bytes = 1 << 30;
    b.spec.memory_bytes = 64 << 20;
    b.spec.cpuset = mem_strdup("0-1");
    b.spec.userns = mem_strdup("host");
    strv_push(&b.spec.ulimits, "memlock=65536");
    b.launch.cwd = NULL;
    auto_strv env = STRV_INIT;
    auto_free char *text = bench_argv(&b, &env);
    /* One --ulimit makes podman add nofile and nproc of its own: ours are the present limits, nproc
     * no more than pid_max. */
    CU_ASSERT_STR(text, "podman\nrun\n--rm\n--name=ncbench-c00.b01.arm-6486df41\n--pull=never\n"
                        "--network=none\n--ipc=private\n--shm-size=1073741824b\n--userns=host\n"
                        "--cpuset-cpus=0-1\n--memory=67108864b\n--ulimit=memlock=65536:65536\n"
                        "--ulimit=nofile=1024:20000\n--ulimit=nproc=32768:32768\n"
                        "--env=OMP_NUM_THREADS=1\n--entrypoint=\n--rootfs\n/:O\n"
                        "/usr/local/bin/nanochat\ninfo\n");
    bench_release(&b);
}

/* Same trial id in two sessions (or after a restart): other directory, other container. */
static void podman_names_are_unique(void)
{
    struct bench b;
    omp_init(&b, "podman");
    auto_free char *one = client_container_name(&b.launch);
    b.launch.trial_dir = "/other/trials/c00.b01.arm";
    auto_free char *two = client_container_name(&b.launch);
    CU_ASSERT_STRING_NOT_EQUAL(one, two);
    CU_ASSERT(str_starts_with(two, "ncbench-c00.b01.arm-"));
    b.launch.trial_id = "a b/ü";
    auto_free char *odd = client_container_name(&b.launch);
    CU_ASSERT(str_starts_with(odd, "ncbench-a_b___-"));
    bench_release(&b);
}

static void podman_init_is_used_where_it_is(void)
{
    auto_free char *root = unit_tmpdir();
    auto_free char *bin = mem_printf("%s/usr/bin", root);
    auto_free char *path = mem_printf("%s/catatonit", bin);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(fs_mkdir_p(bin, 1, &err), 0);
    CU_ASSERT_EQUAL(fs_write_atomic(path, "", 0, 1, &err), 0);
    struct bench b;
    omp_init(&b, "podman");
    b.spec.image = mem_strdup("localhost/x:1");
    setenv(ENV_FSROOT, root, 1);
    auto_strv env = STRV_INIT;
    auto_free char *text = bench_argv(&b, &env);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "--rm\n--init\n--init-path=/usr/bin/catatonit\n--name="));
    bench_release(&b);
}

/* ---- podman check ---------------------------------------------------------------------------- */
static void podman_spec_checks(void)
{
    const struct {
        const char *image, *rootfs, *ipc, *network, *option, *ulimit, *fragment;
        int64_t shm;
    } rows[] = {
        {.fragment = "expected either image or rootfs"},
        {.image = "x:1", .rootfs = "/", .fragment = "expected either image or rootfs"},
        {.rootfs = "rel", .fragment = "absolute path"},
        {.rootfs = "/a:b", .fragment = "without \":\""},
        {.image = "/x.tar", .fragment = "expected a reference"},
        {.image = "--x", .fragment = "expected a reference"},
        {.image = "x", .ipc = "hosts", .fragment = "ipc \"hosts\": expected host or private"},
        {.image = "x", .network = "bridge", .fragment = "expected host or none"},
        {.image = "x", .ipc = "host", .shm = 1, .fragment = "shm_size cannot be set"},
        {.image = "x", .option = "-d", .fragment = "option -d is not allowed"},
        {.image = "x", .option = "--name=y", .fragment = "option --name=y is not allowed"},
        {.image = "x", .option = "--timeout", .fragment = "use limits.trial"},
        {.image = "x", .ulimit = "memlock", .fragment = "expected NAME=SOFT[:HARD]"},
        {.image = "x", .ulimit = "nosuch=1", .fragment = "expected NAME=SOFT[:HARD]"},
        {.image = "x", .ulimit = "nofile=2:1", .fragment = "expected NAME=SOFT[:HARD]"},
        {.image = "x", .ulimit = "nofile=-5", .fragment = "expected NAME=SOFT[:HARD]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b;
        omp_init(&b, "podman");
        b.spec.image = mem_strdup(rows[i].image);
        b.spec.rootfs = mem_strdup(rows[i].rootfs);
        b.spec.ipc = mem_strdup(rows[i].ipc);
        b.spec.network = mem_strdup(rows[i].network);
        b.spec.shm_size_bytes = rows[i].shm;
        if (rows[i].option)
            strv_push(&b.spec.options, rows[i].option);
        if (rows[i].ulimit)
            strv_push(&b.spec.ulimits, rows[i].ulimit);
        bench_refuses(&b, true, NCBENCH_EXIT_SCENARIO, rows[i].fragment);
        bench_release(&b);
    }
}

/* A directory on PATH with an empty podman: check_host wants the program only. */
static void podman_on_path(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_error struct error err = ERROR_INIT;
    static const char *const names[] = {"podman", "runc"};
    for (size_t i = 0; i < 2; i++) {
        auto_free char *path = mem_printf("%s/%s", dir, names[i]);
        CU_ASSERT_EQUAL(fs_write_atomic(path, "#!/bin/sh\n", 10, 1, &err), 0);
        chmod(path, 0755);
    }
    auto_free char *path = mem_printf("%s:/usr/bin:/bin", dir);
    setenv("PATH", path, 1);
}

static void podman_machine_checks(void)
{
    podman_on_path();
    const struct {
        const char *machine, *ulimit, *cpuset, *device, *userns;
        int64_t memory;
        const char *fragment; /* NULL: passes */
    } rows[] = {
        {.machine = "hybrid"},
        {.machine = "hybrid", .ulimit = "memlock=8388608"},
        {.machine = "hybrid", .ulimit = "memlock=unlimited", .fragment = "hard limit of 8388608"},
        {.machine = "hybrid", .ulimit = "memlock=-1", .fragment = "hard limit of 8388608"},
        {.machine = "hybrid", .ulimit = "nofile=1:20001", .fragment = "hard limit of 20000"},
        {.machine = "v2-root", .ulimit = "nofile=2000000"}, /* has CAP_SYS_RESOURCE */
        {.machine = "hybrid", .memory = 1 << 20},
        {.machine = "hybrid", .cpuset = "0", .fragment = "controller \"cpuset\" is not delegated"},
        {.machine = "v2-root", .cpuset = "0"},
        {.machine = "v2-user", .memory = 1 << 20},
        {.machine = "v2-user",
         .cpuset = "0-1",
         .fragment = "rootless podman: controller \"cpuset\" is not delegated (have: cpu io memory "
                     "pids)"},
        {.machine = "v1", .memory = 1 << 20, .fragment = "ignores it without a word"},
        {.machine = "v1", .cpuset = "0", .fragment = "ignores it without a word"},
        {.machine = "hybrid", .device = "/dev/nosuch", .fragment = "/dev/nosuch does not exist"},
        {.machine = "hybrid", .device = "/dev/null:/dev/x:rw"},
        {.machine = "hybrid", .device = "nvidia.com/gpu=all", .fragment = "no CDI specification"},
        {.machine = "hybrid", .userns = "keep-id", .fragment = "rootless podman only"},
        {.machine = "v2-user", .userns = "keep-id"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b;
        omp_init(&b, "podman");
        use_machine(rows[i].machine);
        b.spec.rootfs = mem_strdup("/");
        b.spec.cpuset = mem_strdup(rows[i].cpuset);
        b.spec.userns = mem_strdup(rows[i].userns);
        b.spec.memory_bytes = rows[i].memory;
        if (rows[i].ulimit)
            strv_push(&b.spec.ulimits, rows[i].ulimit);
        if (rows[i].device)
            strv_push(&b.spec.devices, rows[i].device);
        auto_error struct error err = ERROR_INIT;
        if (rows[i].fragment)
            bench_refuses(&b, false, NCBENCH_EXIT_ENVIRONMENT, rows[i].fragment);
        else
            CU_ASSERT_EQUAL(check(&b, false, &err), 0);
        if (err.message)
            printf("  row %zu: %s\n", i, err.message);
        bench_release(&b);
    }
}

static void podman_absent(void)
{
    struct bench b;
    omp_init(&b, "podman");
    b.spec.rootfs = mem_strdup("/");
    setenv("PATH", "/nosuch", 1);
    bench_refuses(&b, false, NCBENCH_EXIT_ENVIRONMENT, "podman not found on PATH");
    struct runtime_probe probe = {0};
    runtime_podman.probe(&probe);
    CU_ASSERT_FALSE(probe.available);
    CU_ASSERT_PTR_NOT_NULL(strstr(probe.why, "apt-get install podman"));
    runtime_probe_release(&probe);
    setenv("PATH", "/usr/bin:/bin", 1);
    bench_release(&b);
}

static char *conf_of(const char *machine)
{
    struct bench b;
    omp_init(&b, "podman");
    auto_free char *dir = unit_tmpdir();
    auto_error struct error err = ERROR_INIT;
    use_machine(machine);
    CU_ASSERT_EQUAL(runtime_podman.prepare(&b.spec, dir, &err), 0);
    CU_ASSERT_EQUAL(runtime_podman.prepare(&b.spec, dir, &err), 0); /* idempotent */
    auto_free char *path = podman_conf_path(dir);
    struct str text = STR_INIT;
    CU_ASSERT_EQUAL(fs_read_file(path, &text, 1, &err), 0);
    bench_release(&b);
    return str_steal(&text);
}

static void podman_conf(void)
{
    podman_on_path();
    auto_free char *hybrid = conf_of("hybrid");
    CU_ASSERT_PTR_NOT_NULL(strstr(hybrid, "default_ulimits = []\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(hybrid, "[engine]\nruntime = \"runc\"\n"));
    auto_free char *v2 = conf_of("v2-root");
    CU_ASSERT_PTR_NOT_NULL(strstr(v2, "default_ulimits = []\n"));
    CU_ASSERT_PTR_NULL(strstr(v2, "runc"));
}

/* ---- classify -------------------------------------------------------------------------------- */
#define RUNC "Error: runc: runc create failed: unable to start container process: "
#define EXITED(n) ((n) << 8)

static void podman_classify_table(void)
{
    const struct {
        int status;
        const char *text;
        enum outcome want;
        const char *reason; /* a fragment */
    } rows[] = {
        {EXITED(125), "Error: localhost/none:1: image not known", OUTCOME_UNAVAILABLE,
         "image not known"},
        {EXITED(125), "Error: unknown flag: --nosuch\nSee 'podman run --help'", OUTCOME_UNAVAILABLE,
         "exit 125: Error: unknown flag: --nosuch"},
        {EXITED(125), "Error: stat /dev/nosuch: no such file or directory", OUTCOME_UNAVAILABLE,
         "/dev/nosuch"},
        {EXITED(125), "Error: statfs /nosuch: no such file or directory", OUTCOME_UNAVAILABLE,
         "/nosuch"},
        {EXITED(125), "Error: invalid config provided: cannot set shmsize", OUTCOME_RUNTIME_FAILED,
         "shmsize"},
        {EXITED(125), "", OUTCOME_RUNTIME_FAILED, "exit 125"},
        {EXITED(126), "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=7",
         OUTCOME_RUNTIME_FAILED, "CDI"},
        {EXITED(126), "Error: workdir \"/nosuchdir\" does not exist on container 35078",
         OUTCOME_RUNTIME_FAILED, "workdir"},
        {EXITED(126), "Error: unable to find user nosuch: no matching entries in passwd file",
         OUTCOME_RUNTIME_FAILED, "user nosuch"},
        {EXITED(126),
         "Error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied",
         OUTCOME_RUNTIME_FAILED, "setrlimit"},
        {EXITED(126),
         RUNC "error during container init: error setting rlimits for ready process: error setting "
              "rlimit type 7: operation not permitted: OCI permission denied",
         OUTCOME_RUNTIME_FAILED, "rlimit type 7"},
        {EXITED(126),
         "Error: OCI runtime error: crun: cgroups in hybrid mode not supported, drop all "
         "controllers from cgroupv2",
         OUTCOME_RUNTIME_FAILED, "hybrid"},
        {EXITED(126), RUNC "exec: \"/etc/passwd\": permission denied: OCI permission denied",
         OUTCOME_NOT_EXECUTABLE, "/etc/passwd"},
        {EXITED(126), "Error: crun: open executable: Permission denied: OCI permission denied",
         OUTCOME_NOT_EXECUTABLE, "open executable"},
        {EXITED(126), "", OUTCOME_NOT_EXECUTABLE, "exit 126"},
        {EXITED(127),
         RUNC "exec: \"/nosuch\": stat /nosuch: no such file or directory: OCI runtime attempted "
              "to invoke a command that was not found",
         OUTCOME_NOT_FOUND, "/nosuch"},
        {EXITED(127),
         RUNC "exec: \"nosuch\": executable file not found in $PATH: OCI runtime attempted to "
              "invoke a command that was not found",
         OUTCOME_NOT_FOUND, "nosuch"},
        {EXITED(127),
         "Error: crun: executable file `/nosuch` not found in $PATH: No such file or directory: "
         "OCI runtime attempted to invoke a command that was not found",
         OUTCOME_NOT_FOUND, "/nosuch"},
        {EXITED(127), "", OUTCOME_NOT_FOUND, "exit 127"},
        {EXITED(127),
         "nanochat: error while loading shared libraries: libx.so: cannot open shared object file",
         OUTCOME_RUNTIME_FAILED, "libx.so"},
        {EXITED(1), "ERROR (catatonit:6): failed to exec pid1: No such file or directory",
         OUTCOME_NOT_FOUND, "failed to exec"},
        {EXITED(1), "ERROR (catatonit:6): failed to exec pid1: Permission denied",
         OUTCOME_NOT_EXECUTABLE, "failed to exec"},
        {EXITED(1), "standard_init_linux.go:228: exec user process caused: exec format error",
         OUTCOME_NOT_EXECUTABLE, "exec format error"},
        {EXITED(1), "boom", OUTCOME_RUNTIME_FAILED, "exit 1: boom"},
        {EXITED(0), "", OUTCOME_RUNTIME_FAILED, "exit 0 before it said hello"},
        {EXITED(137), "", OUTCOME_SIGNALLED, "signal 9"},
        {EXITED(143), "", OUTCOME_SIGNALLED, "signal 15"},
        {9, "", OUTCOME_SIGNALLED, "signal 9"},
        {11 | 0x80, "", OUTCOME_SIGNALLED, "core dumped"},
        {EXITED(125),
         "time=\"2026\" level=warning msg=\"Error validating CNI config file 87-podman-bridge"
         ".conflist\"\n\"/\" is not a shared mount, this could cause issues\n"
         "\033[31mError: localhost/none:1: image not known\033[0m\n",
         OUTCOME_UNAVAILABLE, "exit 125: Error: localhost/none:1: image not known"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct runtime_evidence evidence = {rows[i].status, false, rows[i].text};
        auto_str reason = STR_INIT;
        enum outcome got = runtime_podman.classify(&evidence, &reason);
        CU_ASSERT_STR(outcome_name(got), outcome_name(rows[i].want));
        bool told = strstr(reason.data, rows[i].reason) != NULL;
        CU_ASSERT(told);
        CU_ASSERT_PTR_NULL(strstr(reason.data, "level=warning"));
        if (!told || got != rows[i].want)
            printf("  row %zu: %s\n", i, reason.data);
    }
}

static void reasons_are_bounded(void)
{
    auto_str text = STR_INIT;
    str_append(&text, "Error: ");
    while (text.len < 5000)
        str_append(&text, "ü");
    struct runtime_evidence evidence = {EXITED(125), false, text.data};
    auto_str reason = STR_INIT;
    runtime_podman.classify(&evidence, &reason);
    CU_ASSERT(reason.len < 500);
    CU_ASSERT_EQUAL(str_utf8_valid(reason.data, reason.len), reason.len);
    evidence.stderr_tail = NULL;
    runtime_podman.classify(&evidence, &reason);
}

static void direct_classify(void)
{
    const struct {
        const char *kind;
        int status;
        const char *text;
        enum outcome want;
    } rows[] = {
        {"bare", EXITED(125), "", OUTCOME_RUNTIME_FAILED},
        {"bare", EXITED(126), "", OUTCOME_NOT_EXECUTABLE},
        {"bare", EXITED(127), "", OUTCOME_NOT_FOUND},
        {"bare", EXITED(1), "", OUTCOME_RUNTIME_FAILED},
        {"bare", 11, "", OUTCOME_SIGNALLED},
        {"command", EXITED(1), "bwrap: execvp /nosuch: No such file or directory",
         OUTCOME_NOT_FOUND},
        {"command", EXITED(1), "bwrap: execvp /etc/passwd: Permission denied",
         OUTCOME_NOT_EXECUTABLE},
        {"command", EXITED(1), "bwrap: Can't find source path /x: No such file or directory",
         OUTCOME_RUNTIME_FAILED},
        {"command", EXITED(1),
         "ch-run[7]: error: can't execve(2): /nosuch: No such file or directory",
         OUTCOME_NOT_FOUND},
        {"command", EXITED(2), "slurmstepd: error: execve(): x: No such file or directory",
         OUTCOME_NOT_FOUND},
        {"command", EXITED(13), "error: execve(): /etc/passwd: Permission denied",
         OUTCOME_NOT_EXECUTABLE},
        {"command", EXITED(64), "usage", OUTCOME_RUNTIME_FAILED},
        {"command", EXITED(0), "exec: not found", OUTCOME_RUNTIME_FAILED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct runtime_evidence evidence = {rows[i].status, false, rows[i].text};
        auto_str reason = STR_INIT;
        enum outcome got = runtime_find(rows[i].kind)->classify(&evidence, &reason);
        CU_ASSERT_STR(outcome_name(got), outcome_name(rows[i].want));
        CU_ASSERT(reason.len > 0);
    }
}

/* ---- host facts ------------------------------------------------------------------------------ */
static void host_facts(void)
{
    const struct {
        const char *machine;
        enum host_cgroups cgroups;
        bool owns, cap;
        int64_t uid, nofile;
    } rows[] = {
        {"hybrid", HOST_CGROUP_HYBRID, true, false, 0, 20000},
        {"v1", HOST_CGROUP_V1, false, false, 1000, 20000},
        {"v2-root", HOST_CGROUP_V2, false, true, 0, 1048576},
        {"v2-user", HOST_CGROUP_V2, false, false, 1000, 1048576},
        {"nosuch", HOST_CGROUP_NONE, false, false, -1, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        use_machine(rows[i].machine);
        int64_t soft, hard = -1;
        CU_ASSERT_EQUAL(host_cgroups(), rows[i].cgroups);
        CU_ASSERT_EQUAL(host_hybrid_owns_controllers(), rows[i].owns);
        CU_ASSERT_EQUAL(host_has_cap(HOST_CAP_SYS_RESOURCE), rows[i].cap);
        CU_ASSERT_EQUAL(host_ulimit("nofile", &soft, &hard), rows[i].nofile > 0);
        CU_ASSERT_EQUAL(hard, rows[i].nofile);
        CU_ASSERT_EQUAL(host_uid(), rows[i].uid < 0 ? (int64_t)geteuid() : rows[i].uid);
    }
    use_machine("v2-root");
    int64_t soft, hard = 0;
    CU_ASSERT(host_ulimit("memlock", &soft, &hard));
    CU_ASSERT_EQUAL(hard, HOST_UNLIMITED);
    use_machine(NULL);
    CU_ASSERT(host_words_contain("cpu io memory", "io"));
    CU_ASSERT_FALSE(host_words_contain("cpuset io", "cpu"));
    CU_ASSERT_FALSE(host_words_contain("acpu", "cpu"));
}

UNIT_MAIN({"registry", registry}, {"program path", program_path}, {"mounts parse", mounts_parse},
          {"mounts csv", mounts_csv}, {"mounts are checked", mounts_are_checked},
          {"bare argv", bare_argv}, {"command argv", command_argv},
          {"command checks", command_checks}, {"podman argv with an image", podman_argv_image},
          {"podman argv with a rootfs", podman_argv_rootfs},
          {"podman names are unique", podman_names_are_unique},
          {"podman init is used where it is", podman_init_is_used_where_it_is},
          {"podman spec checks", podman_spec_checks},
          {"podman machine checks", podman_machine_checks}, {"podman absent", podman_absent},
          {"podman conf", podman_conf}, {"podman classify", podman_classify_table},
          {"reasons are bounded", reasons_are_bounded}, {"direct classify", direct_classify},
          {"host facts", host_facts})
