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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    double nu;            /* degrees of freedom of se */
    size_t strata;        /* 1: no strata */
    double p_strata;      /* that the strata have one mean (F); NaN where it cannot be asked */
    bool strata_differ;   /* the means of the strata are the sample */
};

/* alpha: one-sided level. a[i], b[i] > 0. */
struct paired stats_paired(const double *a, const double *b, size_t n, double alpha);
/* The same of log-ratios. */
struct paired stats_paired_log(const double *d, size_t n, double alpha);

/* Blocks of several strata (sessions merged, or resumed after a drift); stratum[i] of block i.
 * Within a stratum the blocks vary by noise: sd is the pooled one, with n - k degrees of freedom
 * for k strata, and the mean is that of all blocks. Where the strata may differ by more than their
 * noise (one-way analysis of variance, F with k - 1 and n - k degrees of freedom, p < .25, the
 * level that Bancroft recommends for pooling), blocks are no independent sample: then the means of
 * the strata are, and mean, se and nu = k - 1 are theirs. Without blocks to spare (n - k < 1)
 * strata are not told apart. */
#define STATS_STRATA_POOLED .25
struct paired stats_paired_strata(const double *a, const double *b, const int64_t *stratum,
                                  size_t n, double alpha);
/* P(F > f) with nu1 and nu2 degrees of freedom. */
double stats_f_upper(double f, double nu1, double nu2);

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
