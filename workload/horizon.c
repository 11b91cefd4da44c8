#include "workload/horizon.h"

#include "common/protocol.h"

#include <math.h>

static int too_many(double n, struct error *err)
{
    return error_set(err, NANOCHAT_EXIT_PLAN, "%.3g training steps are more than can be made", n);
}

int horizon_iterations(const struct horizon *h, const struct model_config *config, int64_t batch,
                       int64_t *iterations, struct error *err)
{
    double n;
    const int64_t most = INT64_MAX / batch; /* all tokens of a run can be counted */
    if (h->num_iterations >= 0) {
        if (h->num_iterations > most)
            return too_many((double)h->num_iterations, err);
        *iterations = h->num_iterations;
        return 0;
    }
    if (h->target_flops > 0) {
        n = rint(h->target_flops / (model_config_flops_per_token(config) * (double)batch));
    } else if (h->target_param_data_ratio > 0) {
        double tokens = floor(h->target_param_data_ratio * (double)model_config_params(config));
        n = floor(tokens / (double)batch);
    } else {
        error_set(err, NANOCHAT_EXIT_PLAN, "no training horizon is given");
        return error_hint(err, "use --num-iterations, --target-flops or --target-param-data-ratio");
    }
    if (!(n < 1e15) || n > (double)most)
        return too_many(n, err);
    *iterations = (int64_t)n;
    return 0;
}
