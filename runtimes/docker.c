/* docker: one container for the ranks of a node, by a daemon that answers.
 *
 * Not podman with another name: the limits are the daemon's, an absent -v source is created on the
 * host (so --mount is used), an absent device is exit 127, and a directory is no root file system
 * until it is imported: `rootfs: DIR` is imported once a session, under a name of its own, and the
 * image is removed at the end. */
#include "runtimes/adapters_priv.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/host.h"
#include "runtimes/lock.h"
#include "runtimes/messages.h"
#include "runtimes/oci_cli.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/spawn.h"

#include <string.h>
#include <unistd.h>

static const char *const keys[] = {"image",  "rootfs",  "nanochat", "mounts",  "devices",
                                   "gpus",   "ulimits", "ipc",      "network", "shm_size",
                                   "memory", "cpuset",  "options",  NULL};

/* What the client needs to find its daemon; nothing of it reaches the container. */
static void client_env(const char *trial_id, struct strv *env)
{
    static const char *const names[] = {"PATH",
                                        "HOME",
                                        "DOCKER_HOST",
                                        "DOCKER_CONFIG",
                                        "DOCKER_CONTEXT",
                                        "DOCKER_TLS_VERIFY",
                                        "DOCKER_CERT_PATH",
                                        "XDG_RUNTIME_DIR",
                                        NULL};
    client_copy_env(names, env);
    if (trial_id)
        strv_env_set(env, ENV_TRIAL_ID, trial_id);
}

static int docker(const char *words, const char *last, struct str *out, struct str *errout, int *rc,
                  struct error *err)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    client_words(&argv, words);
    if (last)
        strv_push(&argv, last);
    client_env(NULL, &env);
    return client_run(&argv, &env, CLIENT_QUICK_S, out, errout, rc, err);
}

/* The image that runs: the reference, or what prepare makes of the directory. Caller frees. */
static char *image_name(const struct runtime_spec *spec, const char *session_dir)
{
    if (client_given(spec->image))
        return mem_strdup(spec->image);
    auto_free char *name =
        client_session_name("localhost/ncbench/import", session_dir, spec->rootfs);
    return mem_printf("%s:session", name);
}

/* ---- probe, check ---------------------------------------------------------------------------- */
static void probe(struct runtime_probe *out)
{
    out->versions = json_object();
    auto_free char *program = client_find("docker");
    if (!program) {
        out->why = mem_strdup("docker not found on PATH; apt-get install docker.io");
        return;
    }
    auto_str text = STR_INIT, errout = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    int rc;
    if (docker("docker version --format {{.Client.Version}}|{{.Server.Version}}", NULL, &text,
               &errout, &rc, &err) ||
        rc) {
        out->why = mem_printf("the daemon does not answer: %s",
                              err.message ? err.message : client_last_line(&errout));
        return;
    }
    char *line = str_trim(text.data), *bar = strchr(line, '|');
    out->available = true;
    if (bar)
        *bar = '\0';
    json_put_str(out->versions, "docker", line);
    if (bar)
        json_put_str(out->versions, "dockerd", bar + 1);
}

static int check_image(const struct runtime_spec *spec, struct error *err)
{
    const int code = NCBENCH_EXIT_SCENARIO;
    if (client_check_source(spec, NULL, err))
        return -err->code;
    if (client_given(spec->rootfs) && (*spec->rootfs != '/' || !spec->rootfs[1])) {
        error_set(err, code,
                  "runtime %s: rootfs \"%s\": expected an absolute path other than /, which docker "
                  "would have to import",
                  spec->name, spec->rootfs);
        return error_hint(err, "kind podman runs on an overlay of the host's own files");
    }
    if (client_given(spec->image) && strchr("/.-", *spec->image)) {
        error_set(err, code,
                  "runtime %s: image \"%s\": expected a reference in docker's store, no path",
                  spec->name, spec->image);
        return error_hint(err, "`docker load -i FILE` brings an archive into the store; rootfs: "
                               "takes a directory");
    }
    return 0;
}

