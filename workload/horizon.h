/* How many updates a run makes, by upstream's precedence: num_iterations, else target_flops, else
 * target_param_data_ratio. Pure. */
#ifndef WORKLOAD_HORIZON_H
#define WORKLOAD_HORIZON_H

#include "workload/model.h"

struct horizon {
    int64_t num_iterations;         /* >= 0: exactly so many; -1: not given */
    double target_flops;            /* > 0: round(target_flops / (F * batch)), halves to even */
    double target_param_data_ratio; /* > 0: floor(ratio * N / batch) */
};

/* batch: tokens of a step. No rule given, or more updates than can be counted: exit 3. */
int horizon_iterations(const struct horizon *h, const struct model_config *config, int64_t batch,
                       int64_t *iterations, struct error *err);

#endif
