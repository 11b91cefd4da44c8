#include "runtimes/oci_bundle.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/client.h"
#include "runtimes/gpu.h"
#include "runtimes/host.h"
#include "runtimes/oci_cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static json_t *strings(const struct strv *v)
{
    json_t *array = json_array();
    for (size_t i = 0; i < v->count; i++)
        json_array_append_new(array, json_string(v->items[i]));
    return array;
}

/* ---- process --------------------------------------------------------------------------------- */
/* The capabilities that podman gives by default, as far as this process has them. */
static json_t *capabilities(void)
{
    static const struct {
        const char *name;
        int number;
    } wanted[] = {
        {"CAP_CHOWN", 0},       {"CAP_DAC_OVERRIDE", 1}, {"CAP_FOWNER", 3},
        {"CAP_FSETID", 4},      {"CAP_KILL", 5},         {"CAP_SETGID", 6},
        {"CAP_SETUID", 7},      {"CAP_SETPCAP", 8},      {"CAP_NET_BIND_SERVICE", 10},
        {"CAP_SYS_CHROOT", 18}, {"CAP_SETFCAP", 31},
    };
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (host_uid() != 0 || host_has_cap(wanted[i].number))
            json_array_append_new(list, json_string(wanted[i].name));
    json_t *out = json_object();
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        json_object_set(out, sets[i], list);
    json_decref(list);
    return out;
}

/* RLIM_INFINITY is 2^64-1, above what json_t holds: OCI_BUNDLE_UNLIMITED stands for it. */
static json_t *limit_value(int64_t value)
{
    return value == HOST_UNLIMITED ? json_string(OCI_BUNDLE_UNLIMITED) : json_integer(value);
}

static json_t *rlimits(const struct runtime_spec *spec)
{
    json_t *list = json_array();
    for (size_t i = 0; i < spec->ulimits.count; i++) {
        struct oci_ulimit u;
        auto_error struct error err = ERROR_INIT;
        if (oci_ulimit_parse(spec->ulimits.items[i], &u, &err))
            BUG("%s", err.message); /* check let it pass */
        auto_free char *type = mem_printf("RLIMIT_%s", u.name);
        for (char *p = type; *p; p++)
            if (*p >= 'a' && *p <= 'z')
                *p = (char)(*p - 'a' + 'A');
        json_t *limit = json_object();
        json_put_str(limit, "type", type);
        json_put(limit, "soft", limit_value(u.soft));
        json_put(limit, "hard", limit_value(u.hard));
        json_array_append_new(list, limit);
    }
    return list;
}

static json_t *process(const struct runtime_launch *launch)
{
    json_t *p = json_object();
    json_put_bool(p, "terminal", false);
    json_put(p, "user", json_pack("{s:i, s:i}", "uid", 0, "gid", 0));
    json_put(p, "args", strings(launch->argv));
    json_put(p, "env", strings(launch->env));
    json_put_str(p, "cwd", client_given(launch->cwd) ? launch->cwd : "/");
    json_put(p, "capabilities", capabilities());
    if (launch->spec->ulimits.count)
        json_put(p, "rlimits", rlimits(launch->spec));
    json_put_bool(p, "noNewPrivileges", true);
    return p;
}

/* ---- mounts ---------------------------------------------------------------------------------- */
/* options: blank-separated. */
static void add_mount(json_t *list, const char *target, const char *type, const char *source,
                      const char *options)
{
    auto_strv words = STRV_INIT;
    client_words(&words, options);
    json_t *m = json_object();
    json_put_str(m, "destination", target);
    json_put_str(m, "type", type);
    json_put_str(m, "source", source);
    json_put(m, "options", strings(&words));
    json_array_append_new(list, m);
}

static void add_shm(json_t *list, const struct runtime_spec *spec)
{
    if (!oci_private_ipc(spec)) {
        add_mount(list, "/dev/shm", "bind", "/dev/shm", "rbind rw");
        return;
    }
    long long bytes = spec->shm_size_bytes > 0 ? (long long)spec->shm_size_bytes : 64LL << 20;
    auto_free char *options = mem_printf("nosuid noexec nodev mode=1777 size=%lld", bytes);
    add_mount(list, "/dev/shm", "tmpfs", "shm", options);
}

static void add_binds(json_t *list, const struct mounts *mounts)
{
    for (size_t i = 0; i < mounts->count; i++) {
        const struct mount *m = &mounts->items[i];
        add_mount(list, m->target, "bind", m->source, m->read_only ? "rbind ro" : "rbind rw");
    }
}

/* The driver's libraries; and its nodes, where an ordinary user can make none. */
static void add_gpus(json_t *list, const struct runtime_spec *spec)
{
    struct mounts all = {0};
    auto_strv nodes = STRV_INIT;
    gpu_library_mounts(spec, &all);
    if (host_uid() != 0)
        gpu_device_nodes(spec, &nodes);
    for (size_t i = 0; i < nodes.count; i++)
        mounts_add(&all, nodes.items[i], nodes.items[i], false);
    add_binds(list, &all);
    mounts_release(&all);
}

