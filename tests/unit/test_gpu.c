/* `gpus: all` of each kind: what it adds to the command line, and what a machine lacks for it. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/edf.h"
#include "runtimes/gpu.h"
#include "runtimes/oci_bundle.h"
#include "tests/unit/launch_bench.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a machine with two GPUs -------------------------------------------------------------------
 */
static void put(const char *root, const char *path, const char *text)
{
    auto_free char *file = mem_printf("%s%s", root, path);
    auto_free char *dir = fs_dirname(file);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(fs_mkdir_p(dir, 1, &err), 0);
    CU_ASSERT_EQUAL_FATAL(fs_write_atomic(file, text, strlen(text), 1, &err), 0);
}

static void put_node(const char *root, const char *name)
{
    auto_free char *file = mem_printf("%s/dev/%s", root, name);
    auto_free char *dir = fs_dirname(file);
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(fs_mkdir_p(dir, 1, &err), 0);
    CU_ASSERT_EQUAL_FATAL(symlink("/dev/null", file), 0);
}

/* Becomes the machine of fs_sys_*; uid 0 or another. Caller frees. */
static char *machine(int uid)
{
    char *root = unit_tmpdir();
    auto_free char *status =
        mem_printf("Uid:\t%d\t%d\t%d\t%d\nGid:\t7\t7\t7\t7\n", uid, uid, uid, uid);
    put(root, "/proc/self/status", status);
    setenv(ENV_FSROOT, root, 1);
    return root;
}

static void add_driver(const char *root)
{
    static const char *const nodes[] = {
        "nvidia0",          "nvidia1",        "nvidiactl", "nvidia-uvm",
        "nvidia-uvm-tools", "nvidia-modeset", "nvidiafoo", "nvidia-caps/nvidia-cap1"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        put_node(root, nodes[i]);
    put(root, "/usr/lib64/libcuda.so.1", "");
    put(root, "/usr/lib64/libcuda.so.550.54", "");
    put(root, "/usr/lib64/libnvidia-ml.so.1", "");
    put(root, "/usr/lib64/libcudart.so.12", ""); /* not the driver's */
}

static void arm(struct bench *b, const char *kind, const char *image)
{
    bench_init(b, kind, "/s/trials/t");
    strv_push(&b->env, "A=1");
    if (*image == '/' && strcmp(kind, "enroot") != 0 && strcmp(kind, "pyxis") != 0)
        b->spec.rootfs = mem_strdup(image);
    else
        b->spec.image = mem_strdup(image);
    b->spec.gpus = mem_strdup("none");
}

static void ask(struct bench *b)
{
    free(b->spec.gpus);
    b->spec.gpus = mem_strdup("all");
}

/* The lines of `with` that `without` has not; caller frees. */
static char *added(const char *without, const char *with)
{
    auto_free char *known = mem_printf("\n%s", without);
    auto_free char *copy = mem_strdup(with);
    auto_str out = STR_INIT;
    char *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        auto_free char *whole = mem_printf("\n%s\n", line);
        if (!strstr(known, whole))
            str_appendf(&out, "%s\n", line);
    }
    return str_steal(&out);
}

/* ---- command lines --------------------------------------------------------------------------- */
#define LIBRARY_BINDS                                                                              \
    "--bind=/usr/lib64/libcuda.so.1:/usr/lib64/libcuda.so.1\n"                                     \
    "--bind=/usr/lib64/libcuda.so.550.54:/usr/lib64/libcuda.so.550.54\n"                           \
    "--bind=/usr/lib64/libnvidia-ml.so.1:/usr/lib64/libnvidia-ml.so.1\n"

