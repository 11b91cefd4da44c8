/* Forward and backward times of a step by the device's own events: work is queued ahead of the
 * device, so the host's clock would measure the queueing. On the CPU an event is the clock.
 *
 * A micro-batch has three marks; the times are read once, when the step's work is done. Nothing is
 * allocated after step_clock_open. */
#ifndef WORKLOAD_STEP_CLOCK_H
#define WORKLOAD_STEP_CLOCK_H

#include "kernels/kernels.h"

enum step_mark { MARK_FORWARD, MARK_BACKWARD, MARK_END, MARK_COUNT };

struct step_clock {
    struct device *device;        /* borrowed */
    struct device_event **events; /* micro_batches x MARK_COUNT */
    int64_t micro_batches;
};

int step_clock_open(struct step_clock *c, struct device *device, int64_t micro_batches,
                    struct error *err);
void step_clock_close(struct step_clock *c);
int step_clock_mark(struct step_clock *c, int64_t micro_batch, enum step_mark mark,
                    struct error *err);
/* Sums over all micro-batches; waits for the last mark. */
int step_clock_read(struct step_clock *c, double *forward_s, double *backward_s, struct error *err);

#endif
