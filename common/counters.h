/* Event counters of this process, all its threads together, by a ladder:
 *
 *   papi      PAPI presets and native events, in builds with PAPI (HAVE_PAPI)
 *   perf      perf_event_open: software events, and cycles and instructions without PAPI
 *   rusage    getrusage
 *   proc      /proc/self/task/N/{schedstat,sched}
 *
 * A counter that a rung cannot give is asked of the next one that has a counterpart; one that none
 * can give is unavailable with a reason, and never zero. What a rung says it has is not believed:
 * an event is added, started and read, and cycles must be more than none (PAPI lists presets in
 * virtual machines that have no counters; papi#354).
 *
 * Names: PAPI_TOT_INS … (PAPI's), perf::CONTEXT-SWITCHES …, rusage::VOLUNTARY-SWITCHES
 * rusage::INVOLUNTARY-SWITCHES rusage::MINOR-FAULTS rusage::MAJOR-FAULTS rusage::USER-TIME-US
 * rusage::SYSTEM-TIME-US, sched::RUN-DELAY-NS (waiting for a CPU), sched::MIGRATIONS.
 *
 * Threads that exist when counters are opened are counted, and those they start (PAPI: only those
 * that the opening thread starts): open before OpenMP or BLAS make theirs. */
#ifndef COMMON_COUNTERS_H
#define COMMON_COUNTERS_H

#include "common/json.h"
#include "common/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNTER_NONE (-1) /* a value that could not be had */

struct counters;

struct counter_info {
    char *name;         /* as asked for */
    const char *source; /* "papi", "perf", "perf (user space only)", "rusage", "proc"; NULL: none */
    char *why;          /* no source: every rung's reason; a lower rung: why not the higher one */
};

/* Never fails; names may be an empty list. */
struct counters *counters_open(const struct strv *names);
void counters_close(struct counters *c); /* NULL: nothing */
size_t counters_count(const struct counters *c);
const struct counter_info *counters_info(const struct counters *c, size_t i);
/* What happens between the two, into values[counters_count]: >= 0, or COUNTER_NONE. No allocation
 * but for proc counters. */
void counters_begin(struct counters *c);
void counters_end(struct counters *c, int64_t *values);
/* {"sources": {name: source}, "unavailable": {name: why}, "fallbacks": {name: why not a higher
 * rung}}.
 */
json_t *counters_describe(const struct counters *c);

/* Are perf events forbidden here (perf_event_paranoid), or absent? Appends the reason. */
bool counters_forbidden(struct str *why);
/* "a, b" as a list. */
void counters_split(const char *text, struct strv *names);

#endif
