#include "harness/stats_rank.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <math.h>

/* Largest k with P(W <= k) <= tail under the null hypothesis; -1 if even P(W = 0) is more. The
 * counts of subsets of 1…n by their sum stay exact in a double up to n = 50. */
static long wilcoxon_low(size_t n, double tail, double *cumulative)
{
    size_t top = n * (n + 1) / 2;
    auto_free double *count = mem_zalloc(top + 1, sizeof *count);
    count[0] = 1;
    for (size_t r = 1; r <= n; r++)
        for (size_t k = top; k >= r; k--)
            count[k] += count[k - r];
    double total = ldexp(1, (int)n);
    double sum = 0;
    long best = -1;
    *cumulative = 0;
    for (size_t k = 0; k <= top; k++) {
        sum += count[k];
        if (sum / total > tail)
            break;
        best = (long)k;
        *cumulative = sum / total;
    }
    return best;
}

struct rank_interval stats_hodges_lehmann(const double *d, size_t n, double confidence)
{
    struct rank_interval out = {NAN, INTERVAL_NONE, 0, NAN};
    if (n == 0)
        return out;
    size_t pairs = n * (n + 1) / 2;
    auto_free double *walsh = mem_alloc(pairs * sizeof *walsh);
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++)
            walsh[used++] = (d[i] + d[j]) / 2;
    auto_free double *s = stats_sorted(walsh, pairs);
    out.estimate = stats_median(s, pairs);
    if (n > STATS_WILCOXON_MAX)
        return out;
    double below;
    long k = wilcoxon_low(n, (1 - confidence) / 2, &below);
    if (k < 0)
        return out;
    out.rank = (size_t)k + 1;
    out.ci = (struct interval){s[k], s[pairs - 1 - (size_t)k]};
    out.coverage = 1 - 2 * below;
    return out;
}

struct rank_interval stats_median_interval(const double *x, size_t n, double confidence)
{
    struct rank_interval out = {stats_median(x, n), INTERVAL_NONE, 0, NAN};
    double below = 0; /* P(Bin(n, 1/2) <= k - 1) */
    double log_pmf = -(double)n * M_LN2;
    for (size_t k = 1; k <= (n + 1) / 2; k++) {
        below += exp(log_pmf);
        if (below > (1 - confidence) / 2)
            break;
        out.rank = k;
        out.coverage = 1 - 2 * below;
        log_pmf += log((double)(n - k + 1) / (double)k);
    }
    if (out.rank) {
        auto_free double *s = stats_sorted(x, n);
        out.ci = (struct interval){s[out.rank - 1], s[n - out.rank]};
    }
    return out;
}
