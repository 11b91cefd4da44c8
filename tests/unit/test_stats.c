/* The test vectors of the method (docs/methodology.md) and properties of the statistics.
 *
 * Where the vectors come from: each was computed from the formula that stands above it, in double
 * precision and outside of the program; tail areas of Student's t by Simpson's rule (as t_upper
 * below), counts of signed ranks and binomials exactly. Tolerances are half a unit of the last
 * digit given. */
#include "common/busbw.h"
#include "harness/scaling_stats.h"
#include "harness/stats.h"
#include "harness/stats_paired.h"
#include "harness/stats_power.h"
#include "harness/stats_random.h"
#include "harness/stats_rank.h"
#include "tests/unit/unit.h"

#include <math.h>

static const double A[10] = {100.12, 100.45, 99.87,  100.31, 101.02,
                             100.08, 99.95,  100.66, 100.23, 100.40};
static const double B[10] = {100.95, 101.10, 100.61, 101.22, 101.63,
                             100.89, 100.78, 101.35, 101.17, 100.99};

/* P(T > t) with nu degrees of freedom: with x = sqrt(nu)·tan(u) the density is c·cos(u)^(nu-1). */
static double t_upper(double t, double nu)
{
    enum { INTERVALS = 2000 };
    const double c = exp(lgamma((nu + 1) / 2) - lgamma(nu / 2)) / sqrt(M_PI);
    const double begin = atan(t / sqrt(nu)), h = (M_PI / 2 - begin) / INTERVALS;
    double sum = 0;
    for (int i = 0; i <= INTERVALS; i++) {
        const double weight = i == 0 || i == INTERVALS ? 1 : i % 2 ? 4 : 2;
        sum += weight * pow(fmax(cos(begin + i * h), 0), nu - 1);
    }
    return c * sum * h / 3;
}

/* d = ln(B/A): mean, sd of n − 1, se = sd/sqrt(n), ratio e^mean, interval e^(mean ± se·t(1 − α)),
 * p = 2·P(T > |mean/se|). */
static void paired_vectors(void)
{
    struct paired p = stats_paired(A, B, 10, .05);
    CU_ASSERT_NEAR(p.mean, .00754957, 5e-9);
    CU_ASSERT_NEAR(p.sd, .00122969, 5e-9);
    CU_ASSERT_NEAR(p.se, .00038886, 5e-9);
    CU_ASSERT_NEAR(p.ratio, 1.007578, 5e-7);
    CU_ASSERT_NEAR(p.p_diff, 1.18e-8, 5e-11);
    CU_ASSERT_NEAR(p.ci.lo, 1.006860, 5e-7);
    CU_ASSERT_NEAR(p.ci.hi, 1.008297, 5e-7);
    CU_ASSERT_NEAR(p.confidence, .90, 1e-12);
    CU_ASSERT_NEAR(p.p_superiority, 1, 0);
    p = stats_paired(A, B, 10, .025);
    CU_ASSERT_NEAR(p.ci.lo, 1.006692, 5e-7);
    CU_ASSERT_NEAR(p.ci.hi, 1.008465, 5e-7);
    static const double d[10] = {.008256, .006450, .007382, .009031, .006020,
                                 .008061, .008270, .006831, .009335, .005859};
    for (int i = 0; i < 10; i++)
        CU_ASSERT_NEAR(log(B[i] / A[i]), d[i], 5e-7);
}

/* t = (mean ± ln(1 + δ))/se; p is the larger of P(T > t_low) and P(T < t_high). */
static void tost_vectors(void)
{
    struct paired p = stats_paired(A, B, 10, .05);
    struct tost t = stats_tost(&p, .005);
    CU_ASSERT_NEAR(t.t_low, 32.2406, 5e-5);
    CU_ASSERT_NEAR(t.t_high, 6.5885, 5e-5);
    CU_ASSERT_NEAR(t.p, .9999, 5e-5);
    t = stats_tost(&p, .01);
    CU_ASSERT_NEAR(t.t_low, 45.0030, 5e-5);
    CU_ASSERT_NEAR(t.t_high, -6.1738, 5e-5);
    CU_ASSERT_NEAR(t.p, 8.197e-5, 5e-9);
    t = stats_tost(&p, .02);
    CU_ASSERT_NEAR(t.t_low, 70.3393, 5e-5);
    CU_ASSERT_NEAR(t.t_high, -31.5101, 5e-5);
    CU_ASSERT_NEAR(t.p, 8.01e-11, 5e-14);
}

