/* How many blocks the test of equivalence needs: its exact power.
 *
 * With n blocks, sd sigma of the log-ratios, true log-ratio theta and margin Delta = ln(1 + delta),
 * TOST at level alpha shows equivalence iff |mean d| < Delta - t(1 - alpha, n - 1) s / sqrt(n).
 * Mean and sd of a normal sample are independent, so its probability is the integral over the
 * chi distribution of s of
 *
 *   Phi((Delta - h - theta) sqrt(n) / sigma) - Phi((-Delta + h - theta) sqrt(n) / sigma),
 *   h = t s / sqrt(n),  as long as h < Delta
 *
 * (Owen's integral, done numerically). */
#ifndef HARNESS_STATS_POWER_H
#define HARNESS_STATS_POWER_H

#include <stddef.h>

/* ratio: the true one, 1 for none. n >= 2, sd >= 0, delta > 0. */
double stats_tost_power(size_t n, double sd, double ratio, double delta, double alpha);

#define STATS_BLOCKS_MAX 100000
/* The fewest blocks (at least 3) whose power is `power` or more at no difference; 0: more than
 * STATS_BLOCKS_MAX. */
size_t stats_tost_blocks(double sd, double delta, double alpha, double power);

#endif
