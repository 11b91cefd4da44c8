#include "harness/report_files.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "harness/output.h"
#include "harness/report.h"

#include <string.h>

static const struct plot_request everything = {.kinds = {true, true, true, true, true}};

/* Only what was drawn now: an older picture may show an older state. */
static char *picture(const struct strv *written, const char *dir, enum plot_kind kind)
{
    auto_free char *path = mem_printf("%s/%s.svg", dir, plot_kind_name(kind));
    auto_error struct error ignored = ERROR_INIT;
    auto_str text = STR_INIT;
    if (!strv_contains(written, path) || fs_read_file(path, &text, NCBENCH_EXIT_RESULTS, &ignored))
        return NULL;
    return str_steal(&text);
}

static void take_pictures(const struct strv *written, const char *dir, struct report_figures *out)
{
    out->ratio = picture(written, dir, PLOT_RATIO);
    out->steps = picture(written, dir, PLOT_STEPS);
    out->phases = picture(written, dir, PLOT_PHASES);
    out->scaling = picture(written, dir, PLOT_SCALING);
    out->ecdf = picture(written, dir, PLOT_ECDF);
}

static bool draw_in(const struct session_data *session, const struct analysis *a, const char *dir,
                    struct report_figures *out, struct error *err)
{
    struct plot_request request = everything;
    auto_strv written = STRV_INIT;
    auto_strv notes = STRV_INIT;
    request.dir = dir;
    request.svg = true;
    if (plot_write(session, a, &request, &written, &notes, err))
        return false;
    take_pictures(&written, dir, out);
    return true;
}

void report_draw(const struct session_data *session, const struct analysis *a, bool keep,
                 struct report_figures *out)
{
    auto_free char *dir = mem_printf("%s/plots", session->view.dir);
    auto_free char *gnuplot = spawn_find_program("gnuplot");
    auto_error struct error err = ERROR_INIT;
    auto_error struct error again = ERROR_INIT;
    *out = (struct report_figures){0};
    if (!gnuplot) {
        out->why = "gnuplot is not installed";
        return;
    }
    if (keep && draw_in(session, a, dir, out, &err))
        return;
    char temporary[] = "/tmp/ncbench-plots-XXXXXX"; /* or a session that others own */
    if (!mkdtemp(temporary) || !draw_in(session, a, temporary, out, &again))
        out->why = "no folder for them can be written";
    fs_remove_tree(temporary, NCBENCH_EXIT_RESULTS, &again);
}

static char *copy_of(const char *text)
{
    return text ? mem_strdup(text) : NULL;
}

void report_figures_release(struct report_figures *f)
{
    free(f->ratio);
    free(f->steps);
    free(f->phases);
    free(f->ecdf);
    free(f->scaling);
    *f = (struct report_figures){0};
}

void report_render(const struct session_data *session, const struct analysis *a,
                   const struct reporter_ops *reporter, const struct report_figures *figures,
                   struct str *out)
{
    struct document doc = {0};
    struct report_figures taken = {copy_of(figures->ratio),   copy_of(figures->steps),
                                   copy_of(figures->phases),  copy_of(figures->ecdf),
                                   copy_of(figures->scaling), figures->why};
    auto_free char *title = mem_printf("%s – %s", session->study.name, session->id);
    report_full(session, a, &taken, &doc);
    reporter->render(&doc, title, out);
    document_release(&doc);
}

static int write_reports(const struct session_data *session, const struct analysis *a,
                         const struct strv *reports, const struct report_figures *figures,
                         struct strv *written, struct error *err)
{
    for (size_t i = 0; i < reports->count; i++) {
        const struct reporter_ops *reporter = reporter_find(reports->items[i]);
        if (!reporter)
            return error_set(err, NCBENCH_EXIT_SCENARIO, "there is no report format \"%s\"",
                             reports->items[i]);
        auto_str text = STR_INIT;
        auto_free char *path = mem_printf("%s/report%s", session->view.dir, reporter->extension);
        report_render(session, a, reporter, figures, &text);
        if (output_write(path, &text, err))
            return -err->code;
        strv_push(written, path);
    }
    return 0;
}

int report_session_files(const struct session_data *session, const struct analysis *a,
                         const struct strv *plots, const struct strv *reports, struct strv *written,
                         struct strv *notes, struct error *err)
{
    auto_free char *folder = mem_printf("%s/plots", session->view.dir);
    auto_free char *gnuplot = spawn_find_program("gnuplot");
    auto_strv pictures = STRV_INIT;
    struct plot_request request = everything;
    request.dir = folder;
    request.png = strv_contains(plots, "png");
    request.svg = strv_contains(plots, "svg") || strv_contains(reports, "html");
    int rc = 0;
    if (request.svg || request.png)
        rc = plot_write(session, a, &request, &pictures, notes, err);
    if (rc == 0) {
        struct report_figures figures = {.why = gnuplot ? NULL : "gnuplot is not installed"};
        take_pictures(&pictures, folder, &figures);
        rc = write_reports(session, a, reports, &figures, written, err);
        report_figures_release(&figures);
    }
    strv_extend(written, &pictures);
    return rc;
}