static void what_argv_gets(void)
{
    static const struct {
        const char *kind, *image, *lines;
    } rows[] = {
        {"podman", "localhost/x:1", "--device=nvidia.com/gpu=all\n"},
        {"docker", "localhost/x:1", "--device=nvidia.com/gpu=all\n"},
        {"apptainer", "/r", "--nv\n"},
        {"charliecloud", "/r", LIBRARY_BINDS},
        {"crun", "/r", ""}, /* all in config.json */
        {"enroot", "/x.sqsh",
         "--env=NVIDIA_VISIBLE_DEVICES=all\n--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility\n"},
        {"pyxis", "/x.sqsh",
         "--container-env=A,NVIDIA_VISIBLE_DEVICES,NVIDIA_DRIVER_CAPABILITIES\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b;
        auto_free char *root = machine(0);
        add_driver(root);
        arm(&b, rows[i].kind, rows[i].image);
        auto_free char *without = bench_argv(&b, NULL);
        ask(&b);
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(runtime_find(rows[i].kind)->check(&b.spec, &b.mounts, true, &err), 0);
        auto_free char *with = bench_argv(&b, NULL);
        auto_free char *lines = added(without, with);
        CU_ASSERT_STR(lines, rows[i].lines);
        bench_release(&b);
    }
}

/* What the scenario says itself is neither said twice nor overruled. */
static void what_is_said_already(void)
{
    struct bench b;
    auto_free char *root = machine(0);
    arm(&b, "podman", "localhost/x:1");
    strv_push(&b.spec.devices, GPU_CDI_ALL);
    auto_free char *podman = bench_argv(&b, NULL);
    ask(&b);
    auto_free char *podman_too = bench_argv(&b, NULL);
    CU_ASSERT_STR(podman_too, podman);
    bench_release(&b);

    auto_free char *again = machine(0);
    arm(&b, "pyxis", "/x.sqsh");
    ask(&b);
    strv_push(&b.env, "NVIDIA_VISIBLE_DEVICES=0");
    auto_strv env = STRV_INIT;
    auto_free char *pyxis = bench_argv(&b, &env);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(pyxis, "\n--container-env=A,NVIDIA_VISIBLE_DEVICES,NVIDIA_DRIVER_CAPABILITIES\n"));
    CU_ASSERT_STR(strv_env_get(&env, "NVIDIA_VISIBLE_DEVICES"), "0");
    CU_ASSERT_STR(strv_env_get(&env, "NVIDIA_DRIVER_CAPABILITIES"), "compute,utility");
    bench_release(&b);
}

static void edfs(void)
{
    struct bench b;
    auto_free char *root = machine(0);
    auto_error struct error err = ERROR_INIT;
    auto_str ce = STR_INIT, skybox = STR_INIT;
    arm(&b, "cscs-ce", "reg.io/x:1");
    ask(&b);
    CU_ASSERT_EQUAL(edf_write(&b.launch, &edf_ce, &ce, &err), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(ce.data, "[env]\nA = \"1\"\nNVIDIA_VISIBLE_DEVICES = \"all\"\n"
                                           "NVIDIA_DRIVER_CAPABILITIES = \"compute,utility\"\n"));
    CU_ASSERT_PTR_NULL(strstr(ce.data, "devices ="));
    CU_ASSERT_EQUAL(edf_write(&b.launch, &edf_skybox, &skybox, &err), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(skybox.data, "devices = [\n    \"nvidia.com/gpu=all\",\n]\n"));
    CU_ASSERT_PTR_NULL(strstr(skybox.data, "NVIDIA_"));
    bench_release(&b);
}

/* ---- config.json ----------------------------------------------------------------------------- */
static void list_of(const json_t *array, const char *key, const char *prefix, struct str *out)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item)
    {
        const char *text = json_string_value(json_object_get(item, key));
        if (strstr(text, prefix))
            str_appendf(out, "%s\n", text);
    }
}

#define NODES                                                                                      \
    "/dev/nvidia-uvm\n/dev/nvidia-uvm-tools\n/dev/nvidia0\n/dev/nvidia1\n/dev/nvidiactl\n"         \
    "/dev/nvidia-caps/nvidia-cap1\n"
#define LIBRARIES                                                                                  \
    "/usr/lib64/libcuda.so.1\n/usr/lib64/libcuda.so.550.54\n/usr/lib64/libnvidia-ml.so.1\n"

static void bundle(int uid, const char *devices, const char *mounts)
{
    struct bench b;
    auto_free char *root = machine(uid);
    auto_json *c = NULL;
    auto_error struct error err = ERROR_INIT;
    auto_str nodes = STR_INIT, binds = STR_INIT;
    add_driver(root);
    arm(&b, "crun", "/r");
    ask(&b);
    CU_ASSERT_EQUAL_FATAL(oci_bundle_config(&b.launch, "/view", &c, &err), 0);
    list_of(json_at(c, "linux.devices"), "path", "", &nodes);
    CU_ASSERT_STR(nodes.data, devices);
    list_of(json_at(c, "mounts"), "destination", "/usr/lib64", &binds);
    list_of(json_at(c, "mounts"), "destination", "/dev/nvidia", &binds);
    CU_ASSERT_STR(binds.data, mounts);
    bench_release(&b);
}

