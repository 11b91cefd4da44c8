/* What the ranks counted: the event `counters` of each step, summed over the ranks; which rung of
 * the ladder each counter came from, and why one is missing, by the ranks' env events. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/trial_record_priv.h"

#include <string.h>

/* Counted from the same source by every rank? The source, or NULL with the first rank's reason. */
static const char *source_of(const struct trial_facts *f, const char *name, const char **why)
{
    const char *source = NULL;
    *why = "a rank does not tell";
    for (size_t i = 0; i < f->events.count; i++) {
        const json_t *group = json_at(f->events.items[i].env, "counters");
        const char *mine = json_string_value(json_object_get(json_at(group, "sources"), name));
        const char *reason =
            json_string_value(json_object_get(json_at(group, "unavailable"), name));
        if (!mine) {
            *why = reason ? reason : *why;
            return NULL;
        }
        if (source && strcmp(source, mine) != 0) {
            *why = "the ranks count it in different ways";
            return NULL;
        }
        source = mine;
    }
    return source;
}

static const json_t *values_of(const struct rank_events *e, int64_t step, size_t *from)
{
    while (*from < e->counts.count && e->counts.items[*from].step < step)
        (*from)++;
    return *from < e->counts.count && e->counts.items[*from].step == step
               ? e->counts.items[*from].values
               : NULL;
}

static bool has_step(const struct rank_events *e, int64_t step, size_t *from)
{
    while (*from < e->steps.count && e->steps.items[*from].step < step)
        (*from)++;
    return *from < e->steps.count && e->steps.items[*from].step == step;
}

/* Of the steps that train.step_max_s tells: those that every rank made. */
static json_t *per_step(const struct trial_facts *f, const char *name)
{
    json_t *out = json_array();
    const struct trial_events *t = &f->events;
    auto_free size_t *from = mem_zalloc(t->count + 1, sizeof *from);
    auto_free size_t *at = mem_zalloc(t->count + 1, sizeof *at);
    for (size_t i = 0; t->count && i < t->items[0].steps.count; i++) {
        int64_t step = t->items[0].steps.items[i].step;
        json_int_t sum = 0;
        bool made = true, counted = true;
        for (size_t r = 0; r < t->count; r++) {
            const json_t *value = json_object_get(values_of(&t->items[r], step, &from[r]), name);
            made = made && has_step(&t->items[r], step, &at[r]);
            counted = counted && json_is_integer(value);
            sum += json_integer_value(value);
        }
        if (made)
            json_array_append_new(out, counted ? json_integer(sum) : json_null());
    }
    return out;
}

static void put_status(json_t *counters, size_t asked, size_t had, const char *reason)
{
    json_put_str(counters, "status", !had ? "none" : had < asked ? "partial" : "full");
    json_put_str(counters, "reason",
                 asked && had == asked ? "every one that was asked for" : reason);
}

void trial_record_counters(const struct trial_facts *f, json_t *record)
{
    const struct strv *asked = &f->context->scenario->measure.counters;
    json_t *counters = json_object(), *sources = json_object(), *missing = json_object();
    json_t *steps = json_object();
    auto_str reason = STR_INIT;
    size_t had = 0;
    bool told = f->events.count && json_at(f->events.items[0].env, "counters.sources");
    for (size_t i = 0; told && i < asked->count; i++) {
        const char *name = asked->items[i], *why;
        const char *source = source_of(f, name, &why);
        if (source) {
            json_object_set_new(sources, name, json_string(source));
            json_object_set_new(steps, name, per_step(f, name));
            had++;
        } else {
            json_object_set_new(missing, name, json_string(why));
            str_appendf(&reason, "%s%s: %s", reason.len ? "; " : "", name, why);
        }
    }
    if (!asked->count)
        str_append(&reason, "none was asked for");
    else if (!told)
        str_append(&reason, "the workload counts nothing");
    put_status(counters, asked->count, had, reason.data);
    json_put(counters, "sources", sources);
    json_put(counters, "unavailable", missing);
    json_put(counters, "per_step", steps);
    json_put(record, "counters", counters);
}
