/* Data of the plots about verdicts and steps. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/plot.h"
#include "harness/report.h"

#include <math.h>
#include <string.h>

static void put_frame(const struct session_data *s, struct str *gp, const char *what, double width,
                      double height)
{
    auto_free char *heading = mem_printf("%s – %s, session %s", what, s->study.name, s->id);
    plot_gp_number(gp, "width", width);
    plot_gp_number(gp, "height", height);
    plot_gp_text(gp, "heading", heading);
}

static void put_arms(const struct study *s, struct str *gp)
{
    auto_strv names = STRV_INIT;
    auto_strv colors = STRV_INIT;
    auto_strv pale = STRV_INIT;
    for (size_t i = 0; i < s->n_arms; i++) {
        strv_push(&names, s->arms[i].name);
        strv_push(&colors, plot_color(s, i));
        strv_pushf(&pale, "#99%s", plot_color(s, i) + 1); /* the first byte is transparency */
    }
    plot_gp_number(gp, "n_arms", (double)s->n_arms);
    plot_gp_texts(gp, "arm", &names);
    plot_gp_texts(gp, "color", &colors);
    plot_gp_texts(gp, "pale", &pale);
}

/* ---- ratio
 * ------------------------------------------------------------------------------------------ */

struct range {
    double low, high;
};

static void widen(struct range *r, double x)
{
    if (!isfinite(x))
        return;
    r->low = fmin(r->low, x);
    r->high = fmax(r->high, x);
}

static double percent(double ratio)
{
    return (ratio - 1) * 100;
}

static void ratio_row(const struct analysis *a, const struct comparison *c, size_t row,
                      struct str *blocks, struct str *means, struct range *range)
{
    struct pairs p;
    pairs_make(&a->blocks[c->cell], c->reference, c->arm, c->metric, false, &p);
    for (size_t i = 0; i < p.count; i++) {
        plot_put(blocks, (double)row);
        plot_put(blocks, percent(p.b[i] / p.a[i]));
        str_append(blocks, "\n");
        widen(range, percent(p.b[i] / p.a[i]));
    }
    pairs_release(&p);
    bool interval = isfinite(c->paired.ci.lo);
    double columns[] = {(double)row,
                        percent(c->paired.ratio),
                        percent(interval ? c->paired.ci.lo : c->paired.ratio),
                        percent(interval ? c->paired.ci.hi : c->paired.ratio),
                        percent(1 / (1 + c->margin)),
                        percent(1 + c->margin),
                        (double)c->arm + 1};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        plot_put(means, columns[i]);
    str_append(means, "\n");
    for (size_t i = 1; i < 6; i++)
        widen(range, columns[i]);
}

static size_t longest(const struct strv *v)
{
    size_t n = 0;
    for (size_t i = 0; i < v->count; i++)
        n = strlen(v->items[i]) > n ? strlen(v->items[i]) : n;
    return n;
}

static void ratio_axis(const struct analysis *a, struct str *gp)
{
    bool cost = metric_direction(a->metric) > 0;
    auto_str level = STR_INIT;
    verdict_put_percent(&level, 1 - 2 * stats_pocock_alpha(a->study->n_looks));
    auto_free char *axis =
        mem_printf("%s against %s (%s: slower)  ·  band: margin, bar: %s interval, dots: blocks",
                   report_metric_words(a->metric), a->study->arms[a->study->baseline].name,
                   cost ? "right" : "left", level.data);
    plot_gp_text(gp, "axis", axis);
}

/* Colours as numbers: "lc rgb variable" takes them from an array. */
static void put_color_numbers(const struct study *s, struct str *gp)
{
    str_appendf(gp, "array color[%zu] = [", s->n_arms);
    for (size_t i = 0; i < s->n_arms; i++)
        str_appendf(gp, "%s0x%s", i ? ", " : "", plot_color(s, i) + 1);
    str_append(gp, "]\n");
}

