/* Evidence of the OOM killer, and throttling, from the cgroups of the harness and of the trial's
 * processes (a container has one of its own, which is gone when the container is: so it is read
 * while the trial runs, and the last reading stands).
 *
 * v2: oom_kill of memory.events, throttled_usec of cpu.stat. v1: oom_kill of memory.oom_control,
 * throttled_time of cpu.stat. Without any cgroup file, oom_kill of /proc/vmstat counts the kills of
 * the whole machine; it is recorded apart, for it may be somebody else's. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/collectors/collector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct counter {
    char *path; /* below the fixture root, if any */
    const char *word;
    double unit; /* of one count, in the record's unit */
    int64_t first, last;
};

struct cgroup {
    struct {
        struct counter *items;
        size_t count, cap;
    } oom, throttled;
    int64_t vmstat_before, vmstat_after; /* -1: not readable */
    size_t seen;                         /* processes looked at */
};

/* The number behind `word` at the beginning of a line; -1 if there is none. */
static int64_t read_word(const char *path, const char *word)
{
    auto_str text = STR_INIT;
    if (!fs_sys_read(path, &text))
        return -1;
    size_t n = strlen(word);
    for (const char *line = text.data; line && *line;) {
        long long value;
        if (!strncmp(line, word, n) && line[n] == ' ' && sscanf(line + n, "%lld", &value) == 1)
            return value;
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return -1;
}

static bool known(const struct counter *items, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(items[i].path, path))
            return true;
    return false;
}

#define WATCH(list, full_path, the_word, the_unit, from_zero)                                      \
    do {                                                                                           \
        int64_t now_ =                                                                             \
            known((list)->items, (list)->count, full_path) ? -1 : read_word(full_path, the_word);  \
        if (now_ >= 0) {                                                                           \
            struct counter c_ = {mem_strdup(full_path), the_word, the_unit,                        \
                                 (from_zero) ? 0 : now_, now_};                                    \
            vec_push(list, c_);                                                                    \
        }                                                                                          \
    } while (0)

/* One cgroup directory, if it is there. own: it is new with the trial, so it counts from zero. */
static void watch_dir(struct cgroup *g, const char *dir, bool own)
{
    auto_free char *events = mem_printf("%s/memory.events", dir);
    auto_free char *control = mem_printf("%s/memory.oom_control", dir);
    auto_free char *cpu = mem_printf("%s/cpu.stat", dir);
    WATCH(&g->oom, events, "oom_kill", 1, own);
    WATCH(&g->oom, control, "oom_kill", 1, own);
    WATCH(&g->throttled, cpu, "throttled_usec", 1e-6, own);
    WATCH(&g->throttled, cpu, "throttled_time", 1e-9, own);
}

/* A line "ID:controllers:path" of /proc/<pid>/cgroup. Inside a container the path may lie outside
 * of what is mounted: then the mount's root is our own cgroup. */
static void watch_line(struct cgroup *g, const char *controllers, const char *path, bool own)
{
    static const char *const names[] = {"memory", "cpu,cpuacct", "cpu"};
    if (!strcmp(path, "/"))
        path = "";
    if (!*controllers) {
        auto_free char *dir = mem_printf("/sys/fs/cgroup%s", path);
        watch_dir(g, dir, own);
        if (!own)
            watch_dir(g, "/sys/fs/cgroup", false);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(controllers, names[i]))
            continue;
        auto_free char *dir = mem_printf("/sys/fs/cgroup/%s%s", names[i], path);
        auto_free char *root = mem_printf("/sys/fs/cgroup/%s", names[i]);
        size_t before = g->oom.count + g->throttled.count;
        watch_dir(g, dir, own);
        if (!own && g->oom.count + g->throttled.count == before)
            watch_dir(g, root, false);
    }
}

static void watch_process(struct cgroup *g, const char *pid, bool own)
{
    auto_str text = STR_INIT;
    auto_free char *path = mem_printf("/proc/%s/cgroup", pid);
    if (!fs_sys_read(path, &text))
        return;
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':');
        char *dir = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!dir)
            continue;
        *dir = '\0';
        watch_line(g, controllers + 1, dir + 1, own);
    }
}

static void *start(const struct collector_context *context)
{
    (void)context;
    struct cgroup *g = mem_zalloc(1, sizeof *g);
    watch_process(g, "self", false);
    g->vmstat_before = g->vmstat_after = read_word("/proc/vmstat", "oom_kill");
    return g;
}

static void read_again(struct counter *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t now = read_word(items[i].path, items[i].word);
        if (now >= 0)
            items[i].last = now;
    }
}

static void tick(void *state, const struct processes *processes)
{
    struct cgroup *g = state;
    for (size_t i = 0; processes && i < processes->count; i++) {
        char pid[16];
        snprintf(pid, sizeof pid, "%d", (int)processes->items[i].pid);
        watch_process(g, pid, true);
    }
    read_again(g->oom.items, g->oom.count);
    read_again(g->throttled.items, g->throttled.count);
}

static void stop(void *state)
{
    struct cgroup *g = state;
    tick(g, NULL);
    g->vmstat_after = read_word("/proc/vmstat", "oom_kill");
}

static void emit(void *state, json_t *into)
{
    const struct cgroup *g = state;
    json_t *c = json_object();
    int64_t kills = 0;
    const char *file = NULL;
    double throttled = 0;
    for (size_t i = 0; i < g->oom.count; i++) {
        int64_t here = g->oom.items[i].last - g->oom.items[i].first;
        if (here > kills) { /* a parent counts its children's kills too: not a sum */
            kills = here;
            file = g->oom.items[i].path;
        }
    }
    for (size_t i = 0; i < g->throttled.count; i++) {
        const struct counter *t = &g->throttled.items[i];
        double here = (double)(t->last - t->first) * t->unit;
        throttled = here > throttled ? here : throttled;
    }
    if (g->oom.count)
        json_put_int(c, "oom_kills", kills);
    else
        json_put_null(c, "oom_kills", "no memory.events or memory.oom_control to be read");
    if (file)
        json_put_str(c, "oom_file", file);
    if (g->throttled.count)
        json_put_f64(c, "throttled_s", throttled);
    else
        json_put_null(c, "throttled_s", "no cpu.stat with throttling to be read");
    if (g->vmstat_before >= 0 && g->vmstat_after >= 0)
        json_put_int(c, "machine_oom_kills", g->vmstat_after - g->vmstat_before);
    else
        json_put_null(c, "machine_oom_kills", "/proc/vmstat has no oom_kill");
    json_put(into, "cgroup", c);
}

static void free_state(void *state)
{
    struct cgroup *g = state;
    for (size_t i = 0; i < g->oom.count; i++)
        free(g->oom.items[i].path);
    for (size_t i = 0; i < g->throttled.count; i++)
        free(g->throttled.items[i].path);
    free(g->oom.items);
    free(g->throttled.items);
    free(g);
}

const struct collector_ops collector_cgroup = {"cgroup", start, tick, stop, emit, free_state};
