/* apptainer: a SIF or squashfs file, or a directory. It stays, in the same process group, as the
 * parent of the program: hands signals on (what the group gets comes twice), takes the program with
 * it when it is killed, and ends by the signal that ended the program. Only the program bears the
 * trial's marker: apptainer starts itself anew with an environment of its own.
 *
 * Nothing is left to clean up: its mounts and its folder lie in a mount namespace, a loop device
 * (root's) ends with its mount. Where squashfuse mounts the image (a user's), it is a child in a
 * session of its own, which apptainer ends however the program ended. After KILL for apptainer it
 * stays, with the mount, for ever: an orphan of the harness, which finds it by descent.
 *
 * --cleanenv keeps the host's variables out; ours go in as APPTAINERENV_NAME in its environment,
 * which carries every byte when --no-eval keeps a shell from reading them. Two it treats its own
 * way: HOME is the account's unless --home names another (which --no-home keeps from being
 * mounted), and "/.singularity.d/libs" is appended to LD_LIBRARY_PATH. Options behind the image
 * would be the command, so they all stand before it. */
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/host.h"
#include "runtimes/messages.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"

#include <string.h>

static const char *const keys[] = {"image",  "rootfs",  "nanochat", "gpus",
                                   "mounts", "options", NULL};

static void probe(struct runtime_probe *out)
{
    out->versions = json_object();
    auto_free char *program = client_find("apptainer");
    auto_free char *version = program ? client_version(program) : NULL;
    out->available = version != NULL;
    if (version)
        json_put_str(out->versions, "apptainer", version);
    else
        out->why = mem_strdup(program ? "apptainer --version failed"
                                      : "apptainer not found on PATH; Debian has it in sid alone");
}

/* --home SRC[:DEST] */
static int check_home(const struct strv *env, struct error *err)
{
    const char *home = strv_env_get(env, "HOME");
    if (!home || (*home == '/' && !strchr(home, ':')))
        return 0;
    return error_set(err, NCBENCH_EXIT_SCENARIO,
                     "runtime apptainer cannot pass variable HOME=%s: expected an absolute path "
                     "without \":\"",
                     home);
}

static int check_spec(const struct runtime_spec *spec, const struct mounts *mounts,
                      struct error *err)
{
    const int code = NCBENCH_EXIT_SCENARIO;
    if (client_check_source(spec, NULL, err))
        return -err->code;
    const char *source = client_source(spec);
    if (*source != '/' || !source[1])
        return error_set(err, code, "runtime %s: \"%s\": expected an absolute path other than /",
                         spec->name, source);
    if (check_home(&spec->env, err))
        return -err->code;
    return mounts_check_csv(mounts, spec->kind, err);
}

static int no_source(const struct runtime_spec *spec, const char *source, struct error *err)
{
    bool dir = client_given(spec->rootfs);
    error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: %s %s is no %s", spec->name,
              dir ? "rootfs" : "image", source, dir ? "directory" : "file");
    return error_hint(err, "`ncbench image build %s` makes one of the local build",
                      dir ? "--dir DIR" : "--sif FILE");
}

