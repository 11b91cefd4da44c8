/* The node around a trial: load, steal, pressure, and CPU time of everybody else. These are
 * witnesses of disturbance by others; the trial's own load is taken out (rusage of its processes
 * and of the harness). */
#include "common/clock.h"
#include "common/fs.h"
#include "common/host_name.h"
#include "common/mem.h"
#include "common/num.h"
#include "harness/collectors/collector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct sample {
    double mono_s, wall_s;
    double busy_s, steal_s;  /* all CPUs, /proc/stat */
    double psi_some_s[3];    /* /proc/pressure/{cpu,memory,io} */
    double load1;            /* /proc/loadavg */
    double own_s, harness_s; /* CPU time: ended children, this process */
};

struct host {
    struct sample before, after;
};

static double cpu_time_s(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void read_stat(struct sample *s)
{
    auto_str text = STR_INIT;
    unsigned long long user, nice_, system_, idle, iowait, irq, softirq, steal;
    if (!fs_sys_read("/proc/stat", &text) ||
        sscanf(text.data, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice_, &system_,
               &idle, &iowait, &irq, &softirq, &steal) != 8)
        return;
    double hz = (double)sysconf(_SC_CLK_TCK);
    s->busy_s = (double)(user + nice_ + system_ + irq + softirq) / hz;
    s->steal_s = (double)steal / hz;
}

static const char *const pressures[] = {"cpu", "memory", "io"};

static double read_psi(const char *what)
{
    auto_str text = STR_INIT;
    char path[64];
    snprintf(path, sizeof path, "/proc/pressure/%s", what);
    if (!fs_sys_read(path, &text) || !str_starts_with(text.data, "some "))
        return NAN;
    const char *total = strstr(text.data, "total=");
    unsigned long long us;
    return total && sscanf(total, "total=%llu", &us) == 1 ? (double)us * 1e-6 : NAN;
}

static void read_load(struct sample *s)
{
    auto_str text = STR_INIT;
    if (!fs_sys_read("/proc/loadavg", &text))
        return;
    text.data[strcspn(text.data, " ")] = '\0';
    num_parse_f64(text.data, &s->load1);
}

/* Both clocks at one moment: of a few readings the one that took least, so that being interrupted
 * between them does not look like a step of the clock. */
static void read_clocks(struct sample *s)
{
    double least = INFINITY;
    for (int i = 0; i < 5; i++) {
        struct timespec wall;
        double before = clock_mono_s();
        clock_gettime(CLOCK_REALTIME, &wall);
        double took = clock_mono_s() - before;
        if (took >= least)
            continue;
        least = took;
        s->mono_s = before + took / 2;
        s->wall_s = (double)wall.tv_sec + (double)wall.tv_nsec * 1e-9;
    }
}

static struct sample take(void)
{
    struct sample s = {.busy_s = NAN, .steal_s = NAN, .load1 = NAN};
    read_clocks(&s);
    read_stat(&s);
    for (size_t i = 0; i < 3; i++)
        s.psi_some_s[i] = read_psi(pressures[i]);
    read_load(&s);
    s.own_s = cpu_time_s(RUSAGE_CHILDREN);
    s.harness_s = cpu_time_s(RUSAGE_SELF);
    return s;
}

static void *start(const struct collector_context *context)
{
    (void)context;
    struct host *h = mem_zalloc(1, sizeof *h);
    h->before = h->after = take();
    return h;
}

static void stop(void *state)
{
    struct host *h = state;
    h->after = take();
}

static void put(json_t *obj, const char *key, double value, const char *why)
{
    if (isfinite(value))
        json_put_f64(obj, key, value);
    else
        json_put_null(obj, key, why);
}

static void emit(void *state, json_t *into)
{
    const struct host *h = state;
    const struct sample *a = &h->before, *b = &h->after;
    json_t *node = json_object();
    double elapsed = b->mono_s - a->mono_s;
    double trial = b->own_s - a->own_s, harness = b->harness_s - a->harness_s;
    double others = b->busy_s - a->busy_s - trial - harness;
    json_put_str(node, "node", host_name());
    json_put_f64(node, "elapsed_s", elapsed);
    json_put_int(node, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
    put(node, "load1", a->load1, "/proc/loadavg cannot be read");
    put(node, "steal_s", b->steal_s - a->steal_s, "/proc/stat cannot be read");
    for (size_t i = 0; i < 3; i++) {
        char key[32];
        snprintf(key, sizeof key, "psi_%s_some_s", pressures[i]);
        put(node, key, b->psi_some_s[i] - a->psi_some_s[i], "/proc/pressure cannot be read");
    }
    put(node, "busy_s", b->busy_s - a->busy_s, "/proc/stat cannot be read");
    json_put_f64(node, "trial_cpu_s", trial);
    json_put_f64(node, "harness_cpu_s", harness);
    /* /proc/stat counts in ticks of 10 ms: a little below zero is zero. */
    put(node, "others_cpu_s", others < 0 ? 0 : others, "/proc/stat cannot be read");
    json_put_f64(node, "clock_step_s", (b->wall_s - a->wall_s) - elapsed);
    json_t *all = json_array();
    json_array_append_new(all, node);
    json_put(into, "host", all);
}

const struct collector_ops collector_host = {"host", start, NULL, stop, emit, free};
