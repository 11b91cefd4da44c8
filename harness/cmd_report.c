/* ncbench report: what a session found, as a page to send to a colleague. */
#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "harness/output.h"
#include "harness/report_files.h"
#include "harness/verbs.h"

#include <string.h>

struct report_options {
    bool html, md;
    char *output;
};

const struct option_spec report_options[] = {
    {"html", 0, OPT_BOOL, offsetof(struct report_options, html), NULL, 0, 0, NULL,
     "one self-contained HTML file: style and pictures inside, no script, nothing fetched"},
    {"md", 0, OPT_BOOL, offsetof(struct report_options, md), NULL, 0, 0, NULL,
     "Markdown; pictures are linked as plots/NAME.svg"},
    {"output", 'o', OPT_STRING, offsetof(struct report_options, output), NULL, 0, 0, "FILE",
     "write to FILE (- is standard output) in place of SESSION/report.html and report.md"},
    {0}};

static int write_one(const struct report_options *o, const struct session_data *session,
                     const struct analysis *a, const struct reporter_ops *reporter,
                     const struct report_figures *figures, struct error *err)
{
    auto_str text = STR_INIT;
    auto_free char *path = o->output
                               ? mem_strdup(o->output)
                               : mem_printf("%s/report%s", session->view.dir, reporter->extension);
    report_render(session, a, reporter, figures, &text);
    if (output_write(path, &text, err))
        return -err->code;
    if (strcmp(path, "-") != 0)
        log_info("wrote %s", path);
    return 0;
}

static int report(const struct report_options *o, const char *path, struct error *err)
{
    struct session_data session;
    struct analysis a;
    if (session_data_load(path, &session, err))
        return err->code;
    /* One format where one file is asked for: HTML unless Markdown is named or its extension. */
    bool md_file = o->output && str_ends_with(o->output, ".md");
    bool html = o->html || (!o->md && !(md_file || (o->output && !strcmp(o->output, "-"))));
    bool md = o->md || (!o->html && (!o->output || !html));
    analysis_make(&session.study, &session.view.records, NULL, &a);
    int rc = analysis_exit(&a);
    struct report_figures figures = {.why = "`ncbench plot SESSION` draws them"};
    if (!o->output || html) /* Markdown alone has none inside */
        report_draw(&session, &a, !o->output, &figures);
    if ((html && write_one(o, &session, &a, &reporter_html, &figures, err)) ||
        (md && write_one(o, &session, &a, &reporter_markdown, &figures, err)))
        rc = err->code;
    report_figures_release(&figures);
    analysis_release(&a);
    session_data_release(&session);
    return rc;
}

int cmd_report(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    auto_strv operands = STRV_INIT;
    struct report_options o;
    options_defaults(report_options, &o);
    int rc;
    if (options_parse(report_options, &o, argc, argv, &operands, &err))
        rc = err.code;
    else if (operands.count != 1)
        rc = -error_set(&err, NCBENCH_EXIT_USAGE, "report takes one session, got %zu",
                        operands.count);
    else if (o.html && o.md && o.output)
        rc = -error_set(&err, NCBENCH_EXIT_USAGE, "--output takes one of --html and --md");
    else
        rc = report(&o, operands.items[0], &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(report_options, &o);
    return rc;
}
