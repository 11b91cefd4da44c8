/* ncbench plot: pictures of a session through gnuplot. */
#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "harness/output.h"
#include "harness/plot.h"
#include "harness/verbs.h"

#include <string.h>

struct plot_options {
    char *kind;
    struct strv formats;
    char *dir;
};

const struct option_spec plot_options[] = {
    {"kind", 'k', OPT_CHOICE, offsetof(struct plot_options, kind), "all", 0, 0,
     "all|ratio|steps|phases|scaling|ecdf",
     "ratio: each arm against the baseline with its interval and the margin; steps: every steady "
     "step and each trial's median; phases: stacked per arm; scaling: speed-up and efficiency over "
     "the sizes; ecdf: start-up of every trial"},
    {"format", 'f', OPT_LIST, offsetof(struct plot_options, formats), NULL, 0, 0, "svg|png",
     "svg, png; may be repeated; both when not given"},
    {"output", 'o', OPT_STRING, offsetof(struct plot_options, dir), NULL, 0, 0, "DIR",
     "folder for .dat, .gp and pictures; SESSION/plots when not given"},
    {0}};

static int read_formats(const struct strv *formats, struct plot_request *out, struct error *err)
{
    out->svg = out->png = formats->count == 0;
    for (size_t i = 0; i < formats->count; i++) {
        if (!strcmp(formats->items[i], "svg"))
            out->svg = true;
        else if (!strcmp(formats->items[i], "png"))
            out->png = true;
        else
            return error_set(err, NCBENCH_EXIT_USAGE, "--format \"%s\", expected svg or png",
                             formats->items[i]);
    }
    return 0;
}

static int plot(const struct plot_options *o, const char *path, struct error *err)
{
    struct session_data session;
    struct plot_request request = {0};
    if (read_formats(&o->formats, &request, err) || session_data_load(path, &session, err))
        return err->code;
    for (int k = 0; k < PLOT_KIND_COUNT; k++)
        request.kinds[k] =
            !strcmp(o->kind, "all") || !strcmp(o->kind, plot_kind_name((enum plot_kind)k));
    auto_free char *dir = o->dir ? mem_strdup(o->dir) : mem_printf("%s/plots", session.view.dir);
    request.dir = dir;
    struct analysis a;
    auto_strv written = STRV_INIT;
    auto_strv notes = STRV_INIT;
    analysis_make(&session.study, &session.view.records, NULL, &a);
    int rc = plot_write(&session, &a, &request, &written, &notes, err) ? err->code : 0;
    auto_str text = STR_INIT;
    for (size_t i = 0; i < written.count; i++)
        str_appendf(&text, "%s\n", written.items[i]);
    for (size_t i = 0; i < notes.count; i++)
        log_info("%s", notes.items[i]);
    if (rc == 0 && output_write(NULL, &text, err))
        rc = err->code;
    analysis_release(&a);
    session_data_release(&session);
    return rc;
}

int cmd_plot(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    auto_strv operands = STRV_INIT;
    struct plot_options o;
    options_defaults(plot_options, &o);
    int rc;
    if (options_parse(plot_options, &o, argc, argv, &operands, &err))
        rc = err.code;
    else if (operands.count != 1)
        rc =
            -error_set(&err, NCBENCH_EXIT_USAGE, "plot takes one session, got %zu", operands.count);
    else
        rc = plot(&o, operands.items[0], &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(plot_options, &o);
    return rc;
}
