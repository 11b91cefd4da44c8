/* enroot: unpacked once a session from a squashfs (create), started once a trial.
 *
 * The environment goes two ways. As --env, for hooks that act on it; and exactly, newlines and
 * quotes included, in a command script of the trial (--rc) that sets it, changes to the trial's
 * directory and executes the program: enroot itself has no option for a directory, strips quotes
 * around values, and goes to HOME first, which may not be there inside. The script needs /bin/sh in
 * the image, as enroot does anyway.
 *
 * The container lies in enroot's data path, which is the node's own: made where ncbench runs, and
 * in an allocation on every node. Variables that only a task of a step knows (SLURM_NODEID) pass by
 * name, through the environment of the client. */
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/enroot_node.h"
#include "runtimes/gpu.h"
#include "runtimes/lock.h"
#include "runtimes/messages.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"

#include <string.h>
#include <unistd.h>

extern char **environ;

static const char *const keys[] = {"image", "nanochat", "gpus", "mounts", "options", NULL};

/* enroot's own settings come by its configuration files and by these. */
static void client_env(const char *trial_id, struct strv *env)
{
    static const char *const names[] = {"PATH",
                                        "HOME",
                                        "USER",
                                        "XDG_DATA_HOME",
                                        "XDG_CONFIG_HOME",
                                        "XDG_CACHE_HOME",
                                        "XDG_RUNTIME_DIR",
                                        "TMPDIR",
                                        NULL};
    client_copy_env(names, env);
    for (char **e = environ; *e; e++)
        if (str_starts_with(*e, "ENROOT_"))
            strv_push(env, *e);
    if (trial_id)
        strv_env_set(env, ENV_TRIAL_ID, trial_id);
}

static char *container_of(const struct runtime_spec *spec, const char *session_dir)
{
    return client_session_name("ncbench", session_dir, spec->image);
}

/* ---- probe, check ---------------------------------------------------------------------------- */
static char *version(void)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_str out = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    int rc;
    client_words(&argv, "enroot version");
    client_env(NULL, &env);
    if (client_run(&argv, &env, CLIENT_QUICK_S, &out, NULL, &rc, &ignored) || rc)
        return NULL;
    return mem_strdup(str_trim(out.data));
}

static void probe(struct runtime_probe *out)
{
    out->versions = json_object();
    auto_free char *program = client_find("enroot");
    auto_free char *text = program ? version() : NULL;
    out->available = text != NULL;
    if (text)
        json_put_str(out->versions, "enroot", text);
    else
        out->why = mem_strdup(program ? "enroot version failed" : "enroot not found on PATH");
}

static bool is_identifier(const char *assignment)
{
    size_t n = strcspn(assignment, "=");
    return n &&
           strspn(assignment, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
               n &&
           (*assignment < '0' || *assignment > '9');
}

static int check_image(const struct runtime_spec *spec, bool portable, struct error *err)
{
    if (!client_given(spec->image))
        return error_set(err, NCBENCH_EXIT_SCENARIO, "runtime %s: image is missing", spec->name);
    if (*spec->image != '/') {
        error_set(err, NCBENCH_EXIT_SCENARIO,
                  "runtime %s: image \"%s\": expected the absolute path of a squashfs", spec->name,
                  spec->image);
        return error_hint(err, "enroot import -o FILE docker://… makes one of a registry's image");
    }
    if (portable || (fs_exists(spec->image) && !fs_is_dir(spec->image)))
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: image %s is no file", spec->name,
                     spec->image);
}

static int check_names(const struct strv *env, struct error *err)
{
    for (size_t i = 0; i < env->count; i++)
        if (!is_identifier(env->items[i]))
            return error_set(
                err, NCBENCH_EXIT_SCENARIO,
                "runtime enroot cannot pass variable %.*s: a shell sets it, and that is "
                "no name to a shell",
                (int)strcspn(env->items[i], "="), env->items[i]);
    return 0;
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (check_image(spec, portable, err) || mounts_check_bytes(mounts, spec->kind, ":\n", err) ||
        check_names(&spec->env, err) || mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    for (size_t i = 0; i < spec->options.count; i++)
        if (str_starts_with(spec->options.items[i], "--rc"))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s: option --rc is not allowed: ncbench gives the command "
                             "script",
                             spec->name);
    auto_free char *program = portable ? NULL : client_find("enroot");
    if (portable)
        return 0;
    if (program)
        return gpu_check_host(spec, GPU_NEEDS_HOOK, err);
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: enroot not found on PATH",
                     spec->name);
}

