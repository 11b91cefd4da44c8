/* Gates: the conditions of a scenario that a session must meet.
 *
 *   verdict: not_slower   one-sided non-inferiority: the cost interval's upper end is within the
 *                         margin. Failed: the whole interval is beyond it.
 *   verdict: equivalent   the comparison's verdict. Failed: any other that is certain.
 *   min, max              the median of the metric in each cell
 *
 * In between lies inconclusive. What is not comparable or untrustworthy is neither passed nor
 * failed. */
#ifndef HARNESS_GATE_H
#define HARNESS_GATE_H

#include "common/error.h"
#include "common/json.h"
#include "harness/analysis.h"

enum gate_result {
    GATE_PASSED,
    GATE_FAILED,
    GATE_INCONCLUSIVE,
    GATE_INCOMPLETE,
    GATE_UNTRUSTWORTHY
};
const char *gate_result_name(enum gate_result r);

struct gate_line {
    enum gate_result result;
    char *what;   /* "step_time_s of podman, ranks 2: not slower than bare" */
    char *detail; /* sentence, or value against threshold */
};

struct gate_lines {
    struct gate_line *items;
    size_t count, cap;
};

/* All gates over all cells. An unknown runtime or reference in a gate is an error (3). */
int gates_evaluate(const struct analysis *a, struct gate_lines *out, struct error *err);
void gate_lines_release(struct gate_lines *g);
/* The exit code of them all, the worst first: 7 untrustworthy, 5 incomplete, 1 failed, 6
 * inconclusive, 0. */
int gates_exit(const struct gate_lines *g);
void gates_text(const struct gate_lines *g, struct str *out);
json_t *gates_json(const struct gate_lines *g);

/* Evaluate the gates of a session; the lines, or a JSON array of them, are appended to out. Returns
 * the exit code. A session without gates passes with a note. */
int gates_run(const struct analysis *a, bool json, struct str *out, struct error *err);

#endif
