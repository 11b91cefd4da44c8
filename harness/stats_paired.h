/* The paired comparison: from one number a trial and a block to ratio, interval and equivalence.
 *
 *   d_i = ln(b_i / a_i) in block i;  ratio = exp(mean d);  CI = exp(mean d ± t(1 - alpha, n - 1)
 * se)
 *
 * TOST with margin delta (symmetric in the logarithm): equivalent at level alpha iff the
 * (1 - 2 alpha) interval of the ratio lies inside (1 / (1 + delta), 1 + delta). */
#ifndef HARNESS_STATS_PAIRED_H
#define HARNESS_STATS_PAIRED_H

#include "harness/stats.h"

#include <stddef.h>

struct paired {
    size_t n;
    double mean, sd, se;   /* of d; sd and se are NaN for n < 2 */
    double ratio;          /* exp(mean) */
    struct interval ci;    /* of the ratio, at `confidence`; none for n < 2 */
    double confidence;     /* 1 - 2 alpha: that of TOST */
    struct interval claim; /* of the ratio, at `claim_confidence` */
    double
        claim_confidence; /* 1 - alpha: a difference in either direction, alpha / 2 on each side */
    double p_diff;        /* two-sided, of mean d = 0; NaN for n < 2 */
    double p_superiority; /* share of blocks with b > a, ties half */
};

/* alpha: one-sided level. a[i], b[i] > 0. */
struct paired stats_paired(const double *a, const double *b, size_t n, double alpha);
/* The same of log-ratios. */
struct paired stats_paired_log(const double *d, size_t n, double alpha);

struct tost {
    double t_low, t_high;
    double p; /* max of both; NaN for n < 2 */
};
struct tost stats_tost(const struct paired *p, double delta);

/* Blocks needed in all so that the interval fits inside the margin, from the half-width reached
 * with n blocks: n (half-width / (ln(1 + delta) - |ln ratio|))^2, rounded up, at least n + 1.
 * 0 when the ratio itself is not within the margin (more blocks will not make it equivalent) or
 * there is no interval. */
size_t stats_blocks_needed(const struct paired *p, double delta);

/* One-sided level of each of `looks` equally spaced looks that keeps 5 % overall (Pocock);
 * 1 <= looks <= 5, NaN otherwise. */
#define STATS_LOOKS_MAX 5
double stats_pocock_alpha(size_t looks);

/* Holm's adjustment in place: sorted p_(k) (m - k + 1), running maximum, at most 1. NaN entries are
 * left out of the family. */
void stats_holm(double *p, size_t m);

#endif
