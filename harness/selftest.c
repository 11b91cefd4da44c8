#include "harness/selftest.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/analysis.h"
#include "runtimes/fake.h"

#include <string.h>

#define QUIET "\"step_time_s\": 0.1, \"steps\": 20, \"within_sd\": 0.01, \"block_sd\": 0.02"
#define NOISY QUIET ", \"noise_sd\": 0.0035, \"ar1\": 0.8, \"drift_per_trial\": 0.0001"
#define ENV(omp) "{\"environment\": {\"OMP_NUM_THREADS\": \"" omp "\"}}"

/* Noise of 0.35 % a trial gives 0.5 % between paired trials; the margin is 1 %, looks at 6, 12 and
 * 24 blocks. */
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

/* %s: is there a control arm? */
static const char scenario[] =
    "{\"name\": \"selftest\", \"baseline\": \"bare\","
    " \"runtimes\": [{\"name\": \"bare\", \"kind\": \"fake\"}, {\"name\": \"arm\", \"kind\": "
    "\"fake\"}],"
    " \"cells\": [{\"id\": \"c00\", \"values\": {}}],"
    " \"sampling\": {\"looks\": [6, 12, 24], \"stop\": \"decided\", \"control\": %s},"
    " \"compare\": {\"primary\": \"step_time_s\", \"margin\": {\"step_time_s\": 0.01}}}";

static int parse(const char *text, const char *name, json_t **out, struct error *err)
{
    return json_parse(text, strlen(text), name, NCBENCH_EXIT_BUG, out, err);
}

struct simulation {
    const struct selftest_case *c;
    struct study study;
    struct records records;
    json_t *scripts[3]; /* bare, arm, control */
    json_t *env[2];     /* of the baseline and of the arm */
    uint64_t seed;
    int64_t seq;
};

static json_t *series(const struct fake_response *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->steps; i++)
        json_array_append_new(list, json_real(r->step_time_s[i]));
    return list;
}

static json_t *record_of(const struct simulation *s, size_t arm, int64_t block,
                         const struct fake_response *response)
{
    json_t *r = json_object();
    const char *name = s->study.arms[arm].name;
    json_put_str(r, "schema", RECORD_SCHEMA);
    json_put(r, "trial", json_sprintf("c00.b%02d.%s", (int)block, name));
    json_put_int(r, "seq", s->seq);
    json_put(r, "cell", json_pack("{s:s}", "id", "c00"));
    json_put_int(r, "block", block);
    json_put_str(r, "runtime", name);
    json_put_bool(r, "baseline", arm == 0);
    json_put_bool(r, "warmup_block", block == 0);
    json_put_str(r, "outcome", outcome_name(response->outcome));
    json_put(r, "env", json_pack("[O]", s->env[arm == 1]));
    if (response->outcome != OUTCOME_OK)
        return r;
    json_t *train = json_object();
    json_put(train, "step_max_s", series(response));
    json_put_int(train, "warmup_own", 1);
    json_put(r, "train", train);
    record_apply_warmup(r, 1);
    return r;
}

static int run_trial(struct simulation *s, size_t arm, int64_t block, struct error *err)
{
    const struct fake_trial trial = {s->seed, "c00", block, s->seq++};
    struct fake_response response = {0};
    if (fake_respond(s->scripts[arm], &trial, &response, err))
        return -err->code;
    int rc = records_add(&s->records, record_of(s, arm, block, &response), "selftest", err);
    fake_response_release(&response);
    return rc;
}

/* Blocks up to the look that ends the cell, in an order that goes round. */
static int run_blocks(struct simulation *s, int64_t *blocks, struct error *err)
{
    const struct study *study = &s->study;
    for (int64_t block = 0; block <= study->looks[study->n_looks - 1]; block++) {
        for (size_t i = 0; i < study->n_arms; i++)
            if (run_trial(s, (i + (size_t)block) % study->n_arms, block, err))
                return -err->code;
        bool look = false;
        for (size_t i = 0; i < study->n_looks; i++)
            look |= study->looks[i] == block;
        *blocks = block;
        if (!look)
            continue;
        struct blocks b;
        struct comparison c;
        blocks_make(study, &s->records, 0, &b);
        comparison_make(study, &b, 0, 0, 1, study->primary, -1, &c);
        bool stop = comparison_decided(study, &c);
        comparison_release(&c);
        blocks_release(&b);
        if (stop)
            break;
    }
    return 0;
}

static int simulate(struct simulation *s, enum verdict_kind *verdict, int64_t *blocks,
                    struct error *err)
{
    struct analysis a;
    s->seq = 0;
    int rc = run_blocks(s, blocks, err);
    if (rc == 0) {
        analysis_make(&s->study, &s->records, NULL, &a);
        *verdict = analysis_find(&a, s->study.primary, 0, 1)->verdict;
        analysis_release(&a);
    }
    records_release(&s->records);
    return rc;
}

static int open_simulation(struct simulation *s, struct error *err)
{
    const struct selftest_case *c = s->c;
    const char *control = c->control ? c->control : "{}";
    auto_free char *text = mem_printf(scenario, c->control ? "true" : "false");
    auto_json *resolved = NULL;
    return parse(text, "scenario", &resolved, err) ||
                   study_from_json(resolved, NULL, &s->study, err) ||
                   parse(c->bare, c->name, &s->scripts[0], err) ||
                   parse(c->arm, c->name, &s->scripts[1], err) ||
                   parse(control, c->name, &s->scripts[2], err) ||
                   parse(ENV("2"), c->name, &s->env[0], err) ||
                   parse(c->arm_env ? c->arm_env : ENV("2"), c->name, &s->env[1], err)
               ? -err->code
               : 0;
}

static void close_simulation(struct simulation *s)
{
    for (size_t i = 0; i < 3; i++)
        json_decref(s->scripts[i]);
    for (size_t i = 0; i < 2; i++)
        json_decref(s->env[i]);
    study_release(&s->study);
}

static bool as_expected(const struct selftest_case *c, enum verdict_kind v)
{
    if (c->rule == EXPECT_WITHIN)
        return v != VERDICT_SLOWER && v != VERDICT_FASTER;
    return (v == c->want) == (c->rule == EXPECT);
}

int selftest_run(const struct selftest_case *c, uint64_t seed, struct selftest_result *out,
                 struct error *err)
{
    struct simulation s = {.c = c, .study = {.control = -1}};
    *out = (struct selftest_result){0};
    int rc = open_simulation(&s, err);
    size_t as_wanted = 0;
    for (int i = 0; rc == 0 && i < c->sessions; i++) {
        enum verdict_kind verdict = VERDICT_COUNT;
        int64_t blocks = 0;
        s.seed = seed + (uint64_t)i;
        rc = simulate(&s, &verdict, &blocks, err);
        if (rc)
            break;
        out->verdicts[verdict]++;
        out->mean_blocks += (double)blocks / c->sessions;
        as_wanted += as_expected(c, verdict);
    }
    close_simulation(&s);
    out->share = (double)as_wanted / c->sessions;
    out->passed = rc == 0 && out->share >= c->share;
    return rc;
}
