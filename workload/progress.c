#include "workload/progress.h"

#include "common/num.h"

#include <inttypes.h>
#include <math.h>

#define BETA 0.9

double progress_smooth(double smooth, double loss)
{
    return BETA * smooth + (1 - BETA) * loss;
}

double progress_debias(double smooth, int64_t step)
{
    return smooth / (1 - pow(BETA, (double)(step + 1)));
}

void progress_line(struct str *out, const struct progress *p)
{
    double percent = p->iterations ? 100.0 * (double)p->step / (double)p->iterations : 100.0;
    str_appendf(out, "step %05" PRId64 "/%05" PRId64 " (%.2f%%) | loss: %.6f | lrm: %.2f | ",
                p->step, p->iterations, percent, p->loss, p->lr_multiplier);
    char rate[32] = "n/a";
    if (p->dt_s > 0 && (double)p->tokens / p->dt_s < 1e18)
        num_format_thousands(rate, sizeof rate, (int64_t)((double)p->tokens / p->dt_s));
    str_appendf(out, "dt: %.2fms | tok/sec: %s | ", p->dt_s * 1e3, rate);
    if (isfinite(p->mfu))
        str_appendf(out, "mfu: %.2f", p->mfu * 100);
    else
        str_append(out, "mfu: n/a");
    str_appendf(out, " | total time: %.2fm", p->total_time_s / 60);
}