bool plot_data_ratio(const struct session_data *s, const struct analysis *a, struct str *dat,
                     struct str *gp, const char **why)
{
    auto_str means = STR_INIT;
    auto_strv rows = STRV_INIT;
    auto_strv verdicts = STRV_INIT;
    struct range range = {0, 0};
    str_append(dat, "# row percent (each block)\n");
    for (size_t i = 0; i < a->n_primary; i++) {
        const struct comparison *c = &a->items[i];
        if (c->paired.n == 0)
            continue;
        const char *cell = a->study->n_cells > 1 ? a->study->cells[c->cell].label : "";
        strv_pushf(&rows, "%s%s%s", a->study->arms[c->arm].name, *cell ? ", " : "", cell);
        strv_push(&verdicts, analysis_is_control(a, c) ? "control" : verdict_words(c->verdict));
        ratio_row(a, c, rows.count, dat, &means, &range);
    }
    *why = "no block of two arms counts";
    if (rows.count == 0)
        return false;
    plot_end_index(dat, false, 2);
    str_append(dat, "# row percent low high margin_low margin_high color\n");
    str_append(dat, means.data);
    double room = (range.high - range.low) * .08;
    put_frame(s, gp, "Cost of each arm", 800, 120 + 52 * (double)rows.count);
    plot_gp_number(gp, "n_rows", (double)rows.count);
    plot_gp_labels(gp, "row", &rows);
    plot_gp_labels(gp, "verdict", &verdicts);
    plot_gp_number(gp, "left_space", (double)longest(&rows) * 1.05 + 3);
    plot_gp_number(gp, "right_space", (double)longest(&verdicts) * 1.05 + 3);
    plot_gp_number(gp, "x_low", range.low - room);
    plot_gp_number(gp, "x_high", range.high + room);
    put_color_numbers(a->study, gp);
    ratio_axis(a, gp);
    return true;
}

/* ---- steps
 * --------------------------------------------------------------------------------------------- */

struct steps {
    double *all; /* milliseconds of a cell, for the frame */
    size_t count, cap;
    int64_t first_block, last_block;
};

static void keep(struct steps *s, double ms)
{
    mem_grow((void **)&s->all, &s->cap, s->count, sizeof *s->all);
    s->all[s->count++] = ms;
}

/* Where the trial of an arm stands in its block: slots beside each other within 0.8 of a block. */
static double slot_left(const struct study *s, size_t arm, int64_t block)
{
    return (double)block - 0.4 + 0.8 * (double)arm / (double)s->n_arms;
}

/* The steady steps of a trial, left to right in its slot, and its median. */
static void trial_steps(const struct study *s, size_t arm, const struct record *r, struct str *dots,
                        struct str *medians, struct steps *frame)
{
    const json_t *series = json_at(r->json, "train.step_max_s");
    size_t n = json_array_size(series);
    int64_t warmup = 0;
    double median;
    double width = 0.7 * 0.8 / (double)s->n_arms;
    double left = slot_left(s, arm, r->block) + 0.05 / (double)s->n_arms;
    json_read_i64(r->json, "train.warmup_steps", &warmup);
    for (size_t i = warmup > 0 ? (size_t)warmup : 0; i < n; i++) {
        double ms = json_number_value(json_array_get(series, i)) * 1e3;
        plot_put(dots, (double)r->block);
        plot_put(dots, left + width * ((double)i + .5) / (double)n);
        plot_put(dots, (double)i);
        plot_put(dots, ms);
        str_append(dots, "\n");
        keep(frame, ms);
    }
    if (!record_metric(r, "step_time_s", &median))
        return;
    plot_put(medians, (double)r->block);
    plot_put(medians, left + width / 2);
    plot_put(medians, median * 1e3);
    str_append(medians, "\n");
    keep(frame, median * 1e3);
    frame->first_block = r->block < frame->first_block ? r->block : frame->first_block;
    frame->last_block = r->block > frame->last_block ? r->block : frame->last_block;
}

/* One far step would press all others into a line: the frame ends at the 95th percentile and the
 * spread between it and the 5th, and the panel's name counts what lies above. */
static void cell_frame(const struct study *s, size_t cell, const struct steps *f,
                       struct strv *titles, double *low, double *high)
{
    double least = stats_min(f->all, f->count);
    double most = stats_max(f->all, f->count);
    double p5 = stats_quantile(f->all, f->count, .05);
    double p95 = stats_quantile(f->all, f->count, .95);
    double spread = fmax(p95 - p5, .01 * p95);
    *low = fmax(least, p5 - spread) - .1 * spread;
    *high = fmin(most, p95 + spread) + .1 * spread;
    size_t outside = 0;
    for (size_t i = 0; i < f->count; i++)
        outside += f->all[i] > *high || f->all[i] < *low;
    const char *label = report_cell_label(s, cell);
    if (outside)
        strv_pushf(titles, "%s   (all steps: %.4g to %.4g ms; %zu of %zu lie outside the frame)",
                   label, least, most, outside, f->count);
    else
        strv_push(titles, label);
    if (f->count == 0)
        *low = 0, *high = 1;
}

