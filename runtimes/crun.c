/* crun: an OCI bundle without a manager. The bundle is ours: create writes its config.json below
 * the session. Where cgroups are v1+v2 hybrid crun refuses to work and runc takes its place; which
 * one it was is in the record.
 *
 * No manager means no cgroup, no image store, no init: the program is PID 1. */
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/host.h"
#include "runtimes/messages.h"
#include "runtimes/oci_bundle.h"
#include "runtimes/oci_cli.h"
#include "runtimes/root_view.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"

#include <string.h>
#include <unistd.h>

static const char *const keys[] = {"image",   "rootfs", "nanochat", "mounts",   "devices", "gpus",
                                   "ulimits", "ipc",    "network",  "shm_size", NULL};

/* The program for this machine. Reads the machine through fs_sys_read alone. */
static const char *program_name(void)
{
    return host_hybrid_owns_controllers() ? "runc" : "crun";
}

static void client_env(const char *trial_id, struct strv *env)
{
    static const char *const names[] = {"PATH", "HOME", "XDG_RUNTIME_DIR", NULL};
    client_copy_env(names, env);
    if (trial_id)
        strv_env_set(env, ENV_TRIAL_ID, trial_id);
}

static char *state_dir(const char *session_dir)
{
    return mem_printf("%s/crun/state", session_dir);
}

/* Not in the trial's directory, which is mounted inside. */
static char *bundle_dir(const struct runtime_launch *launch)
{
    auto_free char *name = client_container_name(launch);
    return mem_printf("%s/crun/bundles/%s", launch->session_dir, name);
}

static void base_argv(const char *session_dir, struct strv *argv)
{
    auto_free char *state = state_dir(session_dir);
    const char *program = program_name();
    strv_push(argv, program);
    strv_push(argv, "--root");
    strv_push(argv, state);
    if (!strcmp(program, "crun"))
        strv_push(argv, "--cgroup-manager=disabled");
}

/* ---- probe, check ---------------------------------------------------------------------------- */
static void probe(struct runtime_probe *out)
{
    out->versions = json_object();
    const char *name = program_name();
    auto_free char *program = client_find(name);
    auto_free char *version = program ? client_version(program) : NULL;
    if (!version) {
        out->why =
            program
                ? mem_printf("%s --version failed", name)
                : mem_printf("%s not found on PATH%s; apt-get install %s", name,
                             strcmp(name, "runc") != 0 ? "" : ", and crun refuses hybrid cgroups",
                             name);
        return;
    }
    out->available = true;
    json_put_str(out->versions, name, version);
}

static int check_host(const struct runtime_spec *spec, struct error *err)
{
    auto_free char *program = client_find(program_name());
    if (!program) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: %s not found on PATH", spec->name,
                  program_name());
        return error_hint(err, "apt-get install %s", program_name());
    }
    if (host_uid() != 0 && spec->devices.count)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                         "runtime %s: devices: only root can make device nodes", spec->name);
    return gpu_check_host(spec, GPU_NEEDS_LIBRARIES, err) || oci_check_ulimits(spec, err) ||
                   oci_check_device_nodes(spec, err)
               ? -err->code
               : 0;
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (root_view_check(spec, portable, err) || oci_check_spec(spec, mounts, err))
        return -err->code;
    for (size_t i = 0; i < spec->devices.count; i++)
        if (*spec->devices.items[i] != '/' || strchr(spec->devices.items[i], ':'))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s: device \"%s\": expected the path of a device node",
                             spec->name, spec->devices.items[i]);
    if (mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    return portable ? 0 : check_host(spec, err);
}