/* ---- session --------------------------------------------------------------------------------- */
static int remove_container(const char *name, struct error *err)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_str errout = STR_INIT;
    int rc;
    client_words(&argv, "enroot remove --force --");
    strv_push(&argv, name);
    client_env(NULL, &env);
    if (client_run(&argv, &env, CLIENT_IMPORT_S, NULL, &errout, &rc, err))
        return -err->code;
    if (!rc || strstr(errout.data, "No such file or directory"))
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "removing container %s: enroot exit %d: %s",
                     name, rc, client_last_line(&errout));
}

/* The mark says that the container is whole: one that a killed session left half unpacked has
 * none. */
static int prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    auto_free char *dir = client_session_path(session_dir, "enroot", spec->image);
    auto_free char *mark = mem_printf("%s/created", dir);
    auto_free char *path = mem_printf("%s/lock", dir);
    auto_free char *name = container_of(spec, session_dir);
    auto_free char *what = mem_printf("unpacking %s", spec->image);
    auto_lock struct lock lock = LOCK_INIT;
    if (fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, err) || lock_take(&lock, path, CLIENT_IMPORT_S, err))
        return -err->code;
    if (fs_exists(mark))
        return 0;
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    client_words(&argv, "enroot create --name");
    strv_push(&argv, name);
    strv_push(&argv, spec->image);
    client_env(NULL, &env);
    if (remove_container(name, err) || client_must(&argv, &env, CLIENT_IMPORT_S, what, err))
        return -err->code;
    return fs_write_atomic(mark, "", 0, NCBENCH_EXIT_RESULTS, err);
}

