/* Resources of every process of the trial that was collected: ranks, launcher, runtime client. */
#include "common/mem.h"
#include "harness/collectors/collector.h"

#include <stdlib.h>
#include <sys/resource.h>

struct usage {
    struct rusage before, after;
};

static void *start(const struct collector_context *context)
{
    (void)context;
    struct usage *u = mem_zalloc(1, sizeof *u);
    getrusage(RUSAGE_CHILDREN, &u->before);
    u->after = u->before;
    return u;
}

static void stop(void *state)
{
    struct usage *u = state;
    getrusage(RUSAGE_CHILDREN, &u->after);
}

static double seconds(struct timeval a, struct timeval b)
{
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_usec - a.tv_usec) * 1e-6;
}

static void emit(void *state, json_t *into)
{
    const struct usage *u = state;
    const struct rusage *a = &u->before, *b = &u->after;
    json_t *r = json_object();
    json_put_f64(r, "user_s", seconds(a->ru_utime, b->ru_utime));
    json_put_f64(r, "system_s", seconds(a->ru_stime, b->ru_stime));
    json_put_int(r, "voluntary_switches", b->ru_nvcsw - a->ru_nvcsw);
    json_put_int(r, "involuntary_switches", b->ru_nivcsw - a->ru_nivcsw);
    json_put_int(r, "minor_faults", b->ru_minflt - a->ru_minflt);
    json_put_int(r, "major_faults", b->ru_majflt - a->ru_majflt);
    /* ru_maxrss is the largest child that this session ever had: only a new maximum is this
     * trial's. */
    if (b->ru_maxrss > a->ru_maxrss)
        json_put_int(r, "max_rss_bytes", (int64_t)b->ru_maxrss * 1024);
    else
        json_put_null(r, "max_rss_bytes", "not above an earlier trial's of this session");
    json_put(into, "rusage", r);
}

const struct collector_ops collector_rusage = {"rusage", start, NULL, stop, emit, free};
