/* Phases, scaling, failures, method, provenance, and the two documents as a whole. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "harness/counters_compare.h"
#include "harness/report.h"
#include "harness/stats_random.h"

#include <math.h>
#include <string.h>

/* ---- phases -------------------------------------------------------------------------------------
 */

void report_put_seconds(struct document *d, double s)
{
    auto_str text = STR_INIT;
    report_put_value(&text, "s_s", s);
    document_cell(d, "%s", text.data);
}

static void start_up_table(const struct analysis *a, struct document *out)
{
    const struct study *s = a->study;
    document_table(out, "cell|arm|n|median|95 % interval of the median|p95|largest", "llrrrrr",
                   "Start-up: from spawning the launcher to the first instruction of the first "
                   "rank. The interval is by order statistics; fewer than 6 values have none");
    for (size_t cell = 0; cell < s->n_cells; cell++)
        for (size_t arm = 0; arm < s->n_arms; arm++) {
            size_t n;
            auto_free double *x = analysis_values(a, cell, arm, "start_s", &n);
            if (n == 0)
                continue;
            struct rank_interval m = stats_median_interval(x, n, .95);
            auto_str ci = STR_INIT;
            if (m.rank) {
                report_put_value(&ci, "s_s", m.ci.lo);
                str_append(&ci, " – ");
                report_put_value(&ci, "s_s", m.ci.hi);
            } else {
                str_append(&ci, "none");
            }
            document_cell(out, "%s", report_cell_label(s, cell));
            document_cell(out, "%s", s->arms[arm].name);
            document_cell(out, "%zu", n);
            report_put_seconds(out, m.estimate);
            document_cell(out, "%s", ci.data);
            report_put_seconds(out, stats_quantile(x, n, .95));
            report_put_seconds(out, stats_max(x, n));
        }
}

static double phase_median(const struct analysis *a, size_t cell, size_t arm, const char *phase)
{
    auto_free char *metric = mem_printf("phases_s.%s", phase);
    size_t n;
    auto_free double *x = analysis_values(a, cell, arm, metric, &n);
    return stats_median(x, n);
}

void report_phases(const struct analysis *a, struct document *out)
{
    static const char *const phases[] = {
        "create",    "start",      "exec",     "device_init", "comm_init", "evidence",
        "data_init", "model_init", "peak",     "first_step",  "warmup",    "steady",
        "eval",      "checkpoint", "teardown", "cleanup",     "total"};
    const struct study *s = a->study;
    start_up_table(a, out);
    for (size_t cell = 0; cell < s->n_cells; cell++) {
        auto_str header = STR_INIT;
        auto_str align = STR_INIT;
        str_append(&header, "phase");
        str_append(&align, "l");
        for (size_t arm = 0; arm < s->n_arms; arm++) {
            auto_free char *name = report_header_word(s->arms[arm].name);
            str_appendf(&header, "|%s", name);
            str_append(&align, "r");
        }
        auto_free char *caption =
            mem_printf("Median of each phase, %s. exec lies within start and is no part of the sum",
                       report_cell_label(s, cell));
        document_table(out, header.data, align.data, caption);
        for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
            bool any = false;
            for (size_t arm = 0; arm < s->n_arms; arm++)
                any |= !isnan(phase_median(a, cell, arm, phases[p]));
            if (!any)
                continue;
            document_cell(out, "%s", phases[p]);
            for (size_t arm = 0; arm < s->n_arms; arm++)
                report_put_seconds(out, phase_median(a, cell, arm, phases[p]));
        }
    }
}

/* ---- failures
 * ---------------------------------------------------------------------------------------- */

