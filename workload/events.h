/* The event file of a rank: $NCBENCH_TRIAL_DIR/events.rank<NNNNN>.jsonl, or one that the ranks of a
 * node share (trial_files.h; the contract is in common/protocol.h). Without that variable every
 * function does nothing.
 *
 * Steps and collectives are collected in memory that is allocated at events_open; they are written
 * by events_flush, which the training loop calls between steps, outside the timed region. When the
 * buffer is full, collectives are counted as dropped (reported in `done`), never steps. A file that
 * cannot be written is NANOCHAT_EXIT_WRITE.
 *
 * `done` is written by events_finish, exactly once, also after an error; its absence means that the
 * rank did not finish. */
#ifndef WORKLOAD_EVENTS_H
#define WORKLOAD_EVENTS_H

#include "common/counters.h"
#include "common/error.h"
#include "common/json.h"
#include "workload/comm.h"
#include "workload/env.h"

struct events;

struct step_record {
    int64_t step;
    int64_t epoch;
    double t_start_s, t_end_s; /* clock_mono_s */
    double
        data_prepare_s; /* between the steps: reading and tokenising for this one and later ones */
    double data_wait_s, fwd_s, bwd_s, comm_s, opt_s;
    double loss;      /* mean over the global batch's targets; NaN: null */
    double grad_norm; /* of the reduced gradient; < 0: not computed */
    int64_t tokens;   /* of all ranks */
};

/* Opens the file and writes hello (entry_s: clock_mono_s at the first statement of main) and the
 * exec phase. A file of this rank that exists already is an error: it belongs to another process.
 *
 * hello: schema, t_s, entry_s, process_start_s (10 ms grain; null + why), timens_offset_s, utc,
 * pid, rank, world, argv, exe {path, sha256}, versions {nanochat, glibc, jansson, …}, build
 * {config, compiler, blas, openmp, sanitizer}. */
int events_open(struct events **out, int rank, double entry_s, int argc, char *const *argv,
                struct error *err);
bool events_enabled(const struct events *e);
/* Tell which directory or file plays which part ("data", "checkpoint" …): its mount and file system
 * become part of the env event. Call before events_env; copies both; NULL path: ignored. */
void events_path(struct events *e, const char *what, const char *path);
/* What is counted, for the env event; borrowed until then. */
void events_set_counters(struct events *e, const struct counters *counters);
/* Collects and writes the `env` event: what this rank sees from inside (workload/env.h), as the
 * phase "evidence". seen: what of the context the caller knows; paths and counters are the events'.
 */
int events_env(struct events *e, const struct env_context *seen, struct error *err);
int events_phase_begin(struct events *e, const char *phase, struct error *err);
int events_phase_end(struct events *e, const char *phase, struct error *err);
/* No allocation, no I/O (unless more than a thousand steps pass without a flush). Fields that are
 * NaN were not measured: null with a why. */
void events_step(struct events *e, const struct step_record *record);
/* An observer for comm_set_observer; user is the struct events. No allocation, no I/O. A call that
 * failed because of a lost rank becomes the peer_lost event {rank, step, op, waited_s}. */
void events_comm(void *events, const struct comm_record *record);
/* Any other event: writes {"event": name, "t_s": …, fields…}; steals fields. */
int events_put(struct events *e, const char *name, json_t *fields, struct error *err);
int events_flush(struct events *e, struct error *err);
/* done {exit_code, steps, comm_dropped, error (after an error: its message), cpu_migrations (of all
 * threads since events_open; null + why), cpu_migrations_source}; then closes and frees. Returns
 * the exit code to use: `code`, or NANOCHAT_EXIT_WRITE if code was 0 and the file cannot be written
 * (which is then said on standard error). NULL e: returns code. */
int events_finish(struct events *e, int code, const struct error *why);

#endif
