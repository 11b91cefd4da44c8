/* Scaling: its table, breaks, models and the slope of the ratio. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/analysis.h"
#include "harness/report.h"

#include <math.h>

/* ---- scaling
 * --------------------------------------------------------------------------------------- */

static void scaling_row(const struct study *s, size_t arm, const struct scaling_point *p,
                        bool first, struct document *out)
{
    document_cell(out, "%s", s->arms[arm].name);
    document_cell(out, "%.0f", p->n);
    report_put_seconds(out, p->step_time_s);
    auto_str rate = STR_INIT;
    report_put_value(&rate, "tokens_per_s", p->tokens_per_s);
    document_cell(out, "%s", rate.data);
    document_cell(out, "%.2f", p->speedup);
    document_cell(out, "%.1f %%", p->efficiency * 100);
    if (first || isnan(p->karp_flatt))
        document_cell(out, "–");
    else
        document_cell(out, "%.4f", p->karp_flatt);
    if (isnan(p->batch) || isnan(p->accumulation))
        document_cell(out, "–");
    else
        document_cell(out, "%.0f × %.0f%s", p->batch, p->accumulation,
                      p->breaks ? ", changed" : "");
}

/* What a model can tell; nothing of what it cannot. */
static void fit_line(const struct analysis *a, size_t arm, struct document *out)
{
    struct scaling_fit fit;
    if (!analysis_scaling_fit(a, arm, &fit))
        return;
    auto_str text = STR_INIT;
    str_appendf(&text,
                a->study->scaling == SCALING_STRONG
                    ? "Amdahl's serial fraction (fit on times) %.4f; "
                    : "Gustafson's serial fraction %.4f; ",
                fit.serial);
    str_appendf(&text, "USL contention %.4f", fit.usl.alpha);
    if (fit.coherency_shown)
        str_appendf(&text, ", coherency %.2g", fit.usl.beta);
    else
        str_append(&text, "; coherency cannot be told from these points");
    if (fit.n_max_shown)
        str_appendf(&text, ", largest useful size about %.0f (95 %% CI %.0f–%.0f)", fit.usl.n_max,
                    fit.n_max_ci.lo, fit.n_max_ci.hi);
    document_item(out, "%s: %s", a->study->arms[arm].name, text.data);
}

static void break_lines(const struct analysis *a, size_t arm, struct document *out)
{
    struct scaling_point *p;
    size_t count = analysis_scaling(a, arm, &p);
    for (size_t i = 1; i < count; i++)
        if (p[i].breaks)
            document_item(
                out,
                "%s: from %.0f to %.0f the batch of a rank changes (%.0f × %.0f to %.0f × "
                "%.0f rows × micro-batches): neither strong nor weak scaling; no line is "
                "drawn and no model fitted across it",
                a->study->arms[arm].name, p[i - 1].n, p[i].n, p[i - 1].batch, p[i - 1].accumulation,
                p[i].batch, p[i].accumulation);
    free(p);
}

static void slope_line(const struct analysis *a, size_t arm, struct document *out)
{
    struct scaling_slope slope;
    if (arm == a->study->baseline || !analysis_ratio_slope(a, arm, &slope))
        return;
    const char *says = slope.ci.lo > 0   ? "what it costs grows with the size"
                       : slope.ci.hi < 0 ? "what it costs falls with the size"
                                         : "no growth with the size is shown";
    document_item(
        out,
        "%s: the ratio to %s changes by %+.2f %% at each doubling (95 %% CI %+.2f to %+.2f "
        "%%): %s",
        a->study->arms[arm].name, a->study->arms[a->study->baseline].name, expm1(slope.slope) * 100,
        expm1(slope.ci.lo) * 100, expm1(slope.ci.hi) * 100, says);
}

void report_scaling(const struct analysis *a, struct document *out)
{
    const struct study *s = a->study;
    auto_free char *size = report_header_word(s->scaling_over ? s->scaling_over : "ranks");
    auto_free char *header =
        mem_printf("arm|%s|step time|tokens/s|speed-up|efficiency|Karp–Flatt|batch", size);
    document_table(out, header, "lrrrrrrr",
                   s->scaling == SCALING_WEAK
                       ? "Weak scaling (the work grows with the size): efficiency T(first)/T(N). A "
                         "constant Karp–Flatt column is a serial fraction, a growing one overhead"
                       : "Strong scaling (the same work): efficiency is speed-up / N. A constant "
                         "Karp–Flatt column is a serial fraction, a growing one overhead");
    for (size_t arm = 0; arm < s->n_arms; arm++) {
        struct scaling_point *p;
        size_t count = analysis_scaling(a, arm, &p);
        for (size_t i = 0; i < count; i++)
            scaling_row(s, arm, &p[i], i == 0, out);
        free(p);
    }
    document_list(out);
    for (size_t arm = 0; arm < s->n_arms; arm++) {
        break_lines(a, arm, out);
        fit_line(a, arm, out);
        slope_line(a, arm, out);
    }
}

bool report_has_scaling(const struct analysis *a)
{
    struct scaling_point *p;
    size_t count = analysis_scaling(a, a->study->baseline, &p);
    free(p);
    return count > 0;
}
