/* The report as files: figures drawn, document rendered. For the verb and for the end of `run`. */
#ifndef HARNESS_REPORT_FILES_H
#define HARNESS_REPORT_FILES_H

#include "harness/analysis.h"
#include "harness/plot.h"
#include "harness/reporters/reporter.h"
#include "harness/session_data.h"

/* The text of the report with its pictures; where there are none it says why. keep: they are drawn
 * into SESSION/plots, where Markdown links to them; else the session is left alone, HTML has its
 * pictures inside and Markdown has none. */
void report_render(const struct session_data *session, const struct analysis *a,
                   const struct reporter_ops *reporter, bool keep, struct str *out);

/* For the end of `run`: plots in the given formats ("svg", "png") and report.<extension> for each
 * of `reports` ("md", "html"), in the session's directory. Adds the paths written to `written` and
 * what could not be drawn to `notes`. */
int report_session_files(const char *dir, const struct strv *plots, const struct strv *reports,
                         struct strv *written, struct strv *notes, struct error *err);

#endif