static int cleanup(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    auto_free char *dir = client_session_path(session_dir, "enroot", spec->image);
    auto_free char *name = container_of(spec, session_dir);
    auto_free char *kind = fs_dirname(dir);
    if (remove_container(name, err) || fs_remove_tree(dir, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    rmdir(kind);
    return 0;
}

static void node_prepare(const struct runtime_spec *spec, const char *session_dir,
                         struct strv *argv)
{
    auto_free char *name = container_of(spec, session_dir);
    enroot_node_create(name, spec->image, argv);
}

static void node_cleanup(const struct runtime_spec *spec, const char *session_dir,
                         struct strv *argv)
{
    auto_free char *name = container_of(spec, session_dir);
    enroot_node_remove(ENROOT_PATHS_OF_USER, argv);
    strv_push(argv, name);
}

/* ---- import ---------------------------------------------------------------------------------- */
/* enroot separates a registry by '#'; a first part is one if it has a dot or a port, or is
 * localhost, as docker tells them apart. */
static char *uri_of(const char *reference)
{
    size_t n = strcspn(reference, "/");
    auto_free char *first = mem_strndup(reference, n);
    bool registry = reference[n] && (strpbrk(first, ".:") || !strcmp(first, "localhost"));
    return registry ? mem_printf("docker://%s#%s", first, reference + n + 1)
                    : mem_printf("docker://%s", reference);
}

static int import(const struct runtime_import *import, struct strv *argv, struct strv *env,
                  struct error *err)
{
    if (*import->source == '/') {
        error_set(err, NCBENCH_EXIT_SCENARIO, "enroot imports no archive");
        return error_hint(err, "`ncbench image build --squashfs FILE` makes what it runs; "
                               "`podman load` and `enroot import podman://…` go by podman's store");
    }
    auto_free char *uri = uri_of(import->source);
    client_words(argv, "enroot import --output");
    strv_push(argv, import->target);
    strv_push(argv, uri);
    client_env(NULL, env);
    if (import->cache_dir)
        strv_env_set(env, "ENROOT_CACHE_PATH", import->cache_dir);
    return 0;
}

/* ---- trial ----------------------------------------------------------------------------------- */
static char *script_path(const struct runtime_launch *launch)
{
    return mem_printf("%s/enroot.%s.rc", launch->trial_dir, launch->trial_id);
}

static void write_script(const struct runtime_launch *launch, struct str *out)
{
    str_append(out, "# Written by ncbench: the environment, the directory, the program.\n");
    for (size_t i = 0; i < launch->env->count; i++) {
        const char *item = launch->env->items[i];
        size_t n = strcspn(item, "=");
        if (!item[n]) /* by its name alone: --env has brought it */
            continue;
        str_appendf(out, "export %.*s=", (int)n, item);
        str_append_quoted(out, item + n + 1);
        str_append_char(out, '\n');
    }
    if (client_given(launch->cwd)) {
        str_append(out, "cd ");
        str_append_quoted(out, launch->cwd);
        str_append(out, " || exit 1\n");
    }
    str_append(out, "unset SHLVL OLDPWD\nexec \"$@\"\n");
}

static int create(const struct runtime_launch *launch, struct error *err)
{
    auto_free char *path = script_path(launch);
    auto_str text = STR_INIT;
    write_script(launch, &text);
    return fs_write_atomic(path, text.data, text.len, NCBENCH_EXIT_RESULTS, err);
}

/* A field of fstab: blanks and backslashes as octal; "SRC:DST:TYPE:OPTIONS" is cut at colons. */
static void append_field(struct str *out, const char *path)
{
    for (; *path; path++)
        if (*path == ' ')
            str_append(out, "\\040");
        else if (*path == '\t')
            str_append(out, "\\011");
        else if (*path == '\\')
            str_append(out, "\\134");
        else
            str_append_char(out, *path);
}

static void append_mount(const struct mount *m, struct strv *argv)
{
    auto_str text = STR_INIT;
    str_append(&text, "--mount=");
    append_field(&text, m->source);
    str_append_char(&text, ':');
    append_field(&text, m->target);
    str_appendf(&text, ":none:x-create=auto,rbind,%s", m->read_only ? "ro" : "rw");
    strv_push(argv, text.data);
}

static void append_gpus(const struct runtime_launch *launch, struct strv *argv)
{
    auto_strv variables = STRV_INIT;
    gpu_hook_env(launch, &variables);
    for (size_t i = 0; i < variables.count; i++)
        strv_pushf(argv, "--env=%s", variables.items[i]);
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    auto_free char *name = container_of(launch->spec, launch->session_dir);
    auto_free char *script = script_path(launch);
    if (mounts_check_bytes(launch->mounts, "enroot", ":\n", err) || check_names(launch->env, err))
        return -err->code;
    client_words(argv, "enroot start");
    strv_pushf(argv, "--rc=%s", script);
    for (size_t i = 0; i < launch->mounts->count; i++)
        append_mount(&launch->mounts->items[i], argv);
    for (size_t i = 0; i < launch->env->count; i++) {
        const char *item = launch->env->items[i];
        if (!strchr(item, '\n') && !str_starts_with(item, "HOME=") &&
            !str_starts_with(item, "SHELL=") && !str_starts_with(item, "ENROOT_"))
            strv_pushf(argv, "--env=%s", item);
    }
    append_gpus(launch, argv);
    strv_extend(argv, &launch->spec->options);
    strv_push(argv, name);
    strv_extend(argv, launch->argv);
    client_env(launch->trial_id, env);
    return 0;
}

static enum outcome classify(const struct runtime_evidence *evidence, struct str *reason)
{
    static const char *const markers[] = {"[ERROR]", "enroot-", NULL};
    static const struct message_rule rules[] = {
        {0, "error while loading shared libraries", NULL, OUTCOME_RUNTIME_FAILED},
        {1, "Could not acquire rootfs lock", NULL, OUTCOME_RUNTIME_FAILED},
        {1, "[ERROR]", NULL, OUTCOME_RUNTIME_FAILED},
        {127, "exec: ", "not found", OUTCOME_NOT_FOUND},
        {126, "exec: ", "ermission denied", OUTCOME_NOT_EXECUTABLE},
        {126, "exec: ", "xec format error", OUTCOME_NOT_EXECUTABLE},
        {126, NULL, NULL, OUTCOME_NOT_EXECUTABLE},
        {127, NULL, NULL, OUTCOME_NOT_FOUND},
        {0, NULL, NULL, OUTCOME_COUNT},
    };
    return messages_classify(rules, markers, evidence, reason);
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    auto_free char *text = version();
    auto_free char *name = container_of(spec, session_dir);
    if (text)
        json_put_str(obj, "enroot", text);
    else
        json_put_null(obj, "enroot", "enroot version failed");
    json_put_str(obj, "container", name);
    client_put_sha256(obj, "enroot_conf_sha256", "/etc/enroot/enroot.conf");
    client_put_image_file(obj, spec->image);
}

const struct runtime_ops runtime_enroot = {
    .name = "enroot",
    .summary = "enroot, created once a session from a squashfs, started once a trial",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER | RUNTIME_ENV_NAMES | RUNTIME_IMPORT_FILE,
    .keys = keys,
    .probe = probe,
    .check = check,
    .prepare = prepare,
    .cleanup = cleanup,
    .node_prepare = node_prepare,
    .node_cleanup = node_cleanup,
    .import = import,
    .create = create,
    .argv = make_argv,
    .classify = classify,
    .describe = describe,
};