static int check_host(const struct runtime_spec *spec, struct error *err)
{
    auto_str errout = STR_INIT;
    int rc;
    auto_free char *program = client_find("docker");
    if (!program) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: docker not found on PATH",
                  spec->name);
        return error_hint(err, "apt-get install docker.io");
    }
    if (client_given(spec->rootfs)) {
        if (!fs_is_dir(spec->rootfs))
            return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: rootfs %s is no directory",
                             spec->name, spec->rootfs);
        if (docker("docker version --format {{.Server.Version}}", NULL, NULL, &errout, &rc, err))
            return -err->code;
        if (rc)
            return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: docker: %s", spec->name,
                             client_last_line(&errout));
        return 0;
    }
    if (docker("docker image inspect --format {{.Id}}", spec->image, NULL, &errout, &rc, err))
        return error_wrap(err, "runtime %s", spec->name);
    if (!rc)
        return 0;
    if (strstr(errout.data, "No such image")) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: image \"%s\" not found locally",
                  spec->name, spec->image);
        return error_hint(err, "docker pull %s", spec->image);
    }
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: image \"%s\": docker: %s",
                     spec->name, spec->image, client_last_line(&errout));
}

/* A daemon before 25 knows no CDI, one before 28 not unless told. */
static int check_gpus(const struct runtime_spec *spec, struct error *err)
{
    auto_str out = STR_INIT, errout = STR_INIT;
    int rc;
    if (!gpu_asked(spec))
        return 0;
    if (gpu_check_host(spec, GPU_NEEDS_CDI, err) ||
        docker("docker info --format {{.CDISpecDirs|json}}", NULL, &out, &errout, &rc, err))
        return -err->code;
    if (!rc && strchr(out.data, '/'))
        return 0;
    error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: gpus: docker's daemon does not use CDI",
              spec->name);
    return error_hint(err, "\"features\": {\"cdi\": true} in /etc/docker/daemon.json, docker 25 or "
                           "newer");
}

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (check_image(spec, err) || oci_check_spec(spec, mounts, err))
        return -err->code;
    for (size_t i = 0; i < spec->options.count; i++)
        if (str_starts_with(spec->options.items[i], "-v") ||
            str_starts_with(spec->options.items[i], "--volume"))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s: option %s is not allowed: docker creates an absent "
                             "source; use mounts",
                             spec->name, spec->options.items[i]);
    if (mounts_check(mounts, spec->kind, false, portable, err))
        return -err->code;
    if (portable)
        return 0;
    return oci_check_device_nodes(spec, err) || check_host(spec, err) || check_gpus(spec, err)
               ? -err->code
               : 0;
}

/* ---- session --------------------------------------------------------------------------------- */
static int import_rootfs(const struct runtime_spec *spec, const char *session_dir,
                         const char *image, struct error *err)
{
    auto_free char *dir = client_session_path(session_dir, "docker", spec->rootfs);
    auto_free char *tar = mem_printf("%s/root.tar", dir);
    auto_strv pack = STRV_INIT, load = STRV_INIT, env = STRV_INIT;
    if (fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    client_env(NULL, &env);
    client_words(&pack, "tar --create --numeric-owner --sort=name --file");
    strv_push(&pack, tar);
    strv_push(&pack, "--directory");
    strv_push(&pack, spec->rootfs);
    strv_push(&pack, ".");
    client_words(&load, "docker import --");
    strv_push(&load, tar);
    strv_push(&load, image);
    int failed = client_must(&pack, &env, CLIENT_IMPORT_S, "packing the root file system", err) ||
                 client_must(&load, &env, CLIENT_IMPORT_S, "importing the root file system", err);
    auto_error struct error ignored = ERROR_INIT;
    auto_free char *kind = fs_dirname(dir);
    fs_remove_tree(dir, NCBENCH_EXIT_RESULTS, &ignored);
    rmdir(kind);
    return failed ? -err->code : 0;
}

/* Two arms or two resumes of one session must not import at once: the lock is the session's. */
static int prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    if (!client_given(spec->rootfs))
        return 0;
    auto_free char *image = image_name(spec, session_dir);
    auto_free char *path = mem_printf("%s/docker.lock", session_dir);
    auto_lock struct lock lock = LOCK_INIT;
    auto_str errout = STR_INIT;
    int rc;
    if (lock_take(&lock, path, CLIENT_IMPORT_S, err) ||
        docker("docker image inspect --format {{.Id}}", image, NULL, &errout, &rc, err))
        return -err->code;
    return rc ? import_rootfs(spec, session_dir, image, err) : 0;
}

