#include "harness/stats.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <math.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double *stats_sorted(const double *x, size_t n)
{
    double *copy = mem_alloc((n ? n : 1) * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = x[i];
    qsort(copy, n, sizeof *copy, ascending);
    return copy;
}

/* Both sums run over the sorted values, so that the order of the blocks cannot change a bit. */
double stats_mean(const double *x, size_t n)
{
    if (n == 0)
        return NAN;
    auto_free double *s = stats_sorted(x, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += s[i];
    return sum / (double)n;
}

double stats_sd(const double *x, size_t n)
{
    if (n < 2)
        return NAN;
    auto_free double *s = stats_sorted(x, n);
    double mean = stats_mean(x, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (s[i] - mean) * (s[i] - mean);
    return sqrt(sum / (double)(n - 1));
}

double stats_min(const double *x, size_t n)
{
    double best = n ? x[0] : NAN;
    for (size_t i = 1; i < n; i++)
        best = fmin(best, x[i]);
    return best;
}

double stats_max(const double *x, size_t n)
{
    double best = n ? x[0] : NAN;
    for (size_t i = 1; i < n; i++)
        best = fmax(best, x[i]);
    return best;
}

double stats_quantile(const double *x, size_t n, double p)
{
    if (n == 0)
        return NAN;
    auto_free double *s = stats_sorted(x, n);
    double h = (double)(n - 1) * p;
    size_t low = (size_t)floor(h);
    if (low + 1 >= n)
        return s[n - 1];
    return s[low] + (h - (double)low) * (s[low + 1] - s[low]);
}

double stats_median(const double *x, size_t n)
{
    return stats_quantile(x, n, 0.5);
}

double stats_mad(const double *x, size_t n)
{
    if (n == 0)
        return NAN;
    double median = stats_median(x, n);
    auto_free double *away = mem_alloc(n * sizeof *away);
    for (size_t i = 0; i < n; i++)
        away[i] = fabs(x[i] - median);
    return stats_median(away, n);
}

double stats_outlier_limit(const double *x, size_t n)
{
    if (n < 3)
        return NAN;
    return fmax(3.5 * 1.4826 * stats_mad(x, n), 0.001 * fabs(stats_median(x, n)));
}

/* The continued fraction of I_x(a, b) without its prefactor; converges fast for
 * x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1;
    double d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m <= 500; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double before = h;
        for (int half = 0; half < 2; half++) {
            double term = half ? odd : even;
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            h *= d * c;
        }
        if (fabs(h - before) <= 1e-16 * fabs(h))
            break;
    }
    return h;
}

double stats_incomplete_beta(double a, double b, double x)
{
    if (isnan(x) || x <= 0)
        return isnan(x) ? NAN : 0;
    if (x >= 1)
        return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double stats_t_upper(double t, double nu)
{
    if (isnan(t) || !(nu > 0))
        return NAN;
    if (isinf(t))
        return t > 0 ? 0 : 1;
    double tail = 0.5 * stats_incomplete_beta(nu / 2, 0.5, nu / (nu + t * t));
    return t >= 0 ? tail : 1 - tail;
}

double stats_t_quantile(double p, double nu)
{
    if (!(p > 0 && p < 1) || !(nu > 0))
        return NAN;
    if (p < 0.5)
        return -stats_t_quantile(1 - p, nu);
    double lo = 0;
    double hi = 1;
    while (stats_t_upper(hi, nu) > 1 - p)
        hi *= 2;
    for (int i = 0; i < 200 && hi - lo > 1e-15 * hi; i++) {
        double mid = lo + (hi - lo) / 2;
        if (stats_t_upper(mid, nu) > 1 - p)
            lo = mid;
        else
            hi = mid;
    }
    return lo + (hi - lo) / 2;
}
