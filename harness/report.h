/* The report of a session as a document, and the shorter one that `compare` prints. */
#ifndef HARNESS_REPORT_H
#define HARNESS_REPORT_H

#include "harness/analysis.h"
#include "harness/document.h"
#include "harness/session_data.h"

struct report_figures { /* texts of pictures by kind; taken over by the document */
    char *ratio, *steps, *phases, *ecdf, *scaling;
    const char *why; /* why there are none; NULL if there are */
};

/* Everything: verdicts, evidence, phases, scaling, control, failures, method, provenance. */
void report_full(const struct session_data *session, const struct analysis *a,
                 struct report_figures *figures, struct document *out);
/* Findings, verdicts, the table of numbers; explain: also how each number came about. */
void report_compare(const struct session_data *session, const struct analysis *a, bool explain,
                    struct document *out);

/* ---- sections, for both */
void report_verdicts(const struct analysis *a, struct document *out);
void report_findings(const struct analysis *a, struct document *out);
void report_treatments(const struct analysis *a, struct document *out);
void report_numbers(const struct analysis *a, bool primary, struct document *out);
void report_details(const struct analysis *a, struct document *out);
void report_phases(const struct analysis *a, struct document *out);
bool report_has_scaling(const struct analysis *a);
void report_scaling(const struct analysis *a, struct document *out);
void report_failures(const struct session_data *session, const struct analysis *a,
                     struct document *out);
void report_method(const struct analysis *a, struct document *out);
void report_provenance(const struct session_data *session, const struct analysis *a,
                       struct document *out);

/* A value of a metric for people, by its unit: "203.1 ms", "52,400 /s", "53.2 %", "1.4 GiB". */
void report_put_value(struct str *out, const char *metric, double value);
void report_put_seconds(struct document *d, double s); /* a cell: "12.3 ms", or a dash */
/* "step time" of step_time_s, "start-up time" of start_s, else the name. */
const char *report_metric_words(const char *metric);
/* The label of a cell: "ranks 2", or "all" for a matrix of one point. */
const char *report_cell_label(const struct study *s, size_t cell);

/* A copy without the '|' that separates the headers of a table; caller frees. */
char *report_header_word(const char *text);

#endif
