#include "harness/verdict.h"

#include "common/mem.h"

#include <math.h>
#include <string.h>

#define MAX_DISTURBED 0.25 /* share of blocks above which a cell is untrustworthy */
#define FEWEST_FOR_PRECISION 10
#define MANY_BLOCKS 200 /* nobody runs so many more: quieter nodes or a wider margin will help */

static const struct {
    const char *name, *words;
} verdict_table[VERDICT_COUNT] = {
    [VERDICT_EQUIVALENT] = {"equivalent", "equivalent"},
    [VERDICT_SLOWER] = {"slower", "slower"},
    [VERDICT_SLOWER_UNCERTAIN] = {"slower_size_uncertain", "slower, size uncertain"},
    [VERDICT_FASTER] = {"faster", "faster"},
    [VERDICT_FASTER_UNCERTAIN] = {"faster_size_uncertain", "faster, size uncertain"},
    [VERDICT_INCONCLUSIVE] = {"inconclusive", "inconclusive"},
    [VERDICT_NOT_COMPARABLE] = {"not_comparable", "not comparable"},
    [VERDICT_UNTRUSTWORTHY] = {"untrustworthy", "untrustworthy"},
};

const char *verdict_name(enum verdict_kind v)
{
    return verdict_table[v].name;
}

const char *verdict_words(enum verdict_kind v)
{
    return verdict_table[v].words;
}

enum verdict_kind verdict_of_intervals(struct interval cost, struct interval claim, double margin)
{
    double low = 1 / (1 + margin);
    double high = 1 + margin;
    if (isnan(cost.lo) || isnan(cost.hi))
        return VERDICT_INCONCLUSIVE;
    if (low < cost.lo && cost.hi < high)
        return VERDICT_EQUIVALENT;
    if (claim.lo > high)
        return VERDICT_SLOWER;
    if (claim.lo > 1)
        return VERDICT_SLOWER_UNCERTAIN;
    if (claim.hi < low)
        return VERDICT_FASTER;
    if (claim.hi < 1)
        return VERDICT_FASTER_UNCERTAIN;
    return VERDICT_INCONCLUSIVE;
}

static struct interval as_cost(const struct comparison *c, struct interval ci)
{
    return c->direction > 0 ? ci : (struct interval){1 / ci.hi, 1 / ci.lo};
}

struct interval comparison_cost(const struct comparison *c)
{
    return as_cost(c, c->paired.ci);
}

struct interval comparison_claim(const struct comparison *c)
{
    return as_cost(c, c->paired.claim);
}

/* ---- words ----------------------------------------------------------------------------------- */

void verdict_put_percent(struct str *out, double share)
{
    double percent = share * 100;
    double nearest = round(percent);
    bool whole = fabs(percent - nearest) < 0.005;
    str_appendf(out, "%.*f %%", whole ? 0 : percent < 1 ? 2 : 1, whole ? nearest : percent);
}

void verdict_put_ratio(struct str *out, double ratio)
{
    if (isfinite(ratio))
        str_appendf(out, "%.*f", ratio < 0.1 ? 4 : 3, ratio);
    else
        str_append(out, "none");
}

void verdict_put_margin(struct str *out, const struct comparison *c)
{
    bool seconds = str_ends_with(c->metric, "_s") || str_starts_with(c->metric, "phases_s.");
    str_append(out, "±");
    if (!(c->margin_abs > 0))
        verdict_put_percent(out, c->margin);
    else if (seconds && c->margin_abs < 1)
        str_appendf(out, "%.4g ms", c->margin_abs * 1e3);
    else
        str_appendf(out, "%.4g%s", c->margin_abs, seconds ? " s" : "");
}

static void put_share(struct str *out, double share)
{
    str_appendf(out, "%.*f", fabs(share) < .00995 ? 2 : fabs(share) < 9.95 ? 1 : 0, share * 100);
}

static bool is_difference(enum verdict_kind v)
{
    return v == VERDICT_SLOWER || v == VERDICT_SLOWER_UNCERTAIN || v == VERDICT_FASTER ||
           v == VERDICT_FASTER_UNCERTAIN;
}

