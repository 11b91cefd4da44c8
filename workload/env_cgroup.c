/* The limits that the cgroups of this process set, in v1, v2 and hybrid trees.
 *
 * A limit is effective when any group from the process's own up to the top of the visible tree
 * has it, so the tightest one counts. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"

#include <math.h>
#include <string.h>

/* Where a controller's files are for this process. */
struct group_dir {
    bool is_v2;
    char *mount_point; /* owned; NULL: the controller is not visible */
    char *path;        /* owned; directory of the process's own group */
};

struct cgroups {
    struct str lines; /* /proc/self/cgroup */
    struct env_mounts_table mounts;
};

static bool has_word(const char *list, size_t n, const char *word)
{
    size_t m = strlen(word);
    for (const char *p = list; p < list + n; p++) {
        size_t length = strcspn(p, ",:");
        if (length > (size_t)(list + n - p))
            length = (size_t)(list + n - p);
        if (length == m && !strncmp(p, word, m))
            return true;
        p += length;
    }
    return false;
}

/* The path behind "hierarchy:controllers:" of the line that lists the controller, or, for "", of
 * the v2 line "0::". Caller frees; NULL if there is none. */
static char *find_path(const struct cgroups *g, const char *controller)
{
    for (const char *line = g->lines.data; *line;) {
        size_t length = strcspn(line, "\n");
        const char *list = memchr(line, ':', length);
        const char *path = list ? memchr(list + 1, ':', length - (size_t)(list + 1 - line)) : NULL;
        if (path) {
            size_t n = (size_t)(path - list - 1);
            if (*controller ? has_word(list + 1, n, controller) : n == 0)
                return mem_strndup(path + 1, (size_t)(line + length - path - 1));
        }
        line += length + (line[length] == '\n');
    }
    return NULL;
}

static const struct env_mount *find_mount(const struct cgroups *g, const char *controller)
{
    for (size_t i = 0; i < g->mounts.count; i++) {
        const struct env_mount *m = &g->mounts.items[i];
        if (*controller ? !strcmp(m->fs_type, "cgroup") &&
                              has_word(m->super_options, strlen(m->super_options), controller)
                        : !strcmp(m->fs_type, "cgroup2"))
            return m;
    }
    return NULL;
}

/* Inside a container the mount may show a subtree (root) of what /proc/self/cgroup names. */
static char *directory_of(const struct env_mount *m, const char *path)
{
    const char *below = path;
    if (strcmp(m->root, "/") != 0)
        below = env_is_below(path, m->root) ? path + strlen(m->root) : "";
    if (!strcmp(below, "/") || str_starts_with(below, "/.."))
        below = "";
    return mem_printf("%s%s", m->point, below);
}

static struct group_dir locate(const struct cgroups *g, const char *controller)
{
    struct group_dir d = {0};
    auto_free char *path = find_path(g, controller);
    const struct env_mount *m = path ? find_mount(g, controller) : NULL;
    if (!m && *controller) { /* not a v1 controller here */
        d.is_v2 = true;
        free(path);
        path = find_path(g, "");
        m = path ? find_mount(g, "") : NULL;
    }
    if (m) {
        d.mount_point = mem_strdup(m->point);
        d.path = directory_of(m, path);
    }
    return d;
}

static void release_dir(struct group_dir *d)
{
    free(d->mount_point);
    free(d->path);
}

