#include "harness/analysis.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/stats_paired.h"

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

/* Does the A/A arm differ? Every cell asks, so each may err at its share of alpha alone
 * (Bonferroni): otherwise a session of many cells would fail by chance. */
static bool control_differs(const struct analysis *a, const struct comparison *c)
{
    if (c->verdict == VERDICT_EQUIVALENT || c->verdict == VERDICT_INCONCLUSIVE)
        return false;
    size_t cells = 0;
    for (size_t i = 0; i < a->n_primary; i++)
        cells += (int)a->items[i].arm == a->study->control && !isnan(a->items[i].paired.p_diff);
    return !(c->paired.p_diff * (double)cells > stats_pocock_alpha(a->study->n_looks));
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
        if (!analysis_is_control(a, c) || c->verdict == VERDICT_UNTRUSTWORTHY)
            continue;
        if ((int)c->arm == s->control && control_differs(a, c))
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
