/* podman: what needs the program or the machine. See podman_priv.h. */
#include "runtimes/podman_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/host.h"
#include "runtimes/oci_cli.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run podman with the words of argv behind it. *rc: its exit code, or 128+n. */
static int capture(const char *session_dir, struct strv *argv, struct str *out, struct str *errout,
                   int *rc, struct error *err)
{
    auto_strv env = STRV_INIT;
    podman_client_env(session_dir, NULL, &env);
    return client_run(argv, &env, CLIENT_QUICK_S, out, errout, rc, err);
}

void podman_probe(struct runtime_probe *out)
{
    out->versions = json_object();
    auto_free char *podman = spawn_find_program("podman");
    auto_free char *version = podman ? client_version(podman) : NULL;
    if (!version) {
        out->why = mem_strdup(podman ? "podman --version failed"
                                     : "podman not found on PATH; tools/install-deps run, or "
                                       "apt-get install podman runc");
        return;
    }
    out->available = true;
    json_put_str(out->versions, "podman", version);
    static const char *const parts[] = {"conmon", "runc", "crun"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        auto_free char *path = client_find(parts[i]);
        auto_free char *part = path ? client_version(path) : NULL;
        if (part)
            json_put_str(out->versions, parts[i], part);
        else
            json_put_null(out->versions, parts[i], path ? "no --version" : "not found");
    }
}

/* crun, podman's default, refuses a machine where cgroup2 owns a controller beside v1. Appends the
 * runtime to configure, nothing where podman's own choice works. */
static int choose_oci_runtime(struct str *name, struct error *err)
{
    if (!host_hybrid_owns_controllers())
        return 0;
    auto_free char *runc = client_find("runc");
    if (runc) {
        str_append(name, "runc");
        return 0;
    }
    error_set(err, NCBENCH_EXIT_ENVIRONMENT,
              "podman: cgroups are v1+v2 hybrid, which crun refuses, and runc is not installed");
    return error_hint(err, "apt-get install runc");
}

/* ---- check ----------------------------------------------------------------------------------- */
/* Rootless podman on cgroup v1 ignores a limit and returns 0: that must not become a result. */
static int check_controller(const struct runtime_spec *spec, const char *key,
                            const char *controller, struct error *err)
{
    enum host_cgroups version = host_cgroups();
    bool rootless = host_uid() != 0;
    auto_str have = STR_INIT;
    bool told = host_controllers(&have);
    if (told && host_words_contain(have.data, controller))
        return 0;
    if (rootless && version != HOST_CGROUP_V2)
        error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                  "runtime %s: %s: rootless podman on cgroups %s ignores it without a word",
                  spec->name, key, host_cgroups_name(version));
    else
        error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                  "runtime %s: %s: %s: controller \"%s\" is not delegated (have: %s)", spec->name,
                  key, rootless ? "rootless podman" : "podman", controller,
                  have.len ? have.data : "none");
    if (!strcmp(controller, "cpuset"))
        return error_hint(err, "launch: {bind: cores} binds by sched_setaffinity, which needs no "
                               "controller");
    return error_hint(err, "delegate it (systemd: Delegate=yes for user@.service), or run as root");
}

static int check_cdi(const struct runtime_spec *spec, const char *name, struct error *err)
{
    auto_free char *kind = mem_strndup(name, strcspn(name, "="));
    if (gpu_cdi_has(kind))
        return 0;
    error_set(err, NCBENCH_EXIT_ENVIRONMENT,
              "runtime %s: device %s: no CDI specification of %s in /etc/cdi or /var/run/cdi",
              spec->name, name, kind);
    return error_hint(err, "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml");
}

static int check_devices(const struct runtime_spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->devices.count; i++)
        if (*spec->devices.items[i] != '/' && check_cdi(spec, spec->devices.items[i], err))
            return -err->code;
    return oci_check_device_nodes(spec, err);
}

static int image_absent(const struct runtime_spec *spec, struct error *err)
{
    if (!strchr(spec->image, '/'))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                         "runtime %s: image \"%s\" not found locally; use a full reference such as "
                         "docker.io/library/ubuntu:24.04",
                         spec->name, spec->image);
    error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: image \"%s\" not found locally",
              spec->name, spec->image);
    if (str_starts_with(spec->image, "localhost/ncbench/"))
        return error_hint(err, "ncbench image build --name %s", spec->image);
    return error_hint(err, "podman pull %s", spec->image);
}

static int check_image(const struct runtime_spec *spec, struct error *err)
{
    if (client_given(spec->rootfs)) {
        if (fs_is_dir(spec->rootfs))
            return 0;
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: rootfs %s is no directory",
                         spec->name, spec->rootfs);
    }
    auto_strv argv = STRV_INIT;
    client_words(&argv, "podman image exists --");
    strv_push(&argv, spec->image);
    auto_str errout = STR_INIT;
    int rc;
    if (capture(NULL, &argv, NULL, &errout, &rc, err))
        return error_wrap(err, "runtime %s", spec->name);
    if (rc == 0)
        return 0;
    if (rc == 1)
        return image_absent(spec, err);
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: image \"%s\": podman: %s",
                     spec->name, spec->image, client_last_line(&errout));
}

