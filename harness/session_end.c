#include "harness/session_end.h"

#include "common/log.h"
#include "harness/analysis.h"
#include "harness/report.h"
#include "harness/report_files.h"
#include "harness/session_data.h"

int session_tell_verdicts(const char *dir, struct error *err)
{
    struct session_data session;
    struct analysis a;
    if (session_data_load(dir, &session, err))
        return -err->code;
    analysis_make(&session.study, &session.view.records, NULL, &a);
    for (size_t i = 0; i < a.n_primary; i++)
        if (!analysis_is_control(&a, &a.items[i]))
            log_info("%s: %s", report_cell_label(&session.study, a.items[i].cell),
                     a.items[i].sentence);
    analysis_release(&a);
    session_data_release(&session);
    return 0;
}

int session_end(const struct scenario *s, const char *dir, const char *shown, struct error *err)
{
    auto_strv written = STRV_INIT;
    auto_strv notes = STRV_INIT;
    if (session_tell_verdicts(dir, err))
        return -err->code;
    if (!s->output.report.count && !s->output.plots.count)
        return 0;
    if (report_session_files(dir, &s->output.plots, &s->output.report, &written, &notes, err))
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
