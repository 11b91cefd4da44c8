/* ncbench selftest: does the machinery find what is there, and nothing where there is nothing? */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/document.h"
#include "harness/output.h"
#include "harness/reporters/reporter.h"
#include "harness/selftest.h"
#include "harness/verbs.h"

#include <sched.h>

struct selftest_options {
    int64_t seed, sessions, jobs;
    bool full, pitfalls, json;
};

const struct option_spec selftest_options[] = {
    {"seed", 0, OPT_INT, offsetof(struct selftest_options, seed), "20261130", 0, 9007199254740992.0,
     "N", "seed of the simulated trials"},
    {"full", 0, OPT_BOOL, offsetof(struct selftest_options, full), NULL, 0, 0, NULL,
     "error rates, power and coverage of intervals by simulation, in place of the short cases"},
    {"pitfalls", 0, OPT_BOOL, offsetof(struct selftest_options, pitfalls), NULL, 0, 0, NULL,
     "how often usual ways to compare claim a difference where there is none, by simulation"},
    {"sessions", 0, OPT_INT, offsetof(struct selftest_options, sessions), "20000", 1, 1e9, "N",
     "sessions a row of --full and --pitfalls"},
    {"jobs", 'j', OPT_INT, offsetof(struct selftest_options, jobs), "0", 0, 1024, "N",
     "processes of --full; 0: one a usable CPU; the table does not depend on it"},
    {"json", 0, OPT_BOOL, offsetof(struct selftest_options, json), NULL, 0, 0, NULL,
     "a JSON array with one object a case"},
    {0}};

static void put_row(const struct selftest_case *c, const struct selftest_result *r,
                    struct document *doc)
{
    auto_str got = STR_INIT;
    for (size_t v = 0; v < VERDICT_COUNT; v++)
        if (r->verdicts[v])
            str_appendf(&got, "%s%s %zu", got.len ? ", " : "", verdict_words((enum verdict_kind)v),
                        r->verdicts[v]);
    document_cell(doc, "%s", c->name);
    document_cell(doc, "%d", c->sessions);
    document_cell(doc, "%s%s in %.0f %%", c->rule == EXPECT_NOT ? "not " : "",
                  c->rule == EXPECT_WITHIN ? "neither slower nor faster" : verdict_words(c->want),
                  c->share * 100);
    document_cell(doc, "%.1f %%", r->share * 100);
    document_cell(doc, "%.1f", r->mean_blocks);
    document_cell(doc, "%s", got.data);
    document_cell(doc, "%s", r->passed ? "ok" : "FAILED");
}

static json_t *case_json(const struct selftest_case *c, const struct selftest_result *r)
{
    json_t *obj = json_object();
    json_t *verdicts = json_object();
    for (size_t v = 0; v < VERDICT_COUNT; v++)
        if (r->verdicts[v])
            json_put_int(verdicts, verdict_name((enum verdict_kind)v), (int64_t)r->verdicts[v]);
    json_put_str(obj, "case", c->name);
    json_put_int(obj, "sessions", c->sessions);
    json_put_f64(obj, "share_wanted", c->share);
    json_put_f64(obj, "share", r->share);
    json_put_f64(obj, "mean_blocks", r->mean_blocks);
    json_put(obj, "verdicts", verdicts);
    json_put_bool(obj, "passed", r->passed);
    return obj;
}

/* ---- --full ------------------------------------------------------------------------------------
 */
static void put_full_row(const struct selftest_row *row, const struct selftest_tally *t,
                         struct document *doc)
{
    bool holds;
    const char *rule = selftest_row_rule(row, t, &holds);
    double n = (double)t->sessions;
    document_cell(doc, "+%g %%", row->effect * 100);
    document_cell(doc, "%.2f %%", (double)t->sd_nano * 1e-7 / n);
    document_cell(doc, "%d%s", row->looks, row->never ? ", not used" : "");
    document_cell(doc, "%.1f", (double)t->blocks / n);
    document_cell(doc, "%.2f %%", selftest_share(t, VERDICT_EQUIVALENT) * 100);
    document_cell(doc, "%.2f %%", selftest_share_slower(t) * 100);
    document_cell(doc, "%.2f %%", selftest_share_different(t) * 100);
    document_cell(doc, "%.2f %%", selftest_coverage(t) * 100);
    document_cell(doc, "%.2f %%", selftest_nominal(row) * 100);
    document_cell(doc, "%s", rule ? rule : "");
    document_cell(doc, "%s", !rule ? "" : holds ? "ok" : "FAILED");
}

static json_t *full_row_json(const struct selftest_row *row, uint64_t seed,
                             const struct selftest_tally *t)
{
    bool holds;
    const char *rule = selftest_row_rule(row, t, &holds);
    json_t *obj = json_object();
    json_put_f64(obj, "effect", row->effect);
    json_put_f64(obj, "noise", row->noise);
    json_put_int(obj, "looks", row->looks);
    json_put_str(obj, "stop", row->never ? "never" : "decided");
    json_put_int(obj, "seed", (int64_t)seed);
    json_put_int(obj, "sessions", t->sessions);
    json_put_f64(obj, "mean_blocks", (double)t->blocks / (double)t->sessions);
    json_put_f64(obj, "mean_sd_log_ratio", (double)t->sd_nano * 1e-9 / (double)t->sessions);
    json_t *verdicts = json_object();
    for (size_t v = 0; v < VERDICT_COUNT; v++)
        if (t->verdicts[v])
            json_put_int(verdicts, verdict_name((enum verdict_kind)v), t->verdicts[v]);
    json_put(obj, "verdicts", verdicts);
    json_put_f64(obj, "coverage", selftest_coverage(t));
    json_put_f64(obj, "nominal", selftest_nominal(row));
    if (rule) {
        json_put_str(obj, "rule", rule);
        json_put_bool(obj, "holds", holds);
    } else {
        json_put_null(obj, "rule", "this row only informs");
    }
    return obj;
}

