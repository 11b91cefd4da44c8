/* The report as files: figures drawn, document rendered. For the verb and for the end of `run`. */
#ifndef HARNESS_REPORT_FILES_H
#define HARNESS_REPORT_FILES_H

#include "harness/analysis.h"
#include "harness/plot.h"
#include "harness/report.h"
#include "harness/reporters/reporter.h"
#include "harness/session_data.h"

/* Draws every figure; where there are none *out says why. keep: they are drawn into SESSION/plots,
 * where Markdown links to them; else, or where that cannot be written, the session is left alone.
 */
void report_draw(const struct session_data *session, const struct analysis *a, bool keep,
                 struct report_figures *out);
void report_figures_release(struct report_figures *f);

/* The text of the report with copies of the figures. */
void report_render(const struct session_data *session, const struct analysis *a,
                   const struct reporter_ops *reporter, const struct report_figures *figures,
                   struct str *out);

/* For the end of `run`: plots in the given formats ("svg", "png") and report.<extension> for each
 * of `reports` ("md", "html"), in the session's directory. Adds the paths written to `written` and
 * what could not be drawn to `notes`. */
int report_session_files(const struct session_data *session, const struct analysis *a,
                         const struct strv *plots, const struct strv *reports, struct strv *written,
                         struct strv *notes, struct error *err);

#endif