/* The same formulas on the first six blocks, α = .0221. */
static void a_look_at_six_blocks(void)
{
    struct paired p = stats_paired(A, B, 6, stats_pocock_alpha(3));
    CU_ASSERT_NEAR(p.mean, .00753340, 5e-9);
    CU_ASSERT_NEAR(p.sd, .00114273, 5e-9);
    CU_ASSERT_NEAR(p.se, .00046652, 5e-9);
    CU_ASSERT_NEAR(p.ratio, 1.007562, 5e-7);
    CU_ASSERT_NEAR(p.ci.lo, 1.006306, 5e-7);
    CU_ASSERT_NEAR(p.ci.hi, 1.008819, 5e-7);
    CU_ASSERT_NEAR(p.confidence, .9558, 1e-12);
    struct tost t = stats_tost(&p, .01);
    CU_ASSERT_NEAR(t.t_low, 37.4772, 5e-5);
    CU_ASSERT_NEAR(t.t_high, -5.1808, 5e-5);
    CU_ASSERT_NEAR(t.p, .0017615, 5e-8);
}

static void t_distribution(void)
{
    CU_ASSERT_NEAR(stats_t_quantile(.95, 9), 1.833113, 5e-7);
    CU_ASSERT_NEAR(stats_t_quantile(.975, 9), 2.262157, 5e-7);
    CU_ASSERT_NEAR(stats_t_quantile(1 - .0221, 5), 2.672797, 5e-7);
    CU_ASSERT_NEAR(stats_t_quantile(1 - .0221, 11), 2.271384, 5e-7);
    CU_ASSERT_NEAR(stats_t_quantile(1 - .0221, 23), 2.128801, 5e-7);
    CU_ASSERT_NEAR(1 - stats_t_upper(2, 5), .9490303, 5e-8);
    CU_ASSERT_NEAR(1 - stats_t_upper(-1.5, 11), .0808790, 5e-8);
    for (double nu = 3; nu < 60; nu += 4)
        for (double t = -6; t <= 6; t += .37)
            CU_ASSERT_NEAR(stats_t_upper(t, nu), t_upper(t, nu), 1e-10);
    /* One and two degrees of freedom have closed forms. */
    for (double t = -30; t <= 30; t += .37) {
        CU_ASSERT_NEAR(stats_t_upper(t, 1), .5 - atan(t) / M_PI, 1e-13);
        CU_ASSERT_NEAR(stats_t_upper(t, 2), .5 - t / (2 * sqrt(2 + t * t)), 1e-13);
    }
    for (double nu = 1; nu < 60; nu += 7)
        for (double p = .001; p < 1; p += .0371)
            CU_ASSERT_NEAR(1 - stats_t_upper(stats_t_quantile(p, nu), nu), p, 1e-12);
    CU_ASSERT(isnan(stats_t_quantile(0, 5)) && isnan(stats_t_quantile(1, 5)));
    CU_ASSERT(isnan(stats_t_upper(1, 0)));
}

/* Median of the 55 Walsh averages; the interval goes from the rank-th smallest to the rank-th
 * largest, and covers 1 − 2·P(W < rank), W counted over all 2^10 choices of signs. */
