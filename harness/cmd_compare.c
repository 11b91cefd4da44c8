/* ncbench compare: findings, verdicts and numbers of a session. */
#include "common/cleanup.h"
#include "harness/analysis.h"
#include "harness/output.h"
#include "harness/report.h"
#include "harness/reporters/reporter.h"
#include "harness/session_data.h"
#include "harness/verbs.h"
#include "harness/verdict_json.h"

struct compare_options {
    char *metric;
    double margin;
    bool json, csv, md, explain;
    char *output;
};

const struct option_spec compare_options[] = {
    {"metric", 'm', OPT_STRING, offsetof(struct compare_options, metric), NULL, 0, 0, "NAME",
     "judge this metric in place of the scenario's primary one: step_time_s, tokens_per_s, mfu, "
     "start_s, wall_s, or a dotted path in the record"},
    {"margin", 0, OPT_PERCENT, offsetof(struct compare_options, margin), NULL, 0, 0, "P%",
     "relative margin of equivalence in place of the scenario's"},
    {"json", 0, OPT_BOOL, offsetof(struct compare_options, json), NULL, 0, 0, NULL,
     "one JSON object with comparisons and findings"},
    {"csv", 0, OPT_BOOL, offsetof(struct compare_options, csv), NULL, 0, 0, NULL,
     "the comparisons as CSV"},
    {"md", 0, OPT_BOOL, offsetof(struct compare_options, md), NULL, 0, 0, NULL, "Markdown"},
    {"explain", 0, OPT_BOOL, offsetof(struct compare_options, explain), NULL, 0, 0, NULL,
     "also how each number came about: p values, other intervals, blocks left out, method"},
    {"output", 'o', OPT_STRING, offsetof(struct compare_options, output), NULL, 0, 0, "FILE",
     "write to FILE in place of standard output (-)"},
    {0}};

static void render(const struct compare_options *o, const struct session_data *session,
                   const struct analysis *a, struct str *out)
{
    if (o->json) {
        auto_json *root = analysis_json(a, session->id);
        json_write(out, root, 2);
        str_append(out, "\n");
        return;
    }
    if (o->csv) {
        analysis_csv(a, out);
        return;
    }
    struct document doc = {0};
    report_compare(session, a, o->explain, &doc);
    (o->md ? &reporter_markdown : &reporter_text)->render(&doc, session->study.name, out);
    document_release(&doc);
}

static int compare(const struct compare_options *o, double margin, const char *path,
                   struct error *err)
{
    struct session_data session;
    if (session_data_load(path, &session, err))
        return err->code;
    struct analysis a;
    const struct analysis_options options = {o->metric, margin};
    analysis_make(&session.study, &session.view.records, &options, &a);
    auto_str text = STR_INIT;
    render(o, &session, &a, &text);
    int rc = output_write(o->output, &text, err) ? err->code : analysis_exit(&a);
    analysis_release(&a);
    session_data_release(&session);
    return rc;
}

static int check_values(const struct compare_options *o, bool margin_given, struct error *err)
{
    if (o->metric && !metric_is_known(o->metric))
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "--metric: \"%s\" is no metric, expected step_time_s, tokens_per_s, mfu, "
                         "start_s, wall_s or a dotted path of the trial record",
                         o->metric);
    if (margin_given && !(o->margin > 0))
        return error_set(err, NCBENCH_EXIT_USAGE, "--margin: expected a percentage above 0");
    return 0;
}

int cmd_compare(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    auto_strv operands = STRV_INIT;
    struct compare_options o;
    options_defaults(compare_options, &o);
    int rc;
    if (options_parse(compare_options, &o, argc, argv, &operands, &err))
        rc = err.code;
    else if (operands.count != 1)
        rc = -error_set(&err, NCBENCH_EXIT_USAGE, "compare takes one session, got %zu",
                        operands.count);
    else if (o.json + o.csv + o.md > 1)
        rc = -error_set(&err, NCBENCH_EXIT_USAGE, "--json, --csv and --md exclude each other");
    else if (check_values(&o, options_given(compare_options, argc, argv, "margin"), &err))
        rc = err.code;
    else {
        bool given = options_given(compare_options, argc, argv, "margin");
        rc = compare(&o, given ? o.margin : -1, operands.items[0], &err);
    }
    if (err.code)
        error_print(&err, "ncbench");
    options_release(compare_options, &o);
    return rc;
}
