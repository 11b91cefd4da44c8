#include "harness/stats_paired.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <math.h>

struct paired stats_paired_log(const double *d, size_t n, double alpha)
{
    struct paired out = {.n = n,
                         .mean = stats_mean(d, n),
                         .sd = stats_sd(d, n),
                         .se = NAN,
                         .ci = INTERVAL_NONE,
                         .confidence = 1 - 2 * alpha,
                         .claim = INTERVAL_NONE,
                         .claim_confidence = 1 - alpha,
                         .p_diff = NAN,
                         .p_superiority = NAN};
    out.ratio = exp(out.mean);
    double above = 0;
    for (size_t i = 0; i < n; i++)
        above += d[i] > 0 ? 1 : d[i] < 0 ? 0 : 0.5;
    if (n)
        out.p_superiority = above / (double)n;
    if (n < 2)
        return out;
    double nu = (double)(n - 1);
    out.se = out.sd / sqrt((double)n);
    double half = stats_t_quantile(1 - alpha, nu) * out.se;
    double wide = stats_t_quantile(1 - alpha / 2, nu) * out.se;
    out.ci = (struct interval){exp(out.mean - half), exp(out.mean + half)};
    out.claim = (struct interval){exp(out.mean - wide), exp(out.mean + wide)};
    /* Identical differences have no spread: certain, or nothing at all. */
    if (out.se > 0)
        out.p_diff = 2 * stats_t_upper(fabs(out.mean) / out.se, nu);
    else
        out.p_diff = out.mean == 0 ? 1 : 0;
    return out;
}

struct paired stats_paired(const double *a, const double *b, size_t n, double alpha)
{
    auto_free double *d = mem_alloc((n ? n : 1) * sizeof *d);
    for (size_t i = 0; i < n; i++)
        d[i] = log(b[i] / a[i]);
    return stats_paired_log(d, n, alpha);
}

struct tost stats_tost(const struct paired *p, double delta)
{
    struct tost out = {NAN, NAN, NAN};
    if (p->n < 2)
        return out;
    double margin = log1p(delta);
    if (!(p->se > 0)) {
        out.p = fabs(p->mean) < margin ? 0 : 1;
        return out;
    }
    double nu = (double)(p->n - 1);
    out.t_low = (p->mean + margin) / p->se;
    out.t_high = (p->mean - margin) / p->se;
    /* P(T < t) as P(T > -t): 1 - P(T > t) would lose a small tail. */
    out.p = fmax(stats_t_upper(out.t_low, nu), stats_t_upper(-out.t_high, nu));
    return out;
}

size_t stats_blocks_needed(const struct paired *p, double delta)
{
    double room = log1p(delta) - fabs(p->mean);
    if (p->n < 2 || !(room > 0))
        return 0;
    double half = log(p->ci.hi) - p->mean;
    double needed = ceil((double)p->n * (half / room) * (half / room));
    if (!(needed < 1e6))
        return 1000000;
    return needed > (double)p->n ? (size_t)needed : p->n + 1;
}

double stats_pocock_alpha(size_t looks)
{
    static const double alpha[STATS_LOOKS_MAX] = {.05, .0294, .0221, .0182, .0158};
    return looks >= 1 && looks <= STATS_LOOKS_MAX ? alpha[looks - 1] : NAN;
}

void stats_holm(double *p, size_t m)
{
    auto_free size_t *order = mem_alloc((m ? m : 1) * sizeof *order);
    size_t count = 0;
    for (size_t i = 0; i < m; i++) {
        if (isnan(p[i]))
            continue;
        size_t at = count++;
        for (; at > 0 && p[order[at - 1]] > p[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    double highest = 0;
    for (size_t k = 0; k < count; k++) {
        highest = fmax(highest, fmin(1, p[order[k]] * (double)(count - k)));
        p[order[k]] = highest;
    }
}
