/* Both engines that read an EDF, in one file: they differ in the option of srun, in what an image
 * may be, and in devices. */
#include "runtimes/edf.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/srun_plugin.h"

#include <string.h>

const struct edf_dialect edf_ce = {
    .kind = "cscs-ce", .option = "--environment", .path_images = true};
const struct edf_dialect edf_skybox = {.kind = "skybox", .option = "--edf", .devices = true};

/* ---- text ------------------------------------------------------------------------------------ */
bool edf_can_say(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
            return false;
    return !strstr(text, "$${") && str_utf8_valid(text, strlen(text)) == strlen(text);
}

/* A basic string of TOML, with `${` kept from being expanded. */
static void append_string(struct str *out, const char *text)
{
    str_append_char(out, '"');
    for (const char *p = text; *p; p++) {
        if (p[0] == '$' && p[1] == '{')
            str_append(out, "$$");
        else if (*p == '"' || *p == '\\')
            str_appendf(out, "\\%c", *p);
        else if (*p == '\t')
            str_append(out, "\\t");
        else
            str_append_char(out, *p);
    }
    str_append_char(out, '"');
}

/* Bare keys are letters, digits, _ and -; others are quoted. */
static void append_pair(struct str *out, const char *assignment)
{
    size_t n = strcspn(assignment, "=");
    auto_free char *name = mem_strndup(assignment, n);
    bool bare = n > 0;
    for (const char *p = name; *p; p++)
        bare &=
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *p) != NULL;
    if (bare)
        str_append(out, name);
    else
        append_string(out, name);
    str_append(out, " = ");
    append_string(out, assignment[n] ? assignment + n + 1 : "");
    str_append_char(out, '\n');
}

/* ---- the file -------------------------------------------------------------------------------- */
static int check_sayable(const struct runtime_launch *launch, struct error *err)
{
    const struct runtime_spec *spec = launch->spec;
    const struct runtime_ops *ops = runtime_find(spec->kind);
    if (ops && runtime_env_check(ops, launch->env, err))
        return -err->code;
    for (size_t i = 0; i < launch->env->count; i++)
        if (!edf_can_say(launch->env->items[i]))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s cannot pass variable %.*s: an EDF cannot say its value",
                             spec->kind, (int)strcspn(launch->env->items[i], "="),
                             launch->env->items[i]);
    if (mounts_check_bytes(launch->mounts, spec->kind, ":\n", err))
        return -err->code;
    for (size_t i = 0; i < launch->mounts->count; i++)
        if (!edf_can_say(launch->mounts->items[i].source) ||
            !edf_can_say(launch->mounts->items[i].target))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s cannot mount %s: an EDF cannot say its path", spec->kind,
                             launch->mounts->items[i].source);
    return 0;
}

static void write_list(struct str *out, const char *key, const struct strv *items)
{
    str_appendf(out, "%s = [", key);
    for (size_t i = 0; i < items->count; i++) {
        str_append(out, "\n    ");
        append_string(out, items->items[i]);
        str_append_char(out, ',');
    }
    str_append(out, items->count ? "\n]\n" : "]\n");
}

static void write_mounts(struct str *out, const struct mounts *mounts)
{
    auto_strv list = STRV_INIT;
    for (size_t i = 0; i < mounts->count; i++)
        strv_pushf(&list, "%s:%s%s", mounts->items[i].source, mounts->items[i].target,
                   mounts->items[i].read_only ? ":ro" : "");
    write_list(out, "mounts", &list);
}

static void write_devices(struct str *out, const struct edf_dialect *dialect,
                          const struct runtime_spec *spec)
{
    auto_strv list = STRV_INIT;
    strv_extend(&list, &spec->devices);
    if (gpu_asked(spec) && !strv_contains(&list, GPU_CDI_ALL))
        strv_push(&list, GPU_CDI_ALL);
    if (dialect->devices && list.count)
        write_list(out, "devices", &list);
}

static void write_env(struct str *out, const struct edf_dialect *dialect,
                      const struct runtime_launch *launch)
{
    auto_strv gpus = STRV_INIT;
    bool home = srun_plugin_home_is_mounted(launch);
    str_append(out, "\n[env]\n");
    for (size_t i = 0; i < launch->env->count; i++)
        if (home || !str_starts_with(launch->env->items[i], "HOME="))
            append_pair(out, launch->env->items[i]);
    if (!dialect->devices)
        gpu_hook_env(launch, &gpus);
    for (size_t i = 0; i < gpus.count; i++)
        append_pair(out, gpus.items[i]);
}