int podman_check_host(const struct runtime_spec *spec, struct error *err)
{
    auto_free char *podman = spawn_find_program("podman");
    if (!podman) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: podman not found on PATH",
                  spec->name);
        return error_hint(err, "tools/install-deps run, or apt-get install podman runc");
    }
    auto_str oci = STR_INIT;
    if (choose_oci_runtime(&oci, err) || oci_check_ulimits(spec, err) || check_devices(spec, err) ||
        gpu_check_host(spec, GPU_NEEDS_CDI, err))
        return -err->code;
    if (client_given(spec->cpuset) && check_controller(spec, "cpuset", "cpuset", err))
        return -err->code;
    if (spec->memory_bytes > 0 && check_controller(spec, "memory", "memory", err))
        return -err->code;
    if (client_given(spec->userns) && str_starts_with(spec->userns, "keep-id") && host_uid() == 0)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                         "runtime %s: userns keep-id is for rootless podman only, and this is root",
                         spec->name);
    return check_image(spec, err);
}

/* ---- session --------------------------------------------------------------------------------- */
int podman_prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    (void)spec; /* one file for all podman arms of the session */
    auto_str oci = STR_INIT;
    if (choose_oci_runtime(&oci, err))
        return -err->code;
    auto_str text = STR_INIT;
    str_append(&text, "# Written by ncbench for this session: the host's limits pass unchanged.\n"
                      "[containers]\n"
                      "default_ulimits = []\n"
                      "pids_limit = 0\n"
                      "http_proxy = false\n");
    if (oci.len)
        str_appendf(&text, "[engine]\nruntime = \"%s\"\n", oci.data);
    auto_free char *path = podman_conf_path(session_dir);
    auto_free char *dir = fs_dirname(path);
    if (fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    return fs_write_atomic(path, text.data, text.len, NCBENCH_EXIT_RESULTS, err);
}

void podman_remove_argv(const struct runtime_launch *launch, struct strv *argv)
{
    auto_free char *name = client_container_name(launch);
    client_words(argv, "podman rm --force --ignore --time=0 --");
    strv_push(argv, name);
}

int podman_stop(const struct runtime_launch *launch, struct error *err)
{
    auto_free char *name = client_container_name(launch);
    auto_strv argv = STRV_INIT;
    podman_remove_argv(launch, &argv);
    auto_str errout = STR_INIT;
    int rc;
    if (capture(launch->session_dir, &argv, NULL, &errout, &rc, err))
        return error_wrap(err, "removing container %s", name);
    if (rc == 0 || strstr(errout.data, "no such container"))
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "removing container %s: podman exit %d: %s",
                     name, rc, client_last_line(&errout));
}

bool podman_leftover(const struct runtime_launch *launch, struct str *what)
{
    auto_free char *name = client_container_name(launch);
    auto_strv argv = STRV_INIT;
    client_words(&argv, "podman ps --all --noheading --format={{.Names}}|{{.Status}}");
    strv_pushf(&argv, "--filter=name=^%s$", name);
    auto_str out = STR_INIT, errout = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    int rc = 0;
    bool failed = capture(launch->session_dir, &argv, &out, &errout, &rc, &err) || rc;
    return client_listed(name, failed, &out, &errout, &err, what);
}

/* ---- describe -------------------------------------------------------------------------------- */
static json_t *podman_json(const char *session_dir, const struct strv *argv)
{
    auto_strv env = STRV_INIT;
    podman_client_env(session_dir, NULL, &env);
    return client_json(argv, &env);
}

static void describe_engine(const char *session_dir, json_t *obj)
{
    auto_strv argv = STRV_INIT;
    client_words(&argv, "podman info --format=json");
    auto_json *info = podman_json(session_dir, &argv);
    client_copy_str(obj, "podman", info, "version.Version", "podman");
    client_copy_str(obj, "conmon", info, "host.conmon.version", "podman");
    client_copy_str(obj, "oci_runtime", info, "host.ociRuntime.name", "podman");
    const char *text = info ? json_read_str(info, "host.ociRuntime.version") : NULL;
    auto_free char *line = text ? mem_strndup(text, strcspn(text, "\n")) : NULL;
    json_put_str(obj, "oci_runtime_version", line);
    client_copy_str(obj, "storage_driver", info, "store.graphDriverName", "podman");
    client_copy_str(obj, "storage_dir", info, "store.graphRoot", "podman");
    const char *root = info ? json_read_str(info, "store.graphRoot") : NULL;
    json_put_str(obj, "storage_fs", root ? fs_type_name(root) : NULL);
    client_copy_str(obj, "cgroup_manager", info, "host.cgroupManager", "podman");
    bool rootless;
    if (info && json_read_bool(info, "host.security.rootless", &rootless))
        json_put_bool(obj, "rootless", rootless);
}

static void describe_image(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    auto_strv argv = STRV_INIT;
    client_words(&argv, "podman image inspect --");
    strv_push(&argv, spec->image);
    auto_json *list = podman_json(session_dir, &argv);
    json_put(obj, "image", client_image_of_store(spec->image, list, true, "podman"));
}

void podman_describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    describe_engine(session_dir, obj);
    json_put_str(obj, "cgroups", host_cgroups_name(host_cgroups()));
    json_put_str(obj, "network", client_given(spec->network) ? spec->network : "host");
    json_put_str(obj, "ipc", oci_private_ipc(spec) ? "private" : "host");
    auto_free char *init = podman_init_path();
    if (init)
        json_put_str(obj, "init", init);
    else
        json_put_null(obj, "init", "no static init program (catatonit) is installed");
    if (client_given(spec->rootfs))
        json_put_str(obj, "rootfs", spec->rootfs);
    else
        describe_image(spec, session_dir, obj);
    auto_free char *conf = podman_conf_path(session_dir);
    client_put_sha256(obj, "containers_conf_sha256", conf);
}
