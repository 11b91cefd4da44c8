#include "harness/collectors/collector.h"

static const struct collector_ops *const table[] = {&collector_host, &collector_rusage,
                                                    &collector_cgroup, &collector_nvml};
#define COUNT (sizeof table / sizeof *table)
_Static_assert(COUNT <= COLLECTORS_MAX, "raise COLLECTORS_MAX");

void collectors_start(struct collectors *c, const struct collector_context *context)
{
    *c = (struct collectors){0};
    for (size_t i = 0; i < COUNT; i++)
        c->states[i] = table[i]->start(context);
}

void collectors_tick(struct collectors *c, const struct processes *processes)
{
    for (size_t i = 0; i < COUNT; i++)
        if (table[i]->tick)
            table[i]->tick(c->states[i], processes);
}

void collectors_stop(struct collectors *c)
{
    for (size_t i = 0; i < COUNT; i++)
        table[i]->stop(c->states[i]);
}

json_t *collectors_emit(struct collectors *c)
{
    json_t *into = json_object();
    for (size_t i = 0; i < COUNT; i++)
        table[i]->emit(c->states[i], into);
    return into;
}

void collectors_free(struct collectors *c)
{
    for (size_t i = 0; i < COUNT; i++)
        if (c->states[i])
            table[i]->free(c->states[i]);
    *c = (struct collectors){0};
}
