/* ncbench selftest: does the machinery find what is there, and nothing where there is nothing? */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/document.h"
#include "harness/output.h"
#include "harness/reporters/reporter.h"
#include "harness/selftest.h"
#include "harness/verbs.h"

struct selftest_options {
    int64_t seed;
    bool json;
};

const struct option_spec selftest_options[] = {
    {"seed", 0, OPT_INT, offsetof(struct selftest_options, seed), "20261130", 0, 9007199254740992.0,
     "N", "seed of the simulated trials"},
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
    int rc =
        options_parse(selftest_options, &o, argc, argv, NULL, &err) ? err.code : selftest(&o, &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(selftest_options, &o);
    return rc;
}
