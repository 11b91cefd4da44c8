/* What every kernel tells every process: getrusage, and files of /proc. */
#include "common/cleanup.h"
#include "common/counters_priv.h"
#include "common/fs.h"
#include "common/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- getrusage -------------------------------------------------------------------------------
 */
enum field {
    VOLUNTARY = 1,
    INVOLUNTARY,
    SWITCHES,
    MINOR,
    MAJOR,
    FAULTS,
    USER_US,
    SYSTEM_US,
    CPU_NS,
};

static const struct {
    const char *name;
    enum field field;
} rusage_names[] = {
    {"rusage::VOLUNTARY-SWITCHES", VOLUNTARY},
    {"rusage::INVOLUNTARY-SWITCHES", INVOLUNTARY},
    {"rusage::MINOR-FAULTS", MINOR},
    {"rusage::MAJOR-FAULTS", MAJOR},
    {"rusage::USER-TIME-US", USER_US},
    {"rusage::SYSTEM-TIME-US", SYSTEM_US},
    /* counterparts of perf's, where it is forbidden */
    {"perf::CONTEXT-SWITCHES", SWITCHES},
    {"perf::PAGE-FAULTS", FAULTS},
    {"perf::MINOR-FAULTS", MINOR},
    {"perf::MAJOR-FAULTS", MAJOR},
    {"perf::TASK-CLOCK", CPU_NS},
};

static int64_t micros(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

static int64_t read_rusage(struct counter *c)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u))
        return COUNTER_NONE;
    switch ((enum field)(intptr_t)c->state) {
    case VOLUNTARY: return u.ru_nvcsw;
    case INVOLUNTARY: return u.ru_nivcsw;
    case SWITCHES: return u.ru_nvcsw + u.ru_nivcsw;
    case MINOR: return u.ru_minflt;
    case MAJOR: return u.ru_majflt;
    case FAULTS: return u.ru_minflt + u.ru_majflt;
    case USER_US: return micros(u.ru_utime);
    case SYSTEM_US: return micros(u.ru_stime);
    case CPU_NS: return (micros(u.ru_utime) + micros(u.ru_stime)) * 1000;
    default: return COUNTER_NONE;
    }
}

static bool open_rusage(struct counter *c, struct str *why)
{
    (void)why; /* it is always there */
    for (size_t i = 0; i < sizeof rusage_names / sizeof *rusage_names; i++) {
        if (strcmp(rusage_names[i].name, c->info.name) != 0)
            continue;
        c->state = (void *)(intptr_t)rusage_names[i].field;
        c->info.source = "rusage";
        return true;
    }
    return false;
}

static void close_nothing(struct counter *c)
{
    (void)c;
}

const struct counter_rung counter_rung_rusage = {"rusage", open_rusage, read_rusage, close_nothing};

/* ---- /proc -----------------------------------------------------------------------------------
 */
/* The second number of schedstat: nanoseconds of waiting for a CPU. */
static int64_t run_delay(const char *text)
{
    int64_t running, waiting;
    return sscanf(text, "%" SCNd64 " %" SCNd64, &running, &waiting) == 2 ? waiting : COUNTER_NONE;
}

static int64_t migrations(const char *text)
{
    const char *line = strstr(text, "se.nr_migrations");
    const char *colon = line ? strchr(line, ':') : NULL;
    int64_t value;
    return colon && sscanf(colon + 1, "%" SCNd64, &value) == 1 ? value : COUNTER_NONE;
}

static const struct proc_counter {
    const char *name, *file;
    int64_t (*parse)(const char *text);
    const char *absent;
} proc_names[] = {
    {"sched::RUN-DELAY-NS", "schedstat", run_delay, "no schedstat in /proc/self/task"},
    {"sched::MIGRATIONS", "sched", migrations,
     "no nr_migrations in /proc/self/task (a kernel without CONFIG_SCHED_DEBUG)"},
    {"perf::CPU-MIGRATIONS", "sched", migrations,
     "no nr_migrations in /proc/self/task (a kernel without CONFIG_SCHED_DEBUG)"},
};

/* Of all threads; what one that ended had counted is gone, so a sum that falls is no count. */
static int64_t read_proc(struct counter *c)
{
    const struct proc_counter *p = c->state;
    auto_strv tids = STRV_INIT;
    auto_error struct error absent = ERROR_INIT;
    auto_free char *dir = fs_sys_path("/proc/self/task");
    int64_t sum = 0;
    bool any = false;
    if (fs_list_dir(dir, &tids, 1, &absent))
        return COUNTER_NONE;
    for (size_t i = 0; i < tids.count; i++) {
        auto_free char *path = mem_printf("/proc/self/task/%s/%s", tids.items[i], p->file);
        auto_str text = STR_INIT;
        int64_t value = fs_sys_read(path, &text) ? p->parse(text.data) : COUNTER_NONE;
        any = any || value >= 0;
        sum += value > 0 ? value : 0;
    }
    return any ? sum : COUNTER_NONE;
}

static bool open_proc(struct counter *c, struct str *why)
{
    for (size_t i = 0; i < sizeof proc_names / sizeof *proc_names; i++) {
        if (strcmp(proc_names[i].name, c->info.name) != 0)
            continue;
        c->state = (void *)&proc_names[i];
        if (read_proc(c) >= 0) {
            c->info.source = "proc";
            return true;
        }
        str_append(why, proc_names[i].absent);
    }
    return false;
}

const struct counter_rung counter_rung_proc = {"proc", open_proc, read_proc, close_nothing};
