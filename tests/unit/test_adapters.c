/* The runtimes beyond bare and podman, without any of them: golden argument vectors, and what
 * cannot be expressed. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/edf.h"
#include "runtimes/oci_bundle.h"
#include "runtimes/root_view.h"
#include "tests/unit/launch_bench.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A launch with the usual mounts and a variable of every kind that the runtime can pass. */
static void view_init(struct bench *b, const char *kind)
{
    use_machine("hybrid");
    bench_init(b, kind, "/s/trials/t");
    strv_push(&b->env, "HOME=/home/u");
    strv_push(&b->env, "OMP_NUM_THREADS=1");
    strv_push(&b->env, "A=b=\"c d\" $X");
    mounts_add(&b->mounts, "/s/trials/t", "/s/trials/t", false);
    mounts_add(&b->mounts, "/data/in put", "/in", true);
}

static void refuses(struct bench *b, const char *fragment)
{
    bench_refuses(b, true, NCBENCH_EXIT_SCENARIO, fragment);
}

static void accepts(struct bench *b)
{
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(runtime_find(b->spec.kind)->check(&b->spec, &b->mounts, true, &err), 0);
    CU_ASSERT_STR(err.message, NULL);
}

/* What argv itself must refuse: the trial's own mounts and variables are seen by no check. */
static void argv_refuses(struct bench *b, const char *fragment)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(runtime_find(b->spec.kind)->argv(&b->launch, &argv, &env, &err),
                    -NCBENCH_EXIT_SCENARIO);
    CU_ASSERT_PTR_NOT_NULL(err.message);
    CU_ASSERT(err.message && strstr(err.message, fragment));
}

static void set(char **field, const char *value)
{
    free(*field);
    *field = mem_strdup(value);
}

/* ---- docker ---------------------------------------------------------------------------------- */
static void docker(void)
{
    struct bench b;
    view_init(&b, "docker");
    set(&b.spec.image, "localhost/x:1");
    set(&b.spec.cpuset, "0-3");
    b.spec.shm_size_bytes = 1 << 30;
    b.spec.memory_bytes = 1 << 20;
    strv_push(&b.spec.ulimits, "memlock=unlimited");
    strv_push(&b.spec.devices, "/dev/null");
    auto_free char *text = bench_argv(&b, NULL);
    CU_ASSERT_STR(text, "docker\nrun\n--rm\n--init\n--name=ncbench-c00.b01.arm-00af5313\n"
                        "--pull=never\n--network=host\n--ipc=private\n--shm-size=1073741824b\n"
                        "--cpuset-cpus=0-3\n--memory=1048576b\n--ulimit=memlock=-1:-1\n"
                        "--env=HOME=/home/u\n--env=OMP_NUM_THREADS=1\n--env=A=b=\"c d\" $X\n"
                        "--mount=type=bind,source=/s/trials/t,target=/s/trials/t\n"
                        "--mount=type=bind,source=/data/in put,target=/in,readonly\n"
                        "--device=/dev/null\n--workdir=/s/trials/t\n--entrypoint=\n"
                        "localhost/x:1\n/usr/local/bin/nanochat\ninfo\n");
    accepts(&b);
    set(&b.spec.image, "/x.tar");
    refuses(&b, "expected a reference in docker's store");
    set(&b.spec.image, "");
    set(&b.spec.rootfs, "/");
    refuses(&b, "other than /");
    set(&b.spec.rootfs, "/r");
    auto_free char *import = bench_argv(&b, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(import, "\nlocalhost/ncbench/import-"));
    strv_push(&b.spec.options, "-v/a:/b");
    refuses(&b, "docker creates an absent source");
    auto_strv removal = STRV_INIT; /* the same name as in argv, on every node of a step */
    runtime_find("docker")->remove_argv(&b.launch, &removal);
    CU_ASSERT_EQUAL_FATAL(removal.count, 5);
    CU_ASSERT_STR(removal.items[2], "--force");
    CU_ASSERT_STR(removal.items[4], "ncbench-c00.b01.arm-00af5313");
    bench_release(&b);

    view_init(&b, "docker"); /* not as root: files of the trial stay the user's */
    use_machine("v2-user");
    set(&b.spec.image, "x:1");
    auto_free char *user = bench_argv(&b, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(user, "\n--user=1000:1000\n"));
    bench_release(&b);
}

