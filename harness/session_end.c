#include "harness/session_end.h"

#include "common/log.h"
#include "harness/report.h"
#include "harness/report_files.h"

void session_tell_verdicts(const struct analysis *a)
{
    for (size_t i = 0; i < a->n_primary; i++)
        if (!analysis_is_control(a, &a->items[i]))
            log_info("%s: %s", report_cell_label(a->study, a->items[i].cell), a->items[i].sentence);
}

int session_end(const struct scenario *s, const struct session_data *session,
                const struct analysis *a, const char *shown, struct error *err)
{
    auto_strv written = STRV_INIT;
    auto_strv notes = STRV_INIT;
    session_tell_verdicts(a);
    if (!s->output.report.count && !s->output.plots.count)
        return 0;
    if (report_session_files(session, a, &s->output.plots, &s->output.report, &written, &notes,
                             err))
        return -err->code;
    for (size_t i = 0; i < notes.count; i++)
        log_debug("%s", notes.items[i]);
    for (size_t i = 0; i < s->output.report.count; i++) {
        const struct reporter_ops *reporter = reporter_find(s->output.report.items[i]);
        log_info("report: %s/report%s", shown, reporter ? reporter->extension : "");
    }
    if (s->output.plots.count)
        log_info("plots:  %s/plots", shown);
    return 0;
}
