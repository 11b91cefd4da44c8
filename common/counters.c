#include "common/counters.h"

#include "common/cleanup.h"
#include "common/counters_priv.h"
#include "common/fs.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

static const struct counter_rung *const rungs[] = {&counter_rung_papi, &counter_rung_perf,
                                                   &counter_rung_rusage, &counter_rung_proc};
#define N_RUNGS (sizeof rungs / sizeof *rungs)

struct counters {
    struct counter *items;
    size_t count, cap;
};

static void open_one(struct counter *c)
{
    auto_str whole = STR_INIT;
    for (size_t i = 0; i < N_RUNGS; i++) {
        auto_str why = STR_INIT;
        if (rungs[i]->open(c, &why)) {
            c->rung = (int)i;
            break;
        }
        if (why.len)
            str_appendf(&whole, "%s%s: %s", whole.len ? "; " : "", rungs[i]->name, why.data);
    }
    if (!c->info.source && !whole.len)
        str_appendf(&whole, "no counter has this name%s",
                    HAVE_PAPI ? "" : " in a build without PAPI");
    c->info.why = whole.len ? mem_strdup(whole.data) : NULL;
}

struct counters *counters_open(const struct strv *names)
{
    struct counters *c = mem_zalloc(1, sizeof *c);
    for (size_t i = 0; i < names->count; i++) {
        struct counter one = {.info.name = mem_strdup(names->items[i])};
        open_one(&one);
        vec_push(c, one);
    }
    return c;
}

void counters_close(struct counters *c)
{
    for (size_t i = 0; c && i < c->count; i++) {
        struct counter *one = &c->items[i];
        if (one->info.source)
            rungs[one->rung]->close(one);
        free(one->info.name);
        free(one->info.why);
    }
    if (c)
        free(c->items);
    free(c);
}

size_t counters_count(const struct counters *c)
{
    return c->count;
}

const struct counter_info *counters_info(const struct counters *c, size_t i)
{
    return &c->items[i].info;
}

static int64_t read_one(struct counter *c)
{
    return c->info.source ? rungs[c->rung]->read(c) : COUNTER_NONE;
}

void counters_begin(struct counters *c)
{
    for (size_t i = 0; i < c->count; i++)
        c->items[i].begin = read_one(&c->items[i]);
}

void counters_end(struct counters *c, int64_t *values)
{
    for (size_t i = 0; i < c->count; i++) {
        int64_t begin = c->items[i].begin, now = read_one(&c->items[i]);
        values[i] = begin >= 0 && now >= begin ? now - begin : COUNTER_NONE;
    }
}

json_t *counters_describe(const struct counters *c)
{
    json_t *out = json_object(), *sources = json_object(), *missing = json_object();
    json_t *fallbacks = json_object();
    for (size_t i = 0; i < c->count; i++) {
        const struct counter_info *info = &c->items[i].info;
        if (json_object_get(sources, info->name) || json_object_get(missing, info->name))
            continue; /* asked for twice */
        if (info->source && info->why)
            json_put_str(fallbacks, info->name, info->why);
        if (info->source)
            json_put_str(sources, info->name, info->source);
        else
            json_put_str(missing, info->name, info->why);
    }
    json_put(out, "sources", sources);
    json_put(out, "unavailable", missing);
    json_put(out, "fallbacks", fallbacks);
    return out;
}

void counters_split(const char *text, struct strv *names)
{
    auto_free char *copy = mem_strdup(text);
    char *save = NULL;
    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save))
        if (*str_trim(w) && !strv_contains(names, str_trim(w)))
            strv_push(names, str_trim(w));
}
