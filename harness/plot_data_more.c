/* Data of the plots about phases and scaling. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "harness/plot.h"
#include "harness/report.h"

#include <math.h>
#include <string.h>

/* ---- phases
 * ----------------------------------------------------------------------------------------- */

/* In the order in which they happen; exec lies within start and is no part of the sum. */
static const struct phase {
    const char *name, *color;
    bool edge; /* of starting and ending, not of the work */
} phases[] = {{"create", "#332288", true},      {"start", "#0072B2", true},
              {"device_init", "#56B4E9", true}, {"comm_init", "#88CCEE", true},
              {"evidence", "#999999", true},    {"data_init", "#44AA99", true},
              {"model_init", "#117733", true},  {"peak", "#999933", true},
              {"first_step", "#DDCC77", true},  {"warmup", "#E69F00", false},
              {"steady", "#C3CAD0", false},     {"eval", "#AA4499", false},
              {"checkpoint", "#CC79A7", false}, {"teardown", "#D55E00", true},
              {"cleanup", "#882255", true}};
#define N_PHASES (sizeof phases / sizeof *phases)

struct bars {
    size_t n_rows;
    double *value; /* [row * N_PHASES + phase], seconds; NaN: did not happen */
    struct strv rows;
};

static double phase_median(const struct analysis *a, size_t cell, size_t arm, const char *phase)
{
    auto_free char *metric = mem_printf("phases_s.%s", phase);
    size_t n;
    auto_free double *x = analysis_values(a, cell, arm, metric, &n);
    return stats_median(x, n);
}

static void make_bars(const struct analysis *a, struct bars *out)
{
    const struct study *s = a->study;
    *out =
        (struct bars){.value = mem_alloc((s->n_cells * s->n_arms * N_PHASES + 1) * sizeof(double))};
    for (size_t cell = 0; cell < s->n_cells; cell++)
        for (size_t arm = 0; arm < s->n_arms; arm++) {
            double *row = out->value + out->n_rows * N_PHASES;
            bool any = false;
            for (size_t p = 0; p < N_PHASES; p++) {
                row[p] = phase_median(a, cell, arm, phases[p].name);
                any |= row[p] > 0;
            }
            if (!any)
                continue;
            const char *label = s->n_cells > 1 ? s->cells[cell].label : "";
            strv_pushf(&out->rows, "%s%s%s", s->arms[arm].name, *label ? ", " : "", label);
            out->n_rows++;
        }
}

static bool shown(const struct bars *b, size_t phase)
{
    for (size_t r = 0; r < b->n_rows; r++)
        if (b->value[r * N_PHASES + phase] > 0)
            return true;
    return false;
}

static double end_of(const struct bars *b, size_t row, size_t phases_before, bool edges)
{
    double sum = 0;
    for (size_t p = 0; p < phases_before; p++)
        if ((!edges || phases[p].edge) && b->value[row * N_PHASES + p] > 0)
            sum += b->value[row * N_PHASES + p];
    return sum;
}

static void put_phase(const struct bars *b, size_t phase, bool edges, struct str *dat)
{
    bool empty = true;
    str_appendf(dat, "# %s%s: row from to\n", phases[phase].name, edges ? " (edges)" : "");
    for (size_t r = 0; r < b->n_rows; r++) {
        double x = b->value[r * N_PHASES + phase];
        if (!(x > 0) || (edges && !phases[phase].edge))
            continue;
        double from = end_of(b, r, phase, edges);
        plot_put(dat, (double)r + 1);
        plot_put(dat, from);
        plot_put(dat, from + x);
        str_append(dat, "\n");
        empty = false;
    }
    plot_end_index(dat, empty, 3);
}

static void put_ends(const struct bars *b, bool edges, struct str *dat, double *most)
{
    str_append(dat, "# ends: row seconds text\n");
    for (size_t r = 0; r < b->n_rows; r++) {
        double end = end_of(b, r, N_PHASES, edges);
        plot_put(dat, (double)r + 1);
        plot_put(dat, end);
        str_appendf(dat, " \"%.*f s\"\n", end < 10 ? 2 : 1, end);
        *most = fmax(*most, end);
    }
    plot_end_index(dat, b->n_rows == 0, 3);
}

