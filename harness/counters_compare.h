/* Counters of the arms beside each other: only those that every arm has, from the same source, in
 * every trial that counts. They explain a difference; no verdict rests on them. */
#ifndef HARNESS_COUNTERS_COMPARE_H
#define HARNESS_COUNTERS_COMPARE_H

#include "common/json.h"
#include "harness/analysis.h"
#include "harness/document.h"

struct counter_row {
    size_t cell;
    char *name;
    const char *source; /* "perf", "rusage" …; NULL: not compared */
    char *why;          /* not compared: "podman has none (…)" */
    double *per_step;   /* of each arm: median over its trials of all ranks' counts a steady step */
};
struct counter_rows {
    struct counter_row *items; /* by cell, then as asked for */
    size_t count, cap;
};

void counter_rows_make(const struct analysis *a, struct counter_rows *out);
void counter_rows_release(struct counter_rows *rows);

/* A table, and a list of what is not compared; nothing where nothing was counted. */
void report_counters(const struct analysis *a, struct document *out);
json_t *counters_json(const struct analysis *a);

#endif
