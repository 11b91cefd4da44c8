/* How much memory is left to this process, and what limits it. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "kernels/cpu/cpu_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The number behind `key` at the start of a line, or -1. */
static int64_t field(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n))
            continue;
        int64_t value;
        return sscanf(line + n, "%" SCNd64, &value) == 1 ? value : -1;
    }
    return -1;
}

static void take(struct device_memory *out, int64_t available, const char *what, const char *where)
{
    if (available < 0 || (out->available_bytes >= 0 && available >= out->available_bytes))
        return;
    out->available_bytes = available;
    snprintf(out->limit, sizeof out->limit, "%s%s", what, where);
}

static int64_t read_number(const char *dir, const char *file)
{
    auto_free char *path = mem_printf("%s/%s", dir, file);
    int64_t value;
    return fs_sys_read_i64(path, &value) ? value : -1; /* "max" is no number: no limit */
}

/* A group's limit less its use; the page cache that it could drop counts as free. */
static void one_group(struct device_memory *out, const char *dir, const char *limit_file,
                      const char *usage_file, const char *cache_key)
{
    int64_t limit = read_number(dir, limit_file), usage = read_number(dir, usage_file);
    if (limit < 0 || usage < 0 || limit >= INT64_MAX / 2) /* v1 writes a huge number */
        return;
    auto_str stat = STR_INIT;
    auto_free char *path = mem_printf("%s/memory.stat", dir);
    int64_t cache = fs_sys_read(path, &stat) ? field(stat.data, cache_key) : 0;
    int64_t available = limit - usage + (cache > 0 ? cache : 0);
    take(out, available > 0 ? available : 0, limit_file, "");
}

/* The group at root/path and all above it. Inside a container the path may name the outside; then
 * only the root is there, and it is the container's own. */
static void groups(struct device_memory *out, const char *root, const char *path, bool v2)
{
    auto_free char *dir = mem_printf("%s%s", root, path);
    for (;;) {
        size_t n = strlen(dir);
        while (n > strlen(root) && dir[n - 1] == '/')
            dir[--n] = '\0';
        if (v2)
            one_group(out, dir, "memory.max", "memory.current", "inactive_file ");
        else
            one_group(out, dir, "memory.limit_in_bytes", "memory.usage_in_bytes",
                      "total_inactive_file ");
        char *slash = strrchr(dir, '/');
        if (n <= strlen(root) || !slash)
            return;
        *slash = '\0';
    }
}

/* Lines "ID:CONTROLLERS:PATH" of /proc/self/cgroup: v2 has the ID 0 and no controllers. */
static void cgroups(struct device_memory *out)
{
    auto_str text = STR_INIT;
    if (!fs_sys_read("/proc/self/cgroup", &text))
        return;
    char *rest = text.data, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        if (!*controllers)
            groups(out, "/sys/fs/cgroup", path, true);
        else if (!strcmp(controllers, "memory"))
            groups(out, "/sys/fs/cgroup/memory", path, false);
    }
}

void cpu_memory(struct device_memory *out)
{
    *out = (struct device_memory){.total_bytes = -1, .available_bytes = -1, .peak_bytes = -1};
    auto_str text = STR_INIT;
    if (fs_sys_read("/proc/meminfo", &text)) {
        int64_t total = field(text.data, "MemTotal:");
        int64_t available = field(text.data, "MemAvailable:");
        out->total_bytes = total < 0 ? -1 : total * 1024;
        take(out, available < 0 ? -1 : available * 1024, "MemAvailable", "");
    }
    cgroups(out);
}