/* "(ratio 1.002, 95 % CI 0.999–1.005, paired, 6 blocks)": the interval that the verdict rests on.
 */
static void put_evidence(struct str *out, const struct comparison *c)
{
    bool claim = is_difference(c->verdict);
    struct interval ci = claim ? c->paired.claim : c->paired.ci;
    if (c->paired.n == 0)
        return;
    str_append(out, " (ratio ");
    verdict_put_ratio(out, c->paired.ratio);
    if (c->paired.n >= 2) {
        str_append(out, ", ");
        verdict_put_percent(out, claim ? c->paired.claim_confidence : c->paired.confidence);
        str_append(out, " CI ");
        verdict_put_ratio(out, ci.lo);
        str_append(out, "–");
        verdict_put_ratio(out, ci.hi);
    } else {
        str_append(out, ", n = 1: no interval");
    }
    str_appendf(out, ", paired, %zu block%s", c->paired.n, c->paired.n == 1 ? "" : "s");
    if (c->sessions > 1)
        str_appendf(out, " of %zu sessions", c->sessions);
    else if (c->paired.strata > 1)
        str_appendf(out, " in %zu strata", c->paired.strata);
    str_append_char(out, ')');
    if (c->paired.strata_differ)
        str_appendf(out,
                    "; the %s may differ among themselves (p = %.2g), so that their means are the "
                    "sample",
                    c->sessions > 1 ? "sessions" : "strata", c->paired.p_strata);
}

/* "slower" for times, "lower" for rates: what happened to the metric itself. */
static const char *comparative(const struct comparison *c, bool worse)
{
    static const char *const time_suffix[] = {"_s", "_ms", "_us", "_per_s"};
    bool about_time = !strcmp(c->metric, "mfu") || str_starts_with(c->metric, "phases_s.");
    const char *leaf = strrchr(c->metric, '.') && !str_starts_with(c->metric, "train.step_time_s")
                           ? strrchr(c->metric, '.') + 1
                           : c->metric;
    for (size_t i = 0; i < sizeof time_suffix / sizeof *time_suffix; i++)
        about_time |= str_ends_with(leaf, time_suffix[i]);
    about_time |= str_starts_with(c->metric, "train.step_time_s");
    if (about_time)
        return worse ? "slower" : "faster";
    return worse == (c->direction > 0) ? "higher" : "lower";
}

static void put_direction(struct str *out, const struct comparison *c, const char *base, bool worse,
                          bool sure)
{
    struct interval ci = c->paired.claim;
    double near = fmin(fabs(ci.lo - 1), fabs(ci.hi - 1));
    double far = fmax(fabs(ci.lo - 1), fabs(ci.hi - 1));
    str_appendf(out, "is %s than %s by ", comparative(c, worse), base);
    put_share(out, fabs(c->paired.ratio - 1));
    str_append(out, " % (");
    put_share(out, near);
    str_append(out, "–");
    put_share(out, far);
    str_append(out, sure ? " %), beyond the margin of " : " %), size uncertain: the margin is ");
    verdict_put_margin(out, c);
}

static void put_equivalent(struct str *out, const struct comparison *c, const char *base)
{
    str_appendf(out, "is equivalent to %s: within ", base);
    verdict_put_margin(out, c);
    put_evidence(out, c);
    if (c->paired.claim.lo > 1 || c->paired.claim.hi < 1) {
        str_append(out, "; a real difference of ");
        put_share(out, fabs(c->paired.ratio - 1));
        str_append(out, " % is visible but below the margin");
    }
}

static void put_inconclusive(struct str *out, const struct comparison *c, const char *base)
{
    str_appendf(out, "against %s is inconclusive: ", base);
    if (c->reason) {
        str_append(out, c->reason);
    } else {
        str_append(out, "the interval spans ");
        verdict_put_margin(out, c);
        if (c->more_blocks > MANY_BLOCKS)
            str_append(out, "; the noise is too large for this margin");
        else if (c->more_blocks)
            str_appendf(out, "; about %zu more block%s needed", c->more_blocks,
                        c->more_blocks == 1 ? "" : "s");
        else
            str_append(out, "; more blocks are needed");
    }
    put_evidence(out, c);
    if (!c->reason && (c->paired.ci.lo > 1 || c->paired.ci.hi < 1)) {
        str_append(out, "; the ");
        verdict_put_percent(out, c->paired.claim_confidence);
        str_append(out, " CI, which a claim of a difference asks for, holds 1");
    }
}