/* An ordinary user can make no nodes: those of the host are mounted. */
static void nodes_and_libraries(void)
{
    bundle(0, NODES, LIBRARIES);
    bundle(1000, "", LIBRARIES NODES);
}

/* ---- what is missing ------------------------------------------------------------------------- */
static void lacks(const struct runtime_spec *spec, unsigned needs, const char *message)
{
    auto_error struct error err = ERROR_INIT;
    int rc = gpu_check_host(spec, needs, &err);
    CU_ASSERT_EQUAL(rc, message ? -NCBENCH_EXIT_ENVIRONMENT : 0);
    CU_ASSERT_STR(err.message, message);
    if (message)
        CU_ASSERT_PTR_NOT_NULL(err.hint);
}

static void preflight(void)
{
    struct runtime_spec spec = {.name = (char *)"arm", .gpus = (char *)"none"};
    auto_free char *root = machine(0);
    auto_free char *path = mem_strdup(getenv("PATH"));
    lacks(&spec, GPU_NEEDS_CDI | GPU_NEEDS_LIBRARIES, NULL);
    spec.gpus = (char *)"all";
    lacks(&spec, GPU_NEEDS_CDI | GPU_NEEDS_LIBRARIES,
          "runtime arm: gpus: missing here: /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0 or "
          "another GPU's; a CDI specification of nvidia.com/gpu in /etc/cdi or /var/run/cdi; "
          "libcuda.so.1 in the usual "
          "directories");
    add_driver(root);
    lacks(&spec, 0, NULL);
    lacks(&spec, GPU_NEEDS_LIBRARIES, NULL);
    put(root, "/etc/cdi/other.yaml", "kind: other.com/net\n");
    lacks(&spec, GPU_NEEDS_CDI,
          "runtime arm: gpus: missing here: a CDI specification of nvidia.com/gpu in /etc/cdi or "
          "/var/run/cdi");
    put(root, "/var/run/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n");
    lacks(&spec, GPU_NEEDS_CDI, NULL);
    /* enroot's hook, and the program that it calls */
    put(root, "/bin/nvidia-container-cli", "#!/bin/sh\n");
    auto_free char *bin = mem_printf("%s/bin", root);
    auto_free char *cli = mem_printf("%s/nvidia-container-cli", bin);
    CU_ASSERT_EQUAL(chmod(cli, 0755), 0);
    setenv("PATH", bin, 1);
    lacks(&spec, GPU_NEEDS_HOOK,
          "runtime arm: gpus: missing here: enroot's hook 98-nvidia.sh in /etc/enroot/hooks.d");
    put(root, "/opt/enroot/hooks.d/98-nvidia.sh", "");
    setenv("ENROOT_SYSCONF_PATH", "/opt/enroot", 1);
    lacks(&spec, GPU_NEEDS_HOOK, NULL);
    unsetenv("ENROOT_SYSCONF_PATH");
    setenv("PATH", path, 1);
    use_machine(NULL);
}

/* A machine, or a job's part of one, whose only GPU is not the first. */
static void another_gpu(void)
{
    struct runtime_spec spec = {.name = (char *)"arm", .gpus = (char *)"all"};
    auto_free char *root = machine(0);
    put_node(root, "nvidiactl");
    put_node(root, "nvidia-uvm");
    put_node(root, "nvidia-modeset");
    lacks(&spec, 0, "runtime arm: gpus: missing here: /dev/nvidia0 or another GPU's");
    put_node(root, "nvidia12");
    lacks(&spec, 0, NULL);
    use_machine(NULL);
}

UNIT_MAIN({"what argv gets", what_argv_gets}, {"what is said already", what_is_said_already},
          {"EDFs", edfs}, {"nodes and libraries", nodes_and_libraries}, {"preflight", preflight},
          {"another GPU", another_gpu})
