/* What follows the last trial of a session: reports, plots and verdicts, by what its records say.
 * Nothing here changes how the session itself ended. */
#ifndef HARNESS_SESSION_END_H
#define HARNESS_SESSION_END_H

#include "common/error.h"
#include "harness/scenario.h"

/* Writes output.report and output.plots of the scenario into the session's directory and tells
 * people the verdicts and where the files are, on standard error. Exit 8 when they cannot be
 * written. dir: the session's; shown: the same as the user would write it. */
int session_end(const struct scenario *s, const char *dir, const char *shown, struct error *err);

/* The verdict of each comparison but those of control arms, on standard error. 8: the session
 * cannot be read. */
int session_tell_verdicts(const char *dir, struct error *err);

#endif