static void hodges_lehmann_vectors(void)
{
    double d[10];
    for (int i = 0; i < 10; i++)
        d[i] = log(B[i] / A[i]);
    struct rank_interval h = stats_hodges_lehmann(d, 10, .90);
    CU_ASSERT_NEAR(exp(h.estimate), 1.007572, 5e-7);
    CU_ASSERT_EQUAL(h.rank, 11);
    CU_ASSERT_NEAR(h.coverage, .9160, 5e-5);
    CU_ASSERT_NEAR(exp(h.ci.lo), 1.006724, 5e-7);
    CU_ASSERT_NEAR(exp(h.ci.hi), 1.008304, 5e-7);
    h = stats_hodges_lehmann(d, 10, .95);
    CU_ASSERT_EQUAL(h.rank, 9);
    CU_ASSERT_NEAR(h.coverage, .9512, 5e-5);
    CU_ASSERT_NEAR(exp(h.ci.lo), 1.006643, 5e-7);
    CU_ASSERT_NEAR(exp(h.ci.hi), 1.008583, 5e-7);
    h = stats_hodges_lehmann(d, 5, .95); /* P(W = 0) = 1/32 > .025 */
    CU_ASSERT_EQUAL(h.rank, 0);
    CU_ASSERT(isnan(h.ci.lo) && isnan(h.coverage) && !isnan(h.estimate));
    CU_ASSERT(isnan(stats_hodges_lehmann(d, 0, .95).estimate));
}

/* Of A sorted by hand; the .95 quantile lies between ranks 9 and 10, at 8.55 counted from 0. */
static void descriptive_vectors(void)
{
    CU_ASSERT_NEAR(stats_median(A, 10), 100.27, 1e-9);
    CU_ASSERT_NEAR(stats_mad(A, 10), .185, 1e-9);
    CU_ASSERT_NEAR(stats_sd(A, 10) / stats_mean(A, 10), .00344, 5e-6);
    CU_ASSERT_NEAR(stats_quantile(A, 10, .95), 100.858, 1e-9);
    CU_ASSERT_NEAR(stats_min(A, 10), 99.87, 0);
    CU_ASSERT_NEAR(stats_max(A, 10), 101.02, 0);
    CU_ASSERT(isnan(stats_median(A, 0)) && isnan(stats_mean(A, 0)) && isnan(stats_sd(A, 1)));
    CU_ASSERT(isnan(stats_mad(A, 0)) && isnan(stats_quantile(A, 0, .5)) && isnan(stats_min(A, 0)));
    CU_ASSERT_NEAR(stats_median(A, 1), 100.12, 0);
}

/* The largest rank whose 1 − 2·P(X < rank), X binomial (n, 1/2), is the level at least. */
static void median_interval_vectors(void)
{
    static const struct {
        size_t n, lo95, lo90;
        double cover95, cover90;
    } rows[] = {{5, 0, 1, NAN, .9375},       {6, 1, 1, .96875, .96875},  {8, 1, 2, .9922, .9297},
                {10, 2, 2, .97852, .97852},  {15, 4, 4, .96484, .96484}, {20, 6, 6, .95861, .95861},
                {30, 10, 11, .95723, .90126}};
    double x[30];
    for (size_t i = 0; i < 30; i++)
        x[i] = (double)(i * 7 % 30); /* 0…29 in another order */
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double y[30];
        size_t n = 0;
        for (size_t i = 0; i < 30; i++)
            if (x[i] < (double)rows[r].n)
                y[n++] = x[i];
        struct rank_interval m = stats_median_interval(y, n, .95);
        CU_ASSERT_EQUAL(m.rank, rows[r].lo95);
        if (m.rank) {
            CU_ASSERT_NEAR(m.coverage, rows[r].cover95, 5e-5);
            CU_ASSERT_NEAR(m.ci.lo, (double)rows[r].lo95 - 1, 0);
            CU_ASSERT_NEAR(m.ci.hi, (double)(n - rows[r].lo95), 0);
        } else {
            CU_ASSERT(isnan(m.ci.lo) && isnan(m.ci.hi));
        }
        m = stats_median_interval(y, n, .90);
        CU_ASSERT_EQUAL(m.rank, rows[r].lo90);
        CU_ASSERT_NEAR(m.coverage, rows[r].cover90, 5e-5);
    }
}

/* S = x/x[0]. Efficiency S/N, Karp-Flatt (1/S − 1/N)/(1 − 1/N). Least squares through the origin,
 * from the normal equations: N/S − 1 = α(N − 1) + βN(N − 1), n_max = sqrt((1 − α)/β); Amdahl's and
 * Gustafson's as in scaling_stats.h. */