static void cell_steps(const struct analysis *a, size_t cell, struct str *dat, struct steps *frame)
{
    const struct study *s = a->study;
    for (size_t arm = 0; arm < s->n_arms; arm++) {
        auto_str dots = STR_INIT;
        auto_str medians = STR_INIT;
        for (size_t i = 0; i < a->blocks[cell].count; i++) {
            const struct record *r = a->blocks[cell].items[i].trials[arm];
            if (r && r->outcome == OUTCOME_OK && !a->blocks[cell].items[i].superseded)
                trial_steps(s, arm, r, &dots, &medians, frame);
        }
        str_appendf(dat, "# %s %s: block x step milliseconds\n%s", s->cells[cell].id,
                    s->arms[arm].name, dots.data);
        plot_end_index(dat, dots.len == 0, 4);
        str_appendf(dat, "# %s %s: block x median_milliseconds\n%s", s->cells[cell].id,
                    s->arms[arm].name, medians.data);
        plot_end_index(dat, medians.len == 0, 3);
    }
}

bool plot_data_steps(const struct session_data *s, const struct analysis *a, struct str *dat,
                     struct str *gp, const char **why)
{
    size_t n = a->study->n_cells;
    auto_strv titles = STRV_INIT;
    auto_free double *low = mem_zalloc(n + 1, sizeof *low);
    auto_free double *high = mem_zalloc(n + 1, sizeof *high);
    struct steps frame = {.first_block = INT64_MAX, .last_block = INT64_MIN};
    size_t total = 0;
    for (size_t cell = 0; cell < n; cell++) {
        frame.count = 0;
        cell_steps(a, cell, dat, &frame);
        cell_frame(a->study, cell, &frame, &titles, &low[cell], &high[cell]);
        total += frame.count;
    }
    free(frame.all);
    *why = "no trial recorded its steps";
    if (total == 0)
        return false;
    put_frame(s, gp, "Step times", 860, 80 + 285 * (double)n);
    put_arms(a->study, gp);
    plot_gp_number(gp, "n_cells", (double)n);
    plot_gp_texts(gp, "cell", &titles);
    plot_gp_numbers(gp, "y_low", low, n);
    plot_gp_numbers(gp, "y_high", high, n);
    plot_gp_number(gp, "first_block", (double)frame.first_block);
    plot_gp_number(gp, "last_block", (double)frame.last_block);
    return true;
}

/* ---- start-up
 * -------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ecdf_index(const struct analysis *a, size_t cell, size_t arm, struct str *dat,
                       struct range *range)
{
    size_t n;
    auto_free double *x = analysis_values(a, cell, arm, "start_s", &n);
    qsort(x, n, sizeof *x, ascending);
    str_appendf(dat, "# %s %s: milliseconds percent\n", a->study->cells[cell].id,
                a->study->arms[arm].name);
    for (size_t i = 0; i <= n && n; i++) { /* the first point stands on the axis */
        plot_put(dat, x[i ? i - 1 : 0] * 1e3);
        plot_put(dat, 100 * (double)i / (double)n);
        str_append(dat, "\n");
        widen(range, x[i ? i - 1 : 0] * 1e3);
    }
    plot_end_index(dat, n == 0, 2);
}

bool plot_data_ecdf(const struct session_data *s, const struct analysis *a, struct str *dat,
                    struct str *gp, const char **why)
{
    struct range range = {INFINITY, -INFINITY};
    auto_strv titles = STRV_INIT;
    for (size_t cell = 0; cell < a->study->n_cells; cell++) {
        strv_push(&titles, report_cell_label(a->study, cell));
        for (size_t arm = 0; arm < a->study->n_arms; arm++)
            ecdf_index(a, cell, arm, dat, &range);
    }
    *why = "no trial recorded its start-up";
    if (!(range.high >= range.low))
        return false;
    put_frame(s, gp, "Start-up", 780, 80 + 255 * (double)a->study->n_cells);
    put_arms(a->study, gp);
    plot_gp_number(gp, "n_cells", (double)a->study->n_cells);
    plot_gp_texts(gp, "cell", &titles);
    plot_gp_number(gp, "x_low", 0);
    plot_gp_number(gp, "x_high", range.high * 1.06);
    return true;
}