/* ---- session and trial ----------------------------------------------------------------------- */
static int prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    auto_free char *state = state_dir(session_dir);
    if (fs_mkdir_p(state, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    return root_view_prepare(spec, session_dir, err);
}

static int create(const struct runtime_launch *launch, struct error *err)
{
    auto_free char *root = root_view_path(launch->spec, launch->session_dir);
    auto_free char *bundle = bundle_dir(launch);
    auto_free char *path = mem_printf("%s/config.json", bundle);
    /* They make mount points themselves, but crun none behind a link to nothing. */
    struct mounts libraries = {0};
    gpu_library_mounts(launch->spec, &libraries);
    int failed = root_view_mount_points(root, launch->mounts, err) ||
                 root_view_mount_points(root, &libraries, err);
    mounts_release(&libraries);
    if (failed || fs_mkdir_p(bundle, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    return oci_bundle_write(launch, root, path, err);
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    (void)err;
    auto_free char *name = client_container_name(launch);
    auto_free char *bundle = bundle_dir(launch);
    base_argv(launch->session_dir, argv);
    client_words(argv, "run --bundle");
    strv_push(argv, bundle);
    strv_push(argv, name);
    client_env(launch->trial_id, env);
    return 0;
}

static enum outcome classify(const struct runtime_evidence *evidence, struct str *reason)
{
    static const char *const markers[] = {"level=error", "error: ", NULL};
    static const struct message_rule rules[] = {
        {0, "error while loading shared libraries", NULL, OUTCOME_RUNTIME_FAILED},
        {1, "xec format error", NULL, OUTCOME_NOT_EXECUTABLE},
        {1, "rror mounting", NULL, OUTCOME_RUNTIME_FAILED},
        {1, "exec: ", "no such file", OUTCOME_NOT_FOUND},
        {1, "exec: ", "not found", OUTCOME_NOT_FOUND},
        {1, "exec: ", "permission denied", OUTCOME_NOT_EXECUTABLE},
        {1, "exec: ", "is a directory", OUTCOME_NOT_EXECUTABLE},
        {1, "executable file", "not found", OUTCOME_NOT_FOUND},
        {1, "open executable", "No such file", OUTCOME_NOT_FOUND},
        {1, "open executable", "ermission denied", OUTCOME_NOT_EXECUTABLE},
        {0, NULL, NULL, OUTCOME_COUNT},
    };
    return messages_classify(rules, markers, evidence, reason);
}

static bool leftover(const struct runtime_launch *launch, struct str *what)
{
    auto_free char *state = state_dir(launch->session_dir);
    auto_free char *name = client_container_name(launch);
    auto_free char *path = mem_printf("%s/%s", state, name);
    if (!fs_exists(path))
        return false;
    str_appendf(what, "container %s", name);
    return true;
}

static int stop(const struct runtime_launch *launch, struct error *err)
{
    auto_free char *name = client_container_name(launch);
    auto_free char *bundle = bundle_dir(launch);
    auto_str what = STR_INIT;
    if (leftover(launch, &what)) {
        auto_strv argv = STRV_INIT, env = STRV_INIT;
        auto_free char *doing = mem_printf("removing container %s", name);
        base_argv(launch->session_dir, &argv);
        client_words(&argv, "delete --force");
        strv_push(&argv, name);
        client_env(NULL, &env);
        if (client_must(&argv, &env, CLIENT_QUICK_S, doing, err))
            return -err->code;
    }
    return fs_remove_tree(bundle, NCBENCH_EXIT_RESULTS, err);
}

/* Bundles of trials that ended by themselves, and the root file system. */
static int cleanup(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    auto_free char *bundles = mem_printf("%s/crun/bundles", session_dir);
    auto_free char *state = state_dir(session_dir);
    if (fs_remove_tree(bundles, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    rmdir(state); /* with a container in it, it stays */
    return root_view_remove(spec, session_dir, err);
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    (void)session_dir;
    const char *name = program_name();
    auto_free char *program = client_find(name);
    auto_free char *version = program ? client_version(program) : NULL;
    json_put_str(obj, "oci_runtime", name);
    if (version)
        json_put_str(obj, "oci_runtime_version", version);
    else
        json_put_null(obj, "oci_runtime_version", "it did not tell");
    json_put_str(obj, "cgroups", host_cgroups_name(host_cgroups()));
    json_put_str(obj, "network", client_given(spec->network) ? spec->network : "host");
    json_put_str(obj, "ipc", oci_private_ipc(spec) ? "private" : "host");
    root_view_describe(spec, obj);
}

const struct runtime_ops runtime_crun = {
    .name = "crun",
    .summary = "crun (runc where cgroups are hybrid) with an OCI bundle, without a manager",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER | RUNTIME_ENV_FIXED,
    .keys = keys,
    .probe = probe,
    .check = check,
    .prepare = prepare,
    .cleanup = cleanup,
    .create = create,
    .argv = make_argv,
    .classify = classify,
    .stop = stop,
    .leftover = leftover,
    .describe = describe,
};
