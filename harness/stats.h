/* Statistics of one sample, and Student's t distribution.
 *
 * Nothing here allocates for the caller to free, fails, or knows about records. A statistic that a
 * sample does not have (the median of nothing, the standard deviation of one value) is NaN; callers
 * turn NaN into null with a reason before it reaches a result. Inputs are never reordered:
 * functions that need order work on a copy.
 *
 * Formulas: docs/methodology.md. The rest of the family: stats_paired.h (ratio, equivalence),
 * stats_rank.h (Hodges-Lehmann, order statistics), stats_random.h (seeded generator),
 * scaling_stats.h (efficiency, Amdahl, USL). */
#ifndef HARNESS_STATS_H
#define HARNESS_STATS_H

#include <stddef.h>

/* A closed interval; both NaN: there is none. */
struct interval {
    double lo, hi;
};
#define INTERVAL_NONE ((struct interval){__builtin_nan(""), __builtin_nan("")})

double stats_mean(const double *x, size_t n);
double stats_sd(const double *x, size_t n); /* n - 1 in the denominator; NaN for n < 2 */
double stats_median(const double *x, size_t n);
double stats_mad(const double *x, size_t n); /* median |x - median|, not scaled */
double stats_min(const double *x, size_t n);
double stats_max(const double *x, size_t n);

/* Percentile p in 0…1: type 7 (h = (n - 1) p, linear between neighbours). */
double stats_quantile(const double *x, size_t n, double p);

/* Is x[i] further than 3.5 robust sigmas (1.4826 MAD) and more than 0.1 % from the median? Such
 * values are flagged, never dropped. */
double stats_outlier_limit(const double *x, size_t n); /* the distance; NaN for n < 3 */

/* I_x(a, b), the regularised incomplete beta function (continued fraction, modified Lentz). */
double stats_incomplete_beta(double a, double b, double x);
/* P(T > t) with nu degrees of freedom. */
double stats_t_upper(double t, double nu);
/* The t with P(T <= t) = p, 0 < p < 1, by bisection. */
double stats_t_quantile(double p, double nu);

/* A sorted copy; the caller frees. */
double *stats_sorted(const double *x, size_t n);

#endif
