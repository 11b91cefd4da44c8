/* Verdicts, numbers and evidence as sections of a document. The others: report_more.c. */
#include "harness/report.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"

#include <math.h>
#include <string.h>

const char *report_cell_label(const struct study *s, size_t cell)
{
    return *s->cells[cell].label ? s->cells[cell].label : "all";
}

char *report_header_word(const char *text)
{
    char *copy = mem_strdup(text);
    for (char *p = copy; *p; p++)
        *p = *p == '|' ? '/' : *p;
    return copy;
}

const char *report_metric_words(const char *metric)
{
    static const struct {
        const char *metric, *words;
    } table[] = {{"step_time_s", "step time"},
                 {"tokens_per_s", "throughput"},
                 {"mfu", "MFU"},
                 {"start_s", "start-up time"},
                 {"wall_s", "wall time"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].metric, metric))
            return table[i].words;
    return metric;
}

static void put_seconds(struct str *out, double s)
{
    if (s < 1e-3)
        str_appendf(out, "%.1f µs", s * 1e6);
    else if (s < 1)
        str_appendf(out, "%.*f ms", s < .01 ? 3 : s < .1 ? 2 : 1, s * 1e3);
    else
        str_appendf(out, "%.*f s", s < 10 ? 3 : s < 100 ? 2 : 1, s);
}

void report_put_value(struct str *out, const char *metric, double value)
{
    char text[48];
    if (!isfinite(value))
        str_append(out, "–");
    else if (!strcmp(metric, "mfu"))
        str_appendf(out, "%.2f %%", value * 100);
    else if (str_ends_with(metric, "_per_s"))
        str_appendf(out, "%s /s", num_format_thousands(text, sizeof text, llround(value)));
    else if (str_ends_with(metric, "_bytes"))
        str_append(out, num_format_size(text, sizeof text, value));
    else if (str_ends_with(metric, "_s") || str_starts_with(metric, "phases_s.") ||
             str_starts_with(metric, "train.step_time_s"))
        put_seconds(out, value);
    else
        str_appendf(out, "%.5g", value);
}

static void value_cell(struct document *d, const char *metric, double value)
{
    auto_str text = STR_INIT;
    report_put_value(&text, metric, value);
    document_cell(d, "%s", text.data);
}

static void p_cell(struct document *d, double p)
{
    if (isnan(p))
        document_cell(d, "–");
    else if (p < 1e-4)
        document_cell(d, "< 0.0001");
    else
        document_cell(d, "%.*f", p < .01 ? 4 : 3, p);
}

