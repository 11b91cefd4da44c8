#include "harness/stats_paired.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <math.h>

/* Intervals and p of a difference, from mean, se and nu. */
static void infer(struct paired *p, double alpha)
{
    p->ratio = exp(p->mean);
    if (isnan(p->se))
        return;
    double half = stats_t_quantile(1 - alpha, p->nu) * p->se;
    double wide = stats_t_quantile(1 - alpha / 2, p->nu) * p->se;
    p->ci = (struct interval){exp(p->mean - half), exp(p->mean + half)};
    p->claim = (struct interval){exp(p->mean - wide), exp(p->mean + wide)};
    /* Identical differences have no spread: certain, or nothing at all. */
    if (p->se > 0)
        p->p_diff = 2 * stats_t_upper(fabs(p->mean) / p->se, p->nu);
    else
        p->p_diff = p->mean == 0 ? 1 : 0;
}

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
                         .p_superiority = NAN,
                         .nu = n < 2 ? NAN : (double)(n - 1),
                         .strata = 1,
                         .p_strata = NAN};
    double above = 0;
    for (size_t i = 0; i < n; i++)
        above += d[i] > 0 ? 1 : d[i] < 0 ? 0 : 0.5;
    if (n)
        out.p_superiority = above / (double)n;
    if (n >= 2)
        out.se = out.sd / sqrt((double)n);
    infer(&out, alpha);
    return out;
}

struct paired stats_paired(const double *a, const double *b, size_t n, double alpha)
{
    auto_free double *d = mem_alloc((n ? n : 1) * sizeof *d);
    for (size_t i = 0; i < n; i++)
        d[i] = log(b[i] / a[i]);
    return stats_paired_log(d, n, alpha);
}

double stats_f_upper(double f, double nu1, double nu2)
{
    return f > 0 ? stats_incomplete_beta(nu2 / 2, nu1 / 2, nu2 / (nu2 + nu1 * f)) : 1;
}

/* ---- strata ------------------------------------------------------------------------------------
 */
struct strata {
    double *means; /* k */
    size_t k;
    double within, between; /* sums of squares */
};

static bool is_first_of(const int64_t *stratum, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (stratum[j] == stratum[i])
            return false;
    return true;
}

static void add_stratum(struct strata *s, const double *d, const int64_t *stratum, size_t n,
                        size_t first, double mean)
{
    auto_free double *x = mem_alloc(n * sizeof *x);
    size_t count = 0;
    for (size_t i = first; i < n; i++)
        if (stratum[i] == stratum[first])
            x[count++] = d[i];
    double own = stats_mean(x, count);
    for (size_t i = 0; i < count; i++)
        s->within += (x[i] - own) * (x[i] - own);
    s->between += (double)count * (own - mean) * (own - mean);
    s->means[s->k++] = own;
}

struct paired stats_paired_strata(const double *a, const double *b, const int64_t *stratum,
                                  size_t n, double alpha)
{
    struct paired out = stats_paired(a, b, n, alpha);
    auto_free double *d = mem_alloc((n + 1) * sizeof *d);
    struct strata s = {mem_alloc((n + 1) * sizeof *s.means), 0, 0, 0};
    auto_free double *means = s.means;
    for (size_t i = 0; i < n; i++)
        d[i] = log(b[i] / a[i]);
    for (size_t i = 0; i < n; i++)
        if (is_first_of(stratum, i))
            add_stratum(&s, d, stratum, n, i, out.mean);
    if (s.k < 2 || n < s.k + 1)
        return out;
    double spare = (double)(n - s.k), groups = (double)(s.k - 1);
    out.strata = s.k;
    out.sd = sqrt(s.within / spare);
    out.p_strata = s.within > 0
                       ? stats_f_upper(s.between / groups / (s.within / spare), groups, spare)
                       : (s.between > 0 ? 0 : 1);
    out.strata_differ = out.p_strata < STATS_STRATA_POOLED;
    out.nu = out.strata_differ ? groups : spare;
    if (out.strata_differ)
        out.mean = stats_mean(means, s.k);
    out.se =
        out.strata_differ ? stats_sd(means, s.k) / sqrt((double)s.k) : out.sd / sqrt((double)n);
    infer(&out, alpha);
    return out;
}

struct tost stats_tost(const struct paired *p, double delta)
{
    struct tost out = {NAN, NAN, NAN};
    if (isnan(p->se))
        return out;
    double margin = log1p(delta);
    if (!(p->se > 0)) {
        out.p = fabs(p->mean) < margin ? 0 : 1;
        return out;
    }
    out.t_low = (p->mean + margin) / p->se;
    out.t_high = (p->mean - margin) / p->se;
    /* P(T < t) as P(T > -t): 1 - P(T > t) would lose a small tail. */
    out.p = fmax(stats_t_upper(out.t_low, p->nu), stats_t_upper(-out.t_high, p->nu));
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
