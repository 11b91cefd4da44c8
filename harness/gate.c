#include "harness/gate.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "harness/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *gate_result_name(enum gate_result r)
{
    static const char *const names[] = {"passed", "failed", "inconclusive", "incomplete",
                                        "untrustworthy"};
    return names[r];
}

static enum gate_result judge(const struct study *s, const struct gate *g,
                              const struct comparison *c)
{
    if (c->verdict == VERDICT_NOT_COMPARABLE || c->verdict == VERDICT_UNTRUSTWORTHY)
        return GATE_UNTRUSTWORTHY;
    if (c->paired.n < 2 || (s->n_looks && (int64_t)c->paired.n < s->looks[0]))
        return GATE_INCOMPLETE;
    if (!strcmp(g->verdict, "equivalent")) {
        if (c->verdict == VERDICT_EQUIVALENT)
            return GATE_PASSED;
        bool certain = c->verdict == VERDICT_SLOWER || c->verdict == VERDICT_FASTER;
        return certain ? GATE_FAILED : GATE_INCONCLUSIVE;
    }
    struct interval cost = comparison_cost(c);
    if (cost.hi < 1 + c->margin)
        return GATE_PASSED;
    return comparison_claim(c).lo > 1 + c->margin ? GATE_FAILED : GATE_INCONCLUSIVE;
}

static void add(struct gate_lines *out, enum gate_result result, char *what, char *detail)
{
    struct gate_line line = {result, what, detail};
    vec_push(out, line);
}

static void check_verdict(const struct analysis *a, const struct gate *g, size_t cell, size_t arm,
                          size_t reference, struct gate_lines *out)
{
    const struct study *s = a->study;
    struct comparison fresh;
    comparison_make(s, &a->blocks[cell], cell, reference, arm, g->metric, -1, &fresh);
    const struct comparability *env = analysis_env(a, cell, arm);
    const struct comparability *other = analysis_env(a, cell, reference);
    if (!env->comparable || !other->comparable)
        comparison_overrule(s, &fresh, VERDICT_NOT_COMPARABLE,
                            env->comparable ? other->reason : env->reason);
    else if (!a->control_ok)
        comparison_overrule(s, &fresh, VERDICT_UNTRUSTWORTHY, a->control_reason);
    enum gate_result result = judge(s, g, &fresh);
    add(out, result,
        mem_printf("%s of %s, %s: %s %s", g->metric, s->arms[arm].name, report_cell_label(s, cell),
                   !strcmp(g->verdict, "equivalent") ? "equivalent to" : "not slower than",
                   s->arms[reference].name),
        result == GATE_INCOMPLETE ? mem_printf("%zu of at least %lld blocks count", fresh.paired.n,
                                               (long long)s->looks[0])
                                  : mem_strdup(fresh.sentence));
    comparison_release(&fresh);
}

static void check_threshold(const struct analysis *a, const struct gate *g, size_t cell, size_t arm,
                            struct gate_lines *out)
{
    const struct study *s = a->study;
    size_t n;
    auto_free double *x = analysis_values(a, cell, arm, g->metric, &n);
    double median = stats_median(x, n);
    auto_str what = STR_INIT;
    auto_str value = STR_INIT;
    str_appendf(&what, "%s of %s, %s:", g->metric, s->arms[arm].name, report_cell_label(s, cell));
    if (!isnan(g->min)) {
        str_append(&what, " at least ");
        report_put_value(&what, g->metric, g->min);
    }
    if (!isnan(g->max)) {
        str_append(&what, isnan(g->min) ? " at most " : ", at most ");
        report_put_value(&what, g->metric, g->max);
    }
    if (n == 0) {
        add(out, GATE_INCOMPLETE, str_steal(&what), mem_strdup("no value"));
        return;
    }
    bool met = !(median < g->min) && !(median > g->max);
    str_append(&value, "median ");
    report_put_value(&value, g->metric, median);
    add(out, met ? GATE_PASSED : GATE_FAILED, str_steal(&what), str_steal(&value));
}