static json_t *mounts(const struct runtime_launch *launch)
{
    json_t *list = json_array();
    bool root = host_uid() == 0;
    add_mount(list, "/proc", "proc", "proc", "nosuid noexec nodev");
    add_mount(list, "/dev", "tmpfs", "tmpfs", "nosuid strictatime mode=755 size=65536k");
    add_mount(list, "/dev/pts", "devpts", "devpts",
              root ? "nosuid noexec newinstance ptmxmode=0666 mode=0620 gid=5"
                   : "nosuid noexec newinstance ptmxmode=0666 mode=0620");
    add_shm(list, launch->spec);
    add_mount(list, "/sys", "bind", "/sys", "rbind ro rslave");
    add_mount(list, "/tmp", "tmpfs", "tmpfs", "nosuid nodev mode=1777");
    add_mount(list, "/run", "tmpfs", "tmpfs", "nosuid nodev mode=755");
    static const char *const files[] = {"/etc/hosts", "/etc/resolv.conf"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (fs_exists(files[i]))
            add_mount(list, files[i], "bind", files[i], "bind ro");
    add_gpus(list, launch->spec);
    add_binds(list, launch->mounts);
    return list;
}

/* ---- linux ----------------------------------------------------------------------------------- */
static json_t *namespaces(const struct runtime_spec *spec)
{
    json_t *list = json_array();
    json_array_append_new(list, json_pack("{s:s}", "type", "mount"));
    json_array_append_new(list, json_pack("{s:s}", "type", "pid"));
    if (oci_private_ipc(spec))
        json_array_append_new(list, json_pack("{s:s}", "type", "ipc"));
    if (client_given(spec->network) && !strcmp(spec->network, "none"))
        json_array_append_new(list, json_pack("{s:s}", "type", "network"));
    if (host_uid() != 0)
        json_array_append_new(list, json_pack("{s:s}", "type", "user"));
    return list;
}

/* The node as it is here. */
static int add_device(json_t *list, const char *path, const char *node, struct error *err)
{
    struct stat st;
    if (stat(node, &st))
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "device %s", path);
    if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s is no device", path);
    json_t *d = json_object();
    json_put_str(d, "path", path);
    json_put_str(d, "type", S_ISCHR(st.st_mode) ? "c" : "b");
    json_put_int(d, "major", major(st.st_rdev));
    json_put_int(d, "minor", minor(st.st_rdev));
    json_put_int(d, "fileMode", st.st_mode & 0777);
    json_array_append_new(list, d);
    return 0;
}

static int devices(const struct runtime_spec *spec, json_t *linux_part, struct error *err)
{
    json_t *list = json_array();
    auto_strv gpus = STRV_INIT;
    json_put(linux_part, "devices", list);
    for (size_t i = 0; i < spec->devices.count; i++)
        if (add_device(list, spec->devices.items[i], spec->devices.items[i], err))
            return -err->code;
    if (host_uid() == 0)
        gpu_device_nodes(spec, &gpus);
    for (size_t i = 0; i < gpus.count; i++) {
        auto_free char *node = fs_sys_path(gpus.items[i]);
        if (add_device(list, gpus.items[i], node, err))
            return -err->code;
    }
    return 0;
}

static json_t *id_map(int64_t host)
{
    return json_pack("[{s:i, s:I, s:i}]", "containerID", 0, "hostID", (json_int_t)host, "size", 1);
}

static json_t *linux_section(const struct runtime_spec *spec, struct error *err)
{
    json_t *part = json_object();
    json_put(part, "namespaces", namespaces(spec));
    if (devices(spec, part, err)) {
        json_decref(part);
        return NULL;
    }
    if (host_uid() != 0) {
        json_put(part, "uidMappings", id_map(host_uid()));
        json_put(part, "gidMappings", id_map(host_gid()));
        return part;
    }
    /* Without it runc denies every device but the usual ones. */
    json_put(part, "resources",
             json_pack("{s:[{s:b, s:s}]}", "devices", "allow", 1, "access", "rwm"));
    return part;
}

/* Replace the stand-in, as the value of a key, by the number. No string of the launch's looks so:
 * its quotes are escaped, and environment and arguments are no values of keys. */
static void put_unlimited(struct str *text, const char *json)
{
    static const char stand_in[] = ": \"" OCI_BUNDLE_UNLIMITED "\"";
    for (const char *hit; (hit = strstr(json, stand_in)); json = hit + strlen(stand_in)) {
        str_append_n(text, json, (size_t)(hit - json));
        str_append(text, ": 18446744073709551615");
    }
    str_append(text, json);
}

int oci_bundle_write(const struct runtime_launch *launch, const char *root, const char *path,
                     struct error *err)
{
    auto_json *config = NULL;
    auto_str json = STR_INIT, text = STR_INIT;
    if (oci_bundle_config(launch, root, &config, err))
        return -err->code;
    json_write(&json, config, 2);
    put_unlimited(&text, json.data);
    return fs_write_atomic(path, text.data, text.len, NCBENCH_EXIT_RESULTS, err);
}

int oci_bundle_config(const struct runtime_launch *launch, const char *root, json_t **out,
                      struct error *err)
{
    json_t *part = linux_section(launch->spec, err);
    if (!part)
        return error_wrap(err, "runtime %s", launch->spec->name);
    *out = json_object();
    json_put_str(*out, "ociVersion", "1.0.2");
    json_put(*out, "process", process(launch));
    json_put(*out, "root", json_pack("{s:s, s:b}", "path", root, "readonly", 1));
    json_put(*out, "mounts", mounts(launch));
    json_put(*out, "linux", part);
    return 0;
}