/* Trials far from the others of their arm: flagged, and kept. */
static void arm_outliers(const struct analysis *a, size_t cell, size_t arm, struct document *out)
{
    const struct blocks *b = &a->blocks[cell];
    size_t n;
    auto_free double *x = analysis_values(a, cell, arm, a->metric, &n);
    double median = stats_median(x, n);
    double limit = stats_outlier_limit(x, n);
    for (size_t i = 0; i < b->count; i++) {
        double value;
        const struct record *r = b->items[i].trials[arm];
        if (b->items[i].state != BLOCK_COMPLETE || b->items[i].superseded ||
            !block_value(r, a->metric, &value) || !(fabs(value - median) > limit))
            continue;
        auto_str text = STR_INIT;
        report_put_value(&text, a->metric, value);
        str_append(&text, " where the arm's median is ");
        report_put_value(&text, a->metric, median);
        document_item(out, "%s is far from the others and was kept: %s", r->trial, text.data);
    }
}

static void list_outliers(const struct analysis *a, struct document *out)
{
    document_list(out);
    for (size_t cell = 0; cell < a->study->n_cells; cell++)
        for (size_t arm = 0; arm < a->study->n_arms; arm++)
            arm_outliers(a, cell, arm, out);
}

void report_failures(const struct session_data *session, const struct analysis *a,
                     struct document *out)
{
    const struct study *s = a->study;
    size_t failed = 0;
    document_table(out, "arm|trials|ok|not ok", "lrrl", "Trials, the warm-up block left out");
    for (size_t arm = 0; arm < s->n_arms; arm++) {
        const struct arm_count *n = &a->arms[arm];
        auto_str text = STR_INIT;
        for (size_t o = 1; o < OUTCOME_COUNT; o++)
            if (n->outcome[o])
                str_appendf(&text, "%s%s %zu", text.len ? ", " : "", outcome_name((enum outcome)o),
                            n->outcome[o]);
        failed += n->total - n->outcome[OUTCOME_OK];
        document_cell(out, "%s", s->arms[arm].name);
        document_cell(out, "%zu", n->total);
        document_cell(out, "%zu", n->outcome[OUTCOME_OK]);
        document_cell(out, "%s", text.len ? text.data : "none");
    }
    document_table(out, "cell|block|attempt|why it does not count", "lrrl", NULL);
    for (size_t cell = 0; cell < s->n_cells; cell++)
        for (size_t i = 0; i < a->blocks[cell].count; i++) {
            const struct block *b = &a->blocks[cell].items[i];
            if (b->state == BLOCK_COMPLETE)
                continue;
            document_cell(out, "%s", report_cell_label(s, cell));
            document_cell(out, "%lld", (long long)b->block);
            document_cell(out, "%lld", (long long)b->attempt);
            document_cell(out, "%s%s", b->reason ? b->reason : "",
                          b->superseded ? " (repeated)" : "");
        }
    document_list(out);
    for (size_t i = 0; failed && i < session->view.records.count; i++) {
        const struct record *r = &session->view.records.items[i];
        const json_t *why = json_array_get(json_at(r->json, "reasons"), 0);
        if (r->outcome != OUTCOME_OK && json_is_string(why))
            document_item(out, "%s: %s: %s", r->trial, outcome_name(r->outcome),
                          json_string_value(why));
    }
    list_outliers(a, out);
    if (session->view.records.torn)
        document_note(out, "The last line of trials.jsonl is torn and was left out.");
}

/* ---- method and provenance
 * -------------------------------------------------------------------------- */

/* A margin below the half-width of the A/A interval cannot be reached on this machine. */
static void reach_line(const struct analysis *a, struct document *out)
{
    for (size_t i = 0; i < a->n_primary; i++) {
        const struct comparison *c = &a->items[i];
        double half = log(c->paired.ci.hi / c->paired.ci.lo) / 2;
        if ((int)c->arm != a->study->control || !(half > log1p(c->margin)))
            continue;
        auto_str text = STR_INIT;
        verdict_put_percent(&text, expm1(half));
        str_append(&text, ", the margin ");
        verdict_put_margin(&text, c);
        document_item(out,
                      "%s: the margin is out of reach here with so many blocks: the half-width "
                      "of the A/A interval is %s.",
                      report_cell_label(a->study, c->cell), text.data);
    }
}

