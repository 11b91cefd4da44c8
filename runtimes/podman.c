/* podman: what a scenario may ask of it, and the argument vector. See podman_priv.h. */
#include "runtimes/podman_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "runtimes/host.h"

#include <stdlib.h>
#include <string.h>

static const char *const keys[] = {"image",   "rootfs", "nanochat", "mounts",   "devices",
                                   "ulimits", "ipc",    "network",  "shm_size", "memory",
                                   "cpuset",  "userns", "options",  NULL};

static bool given(const char *s)
{
    return s && *s;
}

bool podman_private_ipc(const struct runtime_spec *spec)
{
    return given(spec->ipc) ? !strcmp(spec->ipc, "private") : spec->shm_size_bytes > 0;
}

/* ---- check ----------------------------------------------------------------------------------- */
static int check_image(const struct runtime_spec *spec, struct error *err)
{
    const int code = NCBENCH_EXIT_SCENARIO;
    if (given(spec->image) == given(spec->rootfs)) {
        error_set(err, code, "runtime %s: expected either image or rootfs", spec->name);
        return error_hint(err, "`ncbench image build` makes an image from the local build; rootfs: "
                               "/ is an overlay on the host's own files");
    }
    if (given(spec->rootfs) && (*spec->rootfs != '/' || strchr(spec->rootfs, ':')))
        return error_set(err, code,
                         "runtime %s: rootfs \"%s\": expected an absolute path without \":\"",
                         spec->name, spec->rootfs);
    if (given(spec->image) && strchr("/.-", *spec->image)) {
        error_set(err, code,
                  "runtime %s: image \"%s\": expected a reference in podman's store, no path",
                  spec->name, spec->image);
        return error_hint(err, "`podman load -i FILE` brings an archive into the store; rootfs: "
                               "takes a directory");
    }
    return 0;
}

static int check_word(const struct runtime_spec *spec, const char *key, const char *value,
                      const char *a, const char *b, struct error *err)
{
    if (!given(value) || !strcmp(value, a) || !strcmp(value, b))
        return 0;
    return error_set(err, NCBENCH_EXIT_SCENARIO, "runtime %s: %s \"%s\": expected %s or %s",
                     spec->name, key, value, a, b);
}

/* Options that would take the trial out of the harness's hands, and what to use instead. */
static int check_options(const struct runtime_spec *spec, struct error *err)
{
    static const struct {
        const char *option, *instead;
    } refused[] = {
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
    };
    for (size_t i = 0; i < spec->options.count; i++) {
        const char *option = spec->options.items[i];
        size_t n = strcspn(option, "=");
        for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
            if (strlen(refused[k].option) == n && !strncmp(option, refused[k].option, n))
                return error_set(err, NCBENCH_EXIT_SCENARIO,
                                 "runtime %s: option %s is not allowed: %s", spec->name, option,
                                 refused[k].instead);
    }
    return 0;
}

/* podman reads --mount with Go's encoding/csv, which turns CR LF into LF. */
static int check_mount_bytes(const struct mounts *mounts, struct error *err)
{
    for (size_t i = 0; i < mounts->count; i++)
        if (strstr(mounts->items[i].source, "\r\n") || strstr(mounts->items[i].target, "\r\n"))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime podman cannot mount a path containing CR LF");
    return 0;
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

int podman_ulimit_parse(const char *text, struct podman_ulimit *out, struct error *err)
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

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (check_image(spec, err) || check_word(spec, "ipc", spec->ipc, "host", "private", err) ||
        check_word(spec, "network", spec->network, "host", "none", err) ||
        check_options(spec, err) || check_mount_bytes(mounts, err))
        return -err->code;
    if (spec->shm_size_bytes > 0 && !podman_private_ipc(spec))
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "runtime %s: shm_size cannot be set with ipc: host, which has the host's "
                         "/dev/shm; expected ipc: private",
                         spec->name);
    for (size_t i = 0; i < spec->ulimits.count; i++) {
        struct podman_ulimit ulimit;
        if (podman_ulimit_parse(spec->ulimits.items[i], &ulimit, err))
            return error_wrap(err, "runtime %s", spec->name);
    }
    if (mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    return portable ? 0 : podman_check_host(spec, err);
}

/* ---- argv ------------------------------------------------------------------------------------ */
char *podman_conf_path(const char *session_dir)
{
    return mem_printf("%s/podman/containers.conf", session_dir);
}

char *podman_container_name(const struct runtime_launch *launch)
{
    char hash[SHA256_HEX];
    sha256_hex(launch->trial_dir, strlen(launch->trial_dir), hash);
    auto_str name = STR_INIT;
    str_append(&name, "ncbench-");
    for (const char *p = launch->trial_id; *p; p++) {
        bool plain =
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p);
        str_append_char(&name, plain ? *p : '_');
    }
    str_appendf(&name, "-%.8s", hash);
    return str_steal(&name);
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
                                        "STORAGE_DRIVER"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value)
            strv_env_set(env, names[i], value);
    }
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
        struct podman_ulimit u;
        auto_error struct error err = ERROR_INIT;
        if (podman_ulimit_parse(spec->ulimits.items[i], &u, &err))
            BUG("%s", err.message); /* check let it pass */
        nofile |= !strcmp(u.name, "nofile");
        nproc |= !strcmp(u.name, "nproc");
        strv_pushf(argv, "--ulimit=%s=%lld:%lld", u.name,
                   u.soft == HOST_UNLIMITED ? -1LL : (long long)u.soft,
                   u.hard == HOST_UNLIMITED ? -1LL : (long long)u.hard);
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

static void append_namespaces(const struct runtime_spec *spec, struct strv *argv)
{
    strv_pushf(argv, "--network=%s", given(spec->network) ? spec->network : "host");
    strv_pushf(argv, "--ipc=%s", podman_private_ipc(spec) ? "private" : "host");
    if (spec->shm_size_bytes > 0)
        strv_pushf(argv, "--shm-size=%lldb", (long long)spec->shm_size_bytes);
    if (given(spec->userns))
        strv_pushf(argv, "--userns=%s", spec->userns);
    if (given(spec->cpuset))
        strv_pushf(argv, "--cpuset-cpus=%s", spec->cpuset);
    if (spec->memory_bytes > 0)
        strv_pushf(argv, "--memory=%lldb", (long long)spec->memory_bytes);
}

static void append_view(const struct runtime_launch *launch, struct strv *argv)
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
}

static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    const struct runtime_spec *spec = launch->spec;
    (void)err;
    auto_free char *name = podman_container_name(launch);
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
    append_view(launch, argv);
    strv_extend(argv, &spec->options);
    if (given(launch->cwd))
        strv_pushf(argv, "--workdir=%s", launch->cwd);
    strv_push(argv, "--entrypoint="); /* ours is the program, whatever the image says */
    if (given(spec->rootfs)) {
        strv_push(argv, "--rootfs");
        strv_pushf(argv, "%s:O", spec->rootfs); /* without :O podman writes into the directory */
    } else {
        strv_push(argv, spec->image);
    }
    strv_extend(argv, launch->argv);
    podman_client_env(launch->session_dir, launch->trial_id, env);
    return 0;
}

const struct runtime_ops runtime_podman = {
    .name = "podman",
    .summary = "podman, one container for the ranks of a node",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER,
    .keys = keys,
    .probe = podman_probe,
    .check = check,
    .prepare = podman_prepare,
    .argv = make_argv,
    .classify = podman_classify,
    .stop = podman_stop,
    .leftover = podman_leftover,
    .describe = podman_describe,
};
