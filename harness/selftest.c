#include "harness/selftest.h"

#include "harness/selftest_sim.h"

#define QUIET "\"step_time_s\": 0.1, \"steps\": 20, \"within_sd\": 0.01, \"block_sd\": 0.02"
#define NOISY QUIET ", \"noise_sd\": 0.0035, \"ar1\": 0.8, \"drift_per_trial\": 0.0001"
#define ENV(omp) "{\"environment\": {\"OMP_NUM_THREADS\": \"" omp "\"}}"

/* The noise of the trials and that of their steps give 0.5 % between paired trials; the margin is
 * 1 %, looks at 6, 12 and 24 blocks. */
const struct selftest_case selftest_cases[] = {
    {"A/A, drift and AR(1) noise", "{" NOISY "}", "{" NOISY "}", NULL, NULL, 150, EXPECT,
     VERDICT_EQUIVALENT, .95},
    {"A/A, not beyond the margin", "{" NOISY "}", "{" NOISY "}", NULL, NULL, 150, EXPECT_WITHIN,
     VERDICT_EQUIVALENT, .94},
    {"3 % slower", "{" NOISY "}", "{" NOISY ", \"effect\": 0.03}", NULL, NULL, 150, EXPECT,
     VERDICT_SLOWER, .99},
    {"3 % faster", "{" NOISY "}", "{" NOISY ", \"effect\": -0.03}", NULL, NULL, 50, EXPECT,
     VERDICT_FASTER, .98},
    /* Three looks spend 5 % together; three standard errors of 300 sessions are 4 %. */
    {"slower by just the margin", "{" NOISY "}", "{" NOISY ", \"effect\": 0.01}", NULL, NULL, 300,
     EXPECT_NOT, VERDICT_EQUIVALENT, .9},
    {"too noisy for the margin", "{" QUIET ", \"noise_sd\": 0.1}", "{" QUIET ", \"noise_sd\": 0.1}",
     NULL, NULL, 50, EXPECT, VERDICT_INCONCLUSIVE, .7},
    {"every 3rd block fails", "{" NOISY "}", "{" NOISY ", \"fail_every\": 3}", NULL, NULL, 30,
     EXPECT, VERDICT_EQUIVALENT, .9},
    {"every trial fails", "{" NOISY "}", "{" NOISY ", \"fail_every\": 1}", NULL, NULL, 3, EXPECT,
     VERDICT_INCONCLUSIVE, 1},
    {"other threads inside", "{" NOISY "}", "{" NOISY "}", NULL, ENV("1"), 3, EXPECT,
     VERDICT_NOT_COMPARABLE, 1},
    {"an honest control", "{" NOISY "}", "{" NOISY "}", "{" NOISY "}", NULL, 100, EXPECT_NOT,
     VERDICT_UNTRUSTWORTHY, .92},
    {"the control differs", "{" NOISY "}", "{" NOISY "}", "{" NOISY ", \"effect\": 0.05}", NULL, 3,
     EXPECT, VERDICT_UNTRUSTWORTHY, 1},
    {0},
};

static bool as_expected(const struct selftest_case *c, enum verdict_kind v)
{
    if (c->rule == EXPECT_WITHIN)
        return v != VERDICT_SLOWER && v != VERDICT_FASTER;
    return (v == c->want) == (c->rule == EXPECT);
}

int selftest_run(const struct selftest_case *c, uint64_t seed, struct selftest_result *out,
                 struct error *err)
{
    const struct simulation_setup setup = {.name = c->name,
                                           .bare = c->bare,
                                           .arm = c->arm,
                                           .control = c->control,
                                           .bare_env = ENV("2"),
                                           .arm_env = c->arm_env ? c->arm_env : ENV("2"),
                                           .looks = "[6, 12, 24]",
                                           .stop = "decided",
                                           .first_block_warms = true};
    struct simulation s;
    *out = (struct selftest_result){0};
    if (simulation_open(&setup, &s, err))
        return -err->code;
    int rc = 0;
    size_t as_wanted = 0;
    for (int i = 0; i < c->sessions; i++) {
        struct simulated got;
        if ((rc = simulation_session(&s, seed + (uint64_t)i, &got, err)) != 0)
            break;
        out->verdicts[got.verdict]++;
        out->mean_blocks += (double)got.blocks / c->sessions;
        as_wanted += as_expected(c, got.verdict);
    }
    simulation_close(&s);
    out->share = (double)as_wanted / c->sessions;
    out->passed = rc == 0 && out->share >= c->share;
    return rc;
}
