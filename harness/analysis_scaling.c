/* Scaling over ranks: points, breaks, and what fits of models can tell (harness/analysis.h). */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/analysis.h"
#include "harness/scaling_stats.h"
#include "harness/stats_random.h"

#include <math.h>
#include <string.h>

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

/* A number of the workload's config event, of the first trial of the cell that has it; NaN. */
static double config_of(const struct analysis *a, size_t cell, size_t arm, const char *path)
{
    const struct blocks *b = &a->blocks[cell];
    double value = NAN;
    for (size_t i = 0; i < b->count && isnan(value); i++)
        if (b->items[i].trials[arm])
            json_read_f64(b->items[i].trials[arm]->json, path, &value);
    return value;
}

static bool changed(double a, double b)
{
    return !isnan(a) && !isnan(b) && a != b;
}

/* Accumulation falls with the size in strong scaling: that is what is scaled there. */
static void mark_breaks(const struct study *s, struct scaling_point *p, size_t count)
{
    for (size_t i = 1; i < count; i++)
        p[i].breaks =
            changed(p[i - 1].batch, p[i].batch) ||
            (s->scaling == SCALING_WEAK && changed(p[i - 1].accumulation, p[i].accumulation));
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
            p[i].efficiency = p[0].step_time_s / p[i].step_time_s;
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
                                   .batch = config_of(a, cell, arm, "config.device_batch_size"),
                                   .accumulation = config_of(a, cell, arm, "config.accumulation"),
                                   .tokens_per_s = median_of(a, cell, arm, "tokens_per_s")};
    }
    qsort(p, count, sizeof *p, by_size);
    if (count < 2 || p[count - 1].n <= p[0].n) {
        free(p);
        *out = NULL;
        return 0;
    }
    relate(s, p, count);
    mark_breaks(s, p, count);
    *out = p;
    return count;
}

/* ---- does the overhead grow? -------------------------------------------------------------------
 */
bool analysis_ratio_slope(const struct analysis *a, size_t arm, struct scaling_slope *out)
{
    struct scaling_point *p;
    size_t count = analysis_scaling(a, arm, &p), n = 0;
    double *x = NULL, *y = NULL;
    for (size_t i = 0; i < count; i++) {
        struct pairs pairs;
        pairs_make(&a->blocks[p[i].cell], a->study->baseline, arm, "step_time_s", false, &pairs);
        x = mem_realloc(x, n + pairs.count + 1, sizeof *x);
        y = mem_realloc(y, n + pairs.count + 1, sizeof *y);
        for (size_t k = 0; k < pairs.count; k++, n++) {
            x[n] = log2(p[i].n);
            y[n] = log(pairs.b[k] / pairs.a[k]);
        }
        pairs_release(&pairs);
    }
    *out = scaling_slope(x, y, n, .95);
    free(x);
    free(y);
    free(p);
    return !isnan(out->ci.lo);
}

/* ---- what a fit can tell: resample the blocks of each size -------------------------------------
 */
#define RESAMPLES 1000

struct sizes {
    double *n, *c, *t; /* size, speed-up, median time */
    double **values;   /* step times of the blocks of each size */
    size_t *blocks, count;
};

static void resample(struct sizes *z, enum scaling_mode mode, struct stats_rng *rng)
{
    for (size_t i = 0; i < z->count; i++) {
        auto_free double *x = mem_alloc((z->blocks[i] + 1) * sizeof *x);
        for (size_t k = 0; k < z->blocks[i]; k++)
            x[k] = z->values[i][stats_rng_below(rng, z->blocks[i])];
        z->t[i] = stats_median(x, z->blocks[i]);
    }
    for (size_t i = 0; i < z->count; i++)
        z->c[i] = z->t[0] / z->t[i] * (mode == SCALING_WEAK ? z->n[i] / z->n[0] : 1);
}

static void bootstrap(struct sizes *z, enum scaling_mode mode, struct scaling_fit *out)
{
    double beta[RESAMPLES], n_max[RESAMPLES];
    size_t found = 0;
    struct stats_rng rng;
    stats_rng_seed(&rng, 20261130);
    for (size_t i = 0; i < RESAMPLES; i++) {
        resample(z, mode, &rng);
        struct usl fit = scaling_usl(z->n, z->c, z->count);
        beta[i] = isnan(fit.beta) ? 0 : fit.beta;
        if (!isnan(fit.n_max))
            n_max[found++] = fit.n_max;
    }
    out->coherency_shown = stats_quantile(beta, RESAMPLES, .025) > 0;
    if (found >= RESAMPLES * 95 / 100)
        out->n_max_ci = (struct interval){stats_quantile(n_max, found, .025),
                                          stats_quantile(n_max, found, .975)};
}

bool analysis_scaling_fit(const struct analysis *a, size_t arm, struct scaling_fit *out)
{
    struct scaling_point *p;
    size_t count = analysis_scaling(a, arm, &p);
    struct sizes z = {
        mem_zalloc(count + 1, sizeof(double)), mem_zalloc(count + 1, sizeof(double)),
        mem_zalloc(count + 1, sizeof(double)), mem_zalloc(count + 1, sizeof(double *)),
        mem_zalloc(count + 1, sizeof(size_t)), count};
    *out = (struct scaling_fit){.n_max_ci = INTERVAL_NONE};
    bool can = count >= SCALING_FIT_POINTS && p[0].n == 1;
    for (size_t i = 0; i < count; i++) {
        can &= !p[i].breaks;
        z.n[i] = p[i].n;
        z.c[i] = p[i].speedup;
        z.values[i] = analysis_values(a, p[i].cell, arm, "step_time_s", &z.blocks[i]);
    }
    if (can) {
        out->serial = a->study->scaling == SCALING_STRONG ? scaling_amdahl(z.n, z.c, count)
                                                          : scaling_gustafson(z.n, z.c, count);
        out->usl = scaling_usl(z.n, z.c, count);
        bootstrap(&z, a->study->scaling, out);
        out->n_max_shown = out->coherency_shown && !isnan(out->n_max_ci.lo) &&
                           scaling_usl_n_max_shown(&out->usl, count, z.n[count - 1]);
    }
    for (size_t i = 0; i < count; i++)
        free(z.values[i]);
    free(z.values), free(z.n), free(z.c), free(z.t), free(z.blocks), free(p);
    return can;
}
