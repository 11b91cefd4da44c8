#include "harness/scaling_stats.h"

#include <math.h>
#include <string.h>

double scaling_karp_flatt(double speedup, double n)
{
    return n > 1 ? (1 / speedup - 1 / n) / (1 - 1 / n) : NAN;
}

/* Least squares through the origin: sum(x y) / sum(x x). */
struct origin_fit {
    double xy, xx;
};
static double slope(const struct origin_fit *f)
{
    return f->xx > 0 ? f->xy / f->xx : NAN;
}
static void add(struct origin_fit *f, double x, double y)
{
    f->xy += x * y;
    f->xx += x * x;
}

double scaling_amdahl(const double *n, const double *s, size_t count)
{
    struct origin_fit f = {0, 0};
    for (size_t i = 0; i < count; i++)
        add(&f, 1 - 1 / n[i], 1 / s[i] - 1 / n[i]);
    return slope(&f);
}

double scaling_gustafson(const double *n, const double *s, size_t count)
{
    struct origin_fit f = {0, 0};
    for (size_t i = 0; i < count; i++)
        add(&f, n[i] - 1, n[i] - s[i]);
    return slope(&f);
}

static struct usl usl_of(double alpha, double beta)
{
    return (struct usl){alpha, beta, beta > 0 && alpha < 1 ? sqrt((1 - alpha) / beta) : NAN};
}

struct usl scaling_usl(const double *n, const double *c, size_t count)
{
    double uu = 0, uv = 0, vv = 0, uy = 0, vy = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        double u = n[i] - 1;
        double v = n[i] * (n[i] - 1);
        double y = n[i] / c[i] - 1;
        uu += u * u, uv += u * v, vv += v * v, uy += u * y, vy += v * y;
        used += n[i] > 1;
    }
    double det = uu * vv - uv * uv;
    if (used < 2 || !(det > 0))
        return usl_of(NAN, NAN);
    double alpha = (uy * vv - vy * uv) / det;
    double beta = (vy * uu - uy * uv) / det;
    if (beta < 0)
        return usl_of(fmax(uy / uu, 0), 0);
    if (alpha < 0)
        return usl_of(0, fmax(vy / vv, 0));
    return usl_of(alpha, beta);
}

bool scaling_usl_n_max_shown(const struct usl *fit, size_t points, double n_largest)
{
    return points >= 6 && !isnan(fit->n_max) && fit->n_max <= 4 * n_largest;
}

struct scaling_slope scaling_slope(const double *x, const double *y, size_t n, double confidence)
{
    struct scaling_slope out = {NAN, INTERVAL_NONE, NAN};
    double mx = stats_mean(x, n), my = stats_mean(y, n), xx = 0, xy = 0, left = 0;
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        xy += (x[i] - mx) * (y[i] - my);
    }
    if (n < 3 || !(xx > 0))
        return out;
    out.slope = xy / xx;
    for (size_t i = 0; i < n; i++) {
        double r = y[i] - my - out.slope * (x[i] - mx);
        left += r * r;
    }
    double nu = (double)n - 2, se = sqrt(left / nu / xx);
    double half = stats_t_quantile((1 + confidence) / 2, nu) * se;
    out.ci = (struct interval){out.slope - half, out.slope + half};
    out.p = se > 0 ? 2 * stats_t_upper(fabs(out.slope) / se, nu) : out.slope == 0;
    return out;
}
