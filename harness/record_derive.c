/* What needs a whole block: the common warm-up and the comparison of losses (harness/record.h). */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/record.h"
#include "harness/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 10 /* steps of each half of the detector's window */
#define MAX_SLOPE 0.01
#define MAX_SHIFT 0.005

/* Replace key, dropping an older value and its reason. */
static void replace(json_t *obj, const char *key, double value, const char *why)
{
    char why_key[96];
    if (isfinite(value) && !json_is_null(json_object_get(obj, key))) { /* then there is none */
        json_object_set_new(obj, key, json_real(value));
        return;
    }
    snprintf(why_key, sizeof why_key, "%s_why", key);
    json_object_del(obj, why_key);
    if (isfinite(value)) {
        json_object_set_new(obj, key, json_real(value));
        return;
    }
    json_object_set_new(obj, key, json_null());
    json_object_set_new(obj, why_key, json_string(why));
}

/* A number array as doubles; NULL (and *n = 0) when it is none. The caller frees. */
static double *read_series(const json_t *obj, const char *key, size_t *n)
{
    const json_t *array = json_object_get(obj, key);
    *n = json_array_size(array);
    double *x = mem_alloc((*n ? *n : 1) * sizeof *x);
    for (size_t i = 0; i < *n; i++)
        x[i] = json_number_value(json_array_get(array, i));
    return x;
}

static double slope_per_step(const double *y, size_t n)
{
    double mean_x = ((double)n - 1) / 2, mean_y = stats_mean(y, n), sxy = 0, sxx = 0;
    for (size_t i = 0; i < n; i++) {
        sxy += ((double)i - mean_x) * (y[i] - mean_y);
        sxx += ((double)i - mean_x) * ((double)i - mean_x);
    }
    return sxx > 0 ? sxy / sxx : 0;
}

static bool is_steady(const double *window)
{
    double late = stats_median(window + WINDOW, WINDOW), early = stats_median(window, WINDOW);
    double slope = slope_per_step(window + WINDOW, WINDOW);
    return late > 0 && fabs(slope) * WINDOW / late < MAX_SLOPE &&
           fabs(late - early) / late < MAX_SHIFT;
}

int64_t warmup_detect(const double *step_s, size_t n)
{
    for (size_t start = 1; start + 2 * WINDOW <= n && start <= n / 2; start++)
        if (is_steady(step_s + start))
            return (int64_t)start;
    return -1;
}

static void put_distribution(json_t *train, const double *x, size_t n)
{
    static const char why[] = "no samples";
    json_t *d = json_object();
    json_put_int(d, "n", (int64_t)n);
    replace(d, "median", stats_median(x, n), why);
    replace(d, "mean", stats_mean(x, n), why);
    replace(d, "sd", stats_sd(x, n), n ? "one sample" : why);
    replace(d, "mad", stats_mad(x, n), why);
    replace(d, "min", stats_min(x, n), why);
    replace(d, "max", stats_max(x, n), why);
    replace(d, "p95", stats_quantile(x, n, 0.95), why);
    json_object_set_new(train, "step_time_s", d);
}

static double sum(const double *x, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += x[i];
    return total;
}

static void put_rates(json_t *record, json_t *train)
{
    double median = NAN, tokens = NAN, flops = NAN, peak = NAN, ranks = NAN;
    json_read_f64(train, "step_time_s.median", &median);
    json_read_f64(train, "tokens_per_step", &tokens);
    json_read_f64(train, "flops_per_token", &flops);
    json_read_f64(train, "peak_flops_per_rank", &peak);
    json_read_f64(record, "ranks", &ranks);
    double rate = median > 0 ? tokens / median : NAN;
    replace(train, "tokens_per_s", rate, isfinite(tokens) ? "no samples" : "no token counts");
    const char *why = !isfinite(flops)  ? "the workload did not say its FLOPs per token"
                      : !isfinite(peak) ? "no measured or published peak for this device"
                                        : "no samples";
    replace(train, "mfu", flops * rate / (peak * ranks), why);
}

/* One count a name: the sum over the steady steps, if every one of them has a number. */
static void apply_counters(json_t *record, size_t left_out)
{
    json_t *counters = json_object_get(record, "counters");
    const char *name;
    json_t *steps;
    json_object_foreach(json_object_get(counters, "per_step"), name, steps)
    {
        size_t n = json_array_size(steps);
        bool whole = n > left_out;
        json_int_t total = 0;
        for (size_t i = left_out; i < n; i++) {
            const json_t *value = json_array_get(steps, i);
            whole = whole && json_is_integer(value);
            total += json_integer_value(value);
        }
        auto_free char *why = mem_printf("%s_why", name);
        json_object_del(counters, why);
        json_object_set_new(counters, name, whole ? json_integer(total) : json_null());
        if (!whole)
            json_object_set_new(
                counters, why,
                json_string(n > left_out ? "not counted in every step" : "no samples"));
    }
}