static void put_variables(const struct session_data *s, const struct bars *b, const double most[2],
                          struct str *gp)
{
    auto_strv names = STRV_INIT;
    auto_strv colors = STRV_INIT;
    size_t widest = 0;
    for (size_t p = 0; p < N_PHASES; p++) {
        if (!shown(b, p))
            continue;
        strv_push(&names, phases[p].name);
        strv_push(&colors, phases[p].color);
    }
    for (size_t i = 0; i < b->rows.count; i++)
        widest = strlen(b->rows.items[i]) > widest ? strlen(b->rows.items[i]) : widest;
    auto_free char *heading =
        mem_printf("Phases of a trial – %s, session %s", s->study.name, s->id);
    plot_gp_number(gp, "width", 860);
    plot_gp_number(gp, "height", 316 + 2 * 34 * (double)b->n_rows);
    plot_gp_text(gp, "heading", heading);
    plot_gp_number(gp, "n_rows", (double)b->n_rows);
    plot_gp_labels(gp, "row", &b->rows);
    plot_gp_number(gp, "left_space", (double)widest + 3);
    plot_gp_number(gp, "n_phases", (double)names.count);
    plot_gp_texts(gp, "phase", &names);
    plot_gp_texts(gp, "phase_color", &colors);
    plot_gp_numbers(gp, "end", most, 2);
}

bool plot_data_phases(const struct session_data *s, const struct analysis *a, struct str *dat,
                      struct str *gp, const char **why)
{
    struct bars b;
    double most[2] = {0, 0};
    make_bars(a, &b);
    for (int edges = 1; edges >= 0; edges--)
        for (size_t p = 0; p < N_PHASES; p++)
            if (shown(&b, p))
                put_phase(&b, p, edges, dat);
    put_ends(&b, true, dat, &most[0]);
    put_ends(&b, false, dat, &most[1]);
    put_variables(s, &b, most, gp);
    bool any = b.n_rows > 0;
    free(b.value);
    strv_release(&b.rows);
    *why = "no trial recorded its phases";
    return any;
}

/* ---- scaling
 * ------------------------------------------------------------------------------------------- */

struct scaling_frame {
    double sizes[64];
    size_t n_sizes;
    double low, high, efficiency;
};

static void add_size(struct scaling_frame *f, double n)
{
    for (size_t i = 0; i < f->n_sizes; i++)
        if (f->sizes[i] == n)
            return;
    if (f->n_sizes < 64)
        f->sizes[f->n_sizes++] = n;
}

static void scaling_index(const struct analysis *a, size_t arm, struct str *dat,
                          struct scaling_frame *f)
{
    struct scaling_point *p;
    size_t count = analysis_scaling(a, arm, &p);
    str_appendf(dat, "# %s: size step_time_s tokens_per_s speedup efficiency_percent\n",
                a->study->arms[arm].name);
    for (size_t i = 0; i < count; i++) {
        if (p[i].breaks) /* an empty line ends the line that is drawn */
            str_append(dat, "\n");
        double columns[] = {p[i].n, p[i].step_time_s, p[i].tokens_per_s, p[i].speedup,
                            p[i].efficiency * 100};
        for (size_t k = 0; k < 5; k++)
            plot_put(dat, columns[k]);
        str_append(dat, "\n");
        add_size(f, p[i].n);
        f->low = fmin(f->low, p[i].speedup);
        f->high = fmax(f->high, fmax(p[i].speedup, p[i].n / p[0].n));
        f->efficiency = fmax(f->efficiency, p[i].efficiency * 100);
    }
    plot_end_index(dat, count == 0, 5);
    free(p);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

bool plot_data_scaling(const struct session_data *s, const struct analysis *a, struct str *dat,
                       struct str *gp, const char **why)
{
    const struct study *study = a->study;
    struct scaling_frame f = {.low = 1, .high = 1};
    auto_strv names = STRV_INIT;
    auto_strv colors = STRV_INIT;
    for (size_t arm = 0; arm < study->n_arms; arm++) {
        scaling_index(a, arm, dat, &f);
        strv_push(&names, study->arms[arm].name);
        strv_push(&colors, plot_color(study, arm));
    }
    *why = study->scaling == SCALING_NONE ? "the scenario asks for no scaling"
                                          : "fewer than two sizes have numbers";
    if (f.n_sizes < 2)
        return false;
    qsort(f.sizes, f.n_sizes, sizeof *f.sizes, ascending);
    auto_free char *heading =
        mem_printf("%s scaling – %s, session %s",
                   study->scaling == SCALING_WEAK ? "Weak" : "Strong", study->name, s->id);
    plot_gp_number(gp, "width", 860);
    plot_gp_number(gp, "height", 380);
    plot_gp_text(gp, "heading", heading);
    plot_gp_number(gp, "n_arms", (double)study->n_arms);
    plot_gp_texts(gp, "arm", &names);
    plot_gp_texts(gp, "color", &colors);
    plot_gp_text(gp, "size_name", study->scaling_over ? study->scaling_over : "ranks");
    plot_gp_number(gp, "n_sizes", (double)f.n_sizes);
    plot_gp_numbers(gp, "size", f.sizes, f.n_sizes);
    plot_gp_number(gp, "speedup_low", f.low);
    plot_gp_number(gp, "speedup_high", f.high);
    plot_gp_number(gp, "efficiency_high", f.efficiency);
    return true;
}
