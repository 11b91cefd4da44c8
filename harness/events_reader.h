/* Reading what the ranks of a trial wrote: events.rank<NNNNN>.jsonl of the trial directory, or
 * events.node<NNNNN>.jsonl, whose lines say whose they are.
 *
 * Written by a program that may have been killed at any byte, or by a foreign one: a torn last
 * line, lines that are not JSON, events without their fields, and unknown events are counted or
 * ignored, never fatal. Numbers are accepted only where they make sense (finite, an end not before
 * its beginning), so that nothing derived from them is NaN by accident; a missing number is NaN in
 * these structs and null in the record. */
#ifndef HARNESS_EVENTS_READER_H
#define HARNESS_EVENTS_READER_H

#include "common/error.h"
#include "common/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct step_event {
    int64_t step;
    double t_start_s, t_end_s;
    double data_wait_s, fwd_s, bwd_s, comm_s, opt_s;
    double loss, grad_norm, tokens;
};

struct phase_event {
    char name[32];
    double total_s; /* all begin/end pairs */
    double begin_s; /* of the first */
    double end_s;   /* of the last; NaN while it is open */
    double open_s;  /* begin of the one that is open, or NaN */
};

/* All calls of one collective of one size. */
struct comm_event {
    char op[32];
    int64_t bytes;
    double *time_us; /* owned */
    size_t count, cap;
};

/* What the counters counted in one step: {name: count or null}. */
struct counters_event {
    int64_t step;
    json_t *values; /* owned */
};

struct rank_events {
    int rank;                     /* by the file's name, or by its lines */
    json_t *hello, *env, *config; /* owned; NULL if never written. config: the run's shape */
    json_t *done, *peer_lost, *summary;
    int64_t hellos;  /* more than one: several processes took themselves for this rank */
    double last_t_s; /* newest time stamp of any event, or NaN */
    struct {
        struct step_event *items;
        size_t count, cap;
    } steps;
    struct {
        struct phase_event *items;
        size_t count, cap;
    } phases;
    struct {
        struct comm_event *items;
        size_t count, cap;
    } comms;
    struct {
        struct counters_event *items;
        size_t count, cap;
    } counts;
    int64_t lines, bad_lines;
    bool torn; /* the rank's own file does not end in a newline */
};

struct trial_events {
    struct rank_events *items; /* by rank */
    size_t count, cap;
    int64_t files;
    int64_t nobodys_lines; /* of shared files: nothing, or no rank, could be read from them */
    int64_t torn_files;
};

/* All event files of a directory; none is not an error. */
int trial_events_load(const char *dir, struct trial_events *out, struct error *err);
void trial_events_release(struct trial_events *e);
bool trial_events_hello(const struct trial_events *e); /* did any rank say hello? */

/* The text of a rank's own file into out (which must be zeroed); never fails. */
void rank_events_parse(const char *text, size_t len, struct rank_events *out);
void rank_events_release(struct rank_events *e);
/* The text of a file that ranks share, added to out; never fails. */
void trial_events_parse_shared(const char *text, size_t len, struct trial_events *out);
const struct phase_event *rank_events_phase(const struct rank_events *e, const char *name);

/* For a live display: the "step" of the last whole step line within the last 4 KiB, or -1. */
int64_t events_last_step(const char *path);

#endif