static void scaling_vectors(void)
{
    static const double n[6] = {1, 2, 4, 8, 16, 32};
    static const double x[6] = {1000, 1960, 3780, 7010, 12100, 18300};
    static const double kf[6] = {NAN, .02041, .01940, .02018, .02149, .02415};
    double s[6];
    for (int i = 0; i < 6; i++)
        s[i] = x[i] / x[0];
    struct usl fit = scaling_usl(n, s, 6);
    for (int i = 0; i < 6; i++) {
        if (i)
            CU_ASSERT_NEAR(scaling_karp_flatt(s[i], n[i]), kf[i], 5.1e-6);
    }
    CU_ASSERT(isnan(scaling_karp_flatt(1, 1)));
    CU_ASSERT_NEAR(fit.alpha, .018839, 5e-7);
    CU_ASSERT_NEAR(fit.beta, .00016594, 5e-9);
    CU_ASSERT_NEAR(fit.n_max, 76.89, 5e-3);
    CU_ASSERT_NEAR(scaling_amdahl(n, s, 6), .021502, 5e-7);
    CU_ASSERT_NEAR(1 / scaling_amdahl(n, s, 6), 46.51, 5e-3);
    CU_ASSERT_NEAR(scaling_gustafson(n, s, 6), .394241, 5e-7);
    CU_ASSERT(scaling_usl_n_max_shown(&fit, 6, 32));
    CU_ASSERT(!scaling_usl_n_max_shown(&fit, 5, 32));
    CU_ASSERT(!scaling_usl_n_max_shown(&fit, 6, 16));
}

static void usl_constraints(void)
{
    static const double n[4] = {1, 2, 4, 8};
    static const double super[4] = {1, 1.9, 3.7, 7.6}; /* bends upwards: beta would be negative */
    struct usl fit = scaling_usl(n, super, 4);
    CU_ASSERT_NEAR(fit.beta, 0, 0);
    CU_ASSERT(fit.alpha >= 0 && isnan(fit.n_max));
    static const double late[4] = {1, 2.1, 4.1, 6.5}; /* alpha would be negative */
    fit = scaling_usl(n, late, 4);
    CU_ASSERT_NEAR(fit.alpha, 0, 0);
    CU_ASSERT(fit.beta > 0);
    fit = scaling_usl(n, super, 2); /* one point above 1: two unknowns */
    CU_ASSERT(isnan(fit.alpha) && isnan(fit.beta));
}

/* 2^30 bytes in 2.5 ms; factors of nccl-tests: all_reduce 2(n − 1)/n, all_gather and reduce_scatter
 * (n − 1)/n, broadcast 1. */
static void bus_bandwidth(void)
{
    double algbw = algbw_gb_s(1073741824.0, 2500);
    CU_ASSERT_NEAR(algbw, 429.4967, 5e-5);
    CU_ASSERT(isnan(algbw_gb_s(8, 0)));
    CU_ASSERT_NEAR(algbw * busbw_factor("AllReduce", 4), 644.2451, 5e-5);
    CU_ASSERT_NEAR(algbw * busbw_factor("all_gather", 4), 322.1225, 1e-4);
    CU_ASSERT_NEAR(algbw * busbw_factor("Broadcast", 4), 429.4967, 5e-5);
    CU_ASSERT_NEAR(busbw_factor("reduce_scatter_sum", 2), .5, 0);
    CU_ASSERT_NEAR(busbw_factor("all_reduce_max", 4), 1.5, 0);
    CU_ASSERT(isnan(busbw_factor("AllReduce", 1)));
    CU_ASSERT(isnan(busbw_factor("frobnicate", 4)));
    CU_ASSERT(isnan(busbw_factor("reduced", 4)));
}

/* Two-sided levels of Pocock's boundary for 5 % overall, as tabulated (Biometrika 64, 1977). Holm
 * by hand: sorted p times 4, 3, 2, 1. */
