/* Seeded random numbers for simulation and resampling: xoshiro256** seeded by splitmix64, both by
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

#endif
