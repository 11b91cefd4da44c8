#include "harness/plot.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/spawn.h"

#include <math.h>
#include <string.h>
#include <sys/wait.h>

#define GNUPLOT_SECONDS 120

static const struct {
    const char *name;
    bool (*data)(const struct session_data *, const struct analysis *, struct str *, struct str *,
                 const char **);
} kinds[PLOT_KIND_COUNT] = {[PLOT_RATIO] = {"ratio", plot_data_ratio},
                            [PLOT_STEPS] = {"steps", plot_data_steps},
                            [PLOT_PHASES] = {"phases", plot_data_phases},
                            [PLOT_SCALING] = {"scaling", plot_data_scaling},
                            [PLOT_ECDF] = {"ecdf", plot_data_ecdf}};

const char *plot_kind_name(enum plot_kind kind)
{
    return kinds[kind].name;
}

bool plot_data(const struct session_data *s, const struct analysis *a, enum plot_kind kind,
               struct str *dat, struct str *gp, const char **why)
{
    return kinds[kind].data(s, a, dat, gp, why);
}

/* Okabe and Ito's palette: told apart by people who do not see all colours. */
const char *plot_color(const struct study *s, size_t arm)
{
    static const char *const others[] = {"#D55E00", "#009E73", "#CC79A7",
                                         "#E69F00", "#56B4E9", "#7A5C00"};
    if (arm == s->baseline)
        return "#0072B2";
    if (study_is_control(s, arm))
        return "#7F8A94";
    size_t rank = 0;
    for (size_t i = 0; i < arm; i++)
        rank += i != s->baseline && !study_is_control(s, i);
    return others[rank % (sizeof others / sizeof *others)];
}

/* ---- writing gnuplot's language ------------------------------------------------------------- */

/* In single quotes only the quote itself is special; control characters become blanks. */
static void put_quoted(struct str *gp, const char *value)
{
    str_append_char(gp, '\'');
    for (const char *p = value ? value : ""; *p; p++) {
        if (*p == '\'')
            str_append_char(gp, '\'');
        str_append_char(gp, (unsigned char)*p < 0x20 || *p == 0x7f ? ' ' : *p);
    }
    str_append_char(gp, '\'');
}

static void put_number(struct str *gp, double value)
{
    char text[NUM_F64_MAX];
    str_append(gp, isfinite(value) ? num_format_f64(text, value) : "0");
}

void plot_gp_text(struct str *gp, const char *variable, const char *value)
{
    str_appendf(gp, "%s = ", variable);
    put_quoted(gp, value);
    str_append(gp, "\n");
}

void plot_gp_number(struct str *gp, const char *variable, double value)
{
    str_appendf(gp, "%s = ", variable);
    put_number(gp, value);
    str_append(gp, "\n");
}

void plot_gp_texts(struct str *gp, const char *variable, const struct strv *values)
{
    str_appendf(gp, "array %s[%zu] = [", variable, values->count);
    for (size_t i = 0; i < values->count; i++) {
        str_append(gp, i ? ", " : "");
        put_quoted(gp, values->items[i]);
    }
    str_append(gp, "]\n");
}

void plot_gp_labels(struct str *gp, const char *variable, const struct strv *values)
{
    auto_strv doubled = STRV_INIT;
    for (size_t i = 0; i < values->count; i++) {
        struct str text = STR_INIT;
        for (const char *p = values->items[i]; *p; p++)
            str_append_n(&text, "%%", *p == '%' ? 2 : 0), str_append_n(&text, p, *p != '%');
        strv_push_own(&doubled, str_steal(&text));
    }
    plot_gp_texts(gp, variable, &doubled);
}

void plot_gp_numbers(struct str *gp, const char *variable, const double *values, size_t n)
{
    str_appendf(gp, "array %s[%zu] = [", variable, n);
    for (size_t i = 0; i < n; i++) {
        str_append(gp, i ? ", " : "");
        put_number(gp, values[i]);
    }
    str_append(gp, "]\n");
}