static void looks_and_holm(void)
{
    static const double alpha[5] = {.05, .0294, .0221, .0182, .0158};
    for (size_t i = 0; i < 5; i++)
        CU_ASSERT_NEAR(stats_pocock_alpha(i + 1), alpha[i], 0);
    CU_ASSERT(isnan(stats_pocock_alpha(0)) && isnan(stats_pocock_alpha(6)));
    double p[5] = {.04, .01, NAN, .03, .5};
    stats_holm(p, 5);
    CU_ASSERT_NEAR(p[1], .04, 1e-12);
    CU_ASSERT_NEAR(p[3], .09, 1e-12);
    CU_ASSERT_NEAR(p[0], .09, 1e-12); /* .08 raised to the running maximum */
    CU_ASSERT_NEAR(p[4], .5, 1e-12);
    CU_ASSERT(isnan(p[2]));
    double one[1] = {.7};
    stats_holm(one, 1);
    CU_ASSERT_NEAR(one[0], .7, 0);
}

static void blocks_needed(void)
{
    struct paired p = {.n = 6, .mean = .002, .ci = {exp(-.016), exp(.020)}};
    /* half-width .018, room ln 1.01 - .002 = .00795: 6 (.018 / .00795)^2 = 30.8 */
    CU_ASSERT_EQUAL(stats_blocks_needed(&p, .01), 31);
    p.mean = .02;
    CU_ASSERT_EQUAL(stats_blocks_needed(&p, .01), 0);
    p = stats_paired(A, B, 1, .05);
    CU_ASSERT_EQUAL(stats_blocks_needed(&p, .01), 0);
}

static void degenerate_samples(void)
{
    static const double same[3] = {2, 2, 2};
    static const double twice[3] = {4, 4, 4};
    struct paired p = stats_paired(same, same, 3, .05);
    CU_ASSERT_NEAR(p.p_diff, 1, 0);
    CU_ASSERT_NEAR(p.ci.lo, 1, 0);
    CU_ASSERT_NEAR(stats_tost(&p, .01).p, 0, 0);
    p = stats_paired(same, twice, 3, .05);
    CU_ASSERT_NEAR(p.ratio, 2, 1e-12);
    CU_ASSERT_NEAR(p.p_diff, 0, 0);
    CU_ASSERT_NEAR(stats_tost(&p, .01).p, 1, 0);
    p = stats_paired(same, twice, 1, .05);
    CU_ASSERT_NEAR(p.ratio, 2, 1e-12);
    CU_ASSERT(isnan(p.ci.lo) && isnan(p.ci.hi) && isnan(p.se) && isnan(p.p_diff));
    CU_ASSERT(isnan(stats_tost(&p, .01).p));
    CU_ASSERT(isnan(stats_paired(same, twice, 0, .05).ratio));
}

/* Permuting blocks changes no bit of the result; scaling all times by c leaves ratios alone. */
static void properties(void)
{
    struct stats_rng rng;
    stats_rng_seed(&rng, 7);
    struct paired want = stats_paired(A, B, 10, .0221);
    double d[10];
    for (int i = 0; i < 10; i++)
        d[i] = log(B[i] / A[i]);
    struct rank_interval hl = stats_hodges_lehmann(d, 10, .95);
    for (int round = 0; round < 200; round++) {
        double a[10], b[10];
        size_t order[10];
        double c = exp(stats_rng_normal(&rng));
        for (size_t i = 0; i < 10; i++)
            order[i] = i;
        for (size_t i = 9; i > 0; i--) {
            size_t j = stats_rng_below(&rng, i + 1);
            size_t t = order[i];
            order[i] = order[j], order[j] = t;
        }
        for (int i = 0; i < 10; i++)
            a[i] = A[order[i]], b[i] = B[order[i]], d[i] = log(b[i] / a[i]);
        struct paired got = stats_paired(a, b, 10, .0221);
        CU_ASSERT(got.mean == want.mean && got.sd == want.sd && got.ci.lo == want.ci.lo &&
                  got.ci.hi == want.ci.hi && got.p_diff == want.p_diff);
        struct rank_interval h = stats_hodges_lehmann(d, 10, .95);
        CU_ASSERT(h.estimate == hl.estimate && h.ci.lo == hl.ci.lo && h.ci.hi == hl.ci.hi);
        for (int i = 0; i < 10; i++)
            a[i] *= c, b[i] *= c;
        got = stats_paired(a, b, 10, .0221);
        CU_ASSERT_NEAR(got.ratio, want.ratio, 1e-13);
        CU_ASSERT_NEAR(got.ci.hi, want.ci.hi, 1e-13);
        got = stats_paired(b, a, 10, .0221); /* swapping the arms inverts */
        CU_ASSERT_NEAR(got.ratio, 1 / want.ratio, 1e-13);
        CU_ASSERT_NEAR(got.ci.lo, 1 / want.ci.hi, 1e-13);
    }
}