static int usable_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static int selftest_full(const struct selftest_options *o, struct error *err)
{
    struct document doc = {0};
    auto_json *list = json_array();
    size_t broken = 0;
    int jobs = o->jobs > 0 ? (int)o->jobs : usable_cpus();
    document_table(&doc,
                   "true|noise|looks|blocks|equivalent|slower|different|covered|nominal|rule|",
                   "rrlrrrrrrll", NULL);
    for (size_t i = 0; i < selftest_row_count; i++) {
        const struct selftest_row *row = &selftest_rows[i];
        uint64_t seed = (uint64_t)o->seed + 1000000 * (uint64_t)i;
        struct selftest_tally t;
        bool holds = true;
        if (selftest_row_run(row, seed, o->sessions, jobs, &t, err))
            break;
        selftest_row_rule(row, &t, &holds);
        broken += !holds;
        put_full_row(row, &t, &doc);
        json_array_append_new(list, full_row_json(row, seed, &t));
    }
    auto_str text = STR_INIT;
    if (o->json) {
        json_write(&text, list, 2);
        str_append(&text, "\n");
    } else {
        str_appendf(
            &text,
            "%lld sessions a row; session i of row r (from 0) has the seed %lld + 1000000 r "
            "+ i\n",
            (long long)o->sessions, (long long)o->seed);
        reporter_text.render(&doc, "selftest", &text);
    }
    document_release(&doc);
    if (err->code || output_write(NULL, &text, err))
        return err->code;
    return broken ? -error_set(err, NCBENCH_EXIT_BUG,
                               "the selftest failed in %zu row%s: verdicts of this build cannot be "
                               "trusted",
                               broken, broken == 1 ? "" : "s")
                  : 0;
}

/* ---- --pitfalls --------------------------------------------------------------------------------
 */
static int selftest_wrong_ways(const struct selftest_options *o, struct error *err)
{
    struct document doc = {0};
    auto_json *list = json_array();
    document_table(&doc, "way|false claims|ours|false claims", "lrlr", NULL);
    for (const struct pitfall *p = selftest_pitfalls; p->usual; p++) {
        struct pitfall_tally t;
        selftest_pitfall_run(p, (uint64_t)o->seed, o->sessions, &t);
        double usual = (double)t.usual / (double)t.sessions;
        double ours = (double)t.ours / (double)t.sessions;
        document_cell(&doc, "%s", p->usual);
        document_cell(&doc, "%.0f %%", usual * 100);
        document_cell(&doc, "%s", p->ours);
        document_cell(&doc, "%.0f %%", ours * 100);
        json_array_append_new(list, json_pack("{s:s, s:f, s:s, s:f, s:I}", "usual", p->usual,
                                              "usual_false_claims", usual, "ours", p->ours,
                                              "ours_false_claims", ours, "sessions",
                                              (json_int_t)t.sessions));
    }
    auto_str text = STR_INIT;
    if (o->json) {
        json_write(&text, list, 2);
        str_append(&text, "\n");
    } else {
        reporter_text.render(&doc, "selftest", &text);
    }
    document_release(&doc);
    return output_write(NULL, &text, err) ? err->code : 0;
}

static int selftest(const struct selftest_options *o, struct error *err)
{
    struct document doc = {0};
    auto_json *list = json_array();
    bool passed = true;
    document_table(&doc, "case|sessions|expected|as expected|blocks|verdicts|", "lrlrrll", NULL);
    for (const struct selftest_case *c = selftest_cases; c->name && !err->code; c++) {
        struct selftest_result r;
        if (selftest_run(c, (uint64_t)o->seed, &r, err))
            break;
        passed = passed && r.passed;
        put_row(c, &r, &doc);
        json_array_append_new(list, case_json(c, &r));
    }
    auto_str text = STR_INIT;
    if (o->json) {
        json_write(&text, list, 2);
        str_append(&text, "\n");
    } else {
        reporter_text.render(&doc, "selftest", &text);
    }
    document_release(&doc);
    if (err->code || output_write(NULL, &text, err))
        return err->code;
    if (!passed)
        return -error_set(err, NCBENCH_EXIT_BUG,
                          "the selftest failed: verdicts of this build "
                          "cannot be trusted");
    return 0;
}

int cmd_selftest(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    struct selftest_options o;
    options_defaults(selftest_options, &o);
    int rc = options_parse(selftest_options, &o, argc, argv, NULL, &err) ? err.code
             : o.full                                                    ? selftest_full(&o, &err)
             : o.pitfalls ? selftest_wrong_ways(&o, &err)
                          : selftest(&o, &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(selftest_options, &o);
    return rc;
}
