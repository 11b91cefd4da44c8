/* perf_event_open, one descriptor an event and thread, threads that start later by inheritance. */
#include "common/cleanup.h"
#include "common/counters_priv.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct event {
    const char *name;
    uint32_t type;
    uint64_t config;
    bool in_kernel; /* happens in the kernel: without it nothing is counted */
} events[] = {
    {"perf::TASK-CLOCK", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false},
    {"perf::CPU-CLOCK", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false},
    {"perf::PAGE-FAULTS", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false},
    {"perf::MINOR-FAULTS", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, false},
    {"perf::MAJOR-FAULTS", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, false},
    {"perf::CONTEXT-SWITCHES", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true},
    {"perf::CPU-MIGRATIONS", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true},
    {"perf::CYCLES", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false},
    {"perf::INSTRUCTIONS", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false},
    {"perf::CACHE-MISSES", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false},
    {"perf::BRANCH-MISSES", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, false},
    /* PAPI's names, for builds without it */
    {"PAPI_TOT_CYC", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false},
    {"PAPI_TOT_INS", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false},
    {"PAPI_REF_CYC", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, false},
};

#define CAP_SYS_ADMIN_BIT 21
#define CAP_PERFMON_BIT 38

struct perf {
    int *fds;
    size_t count;
};

static bool has_capability(void)
{
    auto_str status = STR_INIT;
    if (!fs_sys_read("/proc/self/status", &status))
        return false;
    const char *line = strstr(status.data, "CapEff:");
    unsigned long long caps = line ? strtoull(line + strlen("CapEff:"), NULL, 16) : 0;
    return caps >> CAP_SYS_ADMIN_BIT & 1 || caps >> CAP_PERFMON_BIT & 1;
}

bool counters_forbidden(struct str *why)
{
    int64_t level;
    if (!fs_sys_read_i64("/proc/sys/kernel/perf_event_paranoid", &level)) {
        str_append(why, "no perf events in this kernel");
        return true;
    }
    if (level <= 2 || has_capability())
        return false;
    str_appendf(why, "perf_event_paranoid is %lld and CAP_PERFMON is missing", (long long)level);
    return true;
}

static void explain(int errnum, struct str *why)
{
    int64_t level = 0;
    fs_sys_read_i64("/proc/sys/kernel/perf_event_paranoid", &level);
    if (errnum == EACCES || errnum == EPERM)
        str_appendf(why, "forbidden by seccomp or perf_event_paranoid (%lld)", (long long)level);
    else if (errnum == ENOENT || errnum == EOPNOTSUPP || errnum == ENODEV)
        str_append(why, "this machine has no such event (a virtual machine without a PMU?)");
    else
        str_append(why, strerror(errnum));
}

static int open_event(const struct event *e, pid_t thread, bool user_only)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = e->type,
        .config = e->config,
        .inherit = 1,
        .exclude_kernel = user_only,
        .exclude_hv = user_only,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    return (int)syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void close_all(struct perf *p)
{
    for (size_t i = 0; i < p->count; i++)
        close(p->fds[i]);
    free(p->fds);
    free(p);
}

/* 0, or an errno. The threads of /proc itself, not of a fixture: these are really there. */
static int open_threads(const struct event *e, bool user_only, struct perf **out)
{
    auto_strv tids = STRV_INIT;
    auto_error struct error absent = ERROR_INIT;
    if (fs_list_dir("/proc/self/task", &tids, 1, &absent))
        strv_push(&tids, "0"); /* this thread */
    struct perf *p = mem_zalloc(1, sizeof *p);
    p->fds = mem_alloc(tids.count * sizeof *p->fds);
    for (size_t i = 0; i < tids.count; i++) {
        int64_t tid;
        int fd = num_parse_i64(tids.items[i], &tid) ? open_event(e, (pid_t)tid, user_only) : -1;
        if (fd < 0 && errno != ESRCH) { /* a thread may end meanwhile */
            int errnum = errno;
            close_all(p);
            return errnum;
        }
        if (fd >= 0)
            p->fds[p->count++] = fd;
    }
    *out = p;
    return 0;
}

static int64_t read_perf(struct counter *c)
{
    const struct perf *p = c->state;
    int64_t sum = 0;
    for (size_t i = 0; i < p->count; i++) {
        struct {
            uint64_t value, enabled, running;
        } got;
        if (read(p->fds[i], &got, sizeof got) != (ssize_t)sizeof got)
            return COUNTER_NONE;
        if (got.running < got.enabled) /* it shared a hardware counter: the rest is a guess */
            return COUNTER_NONE;
        sum += (int64_t)got.value;
    }
    return sum;
}

/* Something to count. */
static void be_busy(void)
{
    volatile unsigned x = 0;
    for (unsigned i = 0; i < 100000; i++)
        x = x + i;
}

static bool open_perf(struct counter *c, struct str *why)
{
    const struct event *e = NULL;
    for (size_t i = 0; i < sizeof events / sizeof *events && !e; i++)
        if (!strcmp(events[i].name, c->info.name))
            e = &events[i];
    if (!e || counters_forbidden(why))
        return false;
    struct perf *p = NULL;
    bool user_only = false;
    int failed = open_threads(e, false, &p);
    if ((failed == EACCES || failed == EPERM) && !e->in_kernel) {
        user_only = true;
        failed = open_threads(e, true, &p);
    }
    if (failed) {
        explain(failed, why);
        return false;
    }
    c->state = p;
    be_busy();
    int64_t value = read_perf(c);
    bool must_count = e->type == PERF_TYPE_HARDWARE && e->config <= PERF_COUNT_HW_INSTRUCTIONS;
    if (value < 0 || (must_count && value == 0)) {
        str_append(why, value < 0 ? "it cannot be read" : "it counts nothing");
        close_all(p);
        return false;
    }
    c->info.source = user_only ? "perf (user space only)" : "perf";
    return true;
}

static void close_perf(struct counter *c)
{
    close_all(c->state);
}

const struct counter_rung counter_rung_perf = {"perf", open_perf, read_perf, close_perf};