static int check_host(const struct runtime_spec *spec, struct error *err)
{
    const int code = NCBENCH_EXIT_ENVIRONMENT;
    const char *source = client_source(spec);
    if (client_given(spec->rootfs) ? !fs_is_dir(source) : !fs_exists(source) || fs_is_dir(source))
        return no_source(spec, source, err);
    /* It would do nothing, without a word. */
    if (strv_contains(&spec->options, "--nv") && !fs_exists("/dev/nvidiactl"))
        return error_set(err, code, "runtime %s: option --nv, but /dev/nvidiactl does not exist",
                         spec->name);
    auto_free char *program = client_find("apptainer");
    if (program)
        return gpu_check_host(spec, GPU_NEEDS_LIBRARIES, err);
    return error_set(err, code, "runtime %s: apptainer not found on PATH", spec->name);
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (check_spec(spec, mounts, err) || mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    return portable ? 0 : check_host(spec, err);
}

static const char *const client_variables[] = {"PATH",
                                               "HOME",
                                               "USER",
                                               "XDG_RUNTIME_DIR",
                                               "TMPDIR",
                                               "APPTAINER_TMPDIR",
                                               "APPTAINER_CACHEDIR",
                                               "APPTAINER_CONFIGDIR",
                                               NULL};

static void client_env(const struct runtime_launch *launch, struct strv *env)
{
    client_copy_env(client_variables, env);
    for (size_t i = 0; i < launch->env->count; i++)
        if (!str_starts_with(launch->env->items[i], "HOME="))
            strv_pushf(env, "APPTAINERENV_%s", launch->env->items[i]);
    strv_env_set(env, ENV_TRIAL_ID, launch->trial_id);
}

static int import(const struct runtime_import *import, struct strv *argv, struct strv *env,
                  struct error *err)
{
    bool archive = *import->source == '/';
    if (archive && strchr(import->source, ':'))
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "apptainer cannot read an archive whose path contains \":\": %s",
                         import->source);
    client_words(argv, "apptainer --quiet build --force");
    strv_push(argv, import->target);
    strv_pushf(argv, "%s%s", archive ? "oci-archive:" : "docker://", import->source);
    client_copy_env(client_variables, env);
    if (import->cache_dir)
        strv_env_set(env, "APPTAINER_CACHEDIR", import->cache_dir);
    return 0;
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    const char *home = strv_env_get(launch->env, "HOME");
    if (check_home(launch->env, err))
        return -err->code;
    client_words(argv, "apptainer --quiet exec --cleanenv --no-eval --no-home --no-mount=cwd");
    if (home)
        strv_pushf(argv, "--home=%s", home);
    if (host_uid() == 0) /* else it asks for capabilities that root may not have */
        strv_push(argv, "--no-privs");
    for (size_t i = 0; i < launch->mounts->count; i++) {
        auto_str text = STR_INIT;
        str_append(&text, "--mount=");
        mount_append_csv(&text, &launch->mounts->items[i]);
        strv_push(argv, text.data);
    }
    if (client_given(launch->cwd))
        strv_pushf(argv, "--pwd=%s", launch->cwd);
    if (gpu_asked(launch->spec) && !strv_contains(&launch->spec->options, "--nv"))
        strv_push(argv, "--nv");
    strv_extend(argv, &launch->spec->options);
    strv_push(argv, client_source(launch->spec));
    strv_extend(argv, launch->argv);
    client_env(launch, env);
    return 0;
}

static enum outcome classify(const struct runtime_evidence *evidence, struct str *reason)
{
    static const char *const markers[] = {"FATAL:", "ERROR", "Error for command", NULL};
    /* Those of its own making before those of the program, which are as short as errno's text. */
    static const struct message_rule rules[] = {
        {0, "error while loading shared libraries", NULL, OUTCOME_RUNTIME_FAILED},
        {255, "FATAL:", "executable file not found", OUTCOME_NOT_FOUND},
        {255, "FATAL:", "could not open image", OUTCOME_UNAVAILABLE},
        {255, "FATAL:", "loading overlay images", OUTCOME_UNAVAILABLE},
        {255, "FATAL:", "could not use fakeroot", OUTCOME_UNAVAILABLE},
        {255, "FATAL:", "open /dev/fuse", OUTCOME_UNAVAILABLE},
        {255, "FATAL:", "container creation failed", OUTCOME_RUNTIME_FAILED},
        {255, "FATAL:", "set working directory", OUTCOME_RUNTIME_FAILED},
        {255, "FATAL:", "is a directory", OUTCOME_NOT_EXECUTABLE},
        {255, "FATAL:", "xec format error", OUTCOME_NOT_EXECUTABLE},
        {255, "FATAL:", "ermission denied", OUTCOME_NOT_EXECUTABLE},
        {255, "FATAL:", "o such file", OUTCOME_NOT_FOUND},
        {1, "unknown flag", NULL, OUTCOME_UNAVAILABLE},
        {0, NULL, NULL, OUTCOME_COUNT},
    };
    return messages_classify(rules, markers, evidence, reason);
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    (void)session_dir;
    auto_free char *program = client_find("apptainer");
    auto_free char *version = program ? client_version(program) : NULL;
    if (version)
        json_put_str(obj, "apptainer", version);
    else
        json_put_null(obj, "apptainer", "it did not tell");
    client_put_sha256(obj, "apptainer_conf_sha256", "/etc/apptainer/apptainer.conf");
    json_put_str(obj, "image_fs", fs_type_name(client_source(spec)));
    if (client_given(spec->rootfs))
        json_put_str(obj, "rootfs", spec->rootfs);
    else
        client_put_image_file(obj, spec->image);
}

const struct runtime_ops runtime_apptainer = {
    .name = "apptainer",
    .summary = "apptainer, on a SIF, a squashfs or a directory",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER | RUNTIME_ENV_FIXED | RUNTIME_IMPORT_FILE,
    .keys = keys,
    .probe = probe,
    .check = check,
    .import = import,
    .argv = make_argv,
    .classify = classify,
    .describe = describe,
};