/* ---- podman, rootless -------------------------------------------------------------------------
 */
static void write_file(const char *dir, const char *name, const char *text)
{
    auto_free char *path = mem_printf("%s/%s", dir, name);
    auto_free char *parent = fs_dirname(path);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(fs_mkdir_p(parent, 1, &err), 0);
    CU_ASSERT_EQUAL(fs_write_atomic(path, text, strlen(text), 1, &err), 0);
}

/* The host's IPC namespace needs /dev/mqueue there; where there is none, /dev/shm is mounted. */
static void podman_rootless(void)
{
    struct bench b;
    view_init(&b, "podman");
    auto_free char *dir = unit_tmpdir();
    write_file(dir, "proc/self/status", "Uid:\t1000\t1000\t1000\t1000\n");
    write_file(dir, "dev/shm/x", "");
    setenv(ENV_FSROOT, dir, 1);
    set(&b.spec.image, "localhost/x:1");
    set(&b.spec.userns, "keep-id");
    auto_free char *without = bench_argv(&b, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(without, "\n--network=host\n--ipc=private\n--userns=keep-id\n"
                                           "--mount=type=bind,source=/dev/shm,target=/dev/shm\n"));
    write_file(dir, "dev/mqueue/x", "");
    auto_free char *with = bench_argv(&b, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(with, "\n--ipc=host\n--userns=keep-id\n--env="));
    write_file(dir, "proc/self/status", "Uid:\t0\t0\t0\t0\n");
    auto_free char *root = bench_argv(&b, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(root, "\n--ipc=host\n"));
    bench_release(&b);
}

/* ---- charliecloud ---------------------------------------------------------------------------- */
static void charliecloud(void)
{
    struct bench b;
    view_init(&b, "charliecloud");
    set(&b.spec.rootfs, "/r");
    auto_strv env = STRV_INIT;
    auto_free char *text = bench_argv(&b, &env);
    CU_ASSERT_STR(text, "ch-run\n--bind=/s/trials/t:/s/trials/t\n--bind=/data/in put:/in\n"
                        "--cd=/s/trials/t\n--unset-env=USER\n/s/charliecloud/6588117f7b51/root\n"
                        "--\n/usr/local/bin/nanochat\ninfo\n");
    CU_ASSERT_EQUAL(env.count, b.env.count + 1); /* USER is taken out again */
    refuses(&b, "cannot mount /data/in put read-only");
    b.mounts.items[1].read_only = false;
    accepts(&b);
    strv_push(&b.env, "USER=me");
    auto_free char *user = bench_argv(&b, NULL);
    CU_ASSERT_PTR_NULL(strstr(user, "--unset-env"));
    set(&b.mounts.items[1].source, "/a:b");
    refuses(&b, "cannot mount a path containing \":\"");
    argv_refuses(&b, "cannot mount a path containing \":\"");
    set(&b.mounts.items[1].source, "/a");
    strv_push(&b.spec.options, "--write");
    refuses(&b, "option --write is not allowed");
    strv_clear(&b.spec.options);
    set(&b.spec.rootfs, "/");
    refuses(&b, "other than /");
    set(&b.spec.rootfs, "");
    set(&b.spec.image, "/x.img");
    refuses(&b, "expected a .sqsh, .sqfs or .tar file");
    set(&b.spec.image, "/x.sqfs");
    accepts(&b);
    bench_release(&b);
}

/* ---- crun ------------------------------------------------------------------------------------ */
static void crun_argv(void)
{
    struct bench b;
    view_init(&b, "crun");
    set(&b.spec.rootfs, "/r");
    auto_free char *hybrid = bench_argv(&b, NULL);
    CU_ASSERT_STR(hybrid, "runc\n--root\n/s/crun/state\nrun\n--bundle\n"
                          "/s/crun/bundles/ncbench-c00.b01.arm-00af5313\n"
                          "ncbench-c00.b01.arm-00af5313\n");
    use_machine("v2-root");
    auto_free char *v2 = bench_argv(&b, NULL);
    CU_ASSERT_STR(v2, "crun\n--root\n/s/crun/state\n--cgroup-manager=disabled\nrun\n--bundle\n"
                      "/s/crun/bundles/ncbench-c00.b01.arm-00af5313\n"
                      "ncbench-c00.b01.arm-00af5313\n");
    accepts(&b);
    strv_push(&b.spec.devices, "nvidia.com/gpu=all");
    refuses(&b, "expected the path of a device node");
    bench_release(&b);
}

