/* The fake runtime: what its script says is what its trials show. */
#include "runtimes/fake.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static json_t *script_of(const char *text)
{
    json_t *json = NULL;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(json_parse(text, strlen(text), "script", 3, &json, &err), 0);
    return json;
}

static double median_of_trial(const json_t *script, uint64_t seed, int64_t block, int64_t seq)
{
    struct fake_trial trial = {seed, "c00", block, seq};
    struct fake_response r;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(fake_respond(script, &trial, &r, &err), 0);
    double first = r.step_time_s ? r.step_time_s[r.steps - 1] : NAN;
    fake_response_release(&r);
    return first;
}

static void fake_is_deterministic(void)
{
    auto_json *script = script_of("{\"step_time_s\": \"100ms\", \"noise_sd\": \"1%\", "
                                  "\"ar1\": 0.8, \"within_sd\": 0.01, \"start_s\": 0.2}");
    double a = median_of_trial(script, 1, 3, 7), b = median_of_trial(script, 1, 3, 7);
    CU_ASSERT_EQUAL(a, b);
    CU_ASSERT_NOT_EQUAL(a, median_of_trial(script, 2, 3, 7));
    CU_ASSERT_NOT_EQUAL(a, median_of_trial(script, 1, 3, 8));
    auto_json *exact = script_of("{\"step_time_s\": 0.1, \"effect\": 0.03}");
    CU_ASSERT_NEAR(median_of_trial(exact, 1, 3, 7), 0.103, 1e-12);
}

/* Moments of the noise over 4000 trials: sd and lag-one correlation as the script says. */
static void fake_noise_has_its_moments(void)
{
    auto_json *script = script_of("{\"step_time_s\": 1, \"noise_sd\": 0.02, \"ar1\": 0.8}");
    enum { N = 4000 };
    double sum = 0, sq = 0, lag = 0, before = 0;
    for (int i = 0; i < N; i++) {
        double x = log(median_of_trial(script, 99, 1, i));
        sum += x;
        sq += x * x;
        lag += i ? x * before : 0;
        before = x;
    }
    CU_ASSERT_NEAR(sum / N, 0, 0.005);
    CU_ASSERT_NEAR(sqrt(sq / N), 0.02, 0.003);
    CU_ASSERT_NEAR(lag / sq, 0.8, 0.06);
}

/* Arms of one block share block_sd; drift follows the order of execution. */
static void fake_blocks_and_drift(void)
{
    auto_json *script = script_of("{\"step_time_s\": 1, \"block_sd\": 0.1}");
    CU_ASSERT_EQUAL(median_of_trial(script, 5, 2, 4), median_of_trial(script, 5, 2, 5));
    CU_ASSERT_NOT_EQUAL(median_of_trial(script, 5, 2, 4), median_of_trial(script, 5, 3, 4));
    auto_json *drift = script_of("{\"step_time_s\": 1, \"drift_per_trial\": 0.01}");
    CU_ASSERT_NEAR(log(median_of_trial(drift, 5, 2, 40)), 0.4, 1e-9);
}

static void fake_failures(void)
{
    auto_json *script = script_of("{\"step_time_s\": 1, \"fail_every\": 3, \"outcome\": \"oom\", "
                                  "\"exit_code\": 9}");
    for (int64_t block = 0; block < 10; block++) {
        struct fake_trial trial = {1, "c00", block, block};
        struct fake_response r;
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(fake_respond(script, &trial, &r, &err), 0);
        bool fails = block > 0 && block % 3 == 0;
        CU_ASSERT_EQUAL(r.outcome, fails ? OUTCOME_OOM : OUTCOME_OK);
        CU_ASSERT_EQUAL(r.exit_code, fails ? 9 : 0);
        CU_ASSERT_EQUAL(r.step_time_s == NULL, fails);
        CU_ASSERT_EQUAL(r.reason != NULL, fails);
        fake_response_release(&r);
    }
    const struct {
        const char *text, *fragment;
    } bad[] = {
        {"{}", "step_time_s: missing"},
        {"{\"step_time_s\": 1, \"nois_sd\": 1}", "script.nois_sd: unknown key"},
        {"{\"step_time_s\": -1}", "out of range"},
        {"{\"step_time_s\": \"fast\"}", "expected a number"},
        {"{\"step_time_s\": 1, \"outcome\": \"ok\"}", "is no failure"},
        {"{\"step_time_s\": 1, \"ar1\": 1}", "out of range"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        auto_json *json = script_of(bad[i].text);
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(fake_check_script(json, &err), -NCBENCH_EXIT_SCENARIO);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.message, bad[i].fragment));
    }
}

UNIT_MAIN({"fake is deterministic", fake_is_deterministic},
          {"fake noise has its moments", fake_noise_has_its_moments},
          {"fake blocks and drift", fake_blocks_and_drift}, {"fake failures", fake_failures})