static void generator(void)
{
    struct stats_rng rng, again;
    stats_rng_seed(&rng, 1);
    stats_rng_seed(&again, 1);
    CU_ASSERT(stats_rng_next(&rng) == stats_rng_next(&again));
    enum { N = 20000 };
    static double x[N];
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double u = stats_rng_uniform(&rng);
        CU_ASSERT_FATAL(u >= 0 && u < 1);
        sum += u;
        CU_ASSERT_FATAL(stats_rng_below(&rng, 3) < 3);
    }
    CU_ASSERT_NEAR(sum / N, .5, .01);
    int orders[64] = {0}; /* each of the six as often */
    for (int i = 0; i < N; i++) {
        size_t order[3] = {0, 1, 2};
        stats_rng_shuffle(&rng, order, 3);
        CU_ASSERT_FATAL((1u << order[0] | 1u << order[1] | 1u << order[2]) == 7);
        orders[order[0] * 16 + order[1] * 4 + order[2]]++;
    }
    for (int i = 0; i < 64; i++)
        CU_ASSERT(!orders[i] || fabs(orders[i] - N / 6.) < 250);
    for (int i = 0; i < N; i++)
        x[i] = stats_rng_normal(&rng);
    CU_ASSERT_NEAR(stats_mean(x, N), 0, .03);
    CU_ASSERT_NEAR(stats_sd(x, N), 1, .03);
}

/* x_t = rho x_(t-1) + e, with the standard deviation sd. */
static void ar1(struct stats_rng *rng, double rho, double sd, double *out, size_t n)
{
    double innovation = sd * sqrt(1 - rho * rho);
    double x = sd * stats_rng_normal(rng);
    for (size_t i = 0; i < n; i++) {
        out[i] = x;
        x = rho * x + innovation * stats_rng_normal(rng);
    }
}

/* The error rates that the method promises, under AR(1) noise of each arm. */
static void simulated_error_rates(void)
{
    enum { ROUNDS = 1500, BLOCKS = 6 };
    struct stats_rng rng;
    stats_rng_seed(&rng, 20261130);
    int slower = 0, different = 0, equivalent_at_margin = 0;
    double t = stats_t_quantile(.975, BLOCKS - 1);
    for (int i = 0; i < ROUNDS; i++) {
        double noise[2 * BLOCKS], d[BLOCKS], late[BLOCKS], edge[BLOCKS];
        ar1(&rng, .5, .005, noise, 2 * BLOCKS);
        for (int k = 0; k < BLOCKS; k++) {
            bool swap = stats_rng_below(&rng, 2); /* random order within the block */
            d[k] = swap ? noise[2 * k] - noise[2 * k + 1] : noise[2 * k + 1] - noise[2 * k];
            late[k] = d[k] + log(1.03);
            edge[k] = d[k] + log(1.01);
        }
        struct paired p = stats_paired_log(d, BLOCKS, .0221);
        different += fabs(p.mean) / p.se > t;
        p = stats_paired_log(late, BLOCKS, .0221);
        slower += p.ci.lo > 1.01;
        p = stats_paired_log(edge, BLOCKS, .05);
        equivalent_at_margin += p.ci.lo > 1 / 1.01 && p.ci.hi < 1.01;
    }
    CU_ASSERT(different <= .06 * ROUNDS + 25); /* 5 %, and three standard errors */
    CU_ASSERT(different >= .02 * ROUNDS);
    CU_ASSERT(slower >= .99 * ROUNDS);
    CU_ASSERT(equivalent_at_margin <= .06 * ROUNDS + 25);
}