static const json_t *mount_at(const json_t *config, const char *target)
{
    size_t i;
    json_t *m, *found = NULL;
    json_array_foreach(json_object_get(config, "mounts"), i, m)
    {
        if (!strcmp(json_string_value(json_object_get(m, "destination")), target))
            found = m;
    }
    return found;
}

static void crun_config(void)
{
    struct bench b;
    view_init(&b, "crun");
    set(&b.spec.ipc, "private");
    b.spec.shm_size_bytes = 12345678;
    strv_push(&b.spec.ulimits, "memlock=unlimited");
    strv_push(&b.spec.devices, "/dev/null");
    strv_push(&b.env, "NL=a\nb");
    auto_json *c = NULL;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(oci_bundle_config(&b.launch, "/view", &c, &err), 0);
    CU_ASSERT_STR(json_read_str(c, "root.path"), "/view");
    CU_ASSERT_STR(json_read_str(c, "process.cwd"), "/s/trials/t");
    CU_ASSERT_EQUAL(json_array_size(json_at(c, "process.env")), 4);
    CU_ASSERT_STR(json_string_value(json_array_get(json_at(c, "process.env"), 3)), "NL=a\nb");
    CU_ASSERT_STR(json_read_str(mount_at(c, "/dev/shm"), "type"), "tmpfs");
    CU_ASSERT_STR(json_read_str(mount_at(c, "/in"), "source"), "/data/in put");
    auto_free char *options = json_dumps(json_object_get(mount_at(c, "/in"), "options"), 0);
    CU_ASSERT_STR(options, "[\"rbind\", \"ro\"]");
    CU_ASSERT_EQUAL(json_array_size(json_at(c, "linux.namespaces")), 3); /* and ipc */
    CU_ASSERT_PTR_NOT_NULL(json_at(c, "linux.resources"));
    CU_ASSERT_PTR_NULL(json_at(c, "linux.uidMappings"));
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/config.json", dir);
    auto_str text = STR_INIT;
    CU_ASSERT_EQUAL(oci_bundle_write(&b.launch, "/view", path, &err), 0);
    CU_ASSERT_EQUAL(fs_read_file(path, &text, 1, &err), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "\"hard\": 18446744073709551615"));
    CU_ASSERT_PTR_NULL(strstr(text.data, OCI_BUNDLE_UNLIMITED));
    /* By an ordinary user: a user namespace, no devices cgroup. */
    auto_json *user = NULL;
    use_machine("v2-user");
    CU_ASSERT_EQUAL(oci_bundle_config(&b.launch, "/view", &user, &err), 0);
    CU_ASSERT_PTR_NOT_NULL(json_at(user, "linux.uidMappings"));
    CU_ASSERT_PTR_NULL(json_at(user, "linux.resources"));
    bench_release(&b);
}

/* ---- apptainer ------------------------------------------------------------------------------- */
static void apptainer(void)
{
    struct bench b;
    view_init(&b, "apptainer");
    set(&b.spec.image, "/x.sif");
    strv_push(&b.spec.options, "--writable-tmpfs");
    strv_push(&b.env, "NL=a\nb");
    auto_strv env = STRV_INIT;
    auto_free char *text = bench_argv(&b, &env);
    CU_ASSERT_STR(text,
                  "apptainer\n--quiet\nexec\n--cleanenv\n--no-eval\n--no-home\n--no-mount=cwd\n"
                  "--home=/home/u\n"
                  "--no-privs\n--mount=type=bind,source=/s/trials/t,target=/s/trials/t\n"
                  "--mount=type=bind,source=/data/in put,target=/in,readonly\n"
                  "--pwd=/s/trials/t\n--writable-tmpfs\n/x.sif\n/usr/local/bin/nanochat\ninfo\n");
    CU_ASSERT(strv_contains(&env, "APPTAINERENV_NL=a\nb"));
    CU_ASSERT(!strv_contains(&env, "APPTAINERENV_HOME=/home/u"));
    accepts(&b);
    strv_push(&b.spec.env, "HOME=/x");
    accepts(&b);
    set(&b.spec.env.items[0], "HOME=/x:/y");
    refuses(&b, "cannot pass variable HOME=/x:/y");
    strv_env_set(&b.env, "HOME", "relative");
    argv_refuses(&b, "cannot pass variable HOME=relative");
    bench_release(&b);
}

