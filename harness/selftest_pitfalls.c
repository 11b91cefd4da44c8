/* Usual ways to compare, on simulated trials without any difference (harness/selftest.h). */
#include "harness/selftest.h"
#include "harness/stats_paired.h"
#include "harness/stats_random.h"

#include <math.h>

#define ALPHA .05
#define TRIAL_SD .005 /* of the trials of an arm */

static bool claims(const struct paired *p)
{
    return p->claim.lo > 1 || p->claim.hi < 1;
}

/* Student's test of two samples of n values each. */
static bool samples_differ(const double *a, const double *b, size_t n)
{
    double sa = stats_sd(a, n), sb = stats_sd(b, n);
    double se = sqrt((sa * sa + sb * sb) / (double)n);
    double t = fabs(stats_mean(a, n) - stats_mean(b, n)) / se;
    return 2 * stats_t_upper(t, 2 * (double)n - 2) < ALPHA;
}

/* ---- the session of each -----------------------------------------------------------------------
 */
enum { BLOCKS = 6, STEPS = 80, LAST_BLOCK = 24 };

static void fill_trial(struct stats_rng *rng, double *steps)
{
    double trial = TRIAL_SD * stats_rng_normal(rng);
    for (int i = 0; i < STEPS; i++)
        steps[i] = exp(trial + .01 * stats_rng_normal(rng));
}

static struct pitfall_session steps_as_sample(struct stats_rng *rng)
{
    double a[BLOCKS], b[BLOCKS], of_a[STEPS], of_b[STEPS];
    struct pitfall_session out = {0};
    for (int k = 0; k < BLOCKS; k++) {
        fill_trial(rng, of_a);
        fill_trial(rng, of_b);
        if (k == 0)
            out.usual = samples_differ(of_a, of_b, STEPS);
        a[k] = stats_median(of_a, STEPS);
        b[k] = stats_median(of_b, STEPS);
    }
    struct paired p = stats_paired(a, b, BLOCKS, ALPHA);
    out.ours = claims(&p);
    return out;
}

/* 12 trials an arm; the machine drifts by 1 % over the 24. */
static struct pitfall_session one_arm_after_the_other(struct stats_rng *rng)
{
    enum { N = 12 };
    double a[N], b[N], first[N], second[N], drift[2 * N];
    for (int i = 0; i < 2 * N; i++)
        drift[i] = .01 * i / (2 * N - 1) + TRIAL_SD * stats_rng_normal(rng);
    for (int k = 0; k < N; k++) {
        size_t swap = stats_rng_below(rng, 2); /* the order within a block is drawn */
        first[k] = drift[k];
        second[k] = drift[N + k];
        a[k] = exp(drift[2 * k + (int)swap]);
        b[k] = exp(drift[2 * k + 1 - (int)swap]);
    }
    struct paired p = stats_paired(a, b, N, ALPHA);
    return (struct pitfall_session){samples_differ(first, second, N), claims(&p)};
}

static struct pitfall_session a_test_after_every_block(struct stats_rng *rng)
{
    static const size_t looks[] = {BLOCKS, 2 * BLOCKS, LAST_BLOCK};
    double d[LAST_BLOCK];
    struct pitfall_session out = {0};
    for (size_t k = 0; k < LAST_BLOCK; k++)
        d[k] = TRIAL_SD * M_SQRT2 * stats_rng_normal(rng);
    for (size_t n = 3; n <= LAST_BLOCK; n++) {
        struct paired p = stats_paired_log(d, n, ALPHA);
        out.usual |= claims(&p);
    }
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        struct paired p = stats_paired_log(d, looks[i], stats_pocock_alpha(3));
        out.ours |= claims(&p);
    }
    return out;
}

static struct pitfall_session one_interval_for_both(struct stats_rng *rng)
{
    double d[BLOCKS];
    for (int k = 0; k < BLOCKS; k++)
        d[k] = .1 * stats_rng_normal(rng);
    struct paired p = stats_paired_log(d, BLOCKS, ALPHA);
    return (struct pitfall_session){p.ci.lo > 1 || p.ci.hi < 1, claims(&p)};
}

/* Three sessions of 6 blocks, each off by its own amount. */
static struct pitfall_session sessions_as_one(struct stats_rng *rng)
{
    enum { SESSIONS = 3, N = SESSIONS * BLOCKS };
    double a[N], b[N], shift = 0;
    int64_t stratum[N];
    for (int k = 0; k < N; k++) {
        if (k % BLOCKS == 0)
            shift = .01 * stats_rng_normal(rng);
        a[k] = 1;
        b[k] = exp(shift + .005 * stats_rng_normal(rng));
        stratum[k] = k / BLOCKS;
    }
    struct paired one = stats_paired(a, b, N, ALPHA);
    struct paired strata = stats_paired_strata(a, b, stratum, N, ALPHA);
    return (struct pitfall_session){claims(&one), claims(&strata)};
}

const struct pitfall selftest_pitfalls[] = {
    {"80 steps of one trial each as the sample", "medians of trials, 6 blocks", steps_as_sample},
    {"all of A, then all of B, 1 % drift", "12 blocks in random order", one_arm_after_the_other},
    {"a test after every block, 3 to 24", "looks at 6, 12 and 24", a_test_after_every_block},
    {"one 1-2α interval for both claims", "1-α for a difference", one_interval_for_both},
    {"blocks of 3 sessions as one sample", "sessions as strata", sessions_as_one},
    {0},
};

void selftest_pitfall_run(const struct pitfall *pitfall, uint64_t seed, int64_t sessions,
                          struct pitfall_tally *out)
{
    struct stats_rng rng;
    stats_rng_seed(&rng, seed);
    *out = (struct pitfall_tally){.sessions = sessions};
    for (int64_t i = 0; i < sessions; i++) {
        struct pitfall_session s = pitfall->session(&rng);
        out->usual += s.usual;
        out->ours += s.ours;
    }
}
