#include "harness/analysis.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/scaling_stats.h"

#include <math.h>
#include <string.h>

const struct comparability *analysis_env(const struct analysis *a, size_t cell, size_t arm)
{
    return &a->env[cell * a->study->n_arms + arm];
}

bool analysis_is_control(const struct analysis *a, const struct comparison *c)
{
    return study_is_control(a->study, c->arm);
}

static void compare_metric(struct analysis *a, const char *metric, double margin)
{
    const struct study *s = a->study;
    for (size_t cell = 0; cell < s->n_cells; cell++) {
        for (size_t arm = 0; arm < s->n_arms; arm++) {
            if (arm == s->baseline)
                continue;
            struct comparison c;
            comparison_make(s, &a->blocks[cell], cell, s->baseline, arm, metric, margin, &c);
            vec_push(a, c);
        }
    }
}

/* Holm over the family; the control asks another question and is left out. */
static void adjust(struct analysis *a)
{
    auto_free double *p = mem_alloc((a->n_primary + 1) * sizeof *p);
    size_t m = 0;
    for (size_t i = 0; i < a->n_primary; i++)
        if (!analysis_is_control(a, &a->items[i]))
            p[m++] = a->items[i].paired.p_diff;
    stats_holm(p, m);
    m = 0;
    for (size_t i = 0; i < a->n_primary; i++) {
        if (analysis_is_control(a, &a->items[i]))
            continue;
        a->items[i].p_holm = p[m++];
        a->family += !isnan(a->items[i].p_holm);
    }
}

static void control_failed(struct analysis *a, const struct comparison *c, char *what)
{
    const struct study *s = a->study;
    a->control_ok = false;
    if (!a->control_reason)
        a->control_reason =
            mem_printf("%s \"%s\"%s%s", what, verdict_words(c->verdict),
                       s->n_cells > 1 ? " at " : "", s->n_cells > 1 ? s->cells[c->cell].label : "");
    free(what);
}

/* The A/A arm must not differ; the slowed arm must be found slower. What was disturbed, or has no
 * interval, proves nothing either way. */
static void judge_control(struct analysis *a)
{
    const struct study *s = a->study;
    a->has_control = s->control >= 0;
    a->has_handicap = s->handicap >= 0;
    a->control_ok = true;
    for (size_t i = 0; i < a->n_primary; i++) {
        const struct comparison *c = &a->items[i];
        bool slower = c->verdict == VERDICT_SLOWER || c->verdict == VERDICT_SLOWER_UNCERTAIN;
        bool even = c->verdict == VERDICT_EQUIVALENT || c->verdict == VERDICT_INCONCLUSIVE;
        if (!analysis_is_control(a, c) || c->verdict == VERDICT_UNTRUSTWORTHY)
            continue;
        if ((int)c->arm == s->control && !even)
            control_failed(a, c,
                           mem_printf("the A/A control, %s under another name, came out",
                                      s->arms[s->baseline].name));
        if ((int)c->arm == s->handicap && !slower && c->paired.n >= 2)
            control_failed(a, c,
                           mem_printf("the handicap control, %s with steps %.3g %% longer, was not "
                                      "shown to be slower; it came out",
                                      s->arms[s->baseline].name, s->handicap_share * 100));
    }
}

static void overrule(struct analysis *a)
{
    for (size_t i = 0; i < a->count; i++) {
        struct comparison *c = &a->items[i];
        const struct comparability *env = analysis_env(a, c->cell, c->arm);
        if (!env->comparable)
            comparison_overrule(a->study, c, VERDICT_NOT_COMPARABLE, env->reason);
        else if (!a->control_ok && !analysis_is_control(a, c))
            comparison_overrule(a->study, c, VERDICT_UNTRUSTWORTHY, a->control_reason);
        a->untrustworthy |=
            c->verdict == VERDICT_NOT_COMPARABLE || c->verdict == VERDICT_UNTRUSTWORTHY;
    }
    a->untrustworthy |= !a->control_ok;
}

static void count_outcomes(struct analysis *a)
{
    a->arms = mem_zalloc(a->study->n_arms + 1, sizeof *a->arms);
    for (size_t i = 0; i < a->records->count; i++) {
        const struct record *r = &a->records->items[i];
        int arm = study_arm_index(a->study, r->runtime);
        if (arm < 0 || r->warmup_block || r->outcome >= OUTCOME_COUNT)
            continue;
        a->arms[arm].outcome[r->outcome]++;
        a->arms[arm].total++;
    }
}

