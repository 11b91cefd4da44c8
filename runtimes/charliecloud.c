/* charliecloud: ch-run, which isolates the file system and nothing else. It becomes the program, so
 * that signals go straight to it and there is nothing to clean up.
 *
 * ch-run passes its own environment on: exactly launch->env, byte for byte. It needs USER, and adds
 * CH_RUNNING. A mount point must be in the image, hence the session's own copy (root_view.h). */
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/messages.h"
#include "runtimes/root_view.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <string.h>
#include <sys/wait.h>

static const char *const keys[] = {"image",  "rootfs",  "nanochat", "gpus",
                                   "mounts", "options", NULL};

static void probe(struct runtime_probe *out)
{
    out->versions = json_object();
    auto_free char *program = client_find("ch-run");
    auto_free char *version = NULL;
    if (program) { /* it prints its version on standard error */
        auto_strv argv = STRV_INIT, env = STRV_INIT;
        auto_str text = STR_INIT, errout = STR_INIT;
        auto_error struct error ignored = ERROR_INIT;
        int rc;
        strv_push(&argv, program);
        strv_push(&argv, "--version");
        strv_push(&env, "USER=ncbench");
        if (!client_run(&argv, &env, CLIENT_QUICK_S, &text, &errout, &rc, &ignored) && !rc)
            version = mem_strdup(str_trim(text.len ? text.data : errout.data));
    }
    if (!version) {
        out->why = mem_strdup(program ? "ch-run --version failed"
                                      : "ch-run not found on PATH; apt-get install "
                                        "charliecloud-runtime");
        return;
    }
    out->available = true;
    json_put_str(out->versions, "charliecloud", version);
}

/* Options that would let the program write into hard links of the image, or take the launch out of
 * our hands. */
static int check_options(const struct runtime_spec *spec, struct error *err)
{
    static const struct refused_option refused[] = {
        {"-w", "the image is the session's own, read-only"},
        {"--write", "the image is the session's own, read-only"},
        {"-b", "use mounts"},
        {"--bind", "use mounts"},
        {"-c", "trials run in their own directory"},
        {"--cd", "trials run in their own directory"},
        {0}};
    return client_refuse_options(spec, refused, err);
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (root_view_check(spec, portable, err) || check_options(spec, err) ||
        mounts_check_bytes(mounts, spec->kind, ":", err))
        return -err->code;
    for (size_t i = 0; i < mounts->count; i++)
        if (mounts->items[i].read_only)
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime charliecloud cannot mount %s read-only",
                             mounts->items[i].source);
    if (mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    auto_free char *program = portable ? NULL : client_find("ch-run");
    if (portable)
        return 0;
    if (program)
        return gpu_check_host(spec, GPU_NEEDS_LIBRARIES, err);
    error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: ch-run not found on PATH", spec->name);
    return error_hint(err, "apt-get install charliecloud-runtime");
}

/* What ch-run itself mounts, and asks of the image without making it. */
static int prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    static const char *const dirs[] = {"/dev", "/proc", "/sys", "/tmp", "/home", "/root"};
    static const char *const files[] = {"/etc/hosts", "/etc/resolv.conf", "/etc/passwd",
                                        "/etc/group"};
    auto_free char *root = root_view_path(spec, session_dir);
    if (root_view_prepare(spec, session_dir, err))
        return -err->code;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (root_view_mount_point(root, dirs[i], true, err))
            return -err->code;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (root_view_mount_point(root, files[i], false, err))
            return -err->code;
    return 0;
}

static int create(const struct runtime_launch *launch, struct error *err)
{
    auto_free char *root = root_view_path(launch->spec, launch->session_dir);
    struct mounts libraries = {0};
    gpu_library_mounts(launch->spec, &libraries);
    int failed = root_view_mount_points(root, launch->mounts, err) ||
                 root_view_mount_points(root, &libraries, err);
    mounts_release(&libraries);
    return failed ? -err->code : 0;
}

static void append_binds(const struct mounts *mounts, struct strv *argv)
{
    for (size_t i = 0; i < mounts->count; i++)
        strv_pushf(argv, "--bind=%s:%s", mounts->items[i].source, mounts->items[i].target);
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    auto_free char *root = root_view_path(launch->spec, launch->session_dir);
    /* Mounts that are not the spec's own may hold a colon too: the trial's directory. */
    if (mounts_check_bytes(launch->mounts, "charliecloud", ":", err))
        return -err->code;
    strv_push(argv, "ch-run");
    struct mounts libraries = {0};
    gpu_library_mounts(launch->spec, &libraries);
    append_binds(launch->mounts, argv);
    append_binds(&libraries, argv);
    mounts_release(&libraries);
    if (client_given(launch->cwd))
        strv_pushf(argv, "--cd=%s", launch->cwd);
    bool user = strv_env_get(launch->env, "USER") != NULL;
    if (!user) /* ch-run ends without one; the program shall not see ours */
        strv_push(argv, "--unset-env=USER");
    strv_extend(argv, &launch->spec->options);
    strv_push(argv, root);
    strv_push(argv, "--");
    strv_extend(argv, launch->argv);
    strv_extend(env, launch->env);
    if (!user)
        strv_env_set(env, "USER", "ncbench");
    return 0;
}

static enum outcome classify(const struct runtime_evidence *evidence, struct str *reason)
{
    static const char *const markers[] = {"error: ", NULL};
    static const struct message_rule rules[] = {
        {0, "error while loading shared libraries", NULL, OUTCOME_RUNTIME_FAILED},
        {1, "can't execve(2)", "No such file", OUTCOME_NOT_FOUND},
        {1, "can't execve(2)", "ermission denied", OUTCOME_NOT_EXECUTABLE},
        {1, "can't execve(2)", "xec format error", OUTCOME_NOT_EXECUTABLE},
        {1, "can't stat", "No such file", OUTCOME_UNAVAILABLE},
        {1, "source not found", NULL, OUTCOME_UNAVAILABLE},
        {64, "unrecognized option", NULL, OUTCOME_UNAVAILABLE},
        {0, NULL, NULL, OUTCOME_COUNT},
    };
    return messages_classify(rules, markers, evidence, reason);
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    struct runtime_probe found = {0};
    (void)session_dir;
    probe(&found);
    if (found.available)
        json_put_str(obj, "charliecloud", json_read_str(found.versions, "charliecloud"));
    else
        json_put_null(obj, "charliecloud", found.why);
    runtime_probe_release(&found);
    root_view_describe(spec, obj);
}

const struct runtime_ops runtime_charliecloud = {
    .name = "charliecloud",
    .summary = "charliecloud (ch-run), on the session's own copy of a directory or squashfs",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER,
    .keys = keys,
    .probe = probe,
    .check = check,
    .prepare = prepare,
    .cleanup = root_view_remove,
    .create = create,
    .argv = make_argv,
    .classify = classify,
    .describe = describe,
};
