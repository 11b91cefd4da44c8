#include "harness/verdict_json.h"

#include "common/num.h"
#include "harness/counters_compare.h"

#include <math.h>
#include <string.h>

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static void put_number(json_t *obj, const char *key, double x, const char *why)
{
    if (isfinite(x))
        json_put_f64(obj, key, x);
    else
        json_put_null(obj, key, why);
}

static json_t *triple(double ratio, struct interval ci)
{
    json_t *list = json_array();
    json_array_append_new(list, number(ratio));
    json_array_append_new(list, number(ci.lo));
    json_array_append_new(list, number(ci.hi));
    return list;
}

static void put_excluded(const struct analysis *a, const struct comparison *c, json_t *obj)
{
    const struct blocks *b = &a->blocks[c->cell];
    json_t *list = json_array();
    for (size_t i = 0; i < b->count; i++) {
        if (b->items[i].state == BLOCK_COMPLETE)
            continue;
        json_t *item = json_object();
        json_put_int(item, "block", b->items[i].block);
        json_put_int(item, "attempt", b->items[i].attempt);
        json_put_str(item, "reason", b->items[i].reason);
        json_array_append_new(list, item);
    }
    json_put_int(obj, "n_excluded", (int64_t)json_array_size(list));
    json_put(obj, "excluded", list);
}

static void put_values(const struct comparison *c, json_t *obj)
{
    static const char few[] = "fewer than two blocks";
    static const char none[] = "no block counts";
    put_number(obj, "median_a", c->median_a, none);
    put_number(obj, "median_b", c->median_b, none);
    put_number(obj, "ratio", c->paired.ratio, none);
    if (isfinite(c->paired.ci.lo) && isfinite(c->paired.ci.hi)) {
        json_t *ci = json_array();
        json_array_append_new(ci, json_real(c->paired.ci.lo));
        json_array_append_new(ci, json_real(c->paired.ci.hi));
        json_put(obj, "ci", ci);
    } else {
        json_put_null(obj, "ci", few);
    }
    put_number(obj, "confidence", c->paired.confidence, "no level");
    if (isfinite(c->paired.claim.lo) && isfinite(c->paired.claim.hi))
        json_put(obj, "claim_ci", json_pack("[f,f]", c->paired.claim.lo, c->paired.claim.hi));
    else
        json_put_null(obj, "claim_ci", few);
    put_number(obj, "claim_confidence", c->paired.claim_confidence, "no level");
    json_put_int(obj, "look", c->look);
    json_put_str(obj, "method", "paired_log_t");
    json_put_f64(obj, "margin", c->margin);
    json_put_str(obj, "margin_source", c->margin_source);
    put_number(obj, "sd_log_ratio", c->paired.sd, few);
    json_put_int(obj, "strata", (int64_t)c->paired.strata);
    put_number(obj, "p_strata", c->paired.p_strata, "one stratum, or no blocks to spare");
    put_number(obj, "p_tost", c->tost.p, few);
    put_number(obj, "p_diff", c->paired.p_diff, few);
    put_number(obj, "p_holm", c->p_holm, "not in the family of the primary metric");
    put_number(obj, "p_superiority", c->paired.p_superiority, none);
}

json_t *comparison_json(const struct analysis *a, const struct comparison *c)
{
    const struct study *s = a->study;
    json_t *obj = json_object();
    json_put_str(obj, "metric", c->metric);
    json_put_str(obj, "cell", s->cells[c->cell].id);
    json_put(obj, "cell_values", json_deep_copy(s->cells[c->cell].values));
    json_put_str(obj, "a", s->arms[c->reference].name);
    json_put_str(obj, "b", s->arms[c->arm].name);
    json_put_bool(obj, "control", analysis_is_control(a, c));
    json_put_int(obj, "n_blocks", (int64_t)c->paired.n);
    put_excluded(a, c, obj);
    put_values(c, obj);
    json_t *sensitivity = json_object();
    json_put(sensitivity, "hodges_lehmann",
             triple(c->hodges_lehmann.estimate, c->hodges_lehmann.ci));
    json_put(sensitivity, "all_blocks", triple(c->all_blocks.ratio, c->all_blocks.ci));
    json_put(obj, "sensitivity", sensitivity);
    json_put_str(obj, "verdict", verdict_name(c->verdict));
    if (c->more_blocks)
        json_put_int(obj, "more_blocks", (int64_t)c->more_blocks);
    else
        json_put_null(obj, "more_blocks",
                      c->verdict == VERDICT_INCONCLUSIVE ? "cannot be said from these blocks"
                                                         : "the verdict needs none");
    json_put_str(obj, "reason", c->reason);
    json_put_str(obj, "sentence", c->sentence);
    return obj;
}

static json_t *finding_json(const struct analysis *a, size_t cell, size_t arm,
                            const struct finding *f)
{
    json_t *obj = json_object();
    json_put_str(obj, "cell", a->study->cells[cell].id);
    json_put_str(obj, "arm", a->study->arms[arm].name);
    json_put_str(obj, "class", item_class_name(f->class));
    json_put_str(obj, "item", f->item);
    json_put_str(obj, "key", f->key);
    json_put_str(obj, "baseline_value", f->reference);
    json_put_str(obj, "arm_value", f->arm);
    json_put_int(obj, "blocks", (int64_t)f->blocks);
    json_put_bool(obj, "decisive", finding_decisive(f));
    json_put_bool(obj, "declared", f->excused);
    json_put_bool(obj, "unknown", f->unknown);
    json_put_str(obj, "advice", f->advice);
    return obj;
}