static void strata(void)
{
    /* by hand: means .01 and .02, within sums of squares 2e-6 + 2e-6, 4 degrees of freedom */
    double a[6] = {1, 1, 1, 1, 1, 1}, b[6], d[6] = {.009, .010, .011, .019, .020, .021};
    const int64_t two[6] = {3, 3, 3, 8, 8, 8}, one[6] = {3, 3, 3, 3, 3, 3},
                  each[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 6; i++)
        b[i] = exp(d[i]);
    struct paired p = stats_paired_strata(a, b, two, 6, .05);
    CU_ASSERT_EQUAL(p.strata, 2);
    CU_ASSERT_NEAR(p.mean, .015, 1e-12);
    CU_ASSERT_NEAR(p.sd, .001, 1e-12);
    CU_ASSERT_TRUE(p.strata_differ); /* F = 1.5e-4 / 1e-6 = 150 with 1 and 4 */
    CU_ASSERT_NEAR(p.p_strata, 2 * stats_t_upper(sqrt(150), 4), 1e-12);
    CU_ASSERT_NEAR(p.nu, 1, 0);
    CU_ASSERT_NEAR(p.se, .005, 1e-12); /* sd of .01 and .02 is .00707, over sqrt 2 */
    CU_ASSERT_NEAR(log(p.ci.hi), .015 + .005 * stats_t_quantile(.95, 1), 1e-12);
    /* the same blocks as one sample, and where no block is to spare */
    struct paired q = stats_paired(a, b, 6, .05);
    p = stats_paired_strata(a, b, one, 6, .05);
    CU_ASSERT_NEAR(p.se, q.se, 0);
    CU_ASSERT_EQUAL(p.strata, 1);
    p = stats_paired_strata(a, b, each, 6, .05);
    CU_ASSERT_NEAR(p.se, q.se, 0);
    p = stats_paired_strata(a, b, two, 0, .05);
    CU_ASSERT_TRUE(isnan(p.se));
    CU_ASSERT_NEAR(stats_f_upper(4, 1, 10), 2 * stats_t_upper(2, 10), 1e-12);
    CU_ASSERT_NEAR(stats_f_upper(3, 2, 20), pow(1 + 2. * 3 / 20, -10), 1e-12);
    /* strata of one mean: pooled noise, n - k degrees of freedom */
    double same[6] = {.009, .010, .011, .0095, .0105, .010};
    for (int i = 0; i < 6; i++)
        b[i] = exp(same[i]);
    p = stats_paired_strata(a, b, two, 6, .05);
    CU_ASSERT_FALSE(p.strata_differ);
    CU_ASSERT_NEAR(p.nu, 4, 0);
    CU_ASSERT_NEAR(p.sd, sqrt((2e-6 + .5e-6) / 4), 1e-9);
    CU_ASSERT_NEAR(p.se, p.sd / sqrt(6), 1e-12);
}

/* Three sessions, no difference, but each is off by its own amount: as one sample they claim a
 * difference far too often, as strata they do not. */
static void strata_error_rates(void)
{
    struct stats_rng rng;
    stats_rng_seed(&rng, 17);
    int pooled = 0, as_strata = 0, honest = 0, rounds = 2000;
    for (int i = 0; i < rounds; i++) {
        double a[18], b[18], c[18];
        int64_t stratum[18];
        double shift = 0;
        for (int k = 0; k < 18; k++) {
            if (k % 6 == 0)
                shift = .01 * stats_rng_normal(&rng);
            double noise = .005 * stats_rng_normal(&rng);
            a[k] = 1;
            b[k] = exp(shift + noise);
            c[k] = exp(noise);
            stratum[k] = k / 6;
        }
        struct paired p = stats_paired(a, b, 18, .05);
        struct paired q = stats_paired_strata(a, b, stratum, 18, .05);
        struct paired r = stats_paired_strata(a, c, stratum, 18, .05);
        pooled += p.claim.lo > 1 || p.claim.hi < 1;
        as_strata += q.claim.lo > 1 || q.claim.hi < 1;
        honest += r.claim.lo > 1 || r.claim.hi < 1;
    }
    CU_ASSERT_TRUE(pooled > rounds * .3);
    CU_ASSERT_TRUE(as_strata < rounds * .10);
    CU_ASSERT_TRUE(honest > rounds * .02 && honest < rounds * .065);
}

