/* What a training run tells people on standard output: upstream's lines, byte for byte in form.
 *
 * The printed loss is an exponential moving average (beta 0.9) of each step's loss, divided by
 * 1 - 0.9^(steps so far) to remove the bias of its start at 0. Upstream averages the last
 * micro-batch of rank 0; we average the mean over the whole batch of all ranks, so that the curve
 * does not depend on how the batch is cut. Tokens per second are those of the whole batch. */
#ifndef WORKLOAD_PROGRESS_H
#define WORKLOAD_PROGRESS_H

#include "common/str.h"

#include <stdint.h>

/* The average after one more loss; start with 0. */
double progress_smooth(double smooth, double loss);
/* Its value without the bias, `step` (from 0) being the last step that went into it. */
double progress_debias(double smooth, int64_t step);

struct progress {
    int64_t step, iterations;
    double loss; /* smoothed, bias removed */
    double lr_multiplier;
    double dt_s;         /* of the step */
    int64_t tokens;      /* of the step, all ranks */
    double mfu;          /* ratio; NaN: unknown, printed as "n/a" */
    double total_time_s; /* of the steps that count (all but the first ten) */
};
/* "step 00010/00050 (20.00%) | loss: 9.876543 | lrm: 1.00 | dt: 12.34ms | tok/sec: 1,234 | mfu:
 * 45.67 | total time: 0.01m", without a newline; a time of 0 makes tok/sec "n/a". */
void progress_line(struct str *out, const struct progress *p);

#endif