static void make_sentence(const struct study *s, struct comparison *c)
{
    struct str out = STR_INIT;
    const char *base = s->arms[c->reference].name;
    str_appendf(&out, "%s ", s->arms[c->arm].name);
    switch (c->verdict) {
    case VERDICT_EQUIVALENT: put_equivalent(&out, c, base); break;
    case VERDICT_SLOWER:
    case VERDICT_SLOWER_UNCERTAIN:
        put_direction(&out, c, base, true, c->verdict == VERDICT_SLOWER);
        put_evidence(&out, c);
        break;
    case VERDICT_FASTER:
    case VERDICT_FASTER_UNCERTAIN:
        put_direction(&out, c, base, false, c->verdict == VERDICT_FASTER);
        put_evidence(&out, c);
        break;
    case VERDICT_NOT_COMPARABLE:
        str_appendf(&out, "is not comparable with %s: %s", base, c->reason);
        break;
    case VERDICT_UNTRUSTWORTHY:
        /* its own evidence first: the reason speaks of another arm */
        str_appendf(&out, "against %s", base);
        put_evidence(&out, c);
        str_appendf(&out, " is untrustworthy: %s", c->reason);
        break;
    default: put_inconclusive(&out, c, base);
    }
    free(c->sentence);
    c->sentence = str_steal(&out);
}

/* ---- the comparison ----------------------------------------------------------------------------
 */

static struct rank_interval ratio_by_ranks(const struct pairs *p, double confidence)
{
    double *d = mem_alloc((p->count ? p->count : 1) * sizeof *d);
    for (size_t i = 0; i < p->count; i++)
        d[i] = log(p->b[i] / p->a[i]);
    struct rank_interval h = stats_hodges_lehmann(d, p->count, confidence);
    free(d);
    h.estimate = exp(h.estimate);
    h.ci = (struct interval){exp(h.ci.lo), exp(h.ci.hi)};
    return h;
}

static int looks_passed(const struct study *s, size_t n)
{
    int passed = 0;
    for (size_t i = 0; i < s->n_looks; i++)
        passed += (int64_t)n >= s->looks[i];
    return passed;
}

static char *why_no_interval(const struct comparison *c)
{
    if (c->paired.n == 1)
        return mem_strdup("one block gives no interval");
    if (c->total == 0)
        return mem_strdup("no block was run");
    if (c->missing)
        return mem_printf("%s has no value in %zu block%s", c->metric, c->missing,
                          c->missing == 1 ? "" : "s");
    return mem_printf("none of %zu block%s is complete", c->total, c->total == 1 ? "" : "s");
}

static void judge(struct comparison *c)
{
    if (c->total && (double)c->disturbed > MAX_DISTURBED * (double)c->total) {
        c->verdict = VERDICT_UNTRUSTWORTHY;
        c->reason = mem_printf("%zu of %zu blocks were disturbed by others on the machine",
                               c->disturbed, c->total);
        return;
    }
    if (c->paired.n < 2) {
        c->verdict = VERDICT_INCONCLUSIVE;
        c->reason = why_no_interval(c);
        return;
    }
    c->verdict = verdict_of_intervals(comparison_cost(c), comparison_claim(c), c->margin);
    /* where strata differ, more blocks in them do not help: more of them would */
    size_t needed = c->paired.strata_differ ? 0 : stats_blocks_needed(&c->paired, c->margin);
    if (c->verdict == VERDICT_INCONCLUSIVE && needed > c->paired.n)
        c->more_blocks = needed - c->paired.n;
}

/* A margin of 2 ms on step time is a share of the baseline's step time, for throughput too. */
static void take_margin(const struct study *s, const struct blocks *b, struct comparison *c)
{
    const char *of = study_margin_metric(s, c->metric);
    double level = c->median_a;
    if (strcmp(of, c->metric) != 0) {
        struct pairs p;
        pairs_make(b, c->reference, c->arm, of, false, &p);
        level = stats_median(p.a, p.count);
        pairs_release(&p);
    }
    c->margin = study_margin(s, c->metric, level, &c->margin_abs, &c->margin_source);
    if (strcmp(of, c->metric) != 0)
        c->margin_abs = 0; /* it is in the other one's unit */
}