static void control_line(const struct analysis *a, struct document *out)
{
    if (!a->has_control && !a->has_handicap) {
        document_item(out, "No A/A control was asked for (sampling.control): nothing proves here "
                           "that the machinery would find no difference where there is none.");
        return;
    }
    size_t blocks = 0;
    for (size_t i = 0; i < a->n_primary; i++)
        if (analysis_is_control(a, &a->items[i]) && a->items[i].paired.n > blocks)
            blocks = a->items[i].paired.n;
    document_item(out, "%s: %s.",
                  !a->has_handicap  ? "A/A control"
                  : !a->has_control ? "Handicap control"
                                    : "A/A and handicap controls",
                  !a->control_ok ? a->control_reason
                  : blocks < 2   ? "it has fewer than two blocks and proves nothing"
                                 : "passed");
    for (size_t i = 0; i < a->n_primary; i++)
        if (analysis_is_control(a, &a->items[i]))
            document_item(out, "%s: %s.", report_cell_label(a->study, a->items[i].cell),
                          a->items[i].sentence);
    reach_line(a, out);
}

static void margin_line(const struct analysis *a, struct document *out)
{
    auto_str text = STR_INIT;
    const char *source = a->n_primary ? a->items[0].margin_source : "default";
    for (size_t i = 0; i < a->n_primary; i++) {
        if (i && a->items[i].margin == a->items[i - 1].margin)
            continue;
        str_append(&text, text.len ? ", " : "");
        verdict_put_margin(&text, &a->items[i]);
    }
    if (!text.len)
        return;
    document_item(out, "Margin for the %s: %s, %s.%s", report_metric_words(a->metric), text.data,
                  !strcmp(source, "scenario") ? "declared in the scenario before the run"
                  : !strcmp(source, "option") ? "given on the command line after the run"
                                              : "the default, the scenario gives none",
                  a->study->description && *a->study->description
                      ? " Its reason belongs into the description, above."
                      : " The scenario has no description that gives its reason.");
}

void report_method(const struct analysis *a, struct document *out)
{
    const struct study *s = a->study;
    double alpha = stats_pocock_alpha(s->n_looks);
    auto_str level = STR_INIT;
    auto_str looks = STR_INIT;
    verdict_put_percent(&level, 1 - 2 * alpha);
    for (size_t i = 0; i < s->n_looks; i++)
        str_appendf(&looks, "%s%lld", i ? ", " : "", (long long)s->looks[i]);
    document_list(out);
    document_item(out, "One number a trial: the median over its steady steps of the slowest rank's "
                       "step time. Steps are not pooled.");
    document_item(out,
                  "Each block runs every arm once, in random order, back to back. Per block "
                  "the logarithm of arm over %s; the ratio is the geometric mean of the "
                  "blocks' ratios.",
                  s->arms[s->baseline].name);
    document_item(out,
                  "The interval is Student's on the paired log-ratios at the level %s "
                  "(1 − 2α). Looks at %s blocks, α = %.4g each (Pocock, 5 %% over all looks). "
                  "Equivalent: the interval lies inside the margin (two one-sided tests).",
                  level.data, looks.data, alpha);
    margin_line(a, out);
    document_item(out,
                  "Holm's correction covers %zu comparison%s of the primary metric (cells × "
                  "arms, the control left out).",
                  a->family, a->family == 1 ? "" : "s");
    if (s->discard_first_block)
        document_item(out,
                      "The first block warms up and is excluded by plan, whatever its values.");
    document_item(out, "Outliers are flagged, never dropped; failed trials never become numbers; a "
                       "block counts only when all its trials are ok.");
    document_item(out, "What is claimed holds for this session on these nodes. A claim about a "
                       "machine needs several sessions.");
    control_line(a, out);
}

static void fact(struct document *out, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    document_cell(out, "%s", name);
    document_cell(out, "%s", value);
}

static void json_fact(struct document *out, const char *name, const json_t *value)
{
    auto_str text = STR_INIT;
    if (!value || json_is_null(value))
        return;
    bool words = json_is_array(value) && json_is_string(json_array_get(value, 0));
    for (size_t i = 0; words && i < json_array_size(value); i++) {
        const char *word = json_string_value(json_array_get(value, i));
        str_appendf(&text, "%s%s", i ? " " : "", word ? word : "");
    }
    if (json_is_string(value))
        str_append(&text, json_string_value(value));
    else if (!words)
        json_write(&text, value, 0);
    fact(out, name, text.data);
}