void analysis_make(const struct study *s, const struct records *r,
                   const struct analysis_options *options, struct analysis *out)
{
    const char *metric = options && options->metric ? options->metric : s->primary;
    *out = (struct analysis){.study = s, .records = r, .metric = mem_strdup(metric)};
    out->blocks = mem_zalloc(s->n_cells + 1, sizeof *out->blocks);
    out->env = mem_zalloc(s->n_cells * s->n_arms + 1, sizeof *out->env);
    for (size_t cell = 0; cell < s->n_cells; cell++) {
        blocks_make(s, r, cell, &out->blocks[cell]);
        for (size_t arm = 0; arm < s->n_arms; arm++)
            comparability_make(s, &out->blocks[cell], s->baseline, arm,
                               &out->env[cell * s->n_arms + arm]);
    }
    compare_metric(out, out->metric, options ? options->margin : -1);
    out->n_primary = out->count;
    adjust(out);
    judge_control(out);
    for (size_t i = 0; i < s->secondary.count; i++)
        if (strcmp(s->secondary.items[i], out->metric) != 0)
            compare_metric(out, s->secondary.items[i], -1);
    overrule(out);
    count_outcomes(out);
}

void analysis_release(struct analysis *a)
{
    const struct study *s = a->study;
    for (size_t i = 0; i < a->count; i++)
        comparison_release(&a->items[i]);
    for (size_t i = 0; s && i < s->n_cells; i++)
        blocks_release(&a->blocks[i]);
    for (size_t i = 0; s && i < s->n_cells * s->n_arms; i++)
        comparability_release(&a->env[i]);
    free(a->items);
    free(a->blocks);
    free(a->env);
    free(a->arms);
    free(a->metric);
    free(a->control_reason);
    *a = (struct analysis){0};
}

const struct comparison *analysis_find(const struct analysis *a, const char *metric, size_t cell,
                                       size_t arm)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->items[i].cell == cell && a->items[i].arm == arm &&
            !strcmp(a->items[i].metric, metric))
            return &a->items[i];
    return NULL;
}

int analysis_exit(const struct analysis *a)
{
    return a->untrustworthy ? NCBENCH_EXIT_UNTRUSTWORTHY : 0;
}

double *analysis_values(const struct analysis *a, size_t cell, size_t arm, const char *metric,
                        size_t *n)
{
    const struct blocks *b = &a->blocks[cell];
    double *x = mem_alloc((b->count + 1) * sizeof *x);
    *n = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->items[i].state == BLOCK_COMPLETE && !b->items[i].superseded &&
            block_value(b->items[i].trials[arm], metric, &x[*n]))
            ++*n;
    return x;
}

/* ---- scaling ----------------------------------------------------------------------------------
 */

/* Do two cells differ only in the value that scales? */
static bool same_but(const json_t *a, const json_t *b, const char *over)
{
    auto_json *x = json_deep_copy(a);
    auto_json *y = json_deep_copy(b);
    json_object_del(x, over);
    json_object_del(y, over);
    return json_equal(x, y);
}

static double cell_size(const struct study *s, size_t cell)
{
    double n = (double)s->cells[cell].ranks;
    json_read_f64(s->cells[cell].values, s->scaling_over ? s->scaling_over : "ranks", &n);
    return n;
}

static double median_of(const struct analysis *a, size_t cell, size_t arm, const char *metric)
{
    size_t n;
    auto_free double *x = analysis_values(a, cell, arm, metric, &n);
    return stats_median(x, n);
}

static int by_size(const void *a, const void *b)
{
    double x = ((const struct scaling_point *)a)->n;
    double y = ((const struct scaling_point *)b)->n;
    return (x > y) - (x < y);
}

static void relate(const struct study *s, struct scaling_point *p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double n = p[i].n / p[0].n;
        if (s->scaling == SCALING_WEAK) {
            p[i].efficiency = scaling_efficiency_weak(p[i].step_time_s, p[0].step_time_s);
            p[i].speedup = p[i].efficiency * n;
        } else {
            p[i].speedup = p[0].step_time_s / p[i].step_time_s;
            p[i].efficiency = p[i].speedup / n;
        }
        p[i].karp_flatt = scaling_karp_flatt(p[i].speedup, n);
    }
}

size_t analysis_scaling(const struct analysis *a, size_t arm, struct scaling_point **out)
{
    const struct study *s = a->study;
    struct scaling_point *p = mem_zalloc(s->n_cells + 1, sizeof *p);
    size_t count = 0;
    for (size_t cell = 0; s->scaling != SCALING_NONE && cell < s->n_cells; cell++) {
        const char *over = s->scaling_over ? s->scaling_over : "ranks";
        double time = median_of(a, cell, arm, "step_time_s");
        if (!same_but(s->cells[0].values, s->cells[cell].values, over) || !(time > 0) ||
            !(cell_size(s, cell) > 0))
            continue;
        p[count++] =
            (struct scaling_point){.cell = cell,
                                   .n = cell_size(s, cell),
                                   .step_time_s = time,
                                   .tokens_per_s = median_of(a, cell, arm, "tokens_per_s")};
    }
    qsort(p, count, sizeof *p, by_size);
    if (count < 2 || p[count - 1].n <= p[0].n) {
        free(p);
        *out = NULL;
        return 0;
    }
    relate(s, p, count);
    *out = p;
    return count;
}