static int cleanup(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    if (!client_given(spec->rootfs))
        return 0;
    auto_free char *image = image_name(spec, session_dir);
    auto_str errout = STR_INIT;
    int rc;
    if (docker("docker image rm --force --", image, NULL, &errout, &rc, err))
        return -err->code;
    if (!rc || strstr(errout.data, "No such image"))
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "removing image %s: docker: %s", image,
                     client_last_line(&errout));
}

/* ---- import ---------------------------------------------------------------------------------- */
static int import(const struct runtime_import *import, struct strv *argv, struct strv *env,
                  struct error *err)
{
    (void)err;
    client_words(argv,
                 *import->source == '/' ? "docker load --quiet --input" : "docker pull --quiet --");
    strv_push(argv, import->source);
    client_env(NULL, env);
    return 0;
}

static void forget(const char *name, struct strv *argv, struct strv *env)
{
    client_words(argv, "docker image rm --");
    strv_push(argv, name);
    client_env(NULL, env);
}

/* ---- trial ----------------------------------------------------------------------------------- */
static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    const struct runtime_spec *spec = launch->spec;
    auto_free char *name = client_container_name(launch);
    auto_free char *image = image_name(spec, launch->session_dir);
    client_words(argv, "docker run --rm --init");
    strv_pushf(argv, "--name=%s", name);
    strv_push(argv, "--pull=never");
    if (host_uid() != 0) /* else what it writes into the trial's directory is root's */
        strv_pushf(argv, "--user=%lld:%lld", (long long)host_uid(), (long long)host_gid());
    oci_append_namespaces(spec, argv);
    for (size_t i = 0; i < spec->ulimits.count; i++) {
        struct oci_ulimit u;
        if (oci_ulimit_parse(spec->ulimits.items[i], &u, err))
            return -err->code;
        oci_append_ulimit(&u, argv);
    }
    oci_append_view(launch, argv);
    strv_extend(argv, &spec->options);
    if (client_given(launch->cwd))
        strv_pushf(argv, "--workdir=%s", launch->cwd);
    strv_push(argv, "--entrypoint="); /* ours is the program, whatever the image says */
    strv_push(argv, image);
    strv_extend(argv, launch->argv);
    client_env(launch->trial_id, env);
    return 0;
}

static enum outcome classify(const struct runtime_evidence *evidence, struct str *reason)
{
    static const char *const markers[] = {"docker: ", "Error response from daemon", NULL};
    static const struct message_rule rules[] = {
        {0, "error while loading shared libraries", NULL, OUTCOME_RUNTIME_FAILED},
        {0, "xec format error", NULL, OUTCOME_NOT_EXECUTABLE},
        {0, "[FATAL tini", "No such file", OUTCOME_NOT_FOUND},
        {0, "[FATAL tini", "ermission denied", OUTCOME_NOT_EXECUTABLE},
        /* 127, as for a missing program, but it is the device that is missing */
        {0, "gathering device information", NULL, OUTCOME_RUNTIME_FAILED},
        {125, "No such image", NULL, OUTCOME_UNAVAILABLE},
        {125, "Unable to find image", NULL, OUTCOME_UNAVAILABLE},
        {125, "could not select device driver", NULL, OUTCOME_UNAVAILABLE},
        {125, "bind source path does not exist", NULL, OUTCOME_UNAVAILABLE},
        {125, "unknown flag", NULL, OUTCOME_UNAVAILABLE},
        {125, "unknown shorthand flag", NULL, OUTCOME_UNAVAILABLE},
        {0, "Cannot connect to the Docker daemon", NULL, OUTCOME_UNAVAILABLE},
        {126, "exec: ", "permission denied", OUTCOME_NOT_EXECUTABLE},
        {127, "exec: ", "no such file", OUTCOME_NOT_FOUND},
        {127, "exec: ", "not found", OUTCOME_NOT_FOUND},
        {126, "docker: ", NULL, OUTCOME_RUNTIME_FAILED},
        {127, "docker: ", NULL, OUTCOME_RUNTIME_FAILED},
        {126, NULL, NULL, OUTCOME_NOT_EXECUTABLE},
        {127, NULL, NULL, OUTCOME_NOT_FOUND},
        {0, NULL, NULL, OUTCOME_COUNT},
    };
    return messages_classify(rules, markers, evidence, reason);
}

