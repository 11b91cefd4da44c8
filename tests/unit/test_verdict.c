/* From records to verdicts and sentences: which blocks count, every row of the verdict table, the
 * words, the looks of a running session. */
#include "harness/verdict.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static const double A[10] = {100.12, 100.45, 99.87,  100.31, 101.02,
                             100.08, 99.95,  100.66, 100.23, 100.40};
static const double B[10] = {100.95, 101.10, 100.61, 101.22, 101.63,
                             100.89, 100.78, 101.35, 101.17, 100.99};

/* The comparison of cell c00 by the records; the caller releases it. */
static struct comparison compare(const struct study *s, const struct records *r, const char *metric,
                                 double margin)
{
    struct blocks b;
    struct comparison c;
    blocks_make(s, r, 0, &b);
    comparison_make(s, &b, 0, 0, 1, metric, margin, &c);
    blocks_release(&b);
    return c;
}

static struct comparison compare_pairs(const double *a, const double *b, size_t n, double margin)
{
    struct study s;
    struct records r = {0};
    fixture_study(&s, "[10]", false);
    fixture_add_pairs(&r, "c00", a, b, n);
    struct comparison c = compare(&s, &r, "step_time_s", margin);
    c.metric = "step_time_s";
    records_release(&r);
    study_release(&s);
    return c;
}

static void equivalent_but_visible(void)
{
    struct comparison c = compare_pairs(A, B, 10, .01);
    CU_ASSERT_EQUAL(c.verdict, VERDICT_EQUIVALENT);
    CU_ASSERT_STR(
        c.sentence,
        "podman is equivalent to bare: within ±1 % (ratio 1.008, 90 % CI 1.007–1.008, "
        "paired, 10 blocks); a real difference of 0.76 % is visible but below the margin");
    CU_ASSERT_NEAR(c.tost.p, 8.197e-5, 5e-9);
    CU_ASSERT_NEAR(c.hodges_lehmann.estimate, 1.007572, 5e-7);
    CU_ASSERT_NEAR(c.median_a, 100.27, 1e-9);
    CU_ASSERT_EQUAL(c.look, 1);
    comparison_release(&c);
}

