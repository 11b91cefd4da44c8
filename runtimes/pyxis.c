/* pyxis: srun --container-*, over enroot.
 *
 * The environment of the step goes into the container, but the image's values win unless the
 * variable is named in --container-env: so every one is. HOME is named only where a mount makes its
 * directory, because enroot goes there first and fails without it. What a flag does not say is the
 * site's enroot.conf or a PYXIS_ variable: so the flags that matter are always given.
 *
 * A container without a name is unpacked by every step and removed at its end. One with a name
 * (options: --container-name=NAME) is unpacked once a session on every node, before the first
 * trial, and removed after the last. pyxis takes what has the name for the container, whatever
 * image it was made of: so the name gets a hash of session and image behind it. */
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/enroot_node.h"
#include "runtimes/gpu.h"
#include "runtimes/srun_plugin.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

#define OPTION "--container-image"
#define NAME_OPTION "--container-name"

static const char *const keys[] = {"image", "nanochat", "gpus", "mounts", "options", NULL};

static void probe(struct runtime_probe *out)
{
    srun_plugin_probe(OPTION, "pyxis", out);
}

/* A path must look like one, else pyxis asks a registry for it (pyxis#67). */
static int check_image(const struct runtime_spec *spec, struct error *err)
{
    const int code = NCBENCH_EXIT_SCENARIO;
    if (!client_given(spec->image))
        return error_set(err, code, "runtime %s: image is missing", spec->name);
    if (*spec->image == '/' || !strpbrk(spec->image, "\n\t "))
        if (*spec->image == '/' ||
            !(str_ends_with(spec->image, ".sqsh") || str_starts_with(spec->image, ".")))
            return 0;
    error_set(err, code,
              "runtime %s: image \"%s\": expected the absolute path of a squashfs, or "
              "[USER@][REGISTRY#]IMAGE[:TAG]",
              spec->name, spec->image);
    return error_hint(err, "pyxis takes a path without a leading / for a registry's image");
}

/* ---- a named container ----------------------------------------------------------------------- */
/* The value of --container-name; NULL: not given. */
static const char *name_given(const struct runtime_spec *spec)
{
    for (size_t i = 0; i < spec->options.count; i++)
        if (str_starts_with(spec->options.items[i], NAME_OPTION "="))
            return spec->options.items[i] + sizeof NAME_OPTION;
    return NULL;
}

static int check_name(const struct runtime_spec *spec, struct error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = name_given(spec);
    bool plain = !name || (*name && !name[strspn(name, allowed)]);
    if (plain && !strv_contains(&spec->options, NAME_OPTION))
        return 0;
    return error_set(err, NCBENCH_EXIT_SCENARIO,
                     "runtime %s: option " NAME_OPTION ": expected " NAME_OPTION
                     "=NAME of letters, digits, \".\", \"_\" and \"-\"; ncbench gives the flag",
                     spec->name);
}

/* Caller frees; NULL: it has no name. */
static char *container_of(const struct runtime_spec *spec, const char *session_dir)
{
    const char *name = name_given(spec);
    return name ? client_session_name(name, session_dir, spec->image) : NULL;
}

/* no_exec: a trial starts the container; it does not join a process that runs in it. */
static void append_name(const struct runtime_spec *spec, const char *session_dir, struct strv *argv)
{
    auto_free char *name = container_of(spec, session_dir);
    if (name)
        strv_pushf(argv, NAME_OPTION "=%s:no_exec", name);
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    /* The last three are evaluated by a shell on the way to enroot. */
    if (check_image(spec, err) || srun_plugin_check_options(spec, err) || check_name(spec, err) ||
        mounts_check_bytes(mounts, spec->kind, ":,\n\"$`", err) ||
        mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    if (portable || srun_plugin_check_host(spec, OPTION, "pyxis", err))
        return -err->code;
    return gpu_check_host(spec, GPU_NEEDS_HOOK, err);
}

static void append_mounts(const struct mounts *mounts, struct strv *argv)
{
    auto_str list = STR_INIT;
    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount *m = &mounts->items[i];
        str_appendf(&list, "%s%s:%s:x-create=auto+rbind%s", i ? "," : "", m->source, m->target,
                    m->read_only ? "+ro" : "");
    }
    if (list.len)
        strv_pushf(argv, "--container-mounts=%s", list.data);
}