static void remove_argv(const struct runtime_launch *launch, struct strv *argv)
{
    auto_free char *name = client_container_name(launch);
    client_words(argv, "docker rm --force --");
    strv_push(argv, name);
}

static int stop(const struct runtime_launch *launch, struct error *err)
{
    auto_free char *name = client_container_name(launch);
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_str errout = STR_INIT;
    int rc;
    remove_argv(launch, &argv);
    client_env(NULL, &env);
    if (client_run(&argv, &env, CLIENT_QUICK_S, NULL, &errout, &rc, err))
        return error_wrap(err, "removing container %s", name);
    /* "already in progress": --rm is at work on it. */
    if (!rc || strstr(errout.data, "No such container") ||
        strstr(errout.data, "already in progress"))
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "removing container %s: docker exit %d: %s",
                     name, rc, client_last_line(&errout));
}

static bool leftover(const struct runtime_launch *launch, struct str *what)
{
    auto_free char *name = client_container_name(launch);
    auto_free char *filter = mem_printf("--filter=name=^/?%s$", name);
    auto_str out = STR_INIT, errout = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    int rc = 0;
    bool failed = docker("docker ps --all --format={{.Names}}|{{.Status}}", filter, &out, &errout,
                         &rc, &err) ||
                  rc;
    return client_listed(name, failed, &out, &errout, &err, what);
}

/* ---- describe -------------------------------------------------------------------------------- */
static json_t *docker_json(const char *words, const char *last)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    client_words(&argv, words);
    if (last)
        strv_push(&argv, last);
    client_env(NULL, &env);
    return client_json(&argv, &env);
}

static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    auto_json *version = docker_json("docker version --format {{.|json}}", NULL);
    auto_json *info = docker_json("docker info --format {{.|json}}", NULL);
    client_copy_str(obj, "docker", version, "Client.Version", "docker");
    client_copy_str(obj, "dockerd", version, "Server.Version", "docker");
    client_copy_str(obj, "storage_driver", info, "Driver", "docker");
    client_copy_str(obj, "storage_dir", info, "DockerRootDir", "docker");
    const char *root = info ? json_read_str(info, "DockerRootDir") : NULL;
    json_put_str(obj, "storage_fs", root ? fs_type_name(root) : NULL);
    client_copy_str(obj, "cgroup_manager", info, "CgroupDriver", "docker");
    client_copy_str(obj, "oci_runtime", info, "DefaultRuntime", "docker");
    json_put_str(obj, "cgroups", host_cgroups_name(host_cgroups()));
    json_put_str(obj, "network", client_given(spec->network) ? spec->network : "host");
    json_put_str(obj, "ipc", oci_private_ipc(spec) ? "private" : "host");
    json_put_str(obj, "limits", "of the daemon, but for ulimits");
    auto_free char *name = image_name(spec, session_dir);
    auto_json *list = docker_json("docker image inspect", name);
    json_t *out = client_image_of_store(name, list, false, "docker");
    if (client_given(spec->rootfs))
        json_put_str(out, "imported_from", spec->rootfs);
    json_put(obj, "image", out);
}

const struct runtime_ops runtime_docker = {
    .name = "docker",
    .summary = "docker, one container for the ranks of a node",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER | RUNTIME_ENV_NAMES | RUNTIME_DAEMON,
    .keys = keys,
    .probe = probe,
    .check = check,
    .prepare = prepare,
    .cleanup = cleanup,
    .import = import,
    .forget = forget,
    .argv = make_argv,
    .classify = classify,
    .stop = stop,
    .remove_argv = remove_argv,
    .leftover = leftover,
    .describe = describe,
};