void comparison_make(const struct study *s, const struct blocks *b, size_t cell, size_t reference,
                     size_t arm, const char *metric, double margin, struct comparison *out)
{
    double alpha = stats_pocock_alpha(s->n_looks);
    struct pairs used;
    struct pairs all = {0};
    pairs_make(b, reference, arm, metric, false, &used);
    if (b->disturbed)
        pairs_make(b, reference, arm, metric, true, &all);
    *out = (struct comparison){.metric = metric,
                               .cell = cell,
                               .reference = reference,
                               .arm = arm,
                               .direction = metric_direction(metric),
                               .p_holm = NAN,
                               .sessions = s->n_sessions,
                               .disturbed = b->disturbed,
                               .incomplete = b->incomplete,
                               .total = b->total,
                               .missing = used.missing};
    out->paired = stats_paired_strata(used.a, used.b, used.stratum, used.count, alpha);
    out->all_blocks = b->disturbed
                          ? stats_paired_strata(all.a, all.b, all.stratum, all.count, alpha)
                          : out->paired;
    out->hodges_lehmann = ratio_by_ranks(&used, out->paired.confidence);
    out->median_a = stats_median(used.a, used.count);
    out->median_b = stats_median(used.b, used.count);
    out->margin_source = "option";
    out->margin = margin;
    if (margin < 0)
        take_margin(s, b, out);
    out->tost = stats_tost(&out->paired, out->margin);
    out->look = looks_passed(s, used.count);
    judge(out);
    make_sentence(s, out);
    pairs_release(&used);
    pairs_release(&all);
}

void comparison_overrule(const struct study *s, struct comparison *c, enum verdict_kind v,
                         const char *reason)
{
    char *copy = mem_strdup(reason);
    free(c->reason);
    c->reason = copy;
    c->verdict = v;
    c->more_blocks = 0;
    make_sentence(s, c);
}

void comparison_release(struct comparison *c)
{
    free(c->reason);
    free(c->sentence);
    *c = (struct comparison){0};
}

/* ---- looks --------------------------------------------------------------------------------------
 */

bool comparison_decided(const struct study *s, const struct comparison *c)
{
    if (s->stop == STOP_PRECISION) {
        double half = log(c->paired.ci.hi / c->paired.ci.lo) / 2;
        return c->paired.n >= FEWEST_FOR_PRECISION && half < log1p(c->margin) / 2;
    }
    return c->verdict == VERDICT_EQUIVALENT || c->verdict == VERDICT_SLOWER ||
           c->verdict == VERDICT_FASTER;
}

static bool is_slower(enum verdict_kind v)
{
    return v == VERDICT_SLOWER || v == VERDICT_SLOWER_UNCERTAIN;
}

/* Is every arm decided, and the slowed one, where there is one, found slower? */
static bool all_decided(const struct study *s, const struct blocks *b, size_t cell)
{
    bool only_control = s->n_arms == 2 && s->control >= 0;
    bool all = s->n_arms > 1;
    for (size_t arm = 0; all && arm < s->n_arms; arm++) {
        if (arm == s->baseline || ((int)arm == s->control && !only_control))
            continue;
        struct comparison c;
        comparison_make(s, b, cell, s->baseline, arm, s->primary, -1, &c);
        all = (int)arm == s->handicap ? is_slower(c.verdict) : comparison_decided(s, &c);
        comparison_release(&c);
    }
    return all;
}

bool verdict_look(const struct study *s, const struct blocks *b, size_t cell)
{
    const int64_t complete = (int64_t)b->complete;
    if (s->n_looks > 0 && complete >= s->looks[s->n_looks - 1])
        return true;
    bool at_look = false;
    for (size_t i = 0; i < s->n_looks; i++)
        at_look |= s->looks[i] == complete;
    return at_look && s->stop != STOP_NEVER && all_decided(s, b, cell);
}