static void evaluate_arm(const struct analysis *a, const struct gate *g, size_t arm,
                         size_t reference, struct gate_lines *out)
{
    for (size_t cell = 0; cell < a->study->n_cells; cell++) {
        if (g->verdict && arm != reference)
            check_verdict(a, g, cell, arm, reference, out);
        if (!isnan(g->min) || !isnan(g->max))
            check_threshold(a, g, cell, arm, out);
    }
}

static int evaluate(const struct analysis *a, const struct gate *g, struct gate_lines *out,
                    struct error *err)
{
    const struct study *s = a->study;
    bool base = !g->vs || !strcmp(g->vs, "baseline");
    int reference = base ? (int)s->baseline : study_arm_index(s, g->vs);
    bool all = !strcmp(g->runtime, "*");
    int only = all ? 0 : study_arm_index(s, g->runtime);
    if (reference < 0 || only < 0)
        return error_set(err, NCBENCH_EXIT_SCENARIO, "gate on %s: there is no runtime \"%s\"",
                         g->metric, reference < 0 ? g->vs : g->runtime);
    for (size_t arm = 0; arm < s->n_arms; arm++) {
        bool wanted = all ? arm != s->baseline && !study_is_control(s, arm) : (int)arm == only;
        if (wanted)
            evaluate_arm(a, g, arm, (size_t)reference, out);
    }
    return 0;
}

int gates_evaluate(const struct analysis *a, struct gate_lines *out, struct error *err)
{
    *out = (struct gate_lines){0};
    for (size_t i = 0; i < a->study->n_gates; i++)
        if (evaluate(a, &a->study->gates[i], out, err))
            return -err->code;
    return 0;
}

void gate_lines_release(struct gate_lines *g)
{
    for (size_t i = 0; i < g->count; i++) {
        free(g->items[i].what);
        free(g->items[i].detail);
    }
    free(g->items);
    *g = (struct gate_lines){0};
}

int gates_exit(const struct gate_lines *g)
{
    static const struct {
        enum gate_result result;
        int code;
    } order[] = {{GATE_UNTRUSTWORTHY, NCBENCH_EXIT_UNTRUSTWORTHY},
                 {GATE_INCOMPLETE, NCBENCH_EXIT_TRIALS},
                 {GATE_FAILED, NCBENCH_EXIT_GATE},
                 {GATE_INCONCLUSIVE, NCBENCH_EXIT_INCONCLUSIVE}};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (size_t i = 0; i < g->count; i++)
            if (g->items[i].result == order[k].result)
                return order[k].code;
    return NCBENCH_EXIT_OK;
}

void gates_text(const struct gate_lines *g, struct str *out)
{
    for (size_t i = 0; i < g->count; i++)
        str_appendf(out, "%-13s %s (%s)\n", gate_result_name(g->items[i].result), g->items[i].what,
                    g->items[i].detail);
    if (g->count == 0)
        str_append(
            out, "the scenario has no gates: only whether the session can be trusted is judged\n");
}

json_t *gates_json(const struct gate_lines *g)
{
    json_t *list = json_array();
    for (size_t i = 0; i < g->count; i++) {
        json_t *line = json_object();
        json_put_str(line, "result", gate_result_name(g->items[i].result));
        json_put_str(line, "gate", g->items[i].what);
        json_put_str(line, "detail", g->items[i].detail);
        json_array_append_new(list, line);
    }
    return list;
}

int gates_run(const struct analysis *a, bool json, struct str *out, struct error *err)
{
    struct gate_lines lines;
    int rc = gates_evaluate(a, &lines, err) ? err->code : gates_exit(&lines);
    if (!err->code && !lines.count)
        rc = analysis_exit(a);
    if (!err->code && json) {
        auto_json *list = gates_json(&lines);
        json_write(out, list, 2);
        str_append_char(out, '\n');
    } else if (!err->code) {
        gates_text(&lines, out);
    }
    gate_lines_release(&lines);
    return rc;
}
