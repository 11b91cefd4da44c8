/* podman: what a scenario may ask of it, and the argument vector. See podman_priv.h. */
#include "runtimes/podman_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/host.h"
#include "runtimes/oci_cli.h"

#include <stdlib.h>
#include <string.h>

static const char *const keys[] = {"image",  "rootfs",  "nanochat", "mounts",  "devices",
                                   "gpus",   "ulimits", "ipc",      "network", "shm_size",
                                   "memory", "cpuset",  "userns",   "options", NULL};

/* ---- check ----------------------------------------------------------------------------------- */
static int check_image(const struct runtime_spec *spec, struct error *err)
{
    const int code = NCBENCH_EXIT_SCENARIO;
    if (client_check_source(spec,
                            "`ncbench image build` makes an image from the local build; rootfs: "
                            "/ is an overlay on the host's own files",
                            err))
        return -err->code;
    if (client_given(spec->rootfs) && (*spec->rootfs != '/' || strchr(spec->rootfs, ':')))
        return error_set(err, code,
                         "runtime %s: rootfs \"%s\": expected an absolute path without \":\"",
                         spec->name, spec->rootfs);
    if (client_given(spec->image) && strchr("/.-", *spec->image)) {
        error_set(err, code,
                  "runtime %s: image \"%s\": expected a reference in podman's store, no path",
                  spec->name, spec->image);
        return error_hint(err, "`podman load -i FILE` brings an archive into the store; rootfs: "
                               "takes a directory");
    }
    return 0;
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (check_image(spec, err) || oci_check_spec(spec, mounts, err))
        return -err->code;
    if (mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    return portable ? 0 : podman_check_host(spec, err);
}

/* ---- argv ------------------------------------------------------------------------------------ */
char *podman_conf_path(const char *session_dir)
{
    return mem_printf("%s/podman/containers.conf", session_dir);
}

void podman_client_env(const char *session_dir, const char *trial_id, struct strv *env)
{
    /* What podman needs to find its programs, its store and, rootless, its session. */
    static const char *const names[] = {"PATH",
                                        "HOME",
                                        "USER",
                                        "XDG_RUNTIME_DIR",
                                        "XDG_CONFIG_HOME",
                                        "TMPDIR",
                                        "XDG_DATA_HOME",
                                        "DBUS_SESSION_BUS_ADDRESS",
                                        "CONTAINERS_STORAGE_CONF",
                                        "STORAGE_DRIVER",
                                        NULL};
    client_copy_env(names, env);
    if (session_dir) {
        auto_free char *conf = podman_conf_path(session_dir);
        strv_env_set(env, "CONTAINERS_CONF", conf);
    }
    if (trial_id) /* conmon inherits it: a stray one is found by it */
        strv_env_set(env, ENV_TRIAL_ID, trial_id);
}

char *podman_init_path(void)
{
    /* A dynamic one (Debian's tini) would need its libraries inside. */
    static const char *const paths[] = {"/usr/libexec/podman/catatonit", "/usr/bin/catatonit",
                                        "/usr/bin/tini-static", "/usr/bin/tini",
                                        "/usr/bin/dumb-init"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        auto_free char *path = fs_sys_path(paths[i]);
        if (fs_exists(path) && !host_program_is_dynamic(path))
            return mem_strdup(paths[i]);
    }
    return NULL;
}

/* As soon as one --ulimit is given, podman 4 adds its own nofile and nproc, which may be above the
 * hard limits: so we name the present ones. It has lowered its own nproc to kernel.pid_max by then.
 */
static void append_ulimits(const struct runtime_spec *spec, struct strv *argv)
{
    bool nofile = false, nproc = false;
    for (size_t i = 0; i < spec->ulimits.count; i++) {
        struct oci_ulimit u;
        auto_error struct error err = ERROR_INIT;
        if (oci_ulimit_parse(spec->ulimits.items[i], &u, &err))
            BUG("%s", err.message); /* check let it pass */
        nofile |= !strcmp(u.name, "nofile");
        nproc |= !strcmp(u.name, "nproc");
        oci_append_ulimit(&u, argv);
    }
    int64_t soft, hard, pid_max;
    if (!spec->ulimits.count)
        return;
    if (!nofile && host_ulimit("nofile", &soft, &hard))
        strv_pushf(argv, "--ulimit=nofile=%lld:%lld", (long long)soft, (long long)hard);
    if (nproc || !host_ulimit("nproc", &soft, &hard))
        return;
    if (fs_sys_read_i64("/proc/sys/kernel/pid_max", &pid_max) && pid_max < hard)
        hard = pid_max;
    strv_pushf(argv, "--ulimit=nproc=%lld:%lld", (long long)(soft < hard ? soft : hard),
               (long long)hard);
}

/* For the host's IPC namespace rootless podman binds /dev/mqueue, and fails where the machine has
 * none; the host's /dev/shm alone, which is what ranks share, it can have by a mount. */
static bool needs_shm_mount(const struct runtime_spec *spec)
{
    auto_free char *mqueue = fs_sys_path("/dev/mqueue");
    auto_free char *shm = fs_sys_path("/dev/shm");
    return host_uid() != 0 && !oci_private_ipc(spec) && !fs_exists(mqueue) && fs_exists(shm);
}

static void append_namespaces(const struct runtime_spec *spec, struct strv *argv)
{
    size_t first = argv->count;
    oci_append_namespaces(spec, argv);
    if (!needs_shm_mount(spec))
        return;
    for (size_t i = first; i < argv->count; i++)
        if (!strcmp(argv->items[i], "--ipc=host")) {
            free(argv->items[i]);
            argv->items[i] = mem_strdup("--ipc=private");
        }
    strv_push(argv, "--mount=type=bind,source=/dev/shm,target=/dev/shm");
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    const struct runtime_spec *spec = launch->spec;
    (void)err;
    auto_free char *name = client_container_name(launch);
    auto_free char *init = podman_init_path();
    strv_push(argv, "podman");
    strv_push(argv, "run");
    strv_push(argv, "--rm");
    if (init) {
        strv_push(argv, "--init");
        strv_pushf(argv, "--init-path=%s", init);
    }
    strv_pushf(argv, "--name=%s", name);
    strv_push(argv, "--pull=never");
    append_namespaces(spec, argv);
    append_ulimits(spec, argv);
    oci_append_view(launch, argv);
    strv_extend(argv, &spec->options);
    if (client_given(launch->cwd))
        strv_pushf(argv, "--workdir=%s", launch->cwd);
    strv_push(argv, "--entrypoint="); /* ours is the program, whatever the image says */
    if (client_given(spec->rootfs)) {
        strv_push(argv, "--rootfs");
        strv_pushf(argv, "%s:O", spec->rootfs); /* without :O podman writes into the directory */
    } else {
        strv_push(argv, spec->image);
    }
    strv_extend(argv, launch->argv);
    podman_client_env(launch->session_dir, launch->trial_id, env);
    return 0;
}

/* ---- import ---------------------------------------------------------------------------------- */
static int import(const struct runtime_import *import, struct strv *argv, struct strv *env,
                  struct error *err)
{
    (void)err;
    client_words(argv,
                 *import->source == '/' ? "podman load --quiet --input" : "podman pull --quiet --");
    strv_push(argv, import->source);
    podman_client_env(NULL, NULL, env);
    return 0;
}

static void forget(const char *name, struct strv *argv, struct strv *env)
{
    client_words(argv, "podman image rm --");
    strv_push(argv, name);
    podman_client_env(NULL, NULL, env);
}

const struct runtime_ops runtime_podman = {
    .name = "podman",
    .summary = "podman, one container for the ranks of a node",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER | RUNTIME_ENV_NAMES | RUNTIME_QUICKSTART,
    .keys = keys,
    .probe = podman_probe,
    .check = check,
    .prepare = podman_prepare,
    .import = import,
    .forget = forget,
    .argv = make_argv,
    .classify = podman_classify,
    .stop = podman_stop,
    .remove_argv = podman_remove_argv,
    .leftover = podman_leftover,
    .describe = podman_describe,
};