static void rows_of_the_table(void)
{
    static const struct {
        double lo, hi;
        enum verdict_kind want;
    } rows[] = {
        {.995, 1.005, VERDICT_EQUIVALENT},
        {1.001, 1.009, VERDICT_EQUIVALENT},
        {1.011, 1.02, VERDICT_SLOWER},
        {1.002, 1.02, VERDICT_SLOWER_UNCERTAIN},
        {1.0001, 1.01, VERDICT_SLOWER_UNCERTAIN},
        {.95, .98, VERDICT_FASTER},
        {.98, .999, VERDICT_FASTER_UNCERTAIN},
        {.985, 1.021, VERDICT_INCONCLUSIVE},
        {.98, 1.001, VERDICT_INCONCLUSIVE},
        {NAN, NAN, VERDICT_INCONCLUSIVE},
        {1, 1.01, VERDICT_INCONCLUSIVE},
        {1 / 1.01, 1, VERDICT_INCONCLUSIVE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CU_ASSERT_EQUAL(verdict_of_intervals((struct interval){rows[i].lo, rows[i].hi},
                                             (struct interval){rows[i].lo, rows[i].hi}, .01),
                        rows[i].want);
}

/* Equivalence is judged by the narrower interval, a difference by the wider one. */
static void two_intervals(void)
{
    static const struct {
        struct interval cost, claim;
        enum verdict_kind want;
    } rows[] = {
        {{1.001, 1.009}, {.999, 1.011}, VERDICT_EQUIVALENT},
        {{1.001, 1.011}, {.999, 1.013}, VERDICT_INCONCLUSIVE},
        {{.985, .999}, {.98, 1.001}, VERDICT_INCONCLUSIVE},
        {{1.011, 1.02}, {1.009, 1.022}, VERDICT_SLOWER_UNCERTAIN},
        {{.95, .98}, {.94, .995}, VERDICT_FASTER_UNCERTAIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CU_ASSERT_EQUAL(verdict_of_intervals(rows[i].cost, rows[i].claim, .01), rows[i].want);
    /* t = 2.02 with 9 degrees of freedom: inside 95 %, outside 90 % */
    double b[10];
    for (int i = 0; i < 10; i++)
        b[i] = A[i] * exp(.02 + (i % 2 ? .0297 : -.0297));
    struct comparison c = compare_pairs(A, b, 10, .01);
    CU_ASSERT_EQUAL(c.verdict, VERDICT_INCONCLUSIVE);
    CU_ASSERT_TRUE(c.paired.ci.lo > 1 && c.paired.claim.lo < 1);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(c.sentence, "the 95 % CI, which a claim of a difference asks for, holds 1"));
    comparison_release(&c);
}

static void sentences(void)
{
    double slow[10], fast[10], noisy[10];
    for (int i = 0; i < 10; i++) {
        slow[i] = A[i] * 1.073 * (i % 2 ? 1.001 : .999);
        fast[i] = A[i] * .93 * (i % 2 ? 1.001 : .999);
        noisy[i] = A[i] * (i % 2 ? 1.03 : .975);
    }
    struct comparison c = compare_pairs(A, slow, 10, .05);
    CU_ASSERT_STR(c.sentence, "podman is slower than bare by 7.3 % (7.2–7.4 %), beyond the margin "
                              "of ±5 % (ratio 1.073, 95 % CI 1.072–1.074, paired, 10 blocks)");
    comparison_release(&c);
    c = compare_pairs(A, fast, 10, .05);
    CU_ASSERT_EQUAL(c.verdict, VERDICT_FASTER);
    CU_ASSERT_PTR_NOT_NULL(strstr(c.sentence, "podman is faster than bare by 7.0 %"));
    comparison_release(&c);
    c = compare_pairs(A, slow, 10, .073);
    CU_ASSERT_EQUAL(c.verdict, VERDICT_SLOWER_UNCERTAIN);
    CU_ASSERT_PTR_NOT_NULL(strstr(c.sentence, "size uncertain: the margin is ±7.3 %"));
    comparison_release(&c);
    c = compare_pairs(A, noisy, 10, .01);
    CU_ASSERT_EQUAL(c.verdict, VERDICT_INCONCLUSIVE);
    CU_ASSERT_PTR_NOT_NULL(strstr(c.sentence, "the interval spans ±1 %; about "));
    CU_ASSERT(c.more_blocks > 0);
    comparison_release(&c);
    c = compare_pairs(A, B, 1, .01);
    CU_ASSERT_EQUAL(c.verdict, VERDICT_INCONCLUSIVE);
    CU_ASSERT_STR(c.sentence, "podman against bare is inconclusive: one block gives no interval "
                              "(ratio 1.008, n = 1: no interval, paired, 1 block)");
    comparison_release(&c);
    c = compare_pairs(A, B, 0, .01);
    CU_ASSERT_STR(c.sentence, "podman against bare is inconclusive: no block was run");
    comparison_release(&c);
}

/* For a rate larger is better: the same session seen by tokens/s says the same. */
static void rates_are_turned_round(void)
{
    struct study s;
    struct records r = {0};
    double slow[10];
    for (int i = 0; i < 10; i++)
        slow[i] = B[i] * 1.03;
    fixture_study(&s, "[10]", false);
    fixture_add_pairs(&r, "c00", A, slow, 10);
    struct comparison time = compare(&s, &r, "step_time_s", -1);
    struct comparison rate = compare(&s, &r, "tokens_per_s", -1);
    CU_ASSERT_EQUAL(time.verdict, VERDICT_SLOWER);
    CU_ASSERT_EQUAL(rate.verdict, VERDICT_SLOWER);
    CU_ASSERT(rate.paired.ratio < 1);
    CU_ASSERT_NEAR(comparison_cost(&rate).lo, time.paired.ci.lo, 1e-12);
    CU_ASSERT_NEAR(rate.margin, .01, 0); /* that of step_time_s */
    CU_ASSERT_PTR_NOT_NULL(strstr(rate.sentence, "slower than bare by 3."));
    comparison_release(&time);
    comparison_release(&rate);
    records_release(&r);
    study_release(&s);
}

static void margins(void)
{
    struct study s;
    const char *source;
    fixture_study(&s, "[6]", false);
    CU_ASSERT_NEAR(study_margin(&s, "step_time_s", 2, NULL, &source), .01, 0);
    CU_ASSERT_STR(source, "scenario");
    CU_ASSERT_NEAR(study_margin(&s, "start_s", .2, NULL, NULL), .5, 1e-12); /* 100 ms of 200 ms */
    CU_ASSERT_NEAR(study_margin(&s, "start_s", 5, NULL, NULL), .2, 0);      /* 20 % is more */
    CU_ASSERT_NEAR(study_margin(&s, "start_s", NAN, NULL, NULL), .2, 0);
    CU_ASSERT_NEAR(study_margin(&s, "phases_s.exec", .05, NULL, &source), 2, 1e-12);
    CU_ASSERT_STR(source, "default");
    CU_ASSERT_NEAR(study_margin(&s, "peak_rss_bytes", 1e9, NULL, NULL), .05, 0);
    study_release(&s);
}

/* 20 ms of a step of 2 s is 1 %, seen by tokens/s too: never 20 ms of so many tokens/s. */
static void absolute_margin_of_a_rate(void)
{
    struct study s;
    struct records r = {0};
    double a[10], b[10];
    for (int i = 0; i < 10; i++) {
        a[i] = 2 + .001 * i;
        b[i] = a[i] * (1.001 + .0001 * (i % 3));
    }
    fixture_study(&s, "[10]", false);
    for (size_t i = 0; i < s.n_margins; i++)
        if (!strcmp(s.margins[i].metric, "step_time_s"))
            s.margins[i].rel = 0, s.margins[i].abs = .02;
    fixture_add_pairs(&r, "c00", a, b, 10);
    struct comparison time = compare(&s, &r, "step_time_s", -1);
    struct comparison rate = compare(&s, &r, "tokens_per_s", -1);
    CU_ASSERT_NEAR(time.margin, .02 / 2.0045, 1e-9);
    CU_ASSERT_NEAR(rate.margin, time.margin, 1e-12);
    CU_ASSERT_EQUAL(rate.verdict, VERDICT_EQUIVALENT);
    CU_ASSERT_PTR_NULL(strstr(rate.sentence, "ms"));
    comparison_release(&time);
    comparison_release(&rate);
    records_release(&r);
    study_release(&s);
}

static void blocks_that_do_not_count(void)
{
    struct study s;
    struct records r = {0};
    fixture_study(&s, "[6]", false);
    fixture_add_pairs(&r, "c00", A, B, 8);
    fixture_add(&r, (struct fixture_trial){"c00", "bare", 0, 0, OUTCOME_OK, 500, NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "podman", 0, 0, OUTCOME_OK, 50, NULL});
    fixture_add(&r, (struct fixture_trial){"c01", "bare", 1, 0, OUTCOME_OK, 500, NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "bare", 9, 0, OUTCOME_OK, 500, NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "podman", 9, 0, OUTCOME_TIMEOUT, 0, NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "bare", 10, 0, OUTCOME_DISTURBED, 100, NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "podman", 10, 0, OUTCOME_OK, 130, NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "bare", 11, 0, OUTCOME_OK, 100, NULL});
    struct blocks b;
    blocks_make(&s, &r, 0, &b);
    CU_ASSERT_EQUAL(b.complete, 8);
    CU_ASSERT_EQUAL(b.disturbed, 1);
    CU_ASSERT_EQUAL(b.incomplete, 2);
    CU_ASSERT_EQUAL(b.total, 11);
    CU_ASSERT_STR(b.items[8].reason, "podman: timeout");
    CU_ASSERT_STR(b.items[9].reason, "bare: disturbed");
    CU_ASSERT_STR(b.items[10].reason, "podman: not run");
    struct comparison c;
    comparison_make(&s, &b, 0, 0, 1, "step_time_s", -1, &c);
    struct paired want = stats_paired(A, B, 8, .05);
    CU_ASSERT_NEAR(c.paired.ratio, want.ratio, 1e-15);
    CU_ASSERT_EQUAL(c.paired.n, 8);
    CU_ASSERT_EQUAL(c.all_blocks.n, 9);
    CU_ASSERT(c.all_blocks.ratio > c.paired.ratio);
    comparison_release(&c);
    blocks_release(&b);
    records_release(&r);
    study_release(&s);
}

/* A disturbed block that was repeated counts once, with the repetition's numbers. */
static void repeated_blocks(void)
{
    struct study s;
    struct records r = {0};
    fixture_study(&s, "[6]", false);
    fixture_add_pairs(&r, "c00", A, B, 5);
    fixture_add(&r, (struct fixture_trial){"c00", "bare", 6, 1, OUTCOME_OK, 100, NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "podman", 6, 1, OUTCOME_DISTURBED, 150, NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "bare", 6, 2, OUTCOME_OK, A[5], NULL});
    fixture_add(&r, (struct fixture_trial){"c00", "podman", 6, 2, OUTCOME_OK, B[5], NULL});
    struct comparison c = compare(&s, &r, "step_time_s", -1);
    struct paired want = stats_paired(A, B, 6, .05);
    CU_ASSERT_NEAR(c.paired.ratio, want.ratio, 1e-15);
    CU_ASSERT_EQUAL(c.total, 6);
    CU_ASSERT_EQUAL(c.disturbed, 1);
    CU_ASSERT_EQUAL(c.all_blocks.n, 7);
    CU_ASSERT_EQUAL(c.verdict, VERDICT_EQUIVALENT);
    comparison_release(&c);
    records_release(&r);
    study_release(&s);
}

static void too_many_disturbed(void)
{
    struct study s;
    struct records r = {0};
    fixture_study(&s, "[6]", false);
    fixture_add_pairs(&r, "c00", A, B, 6);
    for (int k = 7; k <= 9; k++) {
        fixture_add(&r, (struct fixture_trial){"c00", "bare", k, 0, OUTCOME_OK, 100, NULL});
        fixture_add(&r,
                    (struct fixture_trial){"c00", "podman", k, 0, OUTCOME_DISTURBED, 100, NULL});
        struct comparison c = compare(&s, &r, "step_time_s", -1);
        CU_ASSERT_EQUAL(c.verdict, k < 9 ? VERDICT_EQUIVALENT : VERDICT_UNTRUSTWORTHY);
        if (k == 9)
            CU_ASSERT_PTR_NOT_NULL(strstr(c.sentence, "3 of 9 blocks were disturbed"));
        comparison_release(&c);
    }
    records_release(&r);
    study_release(&s);
}

/* A runtime that never worked does not take the others' blocks away; it has none itself. */
static void a_runtime_that_never_works(void)
{
    struct study s;
    struct records r = {0};
    fixture_study(&s, "[6]", true); /* the control stands for a third arm */
    fixture_add_pairs(&r, "c00", A, B, 6);
    for (int k = 1; k <= 6; k++)
        fixture_add(
            &r, (struct fixture_trial){"c00", "bare-control", k, 0, OUTCOME_UNAVAILABLE, 0, NULL});
    struct blocks b;
    struct comparison c;
    blocks_make(&s, &r, 0, &b);
    CU_ASSERT_EQUAL(b.complete, 6);
    comparison_make(&s, &b, 0, 0, 2, "step_time_s", -1, &c);
    CU_ASSERT_EQUAL(c.verdict, VERDICT_INCONCLUSIVE);
    CU_ASSERT_EQUAL(c.paired.n, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(c.sentence, "step_time_s has no value in 6 blocks"));
    comparison_release(&c);
    blocks_release(&b);
    records_release(&r);
    study_release(&s);
}

static void overruled(void)
{
    struct study s;
    struct records r = {0};
    fixture_study(&s, "[6]", false);
    fixture_add_pairs(&r, "c00", A, B, 6);
    struct comparison c = compare(&s, &r, "step_time_s", -1);
    comparison_overrule(&s, &c, VERDICT_NOT_COMPARABLE,
                        "OMP_NUM_THREADS differs: 1 in podman, 16 in bare");
    CU_ASSERT_STR(c.sentence, "podman is not comparable with bare: OMP_NUM_THREADS differs: 1 in "
                              "podman, 16 in bare");
    CU_ASSERT_STR(verdict_name(c.verdict), "not_comparable");
    comparison_release(&c);
    records_release(&r);
    study_release(&s);
}

/* ---- looks of a running session -----------------------------------------------------------------
 */

/* Two looks, no discarded block. */
static void small_study(struct study *out)
{
    fixture_study(out, "[6, 12]", false);
    out->discard_first_block = false;
}

static bool look(const struct study *s, const struct records *r, size_t n)
{
    struct blocks b;
    blocks_make(s, r, 0, &b);
    b.complete = n;
    bool stop = verdict_look(s, &b, 0);
    blocks_release(&b);
    return stop;
}

static void looks_stop_what_is_decided(void)
{
    struct study s;
    struct records r = {0};
    small_study(&s);
    double *rel = &s.margins[0].rel;
    fixture_add_pairs(&r, "c00", A, B, 5);
    CU_ASSERT(!look(&s, &r, 5)); /* no look here, however clear */
    records_release(&r);
    fixture_add_pairs(&r, "c00", A, B, 6);
    CU_ASSERT(look(&s, &r, 6)); /* equivalent */
    s.stop = STOP_NEVER;
    CU_ASSERT(!look(&s, &r, 6));
    CU_ASSERT(look(&s, &r, 12));
    s.stop = STOP_PRECISION;
    CU_ASSERT(!look(&s, &r, 6)); /* fewer than ten blocks never do */
    s.stop = STOP_DECIDED;
    *rel = .00755;
    CU_ASSERT(!look(&s, &r, 6)); /* slower, size uncertain */
    CU_ASSERT(look(&s, &r, 12));
    *rel = .005;
    CU_ASSERT(look(&s, &r, 6)); /* wholly beyond */
    records_release(&r);
    fixture_add_pairs(&r, "c00", A, B, 10);
    *rel = .05;
    s.looks[0] = 10;
    s.stop = STOP_PRECISION;
    CU_ASSERT(look(&s, &r, 10));
    *rel = .0001;
    CU_ASSERT(!look(&s, &r, 10));
    records_release(&r);
    study_release(&s);
}

static void one_arm_goes_to_its_last_look(void)
{
    struct study s;
    struct records r = {0};
    small_study(&s);
    size_t arms = s.n_arms;
    s.n_arms = 1;
    CU_ASSERT(!look(&s, &r, 6));
    CU_ASSERT(look(&s, &r, 12));
    s.n_arms = arms;
    study_release(&s);
}

/* What a running session decides by is what its analysis will read. */
static void study_of_scenario(void)
{
    static const char text[] =
        "version: 1\nname: small\nbaseline: bare\n"
        "workload: {exec: [sleep, '1'], events: none}\n"
        "runtimes: [{name: bare, kind: bare}, {name: env, kind: command, prefix: [env, '{argv}'], "
        "differs: [cpu.*]}]\n"
        "launch: {nodes: 1, ranks_per_node: \"${n}\"}\nmatrix: {n: [1, 2]}\n"
        "sampling: {looks: [6, 12], control: true, stop: precision, discard_first_block: false}\n"
        "compare: {margin: {wall_s: 2%}}\n"
        "gates: [{metric: wall_s, max: 3}]\n";
    struct scenario scenario;
    struct study s;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(scenario_parse(text, strlen(text), "t", NULL, &scenario, &err), 0);
    study_from_scenario(&scenario, &s);
    CU_ASSERT_EQUAL(s.n_arms, 3);
    CU_ASSERT_STR(s.arms[1].name, "env");
    CU_ASSERT_STR(s.arms[1].differs.items[0], "cpu.*");
    CU_ASSERT_EQUAL(s.control, 2);
    CU_ASSERT_EQUAL(s.handicap, -1);
    CU_ASSERT_EQUAL(s.looks[1], 12);
    CU_ASSERT_EQUAL(s.stop, STOP_PRECISION);
    CU_ASSERT_FALSE(s.discard_first_block);
    CU_ASSERT_EQUAL(s.n_cells, 2);
    CU_ASSERT_EQUAL(s.cells[1].ranks, 2);
    CU_ASSERT_STR(s.cells[1].label, "n 2");
    CU_ASSERT_STR(s.primary, "wall_s");
    CU_ASSERT_NEAR(study_margin(&s, "wall_s", 1, NULL, NULL), .02, 1e-12);
    CU_ASSERT_EQUAL(s.n_gates, 1);
    CU_ASSERT_NEAR(s.gates[0].max, 3, 0);
    study_release(&s);
    scenario_release(&scenario);
}

UNIT_MAIN({"equivalent, but visible", equivalent_but_visible},
          {"rows of the table", rows_of_the_table}, {"two intervals", two_intervals},
          {"sentences", sentences}, {"rates are turned round", rates_are_turned_round},
          {"margins", margins}, {"absolute margin of a rate", absolute_margin_of_a_rate},
          {"blocks that do not count", blocks_that_do_not_count},
          {"repeated blocks", repeated_blocks}, {"too many disturbed", too_many_disturbed},
          {"a runtime that never works", a_runtime_that_never_works}, {"overruled", overruled},
          {"looks stop what is decided", looks_stop_what_is_decided},
          {"one arm goes to its last look", one_arm_goes_to_its_last_look},
          {"study of scenario", study_of_scenario})
