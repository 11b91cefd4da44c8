/* PAPI: presets (PAPI_…) and every native event that perf itself has no name of ours for. An event
 * set each, so that one that does not fit beside the others is told by itself; counted for the
 * opening thread and those that it starts. */
#include "common/counters_priv.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

#if HAVE_PAPI
#include <papi.h>

static bool is_ours(const char *name)
{
    static const char *const prefixes[] = {"rusage::", "sched::"};
    static const char *const software[] = {
        "perf::TASK-CLOCK",   "perf::CPU-CLOCK",        "perf::PAGE-FAULTS",   "perf::MINOR-FAULTS",
        "perf::MAJOR-FAULTS", "perf::CONTEXT-SWITCHES", "perf::CPU-MIGRATIONS"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (str_starts_with(name, prefixes[i]))
            return true;
    for (size_t i = 0; i < sizeof software / sizeof *software; i++)
        if (!strcmp(name, software[i]))
            return true;
    return false;
}

static bool library(struct str *why)
{
    int version =
        PAPI_is_initialized() ? (int)PAPI_VER_CURRENT : PAPI_library_init(PAPI_VER_CURRENT);
    if (version == (int)PAPI_VER_CURRENT)
        return true;
    str_appendf(why, "the library does not start (%s)",
                version > 0 ? "another version than this build's" : PAPI_strerror(version));
    return false;
}

static int add_event(const char *name, int *set)
{
    int code, rc;
    *set = PAPI_NULL;
    if ((rc = PAPI_event_name_to_code(name, &code)) != PAPI_OK ||
        (rc = PAPI_create_eventset(set)) != PAPI_OK)
        return rc;
    PAPI_option_t inherit = {.inherit = {.eventset = *set, .inherit = PAPI_INHERIT_ALL}};
    if ((rc = PAPI_assign_eventset_component(*set, PAPI_get_event_component(code))) != PAPI_OK)
        return rc;
    PAPI_set_opt(PAPI_INHERIT, &inherit); /* a component that cannot counts one thread */
    return PAPI_add_event(*set, code);
}

static void drop(int set)
{
    long long ignored;
    if (set == PAPI_NULL)
        return;
    PAPI_stop(set, &ignored);
    PAPI_cleanup_eventset(set);
    PAPI_destroy_eventset(&set);
}

/* Start, be busy, read: what "available" says is not believed. */
static bool is_counting(const char *name, int set, struct str *why)
{
    long long value = 0;
    volatile unsigned x = 0;
    int rc = PAPI_start(set);
    for (unsigned i = 0; i < 100000; i++)
        x = x + i;
    if (rc == PAPI_OK)
        rc = PAPI_read(set, &value);
    if (rc != PAPI_OK)
        str_append(why, PAPI_strerror(rc));
    bool must_count = str_ends_with(name, "_CYC") || str_ends_with(name, "TOT_INS");
    if (rc == PAPI_OK && must_count && value <= 0) {
        str_append(why, "it counts nothing");
        return false;
    }
    return rc == PAPI_OK;
}

static bool open_papi(struct counter *c, struct str *why)
{
    if (is_ours(c->info.name))
        return false;
    if (counters_forbidden(why) || !library(why))
        return false;
    int set, rc = add_event(c->info.name, &set);
    if (rc != PAPI_OK) {
        str_append(why, PAPI_strerror(rc));
        drop(set);
        return false;
    }
    if (!is_counting(c->info.name, set, why)) {
        drop(set);
        return false;
    }
    int *state = mem_alloc(sizeof *state);
    *state = set;
    c->state = state;
    c->info.source = "papi";
    return true;
}

static int64_t read_papi(struct counter *c)
{
    long long value;
    return PAPI_read(*(int *)c->state, &value) == PAPI_OK ? value : COUNTER_NONE;
}

static void close_papi(struct counter *c)
{
    drop(*(int *)c->state);
    free(c->state);
}

#else

static bool open_papi(struct counter *c, struct str *why)
{
    if (str_starts_with(c->info.name, "PAPI_"))
        str_append(why, "not in this build");
    return false;
}
static int64_t read_papi(struct counter *c)
{
    (void)c;
    return COUNTER_NONE;
}
static void close_papi(struct counter *c)
{
    (void)c;
}

#endif

const struct counter_rung counter_rung_papi = {"papi", open_papi, read_papi, close_papi};
