/* What could stop or disturb a session on this machine, one finding a check.
 *
 * OK: nothing to do. WARN: a session runs, but something is missing or may disturb it. FAIL: a
 * session of that kind cannot run. Facts of /proc, /sys and cgroups are read below NCBENCH_FSROOT.
 */
#ifndef HARNESS_DOCTOR_H
#define HARNESS_DOCTOR_H

#include "common/json.h"

#include <stdbool.h>
#include <stddef.h>

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct finding {
    enum doctor_level level;
    const char *check; /* static: "memlock" */
    char *text;        /* owned: what is */
    char *fix;         /* owned or NULL: what to do */
};

struct doctor {
    struct finding *items;
    size_t count, cap;
};

void doctor_add(struct doctor *d, enum doctor_level level, const char *check, char *text,
                char *fix); /* takes text and fix */
void doctor_release(struct doctor *d);
enum doctor_level doctor_worst(const struct doctor *d);
const char *doctor_level_name(enum doctor_level level);

/* CPUs, clock, limits, memory, noise, helper programs. */
void doctor_machine(struct doctor *d);
/* Each registered runtime that can be absent, or only `kind` (then its absence is a FAIL):
 * versions, cgroups, a container really started, and whether `image` is there. */
void doctor_runtimes(struct doctor *d, const char *kind, const char *image);

#endif
