/* What a plan can show, by the noise of an earlier session of the same scenario. */
#ifndef HARNESS_PLAN_POWER_H
#define HARNESS_PLAN_POWER_H

#include "harness/plan.h"

/* Appends, for each cell and arm that the session measured: the noise between paired trials, how
 * many blocks the margin of the primary metric needs (power 80 and 90 %, no true difference, alpha
 * of the scenario's looks) and what the planned number can show. session: a session's folder, or
 * NULL for the newest of this scenario; without one a line says so. Exit 8 for a session that is
 * named and cannot be read. */
int plan_power(const struct scenario *s, const struct plan *plan, const char *session,
               struct str *out, struct error *err);

#endif
