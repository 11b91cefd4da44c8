#include "harness/stats_power.h"

#include "harness/stats.h"

#include <math.h>

#define INTERVALS 400 /* of Simpson's rule; even */

static double phi(double z)
{
    return erfc(-z / M_SQRT2) / 2;
}

/* Density of s / sigma, where nu s^2 / sigma^2 has a chi-squared distribution. */
static double density(double u, double nu)
{
    if (u <= 0)
        return 0;
    double log_f = log(2) + nu / 2 * log(nu / 2) + (nu - 1) * log(u) - nu * u * u / 2;
    int sign;
    return exp(log_f - lgamma_r(nu / 2, &sign));
}

double stats_tost_power(size_t n, double sd, double ratio, double delta, double alpha)
{
    double margin = log1p(delta), theta = log(ratio);
    if (!(sd > 0))
        return fabs(theta) < margin;
    double nu = (double)n - 1, se = sd / sqrt((double)n);
    double t = stats_t_quantile(1 - alpha, nu);
    /* beyond `most` there is no probability left, or the interval is wider than the margin */
    double low = fmax(0, 1 - 12 / sqrt(2 * nu));
    double most = fmin(margin / (t * se), 1 + 12 / sqrt(2 * nu));
    if (!(most > low))
        return 0;
    double step = (most - low) / INTERVALS, sum = 0;
    for (int i = 0; i <= INTERVALS; i++) {
        double u = low + i * step, h = t * u * se;
        double weight = i == 0 || i == INTERVALS ? 1 : i % 2 ? 4 : 2;
        double inside = phi((margin - h - theta) / se) - phi((h - margin - theta) / se);
        sum += weight * inside * density(u, nu);
    }
    return fmin(1, fmax(0, sum * step / 3));
}

size_t stats_tost_blocks(double sd, double delta, double alpha, double power)
{
    size_t low = 2, high = 3; /* low: too few */
    while (stats_tost_power(high, sd, 1, delta, alpha) < power) {
        low = high;
        high *= 2;
        if (high > 2 * STATS_BLOCKS_MAX)
            return 0;
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (stats_tost_power(middle, sd, 1, delta, alpha) < power)
            low = middle;
        else
            high = middle;
    }
    return high <= STATS_BLOCKS_MAX ? high : 0;
}