static void ratio_cell(struct document *d, double ratio, struct interval ci)
{
    auto_str text = STR_INIT;
    if (isfinite(ratio)) {
        verdict_put_ratio(&text, ratio);
        if (isfinite(ci.lo) && isfinite(ci.hi)) {
            str_append(&text, " [");
            verdict_put_ratio(&text, ci.lo);
            str_append(&text, "–");
            verdict_put_ratio(&text, ci.hi);
            str_append(&text, "]");
        }
    } else {
        str_append(&text, "–");
    }
    document_cell(d, "%s", text.data);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

void report_verdicts(const struct analysis *a, struct document *out)
{
    const struct study *s = a->study;
    size_t shown = 0;
    for (size_t i = 0; i < a->n_primary; i++) {
        const struct comparison *c = &a->items[i];
        if (analysis_is_control(a, c))
            continue;
        auto_str text = STR_INIT;
        str_append(&text, c->sentence);
        if (c->incomplete)
            str_appendf(&text, "; %zu of %zu blocks incomplete and left out", c->incomplete,
                        c->total);
        bool claims = c->verdict >= VERDICT_SLOWER && c->verdict <= VERDICT_FASTER_UNCERTAIN;
        if (claims && a->family > 1 && c->p_holm >= .05)
            str_appendf(&text,
                        "; after Holm's correction for the %zu comparisons of this session the "
                        "difference is not significant (p = %.2f)",
                        a->family, c->p_holm);
        document_verdict(
            out, s->n_cells > 1 || *s->cells[c->cell].label ? report_cell_label(s, c->cell) : "",
            c->verdict, text.data);
        shown++;
    }
    if (!shown)
        document_paragraph(out, "One arm alone: its numbers stand for themselves, nothing is "
                                "compared.");
}

/* ---- numbers -----------------------------------------------------------------------------------
 */

static void number_row(const struct analysis *a, const struct comparison *c, bool primary,
                       struct document *out)
{
    const struct study *s = a->study;
    document_cell(out, "%s", report_cell_label(s, c->cell));
    if (!primary)
        document_cell(out, "%s", report_metric_words(c->metric));
    document_cell(out, "%s", s->arms[c->arm].name);
    document_cell(out, "%zu", c->paired.n);
    value_cell(out, c->metric, c->median_a);
    value_cell(out, c->metric, c->median_b);
    ratio_cell(out, c->paired.ratio, c->paired.ci);
    auto_str margin = STR_INIT;
    verdict_put_margin(&margin, c);
    document_cell(out, "%s", margin.data);
    document_cell(out, "%s", verdict_words(c->verdict));
}

static bool has_values(const struct analysis *a, const char *metric)
{
    for (size_t i = 0; i < a->count; i++)
        if (!strcmp(a->items[i].metric, metric) && a->items[i].paired.n > 0)
            return true;
    return false;
}

/* One arm has no ratio, but numbers of its own. */
static void numbers_alone(const struct analysis *a, struct document *out)
{
    auto_free char *caption =
        mem_printf("%s of %s over the blocks that count; the interval of the median by order "
                   "statistics, MAD the median distance from it",
                   report_metric_words(a->metric), a->study->arms[0].name);
    document_table(out, "cell|n|median|95 % interval|MAD|p95|largest", "lrrrrrr", caption);
    for (size_t cell = 0; cell < a->study->n_cells; cell++) {
        size_t n;
        auto_free double *x = analysis_values(a, cell, 0, a->metric, &n);
        struct rank_interval m = stats_median_interval(x, n, .95);
        auto_str ci = STR_INIT;
        report_put_value(&ci, a->metric, m.ci.lo);
        str_append(&ci, " – ");
        report_put_value(&ci, a->metric, m.ci.hi);
        document_cell(out, "%s", report_cell_label(a->study, cell));
        document_cell(out, "%zu", n);
        value_cell(out, a->metric, m.estimate);
        document_cell(out, "%s", m.rank ? ci.data : "none");
        value_cell(out, a->metric, stats_mad(x, n));
        value_cell(out, a->metric, stats_quantile(x, n, .95));
        value_cell(out, a->metric, stats_max(x, n));
    }
}

void report_numbers(const struct analysis *a, bool primary, struct document *out)
{
    const struct study *s = a->study;
    if (primary && s->n_arms == 1) {
        numbers_alone(a, out);
        return;
    }
    double level = 1 - 2 * stats_pocock_alpha(s->n_looks);
    auto_str percent = STR_INIT;
    verdict_put_percent(&percent, level);
    auto_free char *caption = mem_printf(
        "%s: medians over the blocks that count; ratio of arm to %s with its %s interval; n blocks",
        primary ? report_metric_words(a->metric) : "Secondary metrics", s->arms[s->baseline].name,
        percent.data);
    auto_free char *base = report_header_word(s->arms[s->baseline].name);
    auto_free char *header = mem_printf("cell|%sarm|n|%s|arm's median|ratio [CI]|margin|verdict",
                                        primary ? "" : "metric|", base);
    document_table(out, header, primary ? "llrrrrrl" : "lllrrrrrl", caption);
    for (size_t i = 0; i < a->count; i++)
        if ((i < a->n_primary) == primary && (primary || a->items[i].paired.n > 0))
            number_row(a, &a->items[i], primary, out);
    auto_str silent = STR_INIT;
    for (size_t i = 0; !primary && i < s->secondary.count; i++)
        if (!has_values(a, s->secondary.items[i]))
            str_appendf(&silent, "%s%s", silent.len ? ", " : "", s->secondary.items[i]);
    if (silent.len)
        document_paragraph(out, "Without values in this session: %s.", silent.data);
}

static void other_intervals(const struct analysis *a, struct document *out)
{
    document_table(out, "cell|arm|Hodges–Lehmann|all blocks|disturbed|incomplete", "llrrrr",
                   "The same by other means: exact by ranks, and with the disturbed blocks in. "
                   "Disturbed and incomplete: blocks");
    for (size_t i = 0; i < a->n_primary; i++) {
        const struct comparison *c = &a->items[i];
        document_cell(out, "%s", report_cell_label(a->study, c->cell));
        document_cell(out, "%s", a->study->arms[c->arm].name);
        ratio_cell(out, c->hodges_lehmann.estimate, c->hodges_lehmann.ci);
        ratio_cell(out, c->all_blocks.ratio, c->all_blocks.ci);
        document_cell(out, "%zu", c->disturbed);
        document_cell(out, "%zu", c->incomplete);
    }
}

void report_details(const struct analysis *a, struct document *out)
{
    document_table(
        out, "cell|arm|sd of log-ratio|p (difference)|p (Holm)|p (TOST)|P(arm > base)", "llrrrrr",
        "p of no difference, the same with Holm's correction, p of a difference as large "
        "as the margin, share of blocks in which the arm's value is larger");
    for (size_t i = 0; i < a->n_primary; i++) {
        const struct comparison *c = &a->items[i];
        document_cell(out, "%s", report_cell_label(a->study, c->cell));
        document_cell(out, "%s", a->study->arms[c->arm].name);
        if (isnan(c->paired.sd))
            document_cell(out, "–");
        else
            document_cell(out, "%.3f %%", c->paired.sd * 100);
        p_cell(out, c->paired.p_diff);
        p_cell(out, c->p_holm);
        p_cell(out, c->tost.p);
        if (isnan(c->paired.p_superiority))
            document_cell(out, "–");
        else
            document_cell(out, "%.2f", c->paired.p_superiority);
    }
    other_intervals(a, out);
}

/* ---- evidence
 * ------------------------------------------------------------------------------------ */

static void finding_row(const struct analysis *a, const struct finding *f, const char *cell,
                        size_t arm, size_t of, struct document *out)
{
    document_cell(out, "%s", cell);
    document_cell(out, "%s", a->study->arms[arm].name);
    document_cell(out, "%s", f->item);
    document_cell(out, "%s", f->reference);
    document_cell(out, "%s", f->arm);
    document_cell(out, "%zu of %zu", f->blocks, of);
    document_cell(out, "%s",
                  f->excused                           ? "declared in differs"
                  : f->unknown && !finding_decisive(f) ? "cannot be checked"
                  : f->advice                          ? f->advice
                                                       : "");
}

/* What an earlier cell of the arm said in the same words is not said again. */
static bool said_before(const struct analysis *a, size_t cell, size_t arm, const struct finding *f)
{
    for (size_t c = 0; c < cell; c++) {
        const struct comparability *env = analysis_env(a, c, arm);
        for (size_t i = 0; i < env->count; i++)
            if (!strcmp(env->items[i].item, f->item) && !strcmp(env->items[i].arm, f->arm) &&
                !strcmp(env->items[i].reference, f->reference))
                return true;
    }
    return false;
}

static size_t decisive_count(const struct comparability *env)
{
    size_t n = 0;
    for (size_t i = 0; i < env->count; i++)
        n += finding_decisive(&env->items[i]);
    return n;
}

static void evidence_line(const struct analysis *a, size_t arm, struct document *out)
{
    const struct study *s = a->study;
    size_t compared = 0, blocks = 0, decisive = 0;
    for (size_t cell = 0; cell < s->n_cells; cell++) {
        const struct comparability *env = analysis_env(a, cell, arm);
        compared += env->compared;
        blocks += env->blocks;
        decisive += decisive_count(env);
    }
    if (blocks && !compared)
        document_item(out,
                      "%s: the ranks recorded no environment, so nothing could be checked; "
                      "its numbers rest on trust",
                      s->arms[arm].name);
    else if (blocks && !decisive)
        document_item(out, "%s: everything that must match matches %s in %zu of %zu blocks",
                      s->arms[arm].name, s->arms[s->baseline].name, compared, blocks);
    else if (decisive)
        document_item(out, "%s: what must match does not; see below", s->arms[arm].name);
}

void report_findings(const struct analysis *a, struct document *out)
{
    const struct study *s = a->study;
    document_list(out);
    for (size_t arm = 0; arm < s->n_arms; arm++)
        if (arm != s->baseline)
            evidence_line(a, arm, out);
    auto_free char *header = mem_printf("cell|arm|item|baseline|arm's|blocks|what to look at");
    document_table(out, header, "lllllll", NULL);
    for (size_t cell = 0; cell < s->n_cells; cell++)
        for (size_t arm = 0; arm < s->n_arms; arm++) {
            const struct comparability *env = analysis_env(a, cell, arm);
            for (size_t i = 0; i < env->count; i++)
                if (env->items[i].strict && !said_before(a, cell, arm, &env->items[i]))
                    finding_row(a, &env->items[i], report_cell_label(s, cell), arm, env->blocks,
                                out);
        }
}

void report_treatments(const struct analysis *a, struct document *out)
{
    const struct study *s = a->study;
    document_table(out, "arm|item|baseline|arm's", "llll", NULL);
    for (size_t arm = 0; arm < s->n_arms; arm++)
        for (size_t cell = 0; cell < s->n_cells; cell++) {
            const struct comparability *env = analysis_env(a, cell, arm);
            for (size_t i = 0; i < env->count; i++) {
                const struct finding *f = &env->items[i];
                bool again = false;
                for (size_t c = 0; c < cell && !again; c++)
                    for (size_t k = 0; k < analysis_env(a, c, arm)->count; k++)
                        again |= !strcmp(analysis_env(a, c, arm)->items[k].item, f->item);
                if (f->strict || again)
                    continue;
                document_cell(out, "%s", s->arms[arm].name);
                document_cell(out, "%s", f->item);
                document_cell(out, "%s", f->reference);
                document_cell(out, "%s", f->arm);
            }
        }
}
