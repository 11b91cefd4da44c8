#include "runtimes/oci_cli.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/host.h"

#include <string.h>

bool oci_private_ipc(const struct runtime_spec *spec)
{
    return client_given(spec->ipc) ? !strcmp(spec->ipc, "private") : spec->shm_size_bytes > 0;
}

/* ---- check ----------------------------------------------------------------------------------- */
static int check_word(const struct runtime_spec *spec, const char *key, const char *value,
                      const char *a, const char *b, struct error *err)
{
    if (!client_given(value) || !strcmp(value, a) || !strcmp(value, b))
        return 0;
    return error_set(err, NCBENCH_EXIT_SCENARIO, "runtime %s: %s \"%s\": expected %s or %s",
                     spec->name, key, value, a, b);
}

/* Options that would take the trial out of the harness's hands, and what to use instead. */
static int check_options(const struct runtime_spec *spec, struct error *err)
{
    static const struct refused_option refused[] = {
        {"--detach", "trials run in the foreground"},
        {"-d", "trials run in the foreground"},
        {"--name", "ncbench names its containers"},
        {"--replace", "ncbench names its containers"},
        {"--restart", "a trial is one launch"},
        {"--timeout", "use limits.trial"},
        {"--pull", "pull before the session: a pull would be timed"},
        {"--interactive", "standard input is /dev/null"},
        {"-i", "standard input is /dev/null"},
        {"--tty", "output goes to files"},
        {"-t", "output goes to files"},
        {"-it", "output goes to files"},
        {0},
    };
    return client_refuse_options(spec, refused, err);
}

static bool parse_limit(const char *text, size_t len, int64_t *out)
{
    auto_free char *word = mem_strndup(text, len);
    if (!strcmp(word, "unlimited") || !strcmp(word, "-1")) {
        *out = HOST_UNLIMITED;
        return true;
    }
    return num_parse_i64(word, out) && *out >= 0;
}

int oci_ulimit_parse(const char *text, struct oci_ulimit *out, struct error *err)
{
    size_t n = strcspn(text, "=");
    if (n < sizeof out->name && text[n] == '=') {
        memcpy(out->name, text, n);
        out->name[n] = '\0';
        const char *value = text + n + 1;
        size_t soft = strcspn(value, ":");
        const char *hard = value[soft] ? value + soft + 1 : value;
        if (host_ulimit_known(out->name) && parse_limit(value, soft, &out->soft) &&
            parse_limit(hard, strlen(hard), &out->hard) && out->soft <= out->hard)
            return 0;
    }
    return error_set(err, NCBENCH_EXIT_SCENARIO,
                     "ulimit \"%s\": expected NAME=SOFT[:HARD] such as memlock=unlimited or "
                     "nofile=4096:8192",
                     text);
}

int oci_check_spec(const struct runtime_spec *spec, const struct mounts *mounts, struct error *err)
{
    if (check_word(spec, "ipc", spec->ipc, "host", "private", err) ||
        check_word(spec, "network", spec->network, "host", "none", err) ||
        check_options(spec, err) || mounts_check_csv(mounts, spec->kind, err))
        return -err->code;
    if (spec->shm_size_bytes > 0 && !oci_private_ipc(spec))
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "runtime %s: shm_size cannot be set with ipc: host, which has the host's "
                         "/dev/shm; expected ipc: private",
                         spec->name);
    for (size_t i = 0; i < spec->ulimits.count; i++) {
        struct oci_ulimit ulimit;
        if (oci_ulimit_parse(spec->ulimits.items[i], &ulimit, err))
            return error_wrap(err, "runtime %s", spec->name);
    }
    return 0;
}

int oci_check_ulimits(const struct runtime_spec *spec, struct error *err)
{
    if (host_has_cap(HOST_CAP_SYS_RESOURCE))
        return 0;
    for (size_t i = 0; i < spec->ulimits.count; i++) {
        struct oci_ulimit u;
        int64_t soft, hard;
        if (oci_ulimit_parse(spec->ulimits.items[i], &u, err))
            return -err->code;
        if (!host_ulimit(u.name, &soft, &hard) || u.hard <= hard)
            continue;
        error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                  "runtime %s: ulimit %s is above the hard limit of %lld, and there is no "
                  "CAP_SYS_RESOURCE to raise it",
                  spec->name, spec->ulimits.items[i], (long long)hard);
        return error_hint(err, "raise the hard limit of %s for this session, or ask for less",
                          u.name);
    }
    return 0;
}

int oci_check_device_nodes(const struct runtime_spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->devices.count; i++) {
        const char *device = spec->devices.items[i];
        auto_free char *node = mem_strndup(device, strcspn(device, ":"));
        if (*device == '/' && !fs_exists(node))
            return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: device %s does not exist",
                             spec->name, node);
    }
    return 0;
}

/* ---- argv ------------------------------------------------------------------------------------ */
void oci_append_namespaces(const struct runtime_spec *spec, struct strv *argv)
{
    strv_pushf(argv, "--network=%s", client_given(spec->network) ? spec->network : "host");
    strv_pushf(argv, "--ipc=%s", oci_private_ipc(spec) ? "private" : "host");
    if (spec->shm_size_bytes > 0)
        strv_pushf(argv, "--shm-size=%lldb", (long long)spec->shm_size_bytes);
    if (client_given(spec->userns)) /* docker takes no such key */
        strv_pushf(argv, "--userns=%s", spec->userns);
    if (client_given(spec->cpuset))
        strv_pushf(argv, "--cpuset-cpus=%s", spec->cpuset);
    if (spec->memory_bytes > 0)
        strv_pushf(argv, "--memory=%lldb", (long long)spec->memory_bytes);
}

void oci_append_view(const struct runtime_launch *launch, struct strv *argv)
{
    const struct runtime_spec *spec = launch->spec;
    /* One element each, never --env-file: values keep their newlines (podman#18724). */
    for (size_t i = 0; i < launch->env->count; i++)
        strv_pushf(argv, "--env=%s", launch->env->items[i]);
    for (size_t i = 0; i < launch->mounts->count; i++) {
        auto_str text = STR_INIT;
        str_append(&text, "--mount=");
        mount_append_csv(&text, &launch->mounts->items[i]);
        strv_push(argv, text.data);
    }
    for (size_t i = 0; i < spec->devices.count; i++)
        strv_pushf(argv, "--device=%s", spec->devices.items[i]);
    if (gpu_asked(spec) && !strv_contains(&spec->devices, GPU_CDI_ALL))
        strv_push(argv, "--device=" GPU_CDI_ALL);
}

void oci_append_ulimit(const struct oci_ulimit *ulimit, struct strv *argv)
{
    strv_pushf(argv, "--ulimit=%s=%lld:%lld", ulimit->name,
               ulimit->soft == HOST_UNLIMITED ? -1LL : (long long)ulimit->soft,
               ulimit->hard == HOST_UNLIMITED ? -1LL : (long long)ulimit->hard);
}
