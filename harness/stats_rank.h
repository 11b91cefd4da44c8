/* Statistics by ranks: what stands beside the t interval because it assumes less.
 *
 * Both intervals are exact and therefore hit few levels; the level they really have is given as
 * `coverage`. Where no interval of the wanted level exists (n too small) low and high are NaN. */
#ifndef HARNESS_STATS_RANK_H
#define HARNESS_STATS_RANK_H

#include "harness/stats.h"

#include <stddef.h>

#define STATS_WILCOXON_MAX 50 /* above this n the exact distribution is not computed */

struct rank_interval {
    double estimate;
    struct interval ci;
    size_t rank;     /* the limits are the rank-th smallest and largest; 0: no interval */
    double coverage; /* achieved; NaN without an interval */
};

/* Hodges-Lehmann: median of the Walsh averages (d_i + d_j) / 2, i <= j, with the exact interval
 * from the distribution of Wilcoxon's signed-rank statistic. n > STATS_WILCOXON_MAX: estimate
 * only. confidence: 0.95 for 95 %. */
struct rank_interval stats_hodges_lehmann(const double *d, size_t n, double confidence);

/* Median with the interval by order statistics: the largest k with P(Bin(n, 1/2) <= k - 1) <= alpha
 * / 2 gives [x_(k), x_(n + 1 - k)]. */
struct rank_interval stats_median_interval(const double *x, size_t n, double confidence);

#endif
