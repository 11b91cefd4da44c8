/* What this rank may use: resource limits, memory, /dev/shm. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

static void put_limit(json_t *group, const char *key, rlim_t value)
{
    if (value == RLIM_INFINITY)
        json_put_null(group, key, "unlimited");
    else
        json_put_int(group, key, (int64_t)value);
}

void env_rlimits(json_t *group, const struct env_context *context)
{
    (void)context;
    static const struct {
        int resource;
        const char *soft, *hard;
    } limits[] = {
        {RLIMIT_MEMLOCK, "memlock_bytes", "memlock_hard_bytes"},
        {RLIMIT_NOFILE, "nofile", "nofile_hard"},
        {RLIMIT_STACK, "stack_bytes", "stack_hard_bytes"},
        {RLIMIT_NPROC, "nproc", "nproc_hard"},
        {RLIMIT_AS, "address_space_bytes", "address_space_hard_bytes"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit l;
        if (getrlimit((__rlimit_resource_t)limits[i].resource, &l)) {
            json_put_null(group, limits[i].soft, strerror(errno));
            json_put_null(group, limits[i].hard, strerror(errno));
            continue;
        }
        put_limit(group, limits[i].soft, l.rlim_cur);
        put_limit(group, limits[i].hard, l.rlim_max);
    }
}

/* "MemTotal:  24683652 kB" */
static void put_meminfo(json_t *group, const char *key, const char *text, const char *field)
{
    auto_str value = STR_INIT;
    int64_t kib;
    if (env_find_field(text, field, &value) && str_ends_with(value.data, " kB")) {
        str_truncate(&value, value.len - 3);
        if (num_parse_i64(str_trim(value.data), &kib)) {
            json_put_int(group, key, kib * 1024);
            return;
        }
    }
    auto_free char *why = mem_printf("/proc/meminfo has no %s", field);
    json_put_null(group, key, why);
}

/* "always [madvise] never": the word in brackets. */
static void put_thp(json_t *group)
{
    auto_str text = STR_INIT;
    const char *open, *close;
    if (fs_sys_read("/sys/kernel/mm/transparent_hugepage/enabled", &text) &&
        (open = strchr(text.data, '[')) && (close = strchr(open, ']'))) {
        auto_free char *word = mem_strndup(open + 1, (size_t)(close - open - 1));
        json_put_str(group, "thp", word);
    } else {
        json_put_null(group, "thp", "/sys/kernel/mm/transparent_hugepage/enabled cannot be read");
    }
    int disabled = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
    if (disabled >= 0)
        json_put_bool(group, "thp_disabled", disabled);
    else
        json_put_null(group, "thp_disabled", strerror(errno));
}

void env_memory(json_t *group, const struct env_context *context)
{
    (void)context;
    auto_str text = STR_INIT;
    fs_sys_read("/proc/meminfo", &text);
    put_meminfo(group, "total_bytes", text.data, "MemTotal");
    put_meminfo(group, "available_bytes", text.data, "MemAvailable");
    put_thp(group);
}

void env_shm(json_t *group, const struct env_context *context)
{
    (void)context;
    auto_free char *path = fs_sys_path("/dev/shm");
    struct statvfs st;
    if (statvfs(path, &st)) {
        json_put_null(group, "size_bytes", "there is no /dev/shm");
        json_put_null(group, "free_bytes", "there is no /dev/shm");
        return;
    }
    json_put_int(group, "size_bytes", (int64_t)st.f_blocks * (int64_t)st.f_frsize);
    json_put_int(group, "free_bytes", (int64_t)st.f_bavail * (int64_t)st.f_frsize);
}