/* ---- enroot ---------------------------------------------------------------------------------- */
static void enroot(void)
{
    struct bench b;
    view_init(&b, "enroot");
    set(&b.spec.image, "/x.sqsh");
    strv_push(&b.env, "NL=a\nb"); /* by the script alone */
    strv_push(&b.env, "SLURM_NODEID");
    set(&b.mounts.items[1].target, "/back\\slash");
    auto_free char *text = bench_argv(&b, NULL);
    auto_free char *name = client_session_name("ncbench", "/s", "/x.sqsh");
    auto_free char *want =
        mem_printf("enroot\nstart\n--rc=/s/trials/t/enroot.c00.b01.arm.rc\n"
                   "--mount=/s/trials/t:/s/trials/t:none:x-create=auto,rbind,rw\n"
                   "--mount=/data/in\\040put:/back\\134slash:none:x-create=auto,rbind,ro\n"
                   "--env=OMP_NUM_THREADS=1\n--env=A=b=\"c d\" $X\n--env=SLURM_NODEID\n%s\n"
                   "/usr/local/bin/nanochat\ninfo\n",
                   name);
    CU_ASSERT_STR(text, want);
    accepts(&b);
    strv_push(&b.spec.env, "a.b=1");
    refuses(&b, "cannot pass variable a.b");
    strv_clear(&b.spec.env);
    set(&b.mounts.items[1].target, "/a:b");
    refuses(&b, "cannot mount a path containing \":\"");
    argv_refuses(&b, "cannot mount a path containing \":\"");
    set(&b.spec.image, "docker://x");
    refuses(&b, "expected the absolute path of a squashfs");
    bench_release(&b);
}

static void enroot_script(void)
{
    struct bench b;
    view_init(&b, "enroot");
    auto_free char *dir = unit_tmpdir();
    set(&b.spec.image, "/x.sqsh");
    strv_clear(&b.env);
    strv_push(&b.env, "NL=a\nb");
    strv_push(&b.env, "Q='\"$(id)`");
    strv_push(&b.env, "SLURM_NODEID"); /* its value is not known here: --env brings it */
    b.launch.trial_dir = b.launch.cwd = dir;
    auto_error struct error err = ERROR_INIT;
    auto_str text = STR_INIT;
    CU_ASSERT_EQUAL(runtime_enroot.create(&b.launch, &err), 0);
    auto_free char *path = mem_printf("%s/enroot.c00.b01.arm.rc", dir);
    CU_ASSERT_EQUAL(fs_read_file(path, &text, 1, &err), 0);
    auto_free char *want = mem_printf("# Written by ncbench: the environment, the directory, the "
                                      "program.\nexport NL='a\nb'\nexport Q=''\\''\"$(id)`'\n"
                                      "cd '%s' || exit 1\nunset SHLVL OLDPWD\nexec \"$@\"\n",
                                      dir);
    CU_ASSERT_STR(text.data, want);
    bench_release(&b);
}

static void enroot_nodes(void)
{
    struct bench b;
    view_init(&b, "enroot");
    set(&b.spec.image, "/x.sqsh");
    auto_free char *name = client_session_name("ncbench", "/s", "/x.sqsh");
    auto_strv prepare = STRV_INIT, cleanup = STRV_INIT;
    runtime_enroot.node_prepare(&b.spec, "/s", &prepare);
    CU_ASSERT_EQUAL_FATAL(prepare.count, 6);
    CU_ASSERT_STR(prepare.items[0], "sh");
    CU_ASSERT_STR(prepare.items[4], name);
    CU_ASSERT_STR(prepare.items[5], "/x.sqsh");
    runtime_enroot.node_cleanup(&b.spec, "/s", &cleanup);
    CU_ASSERT_EQUAL_FATAL(cleanup.count, 5);
    CU_ASSERT_STR(cleanup.items[4], name);
    bench_release(&b);
}

