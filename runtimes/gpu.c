#include "runtimes/gpu.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/client.h"

#include <stdlib.h>
#include <string.h>

bool gpu_asked(const struct runtime_spec *spec)
{
    return client_given(spec->gpus) && !strcmp(spec->gpus, "all");
}

/* Names in a directory of the machine, sorted; none where it is not there. */
static void list_names(const char *dir, struct strv *out)
{
    auto_free char *path = fs_sys_path(dir);
    auto_error struct error absent = ERROR_INIT;
    if (!fs_list_dir(path, out, 1, &absent))
        strv_sort(out);
}

static bool on_machine(const char *path)
{
    auto_free char *there = fs_sys_path(path);
    return fs_exists(there);
}

/* ---- what there is --------------------------------------------------------------------------- */
bool gpu_cdi_has(const char *kind)
{
    static const char *const dirs[] = {"/etc/cdi", "/var/run/cdi"};
    for (size_t d = 0; d < sizeof dirs / sizeof *dirs; d++) {
        auto_strv names = STRV_INIT;
        list_names(dirs[d], &names);
        for (size_t i = 0; i < names.count; i++) {
            auto_free char *path = mem_printf("%s/%s", dirs[d], names.items[i]);
            auto_str text = STR_INIT;
            if (fs_sys_read(path, &text) && strstr(text.data, kind))
                return true;
        }
    }
    return false;
}

/* nvidia0 … */
static bool is_gpu(const char *name)
{
    if (!str_starts_with(name, "nvidia"))
        return false;
    const char *number = name + strlen("nvidia");
    return *number && !number[strspn(number, "0123456789")];
}

/* nvidia0 …, nvidiactl, nvidia-uvm, nvidia-uvm-tools */
static bool is_node(const char *name)
{
    return is_gpu(name) || !strcmp(name, "nvidiactl") || !strcmp(name, "nvidia-uvm") ||
           !strcmp(name, "nvidia-uvm-tools");
}

void gpu_device_nodes(const struct runtime_spec *spec, struct strv *out)
{
    auto_strv names = STRV_INIT, caps = STRV_INIT;
    if (!gpu_asked(spec))
        return;
    list_names("/dev", &names);
    for (size_t i = 0; i < names.count; i++)
        if (is_node(names.items[i]))
            strv_pushf(out, "/dev/%s", names.items[i]);
    list_names("/dev/nvidia-caps", &caps); /* slices of a GPU (MIG) */
    for (size_t i = 0; i < caps.count; i++)
        strv_pushf(out, "/dev/nvidia-caps/%s", caps.items[i]);
}

/* Where a loader looks, on Debian's and on Red Hat's relatives. NULL: the driver is in none. */
static const char *library_dir(void)
{
    static const char *const dirs[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                       "/usr/lib64", "/usr/lib"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        auto_free char *path = mem_printf("%s/libcuda.so.1", dirs[i]);
        if (on_machine(path))
            return dirs[i];
    }
    return NULL;
}

void gpu_library_mounts(const struct runtime_spec *spec, struct mounts *out)
{
    static const char *const libraries[] = {"libcuda.so.", "libnvidia-ml.so.",
                                            "libnvidia-ptxjitcompiler.so.", "libnvidia-nvvm.so.",
                                            "libnvidia-gpucomp.so."};
    const char *dir = gpu_asked(spec) ? library_dir() : NULL;
    auto_strv names = STRV_INIT;
    if (!dir)
        return;
    list_names(dir, &names);
    for (size_t i = 0; i < names.count; i++)
        for (size_t k = 0; k < sizeof libraries / sizeof *libraries; k++)
            if (str_starts_with(names.items[i], libraries[k])) {
                auto_free char *path = mem_printf("%s/%s", dir, names.items[i]);
                mounts_add(out, path, path, true);
            }
}

/* The hook lies with enroot's own configuration, wherever that is. */
static bool hook_is_there(void)
{
    const char *configured = getenv("ENROOT_SYSCONF_PATH");
    const char *dirs[] = {"/etc/enroot", "/usr/local/etc/enroot", configured};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        auto_free char *path =
            client_given(dirs[i]) ? mem_printf("%s/hooks.d/98-nvidia.sh", dirs[i]) : NULL;
        if (path && on_machine(path))
            return true;
    }
    return false;
}

void gpu_hook_env(const struct runtime_launch *launch, struct strv *out)
{
    static const char *const variables[][2] = {
        {"NVIDIA_VISIBLE_DEVICES", "all"},
        {"NVIDIA_DRIVER_CAPABILITIES", "compute,utility"},
    };
    for (size_t i = 0; gpu_asked(launch->spec) && i < sizeof variables / sizeof *variables; i++)
        if (!strv_env_get(launch->env, variables[i][0]))
            strv_pushf(out, "%s=%s", variables[i][0], variables[i][1]);
}

/* ---- what is missing ------------------------------------------------------------------------- */
struct missing {
    struct str names;
    const char *hint; /* of the first */
};

static void lack(struct missing *m, const char *name, const char *hint)
{
    str_appendf(&m->names, "%s%s", m->names.len ? "; " : "", name);
    if (!m->hint)
        m->hint = hint;
}

/* nvidia0 or another: a job may have the second GPU alone. */
static bool has_gpu_node(void)
{
    auto_strv names = STRV_INIT;
    list_names("/dev", &names);
    for (size_t i = 0; i < names.count; i++)
        if (is_gpu(names.items[i]))
            return true;
    return false;
}

static void look_for_driver(struct missing *m)
{
    static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia-uvm"};
    auto_str absent = STR_INIT;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        if (!on_machine(nodes[i]))
            str_appendf(&absent, "%s%s", absent.len ? ", " : "", nodes[i]);
    if (!has_gpu_node())
        str_appendf(&absent, "%s/dev/nvidia0 or another GPU's", absent.len ? ", " : "");
    if (absent.len)
        lack(m, absent.data,
             "load NVIDIA's driver; nvidia-modprobe -u -c=0 makes the nodes, `nvidia-smi -L` lists "
             "the GPUs");
}

int gpu_check_host(const struct runtime_spec *spec, unsigned needs, struct error *err)
{
    struct missing m = {STR_INIT, NULL};
    if (!gpu_asked(spec))
        return 0;
    look_for_driver(&m);
    if ((needs & GPU_NEEDS_CDI) && !gpu_cdi_has(GPU_CDI_KIND))
        lack(&m, "a CDI specification of " GPU_CDI_KIND " in /etc/cdi or /var/run/cdi",
             "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml");
    if ((needs & GPU_NEEDS_LIBRARIES) && !library_dir())
        lack(&m, "libcuda.so.1 in the usual directories", "install NVIDIA's driver libraries");
    if ((needs & GPU_NEEDS_HOOK) && !hook_is_there())
        lack(&m, "enroot's hook 98-nvidia.sh in /etc/enroot/hooks.d",
             "copy it from enroot's conf/hooks");
    auto_free char *cli = needs & GPU_NEEDS_HOOK ? client_find("nvidia-container-cli") : NULL;
    if ((needs & GPU_NEEDS_HOOK) && !cli)
        lack(&m, "nvidia-container-cli on PATH", "apt-get install libnvidia-container-tools");
    if (m.names.len) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: gpus: missing here: %s", spec->name,
                  m.names.data);
        error_hint(err, "%s", m.hint);
    }
    str_release(&m.names);
    return err->code ? -err->code : 0;
}