static json_t *point_json(const struct analysis *a, const struct scaling_point *p)
{
    static const char why[] = "no value";
    json_t *obj = json_object();
    json_put_str(obj, "cell", a->study->cells[p->cell].id);
    json_put_f64(obj, "n", p->n);
    put_number(obj, "step_time_s", p->step_time_s, why);
    put_number(obj, "tokens_per_s", p->tokens_per_s, why);
    put_number(obj, "speedup", p->speedup, why);
    put_number(obj, "efficiency", p->efficiency, why);
    put_number(obj, "karp_flatt", p->karp_flatt, "the smallest size has none");
    put_number(obj, "device_batch_size", p->batch, "the workload did not say");
    put_number(obj, "accumulation", p->accumulation, "the workload did not say");
    json_put_bool(obj, "breaks", p->breaks);
    return obj;
}

static json_t *scaling_json(const struct analysis *a)
{
    json_t *list = json_array();
    for (size_t arm = 0; arm < a->study->n_arms; arm++) {
        struct scaling_point *p;
        struct scaling_slope slope;
        size_t count = analysis_scaling(a, arm, &p);
        json_t *obj = json_object(), *points = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(points, point_json(a, &p[i]));
        json_put_str(obj, "arm", a->study->arms[arm].name);
        json_put(obj, "points", points);
        if (arm != a->study->baseline && analysis_ratio_slope(a, arm, &slope))
            json_put(obj, "log_ratio_per_doubling", triple(slope.slope, slope.ci));
        else
            json_put_null(obj, "log_ratio_per_doubling",
                          arm == a->study->baseline ? "this is the baseline" : "too few points");
        json_array_append_new(list, obj);
        free(p);
    }
    return list;
}

json_t *analysis_json(const struct analysis *a, const char *session)
{
    const struct study *s = a->study;
    json_t *root = json_object();
    json_put_str(root, "schema", "comparison/1.0");
    json_put_str(root, "session", session);
    json_put_str(root, "scenario", s->name);
    json_t *findings = json_array();
    for (size_t cell = 0; cell < s->n_cells; cell++)
        for (size_t arm = 0; arm < s->n_arms; arm++) {
            const struct comparability *env = analysis_env(a, cell, arm);
            for (size_t i = 0; i < env->count; i++)
                json_array_append_new(findings, finding_json(a, cell, arm, &env->items[i]));
        }
    json_put(root, "findings", findings);
    if (a->has_control || a->has_handicap) {
        json_t *control = json_object();
        json_put_bool(control, "ok", a->control_ok);
        json_put_str(control, "reason", a->control_reason);
        json_put(root, "control", control);
    } else {
        json_put_null(root, "control", "no control was asked for");
    }
    json_t *list = json_array();
    for (size_t i = 0; i < a->count; i++)
        json_array_append_new(list, comparison_json(a, &a->items[i]));
    json_put(root, "comparisons", list);
    if (s->scaling != SCALING_NONE)
        json_put(root, "scaling", scaling_json(a));
    else
        json_put_null(root, "scaling", "the scenario asks for no scaling");
    json_put(root, "counters", counters_json(a));
    return root;
}

/* ---- CSV ---------------------------------------------------------------------------------------
 */

void csv_put(struct str *out, const char *text)
{
    if (!text)
        return;
    if (!strpbrk(text, ",\"\r\n")) {
        str_append(out, text);
        return;
    }
    str_append_char(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            str_append_char(out, '"');
        str_append_char(out, *text);
    }
    str_append_char(out, '"');
}

void csv_put_f64(struct str *out, double value)
{
    char text[NUM_F64_MAX];
    if (isfinite(value))
        str_append(out, num_format_f64(text, value));
}

void analysis_csv(const struct analysis *a, struct str *out)
{
    const struct study *s = a->study;
    str_append(out, "metric,cell,label,a,b,n_blocks,n_disturbed,n_incomplete,median_a,median_b,"
                    "ratio,ci_low,ci_high,confidence,margin,p_tost,p_diff,p_holm,verdict,reason\n");
    for (size_t i = 0; i < a->count; i++) {
        const struct comparison *c = &a->items[i];
        const char *texts[] = {c->metric, s->cells[c->cell].id, s->cells[c->cell].label,
                               s->arms[c->reference].name, s->arms[c->arm].name};
        for (size_t k = 0; k < 5; k++) {
            csv_put(out, texts[k]);
            str_append_char(out, ',');
        }
        str_appendf(out, "%zu,%zu,%zu", c->paired.n, c->disturbed, c->incomplete);
        double values[] = {
            c->median_a,          c->median_b, c->paired.ratio, c->paired.ci.lo,  c->paired.ci.hi,
            c->paired.confidence, c->margin,   c->tost.p,       c->paired.p_diff, c->p_holm};
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            str_append_char(out, ',');
            csv_put_f64(out, values[k]);
        }
        str_appendf(out, ",%s,", verdict_name(c->verdict));
        csv_put(out, c->reason);
        str_append_char(out, '\n');
    }
}