void plot_put(struct str *dat, double value)
{
    char text[NUM_F64_MAX];
    if (dat->len && dat->data[dat->len - 1] != '\n')
        str_append_char(dat, ' ');
    str_append(dat, isfinite(value) ? num_format_f64(text, value) : "?");
}

void plot_end_index(struct str *dat, bool empty, size_t columns)
{
    for (size_t i = 0; empty && i < columns; i++)
        str_append(dat, i ? " ?" : "?");
    str_append(dat, empty ? "\n\n\n" : "\n\n");
}

/* ---- files
 * ---------------------------------------------------------------------------------------- */

static int write_text(const char *dir, const char *name, const char *extension,
                      const struct str *text, struct strv *written, struct error *err)
{
    auto_free char *path = mem_printf("%s/%s%s", dir, name, extension);
    if (fs_write_atomic(path, text->data, text->len, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    strv_push(written, path);
    return 0;
}

static int write_inputs(const char *dir, const char *name, const struct str *dat,
                        const struct str *variables, struct strv *written, struct error *err)
{
    auto_str gp = STR_INIT;
    str_append(&gp, "# Written by ncbench; run it in this directory.\n");
    plot_gp_text(&gp, "name", name);
    str_append(&gp, variables->data);
    str_append(&gp, "max(a, b) = a > b ? a : b\n\n");
    str_append(&gp, plot_template("common"));
    str_append(&gp, "\n");
    str_append(&gp, plot_template(name));
    return write_text(dir, name, ".dat", dat, written, err) ||
                   write_text(dir, name, ".gp", &gp, written, err)
               ? -err->code
               : 0;
}

static bool is_drawn(const char *path)
{
    auto_str text = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    return fs_exists(path) && !fs_read_file(path, &text, NCBENCH_EXIT_RESULTS, &ignored) &&
           text.len > 100;
}

static void draw(const char *gnuplot, const char *dir, const char *name, const char *format,
                 struct strv *written, struct strv *notes)
{
    auto_str setup = STR_INIT;
    auto_str output = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    auto_free char *picture = mem_printf("%s/%s.%s", dir, name, format);
    auto_free char *script = mem_printf("%s.gp", name);
    int status = 0;
    fs_remove_tree(picture, NCBENCH_EXIT_RESULTS, &err); /* never an old one for a new one */
    str_append(&setup, "cd ");
    put_quoted(&setup, dir);
    str_appendf(&setup, "; format = '%s'", format);
    char *argv[] = {(char *)gnuplot, (char *)"-e", setup.data, script, NULL};
    if (spawn_capture(argv, NULL, GNUPLOT_SECONDS, NULL, &output, &status, NCBENCH_EXIT_RESULTS,
                      &err))
        strv_pushf(notes, "%s.%s: %s", name, format, err.message);
    else if (status != 0 || !is_drawn(picture))
        strv_pushf(notes, "%s.%s: gnuplot failed: %s", name, format, str_trim(output.data));
    else
        strv_push(written, picture);
}

int plot_write(const struct session_data *s, const struct analysis *a,
               const struct plot_request *request, struct strv *written, struct strv *notes,
               struct error *err)
{
    auto_free char *gnuplot = spawn_find_program("gnuplot");
    if (fs_mkdir_p(request->dir, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    for (int k = 0; k < PLOT_KIND_COUNT; k++) {
        auto_str dat = STR_INIT;
        auto_str gp = STR_INIT;
        const char *why = NULL;
        if (!request->kinds[k])
            continue;
        if (!plot_data(s, a, (enum plot_kind)k, &dat, &gp, &why)) {
            strv_pushf(notes, "%s: %s", kinds[k].name, why);
            continue;
        }
        if (write_inputs(request->dir, kinds[k].name, &dat, &gp, written, err))
            return -err->code;
        if (gnuplot && request->svg)
            draw(gnuplot, request->dir, kinds[k].name, "svg", written, notes);
        if (gnuplot && request->png)
            draw(gnuplot, request->dir, kinds[k].name, "png", written, notes);
    }
    if (!gnuplot)
        strv_push(notes, "gnuplot is not installed: only .dat and .gp files were written");
    return 0;
}