static void slope_of_a_line(void)
{
    /* by hand: residuals .1 -.2 .1 at 0 1 2 around 1 + 2 x */
    const double x[3] = {0, 1, 2}, y[3] = {1.1, 2.8, 5.1}, one[3] = {1, 1, 1};
    struct scaling_slope s = scaling_slope(x, y, 3, .95);
    CU_ASSERT_NEAR(s.slope, 2, 1e-12);
    double se = sqrt(.06 / 1 / 2);
    CU_ASSERT_NEAR(s.ci.hi, 2 + se * stats_t_quantile(.975, 1), 1e-9);
    CU_ASSERT_NEAR(s.p, 2 * stats_t_upper(2 / se, 1), 1e-12);
    CU_ASSERT_TRUE(isnan(scaling_slope(one, y, 3, .95).slope));
    CU_ASSERT_TRUE(isnan(scaling_slope(x, y, 2, .95).ci.lo));
}

/* Blocks for a power of 80 % (90 %), alpha .05, no true difference: simulated with 1,500 sessions a
 * point (one standard error is 1 % of power), n in steps of 1 below 20, of 2 below 60, then of 8.
 */
static void power_of_equivalence(void)
{
    static const struct {
        double sd, delta;
        size_t n80, n90;
    } table[] = {
        {.0025, .01, 3, 3}, {.005, .01, 4, 5},  {.005, .02, 3, 3}, {.01, .01, 11, 13},
        {.01, .02, 4, 5},   {.01, .03, 3, 4},   {.01, .05, 3, 3},  {.02, .01, 38, 46},
        {.02, .02, 11, 13}, {.02, .03, 6, 7},   {.02, .05, 4, 4},  {.03, .01, 84, 108},
        {.03, .02, 22, 26}, {.03, .03, 11, 14}, {.03, .05, 5, 6},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double n80 = (double)stats_tost_blocks(table[i].sd, table[i].delta, .05, .8);
        double n90 = (double)stats_tost_blocks(table[i].sd, table[i].delta, .05, .9);
        CU_ASSERT_NEAR(n80, (double)table[i].n80, table[i].n80 < 20 ? 1 : .08 * n80);
        CU_ASSERT_NEAR(n90, (double)table[i].n90, table[i].n90 < 20 ? 1 : .08 * n90);
        CU_ASSERT_TRUE(n90 >= n80);
    }
    /* at the margin the power is the level at most, and close to it with many blocks */
    double level = stats_tost_power(200, .01, 1.01, .01, .05);
    CU_ASSERT_TRUE(level > .049 && level < .0501);
    CU_ASSERT_TRUE(stats_tost_power(6, .05, 1.01, .01, .05) < .01);
    CU_ASSERT_NEAR(stats_tost_power(24, 0, 1, .01, .05), 1, 0);
    CU_ASSERT_EQUAL(stats_tost_blocks(10, .001, .05, .9), 0);
    /* against simulation */
    struct stats_rng rng;
    stats_rng_seed(&rng, 5);
    int shown = 0;
    for (int i = 0; i < 4000; i++) {
        double d[8];
        for (int k = 0; k < 8; k++)
            d[k] = .003 + .008 * stats_rng_normal(&rng);
        struct paired p = stats_paired_log(d, 8, .0221);
        shown += stats_tost(&p, .01).p < .0221;
    }
    CU_ASSERT_NEAR(stats_tost_power(8, .008, exp(.003), .01, .0221), shown / 4000., .025);
}

UNIT_MAIN({"paired t vectors", paired_vectors}, {"tost vectors", tost_vectors},
          {"a look at six blocks", a_look_at_six_blocks}, {"t distribution", t_distribution},
          {"hodges-lehmann vectors", hodges_lehmann_vectors},
          {"descriptive vectors", descriptive_vectors},
          {"median interval vectors", median_interval_vectors},
          {"scaling vectors", scaling_vectors}, {"usl constraints", usl_constraints},
          {"bus bandwidth", bus_bandwidth}, {"looks and holm", looks_and_holm},
          {"blocks needed", blocks_needed}, {"slope of a line", slope_of_a_line},
          {"strata", strata}, {"strata: error rates", strata_error_rates},
          {"power of equivalence", power_of_equivalence},
          {"degenerate samples", degenerate_samples}, {"properties", properties},
          {"generator", generator}, {"simulated error rates", simulated_error_rates})