static void arm_facts(const struct session_data *session, size_t arm, struct document *out)
{
    static const char *const paths[] = {"image.ref", "image.digest", "binary_sha256"};
    const char *name = session->study.arms[arm].name;
    auto_free char *kind = mem_printf("%s: kind", name);
    fact(out, kind, session->study.arms[arm].kind);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        auto_free char *label = mem_printf("%s: %s", name, paths[i]);
        json_fact(out, label, session_data_latest(session, name, paths[i]));
    }
    const json_t *versions = session_data_latest(session, name, "runtime_version");
    const char *part;
    json_t *version;
    json_object_foreach((json_t *)versions, part, version)
    {
        auto_free char *label = mem_printf("%s: %s", name, part);
        if (!json_is_object(version) && !json_is_array(version))
            json_fact(out, label, version);
    }
}

void report_provenance(const struct session_data *session, const struct analysis *a,
                       struct document *out)
{
    static const struct {
        const char *name, *path;
    } facts[] = {{"host", "hosts"},
                 {"started", "started_utc"},
                 {"command line of the workload", "argv"},
                 {"data type", "config.dtype"},
                 {"model", "config.model"},
                 {"parameters", "config.parameters"},
                 {"tokens per step", "config.tokens_per_step"},
                 {"threads per rank", "threads_per_rank"},
                 {"peak for MFU (flop/s per rank)", "config.peak_flops_per_rank"},
                 {"kind of peak", "config.peak_kind"},
                 {"git commit", "git.commit"},
                 {"plan sha256", "plan_sha256"}};
    const struct study *s = a->study;
    document_table(out, "item|value", "ll", NULL);
    fact(out, "session", session->id);
    fact(out, "scenario", s->name);
    const json_t *sha = session_data_latest(session, NULL, "scenario_sha256");
    fact(out, "scenario sha256", sha ? json_string_value(sha) : s->scenario_sha256);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        json_fact(out, facts[i].name,
                  session_data_latest(session, s->arms[s->baseline].name, facts[i].path));
    for (size_t i = 0; i < 4; i++) {
        static const char *const env[][2] = {{"kernel", "host.kernel_release"},
                                             {"BLAS", "threads.blas_name"},
                                             {"usable CPUs of rank 0", "cpu.usable_pus"},
                                             {"transparent huge pages", "memory.thp"}};
        const json_t *ranks = session_data_latest(session, s->arms[s->baseline].name, "env");
        json_fact(out, env[i][0], json_at(json_array_get(ranks, 0), env[i][1]));
    }
    for (size_t arm = 0; arm < s->n_arms; arm++)
        if (!study_is_control(s, arm))
            arm_facts(session, arm, out);
}

/* ---- documents
 * ------------------------------------------------------------------------------------------ */

static void figure(struct document *out, const char *name, char **svg, const char *caption,
                   const char *why)
{
    if (*svg || !why)
        document_figure(out, name, steal(svg), caption);
}

static void title(const struct session_data *session, const struct analysis *a,
                  struct document *out)
{
    const struct study *s = a->study;
    document_heading(out, 1, s->name);
    const json_t *host = json_array_get(session_data_latest(session, NULL, "hosts"), 0);
    document_paragraph(out, "Session %s%s%s. Judged by %s against %s; %zu cell%s, %zu arm%s.",
                       session->id, host ? " on " : "", host ? json_string_value(host) : "",
                       report_metric_words(a->metric), s->arms[s->baseline].name, s->n_cells,
                       s->n_cells == 1 ? "" : "s", s->n_arms, s->n_arms == 1 ? "" : "s");
    if (s->description && *s->description)
        document_note(out, "%s", s->description);
}

