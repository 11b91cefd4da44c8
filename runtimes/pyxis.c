/* pyxis: srun --container-*, over enroot.
 *
 * The environment of the step goes into the container, but the image's values win unless the
 * variable is named in --container-env: so every one is. HOME is named only where a mount makes its
 * directory, because enroot goes there first and fails without it. What a flag does not say is the
 * site's enroot.conf or a PYXIS_ variable: so the flags that matter are always given. */
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/srun_plugin.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <string.h>

#define OPTION "--container-image"

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

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    /* The last three are evaluated by a shell on the way to enroot. */
    if (check_image(spec, err) || srun_plugin_check_options(spec, err) ||
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
    strv_extend(argv, options);
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
    strv_extend(env, launch->env);
    strv_extend(env, &gpus);
    return 0;
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    (void)session_dir;
    srun_plugin_describe(spec, obj);
}

const struct runtime_ops runtime_pyxis = {
    .name = "pyxis",
    .summary = "pyxis (srun --container-image) over enroot, in a Slurm step",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER | RUNTIME_SRUN | RUNTIME_ENV_LINES,
    .keys = keys,
    .probe = probe,
    .check = check,
    .argv = make_argv,
    .classify = srun_plugin_classify,
    .describe = describe,
};