int edf_write(const struct runtime_launch *launch, const struct edf_dialect *dialect,
              struct str *out, struct error *err)
{
    const struct runtime_spec *spec = launch->spec;
    if (check_sayable(launch, err))
        return -err->code;
    str_appendf(out, "# Written by ncbench for trial %s\nimage = ", launch->trial_id);
    append_string(out, spec->image);
    if (client_given(launch->cwd)) {
        str_append(out, "\nworkdir = ");
        append_string(out, launch->cwd);
    }
    str_append(out, "\nentrypoint = false\nwritable = true\n");
    write_mounts(out, launch->mounts);
    write_devices(out, dialect, spec);
    write_env(out, dialect, launch);
    if (spec->annotations.count)
        str_append(out, "\n[annotations]\n");
    for (size_t i = 0; i < spec->annotations.count; i++)
        append_pair(out, spec->annotations.items[i]);
    return 0;
}

/* ---- the two kinds --------------------------------------------------------------------------- */
static const struct edf_dialect *dialect_of(const struct runtime_spec *spec)
{
    static const struct edf_dialect *const dialects[] = {&edf_ce, &edf_skybox};
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
        if (!strcmp(dialects[i]->kind, spec->kind))
            return dialects[i];
    BUG("kind %s reads no EDF", spec->kind);
}

static char *edf_path(const struct runtime_launch *launch)
{
    return mem_printf("%s/environment.toml", launch->trial_dir);
}

static int check_image(const struct runtime_spec *spec, struct error *err)
{
    const int code = NCBENCH_EXIT_SCENARIO;
    if (!client_given(spec->image))
        return error_set(err, code, "runtime %s: image is missing", spec->name);
    if (!edf_can_say(spec->image))
        return error_set(err, code, "runtime %s: an EDF cannot say this image", spec->name);
    bool path = strchr("/.", *spec->image) || str_ends_with(spec->image, ".sqsh");
    if (path && !dialect_of(spec)->path_images)
        return error_set(
            err, code, "runtime %s: image \"%s\": expected a registry reference, %s takes no path",
            spec->name, spec->image, spec->kind);
    if (path && *spec->image != '/')
        return error_set(err, code, "runtime %s: image \"%s\": expected an absolute path",
                         spec->name, spec->image);
    return 0;
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (check_image(spec, err) || srun_plugin_check_options(spec, err) ||
        mounts_check_bytes(mounts, spec->kind, ":\n", err) ||
        mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    for (size_t i = 0; i < spec->annotations.count; i++)
        if (!edf_can_say(spec->annotations.items[i]))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s: an EDF cannot say annotation %.*s", spec->name,
                             (int)strcspn(spec->annotations.items[i], "="),
                             spec->annotations.items[i]);
    if (portable || srun_plugin_check_host(spec, dialect_of(spec)->option, spec->kind, err))
        return -err->code;
    return gpu_check_host(spec, dialect_of(spec)->devices ? GPU_NEEDS_CDI : 0, err);
}

static int create(const struct runtime_launch *launch, struct error *err)
{
    auto_free char *path = edf_path(launch);
    auto_str text = STR_INIT;
    if (edf_write(launch, dialect_of(launch->spec), &text, err))
        return -err->code;
    return fs_write_atomic(path, text.data, text.len, NCBENCH_EXIT_RESULTS, err);
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    auto_free char *path = edf_path(launch);
    if (check_sayable(launch, err))
        return -err->code;
    strv_pushf(argv, "%s=%s", dialect_of(launch->spec)->option, path);
    strv_extend(argv, &launch->spec->options);
    strv_extend(env, launch->env);
    return 0;
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    (void)session_dir;
    srun_plugin_describe(spec, obj);
    json_put_str(obj, "start_includes", "import or unpacking of the image on each node");
}

static void probe_ce(struct runtime_probe *out)
{
    srun_plugin_probe(edf_ce.option, edf_ce.kind, out);
}

static void probe_skybox(struct runtime_probe *out)
{
    srun_plugin_probe(edf_skybox.option, edf_skybox.kind, out);
}

#define EDF_FLAGS                                                                                  \
    (RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER | RUNTIME_SRUN | RUNTIME_ENV_LINES |                  \
     RUNTIME_ENV_NOT_EMPTY)

static const char *const ce_keys[] = {"image",       "nanochat", "gpus", "mounts",
                                      "annotations", "options",  NULL};
static const char *const skybox_keys[] = {"image",   "nanochat",    "gpus",    "mounts",
                                          "devices", "annotations", "options", NULL};

const struct runtime_ops runtime_cscs_ce = {
    .name = "cscs-ce",
    .summary = "the CSCS container engine (srun --environment), by an EDF that ncbench writes",
    .flags = EDF_FLAGS,
    .keys = ce_keys,
    .probe = probe_ce,
    .check = check,
    .create = create,
    .argv = make_argv,
    .classify = srun_plugin_classify,
    .describe = describe,
};

const struct runtime_ops runtime_skybox = {
    .name = "skybox",
    .summary = "Skybox of the Sarus Suite (srun --edf), by an EDF that ncbench writes",
    .flags = EDF_FLAGS,
    .keys = skybox_keys,
    .probe = probe_skybox,
    .check = check,
    .create = create,
    .argv = make_argv,
    .classify = srun_plugin_classify,
    .describe = describe,
};