void record_apply_warmup(json_t *record, int64_t w)
{
    json_t *train = json_object_get(record, "train");
    if (!json_is_object(train))
        return;
    size_t n, n_skew;
    auto_free double *steps = read_series(train, "step_max_s", &n);
    auto_free double *skew = read_series(train, "step_skew_s", &n_skew);
    size_t left_out = w < 1 ? 1 : (size_t)w;
    if (left_out > n)
        left_out = n;
    size_t steady = n - left_out;
    json_object_set_new(train, "warmup_steps", json_integer((json_int_t)left_out));
    json_object_set_new(train, "steady_steps", json_integer((json_int_t)steady));
    put_distribution(train, steps + left_out, steady);
    json_t *s = json_object();
    bool has_skew = n_skew == n && steady > 0;
    replace(s, "median", has_skew ? stats_median(skew + left_out, steady) : NAN, "no samples");
    replace(s, "max", has_skew ? stats_max(skew + left_out, steady) : NAN, "no samples");
    json_object_set_new(train, "rank_skew_s", s);
    put_rates(record, train);
    apply_counters(record, left_out);
    json_t *phases = json_object_get(record, "phases_s");
    if (!json_is_object(phases))
        return;
    replace(phases, "warmup", left_out > 1 ? sum(steps + 1, left_out - 1) : NAN, "no such steps");
    replace(phases, "steady", steady ? sum(steps + left_out, steady) : NAN, "no such steps");
}

/* ---- blocks -----------------------------------------------------------------------------------
 */
static bool same_block(const struct record *a, const struct record *b)
{
    return a->block == b->block && a->attempt == b->attempt && a->stratum == b->stratum &&
           !strcmp(a->cell, b->cell);
}

/* A disturbed trial has numbers, which the analysis of all blocks uses. */
static bool has_numbers(const struct record *r)
{
    return r->outcome == OUTCOME_OK || r->outcome == OUTCOME_DISTURBED;
}

static void block_warmup(struct records *r, size_t first)
{
    int64_t w = 0, own;
    for (size_t i = first; i < r->count; i++)
        if (has_numbers(&r->items[i]) && same_block(&r->items[first], &r->items[i]) &&
            json_read_i64(r->items[i].json, "train.warmup_own", &own) && own > w)
            w = own;
    for (size_t i = first; i < r->count; i++) {
        int64_t now;
        if (w > 0 && has_numbers(&r->items[i]) && same_block(&r->items[first], &r->items[i]) &&
            json_read_i64(r->items[i].json, "train.warmup_steps", &now) && now != w)
            record_apply_warmup(r->items[i].json, w);
    }
}

static void reject_loss(struct record *r, double loss, double ref, double diff, double tol)
{
    r->outcome = OUTCOME_INVALID;
    json_object_set_new(r->json, "outcome", json_string(outcome_name(OUTCOME_INVALID)));
    char text[200];
    snprintf(text, sizeof text,
             "last loss %.6g differs by %.3g %% from the baseline's %.6g, more than the %.3g %% "
             "that workload.check.loss allows",
             loss, diff * 100, ref, tol * 100);
    json_t *reasons = json_object_get(r->json, "reasons");
    if (json_is_array(reasons))
        json_array_append_new(reasons, json_string(text));
}

static void check_loss(struct record *r, double ref)
{
    double tol, loss;
    json_t *train = json_object_get(r->json, "train");
    if (!json_read_f64(train, "loss_rel_tol", &tol) || !json_read_f64(train, "loss_last", &loss))
        return;
    double diff = fabs(loss - ref) / fmax(fabs(ref), 1e-300);
    json_t *match = json_object();
    json_put_f64(match, "ref", ref);
    json_put_f64(match, "rel_diff", diff);
    json_put_bool(match, "ok", diff <= tol);
    json_object_del(train, "loss_match_why");
    json_object_set_new(train, "loss_match", match);
    if (diff > tol)
        reject_loss(r, loss, ref, diff, tol);
}

static void block_loss(struct records *r, size_t first)
{
    double ref = NAN;
    for (size_t i = first; i < r->count; i++)
        if (r->items[i].baseline && has_numbers(&r->items[i]) &&
            same_block(&r->items[first], &r->items[i]))
            json_read_f64(r->items[i].json, "train.loss_last", &ref);
    for (size_t i = first; isfinite(ref) && i < r->count; i++)
        if (!r->items[i].baseline && has_numbers(&r->items[i]) &&
            same_block(&r->items[first], &r->items[i]))
            check_loss(&r->items[i], ref);
}

void records_derive(struct records *r, size_t from)
{
    bool *seen = mem_zalloc(r->count + 1, sizeof *seen);
    for (size_t i = from; i < r->count; i++) {
        if (seen[i])
            continue;
        for (size_t j = i; j < r->count; j++)
            if (same_block(&r->items[i], &r->items[j]))
                seen[j] = true;
        block_loss(r, i);
        block_warmup(r, i);
    }
    free(seen);
}
