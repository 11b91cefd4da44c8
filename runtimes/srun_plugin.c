#include "runtimes/srun_plugin.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/messages.h"

#include <string.h>
#include <sys/wait.h>

/* ---- is it here? ----------------------------------------------------------------------------- */
/* The text of `srun WORD`; false if it failed. */
static bool ask_srun(const char *word, struct str *out)
{
    static const char *const names[] = {"PATH", "HOME", "SLURM_CONF", NULL};
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_error struct error ignored = ERROR_INIT;
    int rc;
    strv_push(&argv, "srun");
    strv_push(&argv, word);
    client_copy_env(names, &env);
    return !client_run(&argv, &env, CLIENT_QUICK_S, out, NULL, &rc, &ignored) && rc == 0;
}

/* Why it cannot be used here, NULL if it can. Caller frees. */
static char *why_not(const char *option, const char *plugin)
{
    auto_free char *program = client_find("srun");
    auto_str help = STR_INIT;
    if (!program)
        return mem_printf("srun not found on PATH; %s is a plugin of Slurm", plugin);
    if (!ask_srun("--help", &help))
        return mem_strdup("srun --help failed");
    if (!strstr(help.data, option))
        return mem_printf("srun has no %s: the plugin of %s is not installed", option, plugin);
    return NULL;
}

void srun_plugin_probe(const char *option, const char *plugin, struct runtime_probe *out)
{
    out->versions = json_object();
    out->why = why_not(option, plugin);
    out->available = !out->why;
    auto_str version = STR_INIT;
    if (out->available && ask_srun("--version", &version)) {
        const char *text = str_trim(version.data);
        json_put_str(out->versions, "slurm", str_starts_with(text, "slurm ") ? text + 6 : text);
        json_put_null(out->versions, plugin, "srun does not tell");
    }
}

int srun_plugin_check_host(const struct runtime_spec *spec, const char *option, const char *plugin,
                           struct error *err)
{
    auto_free char *why = why_not(option, plugin);
    if (!why)
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: %s", spec->name, why);
}

/* ---- check ----------------------------------------------------------------------------------- */
int srun_plugin_check_options(const struct runtime_spec *spec, struct error *err)
{
    static const struct refused_option refused[] = {
        {"--container-image", "use image"},
        {"--container-mounts", "use mounts"},
        {"--container-workdir", "trials run in their own directory"},
        {"--container-env", "ncbench names every variable"},
        {"--container-save", "it outlives the step"},
        {"--environment", "ncbench writes the EDF; use image, mounts, env, annotations"},
        {"--edf", "ncbench writes the EDF; use image, mounts, env, annotations"},
        {0},
    };
    return client_refuse_options(spec, refused, err);
}

bool srun_plugin_home_is_mounted(const struct runtime_launch *launch)
{
    const char *home = strv_env_get(launch->env, "HOME");
    size_t n = home ? strlen(home) : 0;
    for (size_t i = 0; n && i < launch->mounts->count; i++) {
        const char *target = launch->mounts->items[i].target;
        if (!strncmp(target, home, n) && (target[n] == '/' || !target[n]))
            return true;
    }
    return false;
}

/* ---- classify -------------------------------------------------------------------------------- */
static void append_line(struct str *reason, const char *lead, const char *from)
{
    enum { LINE_MAX_BYTES = 300 };
    size_t n = str_utf8_cut(from, strcspn(from, "\n"), LINE_MAX_BYTES);
    str_appendf(reason, "%s%.*s", lead, (int)n, from);
}

/* The line that holds `at`, from its beginning. */
static const char *line_start(const char *text, const char *at)
{
    while (at > text && at[-1] != '\n')
        at--;
    return at;
}

enum outcome srun_plugin_classify(const struct runtime_evidence *evidence, struct str *reason)
{
    enum outcome outcome = classify_signal(evidence->wait_status, reason);
    if (outcome != OUTCOME_COUNT)
        return outcome;
    auto_str text = STR_INIT;
    messages_clean(evidence->stderr_tail ? evidence->stderr_tail : "", &text);
    int rc = WEXITSTATUS(evidence->wait_status);
    const char *plugin = strstr(text.data, "error: pyxis:");
    const char *cause = strstr(text.data, "[ERROR]");
    if (rc && (plugin || cause)) {
        str_appendf(reason, "exit %d", rc);
        if (plugin)
            append_line(reason, ": ", line_start(text.data, plugin));
        if (cause)
            append_line(reason, plugin ? "; " : ": ", cause);
        return OUTCOME_RUNTIME_FAILED;
    }
    outcome = runtime_classify_srun(evidence, reason);
    if (outcome != OUTCOME_COUNT)
        return outcome;
    static const struct message_rule none[] = {{0, NULL, NULL, OUTCOME_COUNT}};
    static const char *const markers[] = {"error: ", NULL};
    return messages_classify(none, markers, evidence, reason);
}

/* ---- describe -------------------------------------------------------------------------------- */
void srun_plugin_describe(const struct runtime_spec *spec, json_t *obj)
{
    auto_str version = STR_INIT;
    if (ask_srun("--version", &version))
        json_put_str(obj, "slurm", str_trim(version.data));
    else
        json_put_null(obj, "slurm", "srun --version failed");
    static const char *const files[] = {"/etc/slurm/plugstack.conf", "/etc/enroot/enroot.conf"};
    static const char *const names[] = {"plugstack_conf_sha256", "enroot_conf_sha256"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        client_put_sha256(obj, names[i], files[i]);
    if (*spec->image == '/') {
        client_put_image_file(obj, spec->image);
        return;
    }
    json_t *image = json_object();
    json_put_str(image, "ref", spec->image);
    json_put_null(image, "digest", "a registry reference: the runtime does not tell");
    json_put(obj, "image", image);
}
