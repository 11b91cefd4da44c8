/* Seeded random numbers for simulation and bootstrap: xoshiro256** seeded by splitmix64, both by
 * their published recurrences. The same seed gives the same numbers on every machine. */
#ifndef HARNESS_STATS_RANDOM_H
#define HARNESS_STATS_RANDOM_H

#include "harness/stats.h"

#include <stddef.h>
#include <stdint.h>

struct stats_rng {
    uint64_t s[4];
};

void stats_rng_seed(struct stats_rng *rng, uint64_t seed);
uint64_t stats_rng_next(struct stats_rng *rng);
double stats_rng_uniform(struct stats_rng *rng);         /* [0, 1) */
double stats_rng_normal(struct stats_rng *rng);          /* mean 0, sd 1 */
size_t stats_rng_below(struct stats_rng *rng, size_t n); /* 0 … n - 1, unbiased */
/* Every order of the n items is equally likely. */
void stats_rng_shuffle(struct stats_rng *rng, size_t *items, size_t n);

/* First-order autoregressive noise with stationary standard deviation sd: x_t = rho x_(t-1) + e.
 * Fills out[0…n-1]; |rho| < 1. */
void stats_ar1(struct stats_rng *rng, double rho, double sd, double *out, size_t n);

/* Percentile bootstrap of a statistic of one sample: resamples whole values (trials), never steps.
 * None for n < 8: with fewer the bootstrap is not to be trusted. */
typedef double stats_statistic(const double *x, size_t n);
struct interval stats_bootstrap(const double *x, size_t n, stats_statistic *statistic,
                                double confidence, size_t resamples, uint64_t seed);
double stats_p95(const double *x, size_t n); /* a stats_statistic */

#endif
