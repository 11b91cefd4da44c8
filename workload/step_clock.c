#include "workload/step_clock.h"

#include "common/mem.h"

#include <stdlib.h>

int step_clock_open(struct step_clock *c, struct device *device, int64_t micro_batches,
                    struct error *err)
{
    *c = (struct step_clock){.device = device, .micro_batches = micro_batches};
    c->events = mem_zalloc((size_t)(micro_batches * MARK_COUNT), sizeof *c->events);
    for (int64_t i = 0; i < micro_batches * MARK_COUNT; i++)
        if (device->ops->event_new(device, &c->events[i], err))
            return -err->code;
    return 0;
}

void step_clock_close(struct step_clock *c)
{
    for (int64_t i = 0; c->events && i < c->micro_batches * MARK_COUNT; i++)
        if (c->events[i])
            c->device->ops->event_free(c->device, c->events[i]);
    free(c->events);
    c->events = NULL;
}

int step_clock_mark(struct step_clock *c, int64_t micro_batch, enum step_mark mark,
                    struct error *err)
{
    return c->device->ops->event_record(c->device, c->events[micro_batch * MARK_COUNT + mark], err);
}

int step_clock_read(struct step_clock *c, double *forward_s, double *backward_s, struct error *err)
{
    const struct device_ops *ops = c->device->ops;
    *forward_s = *backward_s = 0;
    for (int64_t i = 0; i < c->micro_batches; i++) {
        struct device_event **e = c->events + i * MARK_COUNT;
        double forward, backward;
        if (ops->event_elapsed(c->device, &forward, e[MARK_FORWARD], e[MARK_BACKWARD], err) ||
            ops->event_elapsed(c->device, &backward, e[MARK_BACKWARD], e[MARK_END], err))
            return -err->code;
        *forward_s += forward;
        *backward_s += backward;
    }
    return 0;
}
