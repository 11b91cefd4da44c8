/* Verdicts for machines: one object per metric, cell and pair (results/README.md). */
#ifndef HARNESS_VERDICT_JSON_H
#define HARNESS_VERDICT_JSON_H

#include "common/json.h"
#include "harness/analysis.h"

json_t *comparison_json(const struct analysis *a, const struct comparison *c);
/* {"session", "schema", "comparisons": […], "findings": […], "control": …}; caller owns. */
json_t *analysis_json(const struct analysis *a, const char *session);
/* The comparisons as CSV with a header; a missing value is an empty cell. */
void analysis_csv(const struct analysis *a, struct str *out);

/* One CSV cell, quoted where it must be. */
void csv_put(struct str *out, const char *text);
void csv_put_f64(struct str *out, double value); /* NaN: empty */

#endif
