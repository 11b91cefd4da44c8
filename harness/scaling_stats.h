/* Scaling: efficiency, serial fraction, and the fits of Amdahl, Gustafson and Gunther (USL).
 *
 * N is the number of ranks (or nodes; the caller says which), T(N) the step time, X(N) the
 * throughput. Speed-up C(N) is relative to N = 1; where 1 was not measured, efficiency is relative
 * to the smallest N and the fits are not made. Undefined results are NaN. */
#ifndef HARNESS_SCALING_STATS_H
#define HARNESS_SCALING_STATS_H

#include "harness/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Karp-Flatt experimentally determined serial fraction (1/S - 1/N) / (1 - 1/N); NaN for N = 1. */
double scaling_karp_flatt(double speedup, double n);

/* Amdahl's serial fraction: least squares on 1/S - 1/N = f (1 - 1/N), which weighs all N alike. */
double scaling_amdahl(const double *n, const double *s, size_t count);
/* Gustafson: S = N - f (N - 1). */
double scaling_gustafson(const double *n, const double *s, size_t count);

struct usl {
    double alpha, beta; /* contention, coherency; both >= 0 */
    double n_max;       /* sqrt((1 - alpha) / beta); NaN when beta = 0 */
};
/* Least squares of N/C - 1 on {N - 1, N (N - 1)}; beta < 0: refitted with beta = 0; alpha < 0:
 * refitted with alpha = 0. Needs two points with N > 1, else NaN. */
struct usl scaling_usl(const double *n, const double *c, size_t count);
/* N_max means something: at least 6 points, and not beyond 4 times the largest N measured. */
bool scaling_usl_n_max_shown(const struct usl *fit, size_t points, double n_largest);

/* Straight line by least squares: slope with its t interval, n - 2 degrees of freedom. NaN for
 * fewer than 3 points or one x. */
struct scaling_slope {
    double slope;
    struct interval ci;
    double p; /* two-sided, of no slope */
};
struct scaling_slope scaling_slope(const double *x, const double *y, size_t n, double confidence);

#endif