static bool any_finding(const struct analysis *a, bool treatment)
{
    for (size_t i = 0; i < a->study->n_cells * a->study->n_arms; i++)
        for (size_t k = 0; k < a->env[i].count; k++)
            if (a->env[i].items[k].strict != treatment)
                return true;
    return false;
}

static bool lacks_evidence(const struct analysis *a)
{
    for (size_t i = 0; i < a->study->n_cells * a->study->n_arms; i++)
        if (a->env[i].blocks > a->env[i].compared)
            return true;
    return false;
}

static void incomplete_note(const struct session_data *session, struct document *out)
{
    const char *state = session_view_state(&session->view);
    if (strcmp(state, "complete") != 0)
        document_note(out, "This session is not complete (%s): what follows is what is there.",
                      state);
}

static void reproduce(const struct session_data *session, struct document *out)
{
    auto_free char *command = mem_printf("ncbench run %s/scenario.yaml", session->view.dir);
    document_heading(out, 2, "How to reproduce");
    document_paragraph(out,
                       "The session keeps the scenario as it was; the same seed gives the same "
                       "plan. On a machine with the same programs and images:");
    document_code(out, command);
}

void report_full(const struct session_data *session, const struct analysis *a,
                 struct report_figures *figures, struct document *out)
{
    title(session, a, out);
    incomplete_note(session, out);
    report_verdicts(a, out);
    report_numbers(a, true, out);
    figure(
        out, "ratio", &figures->ratio,
        "Ratio of each arm to the baseline: every block (small), the mean with its interval, and "
        "the margin (band).",
        figures->why);
    if (figures->why)
        document_note(out, "No pictures: %s.", figures->why);
    document_heading(out, 2, "Are they comparable?");
    report_findings(a, out);
    if (any_finding(a, true)) {
        document_heading(out, 2, "What the runtimes change");
        document_paragraph(out, "This is what a runtime is; it is told and is no reason against a "
                                "comparison.");
        report_treatments(a, out);
    }
    if (a->count > a->n_primary) {
        document_heading(out, 2, "Other metrics");
        report_numbers(a, false, out);
    }
    report_counters(a, out);
    document_heading(out, 2, "Start-up and phases");
    report_phases(a, out);
    figure(out, "ecdf", &figures->ecdf,
           "Start-up of every trial: the share of trials that had started by then.", figures->why);
    figure(out, "phases", &figures->phases, "Phases of a trial, medians stacked.", figures->why);
    document_heading(out, 2, "Steps");
    figure(out, "steps", &figures->steps,
           "Every steady step of every trial (dots) and the trial's median (mark), block by block.",
           figures->why);
    if (report_has_scaling(a)) {
        document_heading(out, 2, "Scaling");
        report_scaling(a, out);
        figure(out, "scaling", &figures->scaling, "Speed-up and efficiency against the ideal.",
               figures->why);
    }
    document_heading(out, 2, "Failures and blocks left out");
    report_failures(session, a, out);
    document_heading(out, 2, "Method");
    report_method(a, out);
    report_details(a, out);
    document_heading(out, 2, "Environment and provenance");
    report_provenance(session, a, out);
    reproduce(session, out);
}

void report_compare(const struct session_data *session, const struct analysis *a, bool explain,
                    struct document *out)
{
    title(session, a, out);
    incomplete_note(session, out);
    if (any_finding(a, false) || lacks_evidence(a)) {
        document_heading(out, 2, "Comparability");
        report_findings(a, out);
    }
    document_heading(out, 2, "Verdicts");
    report_verdicts(a, out);
    if (a->has_control || a->has_handicap) {
        document_list(out);
        control_line(a, out);
    }
    report_numbers(a, true, out);
    report_numbers(a, false, out);
    report_counters(a, out);
    if (report_has_scaling(a)) {
        document_heading(out, 2, "Scaling");
        report_scaling(a, out);
    }
    if (!explain)
        return;
    document_heading(out, 2, "How the numbers came about");
    report_details(a, out);
    if (any_finding(a, true))
        report_treatments(a, out);
    report_failures(session, a, out);
    report_method(a, out);
}
