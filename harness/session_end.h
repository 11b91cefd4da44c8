/* What follows the last trial of a session: reports, plots and verdicts, by what its records say.
 * Nothing here changes how the session itself ended. */
#ifndef HARNESS_SESSION_END_H
#define HARNESS_SESSION_END_H

#include "common/error.h"
#include "harness/analysis.h"
#include "harness/scenario.h"
#include "harness/session_data.h"

/* Writes output.report and output.plots of the scenario into the session's directory and tells
 * people the verdicts and where the files are, on standard error. Exit 8 when they cannot be
 * written. session, a: what was read back from it; shown: its directory as the user would write it.
 */
int session_end(const struct scenario *s, const struct session_data *session,
                const struct analysis *a, const char *shown, struct error *err);

/* The verdict of each comparison but those of control arms, on standard error. */
void session_tell_verdicts(const struct analysis *a);

#endif
