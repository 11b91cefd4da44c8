/* What a runtime is made of: capabilities, seccomp, LSM, namespaces. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void put_status(json_t *group, const char *key, const char *status, const char *field)
{
    auto_str value = STR_INIT;
    if (env_find_field(status, field, &value)) {
        json_put_str(group, key, value.data);
        return;
    }
    auto_free char *why = mem_printf("/proc/self/status has no %s", field);
    json_put_null(group, key, why);
}

/* Seccomp: 0 off, 1 strict, 2 filter; NoNewPrivs: 0, 1. */
static void put_choice(json_t *group, const char *key, const char *status, const char *field,
                       const char *const *words, int64_t count)
{
    auto_str value = STR_INIT;
    int64_t n;
    if (env_find_field(status, field, &value) && num_parse_i64(value.data, &n) && n >= 0 &&
        n < count)
        json_put_str(group, key, words[n]);
    else
        put_status(group, key, status, field);
}

static void put_lsm(json_t *group)
{
    auto_str label = STR_INIT;
    bool there = fs_sys_read("/proc/self/attr/current", &label);
    while (label.len && strchr("\n ", label.data[label.len - 1]))
        str_truncate(&label, label.len - 1);
    if (label.len && !label.data[label.len - 1]) /* SELinux ends its label with a NUL */
        str_truncate(&label, label.len - 1);
    if (label.len)
        json_put_str(group, "lsm", label.data);
    else
        json_put_null(group, "lsm",
                      there ? "no label" : "no security module shows a label for this process");
}

void env_security(json_t *group, const struct env_context *context)
{
    (void)context;
    static const char *const seccomp[] = {"off", "strict", "filter"};
    static const char *const yes_no[] = {"no", "yes"};
    auto_str status = STR_INIT;
    fs_sys_read("/proc/self/status", &status);
    put_status(group, "cap_effective", status.data, "CapEff");
    put_status(group, "cap_bounding", status.data, "CapBnd");
    put_choice(group, "seccomp", status.data, "Seccomp", seccomp, 3);
    put_choice(group, "no_new_privs", status.data, "NoNewPrivs", yes_no, 2);
    put_lsm(group);
    json_put_int(group, "uid", geteuid());
}

void env_namespaces(json_t *group, const struct env_context *context)
{
    (void)context;
    static const char *const names[] = {"cgroup", "ipc",  "mnt",  "net",
                                        "pid",    "time", "user", "uts"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        auto_free char *file = mem_printf("/proc/self/ns/%s", names[i]);
        auto_free char *path = fs_sys_path(file);
        char target[64];
        ssize_t n = readlink(path, target, sizeof target - 1);
        int64_t inode;
        if (n > 0) {
            target[n] = '\0';
            char *open = strchr(target, '['), *close = strchr(target, ']');
            if (open && close)
                *close = '\0';
            if (open && num_parse_i64(open + 1, &inode)) {
                json_put_int(group, names[i], inode);
                continue;
            }
        }
        auto_free char *why = mem_printf("%s cannot be read", file);
        json_put_null(group, names[i], why);
    }
    json_put_f64(group, "timens_offset_s", clock_timens_offset_s());
}