/* ---- pyxis ----------------------------------------------------------------------------------- */
static void pyxis_argv(void)
{
    struct bench b;
    view_init(&b, "pyxis");
    set(&b.spec.image, "/x.sqsh");
    auto_strv env = STRV_INIT;
    auto_free char *text = bench_argv(&b, &env);
    CU_ASSERT_STR(text, "--container-image=/x.sqsh\n"
                        "--container-mounts=/s/trials/t:/s/trials/t:x-create=auto+rbind,"
                        "/data/in put:/in:x-create=auto+rbind+ro\n"
                        "--container-workdir=/s/trials/t\n"
                        "--container-env=OMP_NUM_THREADS,A\n--container-readonly\n"
                        "--no-container-mount-home\n--no-container-remap-root\n"
                        "--no-container-entrypoint\n");
    CU_ASSERT_EQUAL(env.count, b.env.count);
    CU_ASSERT(runtime_find("pyxis")->flags & RUNTIME_SRUN);
    /* A mount makes HOME's directory, and an option takes the place of ours. */
    mounts_add(&b.mounts, "/home/u/.cache", "/home/u/.cache", false);
    strv_push(&b.spec.options, "--container-writable");
    auto_free char *more = bench_argv(&b, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(more, "\n--container-env=HOME,OMP_NUM_THREADS,A\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(more, "\n--container-writable\n"));
    CU_ASSERT_PTR_NULL(strstr(more, "--container-readonly"));
    bench_release(&b);
}

static void pyxis_named(void)
{
    struct bench b;
    view_init(&b, "pyxis");
    set(&b.spec.image, "/x.sqsh");
    auto_strv none = STRV_INIT;
    runtime_pyxis.node_prepare(&b.spec, "/s", &none); /* each step makes its own */
    runtime_pyxis.node_cleanup(&b.spec, "/s", &none);
    CU_ASSERT_EQUAL(none.count, 0);
    strv_push(&b.spec.options, "--container-name=keep");
    accepts(&b);
    auto_free char *name = client_session_name("keep", "/s", "/x.sqsh");
    auto_free char *option = mem_printf("\n--container-name=%s:no_exec\n", name);
    auto_free char *text = bench_argv(&b, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, option));
    CU_ASSERT_PTR_NULL(strstr(text, "--container-name=keep\n"));
    auto_strv prepare = STRV_INIT, cleanup = STRV_INIT;
    runtime_pyxis.node_prepare(&b.spec, "/s", &prepare);
    auto_str words = STR_INIT;
    for (size_t i = 0; i < prepare.count; i++)
        str_appendf(&words, "%s\n", prepare.items[i]);
    auto_free char *want =
        mem_printf("--container-image=/x.sqsh\n--container-readonly\n--no-container-mount-home\n"
                   "--no-container-remap-root\n--no-container-entrypoint%ssh\n-c\ntrue\n",
                   option);
    CU_ASSERT_STR(words.data, want);
    setenv("SLURM_JOB_ID", "12", 1);
    runtime_pyxis.node_cleanup(&b.spec, "/s", &cleanup);
    unsetenv("SLURM_JOB_ID");
    auto_free char *of_job = mem_printf("pyxis_12_%s", name);
    auto_free char *global = mem_printf("pyxis_%s", name);
    CU_ASSERT_EQUAL_FATAL(cleanup.count, 6);
    CU_ASSERT_STR(cleanup.items[4], of_job);
    CU_ASSERT_STR(cleanup.items[5], global);
    static const char *const bad[] = {"--container-name",
                                      "--container-name=", "--container-name=a:exec",
                                      "--container-name=a/b", NULL};
    for (const char *const *given = bad; *given; given++) {
        strv_clear(&b.spec.options);
        strv_push(&b.spec.options, *given);
        refuses(&b, "expected --container-name=NAME");
    }
    bench_release(&b);
}

static void pyxis_check(void)
{
    struct bench b;
    view_init(&b, "pyxis");
    static const char *const good[] = {"/x.sqsh", "ubuntu:24.04", "me@reg.io:5000#a/b:1", NULL};
    static const char *const bad[] = {"x.sqsh", "./x.sqsh", "../x", "a b", NULL};
    for (const char *const *image = good; *image; image++) {
        set(&b.spec.image, *image);
        accepts(&b);
    }
    for (const char *const *image = bad; *image; image++) {
        set(&b.spec.image, *image);
        refuses(&b, "expected the absolute path of a squashfs");
    }
    set(&b.spec.image, "/x.sqsh");
    static const char *const paths[] = {"/a:b", "/a,b", "/a\nb", "/$a", "/a\"", "/`a`", NULL};
    for (const char *const *path = paths; *path; path++) {
        set(&b.mounts.items[1].target, *path);
        refuses(&b, "cannot mount a path containing");
        argv_refuses(&b, "cannot mount a path containing");
    }
    set(&b.mounts.items[1].target, "/a b");
    strv_push(&b.env, "NL=a\nb");
    argv_refuses(&b, "cannot pass variable NL: its value holds a newline");
    strv_push(&b.spec.options, "--container-env=X");
    refuses(&b, "option --container-env=X is not allowed");
    bench_release(&b);
}

/* ---- the EDF --------------------------------------------------------------------------------- */
static void edf(void)
{
    struct bench b;
    view_init(&b, "cscs-ce");
    set(&b.spec.image, "/x.sqsh");
    strv_push(&b.env, "T=a\tb\\c ${V} $W");
    strv_push(&b.env, "a.b=1");
    strv_push(&b.spec.annotations, "com.hooks.cxi.enabled=true");
    auto_str text = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(edf_write(&b.launch, &edf_ce, &text, &err), 0);
    CU_ASSERT_STR(text.data, "# Written by ncbench for trial c00.b01.arm\n"
                             "image = \"/x.sqsh\"\nworkdir = \"/s/trials/t\"\n"
                             "entrypoint = false\nwritable = true\n"
                             "mounts = [\n    \"/s/trials/t:/s/trials/t\",\n"
                             "    \"/data/in put:/in:ro\",\n]\n\n[env]\n"
                             "OMP_NUM_THREADS = \"1\"\nA = \"b=\\\"c d\\\" $X\"\n"
                             "T = \"a\\tb\\\\c $${V} $W\"\n\"a.b\" = \"1\"\n\n[annotations]\n"
                             "\"com.hooks.cxi.enabled\" = \"true\"\n");
    auto_free char *argv = bench_argv(&b, NULL);
    CU_ASSERT_STR(argv, "--environment=/s/trials/t/environment.toml\n");
    accepts(&b);
    strv_push(&b.env, "E=");
    argv_refuses(&b, "cannot pass variable E: it is empty");
    bench_release(&b);

    view_init(&b, "skybox");
    set(&b.spec.image, "/x.sqsh");
    refuses(&b, "skybox takes no path");
    set(&b.spec.image, "registry.io/a/b:1");
    accepts(&b);
    strv_push(&b.spec.devices, "nvidia.com/gpu=all");
    str_clear(&text);
    CU_ASSERT_EQUAL(edf_write(&b.launch, &edf_skybox, &text, &err), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "devices = [\n    \"nvidia.com/gpu=all\",\n]\n"));
    auto_free char *edf_argv = bench_argv(&b, NULL);
    CU_ASSERT_STR(edf_argv, "--edf=/s/trials/t/environment.toml\n");
    strv_push(&b.env, "X=$${Y}");
    argv_refuses(&b, "an EDF cannot say its value");
    bench_release(&b);
}