/* PUs' worth of time, or NaN: no limit here. */
static double cpu_limit_at(const struct group_dir *d, const char *dir)
{
    int64_t quota, period;
    if (d->is_v2) {
        auto_free char *file = mem_printf("%s/cpu.max", dir);
        auto_str text = STR_INIT;
        if (!fs_sys_read(file, &text))
            return NAN;
        char *blank = strchr(text.data, ' ');
        if (!blank)
            return NAN;
        *blank = '\0';
        if (!num_parse_i64(text.data, &quota) || !num_parse_i64(str_trim(blank + 1), &period))
            return NAN;
    } else {
        auto_free char *quota_file = mem_printf("%s/cpu.cfs_quota_us", dir);
        auto_free char *period_file = mem_printf("%s/cpu.cfs_period_us", dir);
        if (!fs_sys_read_i64(quota_file, &quota) || !fs_sys_read_i64(period_file, &period))
            return NAN;
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : NAN;
}

/* v1 writes "no limit" as the largest multiple of a page. */
#define V1_NO_LIMIT (INT64_MAX / 2)

static double memory_limit_at(const struct group_dir *d, const char *dir)
{
    auto_free char *file =
        mem_printf("%s/%s", dir, d->is_v2 ? "memory.max" : "memory.limit_in_bytes");
    int64_t bytes;
    if (!fs_sys_read_i64(file, &bytes) || bytes >= V1_NO_LIMIT) /* "max" is no number */
        return NAN;
    return (double)bytes;
}

/* The tightest limit from the own group up to the mount point. */
static double tightest(const struct group_dir *d,
                       double (*limit_at)(const struct group_dir *d, const char *dir))
{
    double best = NAN;
    auto_free char *dir = mem_strdup(d->path);
    for (;;) {
        double limit = limit_at(d, dir);
        if (!(best <= limit)) /* best may be NaN, limit too */
            best = isnan(limit) ? best : limit;
        if (strlen(dir) <= strlen(d->mount_point))
            return best;
        *strrchr(dir, '/') = '\0';
    }
}

static void put_cpu_max(json_t *group, const struct cgroups *g)
{
    struct group_dir d = locate(g, "cpu");
    double pus = d.path ? tightest(&d, cpu_limit_at) : NAN;
    if (!d.path)
        json_put_null(group, "cpu_max_pus", "no cpu controller is visible");
    else if (isnan(pus))
        json_put_null(group, "cpu_max_pus", "unlimited");
    else
        json_put_f64(group, "cpu_max_pus", pus);
    release_dir(&d);
}

static void put_memory_max(json_t *group, const struct cgroups *g)
{
    struct group_dir d = locate(g, "memory");
    double bytes = d.path ? tightest(&d, memory_limit_at) : NAN;
    if (!d.path)
        json_put_null(group, "memory_max_bytes", "no memory controller is visible");
    else if (isnan(bytes))
        json_put_null(group, "memory_max_bytes", "unlimited");
    else
        json_put_int(group, "memory_max_bytes", (int64_t)bytes);
    release_dir(&d);
}

/* The effective set; an absent file falls back to the group above (no cpuset controller there). */
static void put_cpuset(json_t *group, const struct cgroups *g, const char *key, const char *v1,
                       const char *v1_old, const char *v2)
{
    struct group_dir d = locate(g, "cpuset");
    const char *names[] = {d.is_v2 ? v2 : v1, d.is_v2 ? v2 : v1_old};
    auto_free char *dir = mem_strdup(d.path);
    while (dir) {
        for (int i = 0; i < 2; i++) {
            auto_free char *file = mem_printf("%s/%s", dir, names[i]);
            auto_str text = STR_INIT;
            if (fs_sys_read(file, &text) && *str_trim(text.data)) {
                json_put_str(group, key, str_trim(text.data));
                release_dir(&d);
                return;
            }
        }
        if (strlen(dir) <= strlen(d.mount_point))
            break;
        *strrchr(dir, '/') = '\0';
    }
    json_put_null(group, key, d.path ? "no cpuset in this group" : "no cpuset controller visible");
    release_dir(&d);
}

static void put_version_and_path(json_t *group, const struct cgroups *g)
{
    bool v2 = find_mount(g, "") != NULL, v1 = false;
    for (size_t i = 0; i < g->mounts.count; i++)
        v1 = v1 || !strcmp(g->mounts.items[i].fs_type, "cgroup");
    if (!v1 && !v2) {
        json_put_null(group, "version", "no cgroup file system is mounted");
        json_put_null(group, "path", "no cgroup file system is mounted");
        return;
    }
    json_put_str(group, "version", v1 && v2 ? "hybrid" : v1 ? "v1" : "v2");
    auto_free char *path = find_path(g, v1 ? "memory" : "");
    if (path)
        json_put_str(group, "path", path);
    else
        json_put_null(group, "path", "/proc/self/cgroup does not name it");
}

void env_cgroup(json_t *group, const struct env_context *context)
{
    (void)context;
    struct cgroups g = {.lines = STR_INIT};
    fs_sys_read("/proc/self/cgroup", &g.lines);
    env_mounts_read(&g.mounts);
    put_version_and_path(group, &g);
    put_cpu_max(group, &g);
    put_memory_max(group, &g);
    put_cpuset(group, &g, "cpuset_cpus", "cpuset.effective_cpus", "cpuset.cpus",
               "cpuset.cpus.effective");
    put_cpuset(group, &g, "cpuset_mems", "cpuset.effective_mems", "cpuset.mems",
               "cpuset.mems.effective");
    str_release(&g.lines);
    env_mounts_release(&g.mounts);
}
