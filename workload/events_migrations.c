/* What a rank tells at its very end: how often the scheduler moved it to another CPU. */
#include "workload/events_priv.h"

#include "common/cleanup.h"
#include "common/str.h"

/* The scheduler's own count; else an event that must be opened before there are threads. */
static const char *const ladder[] = {"sched::MIGRATIONS", "perf::CPU-MIGRATIONS"};

struct counters *events_migrations_open(void)
{
    struct counters *c = NULL;
    for (size_t i = 0; i < sizeof ladder / sizeof *ladder; i++) {
        auto_strv name = STRV_INIT;
        strv_push(&name, ladder[i]);
        counters_close(c);
        c = counters_open(&name);
        if (counters_info(c, 0)->source)
            break;
    }
    counters_begin(c);
    return c;
}

void events_put_migrations(json_t *done, struct counters *c)
{
    const struct counter_info *info = counters_info(c, 0);
    int64_t n = COUNTER_NONE;
    counters_end(c, &n);
    if (n >= 0)
        json_put_int(done, "cpu_migrations", n);
    else
        json_put_null(done, "cpu_migrations", info->source ? "its threads ended" : info->why);
    if (info->source)
        json_put_str(done, "cpu_migrations_source", info->source);
}