static void edf_sayable(void)
{
    CU_ASSERT(edf_can_say("a\tb ${X} $$ \xc3\xa4"));
    CU_ASSERT(!edf_can_say("a\nb"));
    CU_ASSERT(!edf_can_say("$${X}"));
    CU_ASSERT(!edf_can_say("\x01"));
    CU_ASSERT(!edf_can_say("\xff"));
}

/* ---- environment ----------------------------------------------------------------------------- */
static void environment_flags(void)
{
    auto_strv env = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    strv_push(&env, "A=");
    CU_ASSERT_EQUAL(runtime_env_check(&runtime_pyxis, &env, &err), 0);
    CU_ASSERT_EQUAL(runtime_env_check(&runtime_cscs_ce, &env, &err), -NCBENCH_EXIT_SCENARIO);
    strv_clear(&env);
    strv_push(&env, "A=b\nc");
    auto_error struct error second = ERROR_INIT;
    CU_ASSERT_EQUAL(runtime_env_check(&runtime_podman, &env, &second), 0);
    CU_ASSERT_EQUAL(runtime_env_check(&runtime_pyxis, &env, &second), -NCBENCH_EXIT_SCENARIO);
}

/* ---- the session's own root file system ------------------------------------------------------ */
static void root_view(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *source = mem_printf("%s/source", dir);
    auto_free char *program = mem_printf("%s/bin/x", source);
    auto_free char *session = mem_printf("%s/session", dir);
    auto_error struct error err = ERROR_INIT;
    struct stat was, is;
    write_file(source, "bin/x", "program");
    struct runtime_spec spec = {.name = (char *)"arm", .kind = (char *)"crun", .rootfs = source};
    CU_ASSERT_EQUAL(root_view_check(&spec, false, &err), 0);
    CU_ASSERT_EQUAL(root_view_prepare(&spec, session, &err), 0);
    CU_ASSERT_EQUAL(root_view_prepare(&spec, session, &err), 0); /* idempotent */
    auto_free char *root = root_view_path(&spec, session);
    auto_free char *copy = mem_printf("%s/bin/x", root);
    CU_ASSERT_EQUAL(stat(program, &was), 0);
    CU_ASSERT_EQUAL(stat(copy, &is), 0);
    CU_ASSERT_EQUAL(was.st_ino, is.st_ino); /* the same file, no copy */
    if (root_view_mount_point(root, "/a/b/", true, &err) &&
        strstr(err.message, "not implemented")) {
        unit_skip("no openat2 here (as under valgrind)");
        return;
    }
    CU_ASSERT_STR(err.message, NULL);
    CU_ASSERT_EQUAL(root_view_mount_point(root, "/a/file", false, &err), 0);
    CU_ASSERT_EQUAL(root_view_mount_point(root, "/a/file", false, &err), 0);
    /* Links lead inside, whatever they say. */
    auto_free char *link = mem_printf("%s/var", root);
    auto_free char *outside = mem_printf("%s/outside", dir);
    CU_ASSERT_EQUAL(symlink(outside, link), 0);
    CU_ASSERT_EQUAL(root_view_mount_point(root, "/var/x", true, &err), 0);
    CU_ASSERT(!fs_exists(outside));
    auto_free char *inside = mem_printf("%s%s/x", root, outside);
    CU_ASSERT(fs_is_dir(inside));
    auto_free char *loop = mem_printf("%s/loop", root);
    CU_ASSERT_EQUAL(symlink("loop", loop), 0);
    CU_ASSERT_NOT_EQUAL(root_view_mount_point(root, "/loop/x", true, &err), 0);
    auto_error struct error removing = ERROR_INIT;
    CU_ASSERT_EQUAL(root_view_remove(&spec, session, &removing), 0);
    CU_ASSERT(!fs_exists(root));
    CU_ASSERT(fs_exists(program));
}

UNIT_MAIN({"docker", docker}, {"podman rootless", podman_rootless}, {"charliecloud", charliecloud},
          {"crun argv", crun_argv}, {"crun config.json", crun_config}, {"apptainer", apptainer},
          {"enroot", enroot}, {"enroot script", enroot_script}, {"enroot on nodes", enroot_nodes},
          {"pyxis argv", pyxis_argv}, {"pyxis with a name", pyxis_named},
          {"pyxis check", pyxis_check}, {"edf", edf}, {"what an edf can say", edf_sayable},
          {"environment flags", environment_flags}, {"root view", root_view})
