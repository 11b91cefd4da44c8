/* Sessions made by hand for unit tests: a resolved scenario and records without running anything.
 */
#ifndef TESTS_UNIT_SESSION_FIXTURE_H
#define TESTS_UNIT_SESSION_FIXTURE_H

#include "harness/record.h"
#include "harness/study.h"

/* resolved.json as text: arms bare and podman (and bare-control), cells c00 (ranks 1) and c01
 * (ranks 2), step_time_s with a margin of 1 %. looks: "[6, 12, 24]". */
void fixture_study(struct study *out, const char *looks, bool control);

struct fixture_trial {
    const char *cell, *runtime;
    int64_t block, attempt; /* attempt 0: 1 */
    enum outcome outcome;
    double step_time_s; /* <= 0: null */
    json_t *env;        /* of every rank; stolen; NULL: none recorded */
};
void fixture_add(struct records *r, struct fixture_trial trial);
/* n blocks of both arms in a cell: a[i] bare, b[i] podman. */
void fixture_add_pairs(struct records *r, const char *cell, const double *a, const double *b,
                       size_t n);

#endif