static void append_env_names(const struct runtime_launch *launch, const struct strv *gpus,
                             struct strv *argv)
{
    auto_str names = STR_INIT;
    bool home = srun_plugin_home_is_mounted(launch);
    for (size_t i = 0; i < launch->env->count; i++) {
        const char *item = launch->env->items[i];
        if (str_starts_with(item, "HOME=") && !home)
            continue;
        str_appendf(&names, "%s%.*s", names.len ? "," : "", (int)strcspn(item, "="), item);
    }
    for (size_t i = 0; i < gpus->count; i++)
        str_appendf(&names, "%s%.*s", names.len ? "," : "", (int)strcspn(gpus->items[i], "="),
                    gpus->items[i]);
    if (names.len)
        strv_pushf(argv, "--container-env=%s", names.data);
}

/* Flags of which one or the other is always given; a scenario's option takes the place of ours. */
static void append_flags(const struct strv *options, struct strv *argv)
{
    static const struct {
        const char *ours, *other;
    } flags[] = {
        {"--container-readonly", "--container-writable"},
        {"--no-container-mount-home", "--container-mount-home"},
        {"--no-container-remap-root", "--container-remap-root"},
        {"--no-container-entrypoint", "--container-entrypoint"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strv_contains(options, flags[i].ours) && !strv_contains(options, flags[i].other))
            strv_push(argv, flags[i].ours);
    for (size_t i = 0; i < options->count; i++)
        if (!str_starts_with(options->items[i], NAME_OPTION "="))
            strv_push(argv, options->items[i]);
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    if (runtime_env_check(&runtime_pyxis, launch->env, err) ||
        mounts_check_bytes(launch->mounts, "pyxis", ":,\n\"$`", err))
        return -err->code;
    strv_pushf(argv, OPTION "=%s", launch->spec->image);
    append_mounts(launch->mounts, argv);
    if (client_given(launch->cwd))
        strv_pushf(argv, "--container-workdir=%s", launch->cwd);
    auto_strv gpus = STRV_INIT;
    gpu_hook_env(launch, &gpus);
    append_env_names(launch, &gpus, argv);
    append_flags(&launch->spec->options, argv);
    append_name(launch->spec, launch->session_dir, argv);
    strv_extend(env, launch->env);
    strv_extend(env, &gpus);
    return 0;
}

/* ---- the nodes ------------------------------------------------------------------------------- */
/* It is there before the first trial: pyxis makes it where it is not. */
static void node_prepare(const struct runtime_spec *spec, const char *session_dir,
                         struct strv *argv)
{
    if (!name_given(spec))
        return;
    strv_pushf(argv, OPTION "=%s", spec->image);
    append_flags(&spec->options, argv);
    append_name(spec, session_dir, argv);
    client_words(argv, "sh -c true"); /* ":" alone parts the commands of srun */
}

/* Which of the two names it has stands in the site's plugstack.conf (container_scope). */
static void node_cleanup(const struct runtime_spec *spec, const char *session_dir,
                         struct strv *argv)
{
    auto_free char *name = container_of(spec, session_dir);
    const char *job_id = getenv("SLURM_JOB_ID");
    if (!name)
        return;
    enroot_node_remove(ENROOT_PATHS_OF_SITE, argv);
    strv_pushf(argv, "pyxis_%s_%s", job_id ? job_id : "", name);
    strv_pushf(argv, "pyxis_%s", name);
}

/* A step that is killed may take the removal of its container with it. Which step this trial was is
 * not always known; but of those that are over none needs its container any more. */
static void remove_argv(const struct runtime_launch *launch, struct strv *argv)
{
    (void)launch;
    enroot_node_remove_steps(argv);
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    auto_free char *name = container_of(spec, session_dir);
    srun_plugin_describe(spec, obj);
    if (name)
        json_put_str(obj, "container", name);
    else
        json_put_null(obj, "container", "each step makes one of its own");
    json_put_str(obj, "start_includes",
                 name ? "the start of a container that was unpacked before the first trial"
                      : "import or unpacking of the image on each node");
}

const struct runtime_ops runtime_pyxis = {
    .name = "pyxis",
    .summary = "pyxis (srun --container-image) over enroot, in a Slurm step",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER | RUNTIME_SRUN | RUNTIME_ENV_LINES,
    .keys = keys,
    .probe = probe,
    .check = check,
    .node_prepare = node_prepare,
    .node_cleanup = node_cleanup,
    .argv = make_argv,
    .classify = srun_plugin_classify,
    .remove_argv = remove_argv,
    .describe = describe,
};
