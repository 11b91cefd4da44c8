/* A session: one execution of a scenario, as a directory (results/README.md).
 *
 *   session_create or session_resume → session_run → session_close
 *
 * Several sessions may share a results folder: the directory is made with mkdir (which fails if it
 * is there), trials.jsonl is appended to with single writes, and nothing is ever locked. */
#ifndef HARNESS_SESSION_H
#define HARNESS_SESSION_H

#include "harness/launchers/slurm.h"
#include "harness/plan.h"
#include "harness/record.h"
#include "harness/scenario.h"
#include "harness/signals.h"

#include <stdbool.h>
#include <stdint.h>

#define SESSION_SCHEMA "session/1.0"

struct session_options {
    const char *scenario_path; /* NULL with resume: the session's own */
    struct strv defines;       /* -D */
    const char *out;           /* results folder; NULL: output.dir of the scenario */
    const char *resume;        /* NULL; "latest"; a session's directory */
    const char *only;          /* "runtime=podman,ranks=2"; NULL: all */
    int64_t blocks;            /* < 0: from the looks */
    double timeout_s;          /* of the session; 0: as the scenario says */
    const char *nanochat;      /* NULL: beside ncbench, or on PATH */
    const char *progress;      /* auto | plain | none */
    bool fail_fast, allow_drift, quiet, dry_run;
};

struct session {
    char *dir;   /* absolute */
    char *shown; /* the same as the user would write it */
    char *id;
    struct scenario scenario;
    struct plan plan;
    char plan_sha256[65];
    struct records records;
    int trials_fd;
    char *trials_path;
    json_t *summary; /* session.json */
    int64_t stratum;
    bool resumed;
    struct slurm_allocation allocation; /* job_id NULL: trials run on this node */
    /* what is measured */
    char *nanochat; /* NULL: not found */
    char workload_sha256[65];
    json_t **descriptions; /* n_cells * n_runtimes */
    bool *prepared;        /* n_cells * n_runtimes */
};

/* Reads the scenario, refuses what cannot run here, makes the directory with all that is known
 * before the first trial. */
int session_create(const struct session_options *options, struct session *out, struct error *err);
/* Opens a session to go on with it. A torn last line goes to trials.torn. Drift (scenario, plan,
 * program, image, host) is exit 4 unless allowed; then a new stratum begins. */
int session_resume(const struct session_options *options, struct session *out, struct error *err);
/* Runs what is left of the plan. 0: *exit_code says how it ended (complete 0, 5, 124, 128 + N). */
int session_run(struct session *s, const struct session_options *options, int *exit_code,
                struct error *err);
void session_release(struct session *s);

/* ---- parts, for the session_*.c files ---------------------------------------------------------
 */
/* Keep only the trials that the filter names; exit 2 for one that names nothing. */
int session_filter(const struct scenario *s, const char *only, struct plan *plan,
                   struct error *err);
/* Probe and prepare every runtime of the plan, describe it; the host's topology. */
int session_prepare(struct session *s, struct error *err);
void session_cleanup(struct session *s);
/* In an allocation, what takes the place of a runtime's prepare and cleanup where it has hooks for
 * nodes: a step on every node that a trial may run on. 4. */
int session_node_prepare(const struct session *s, const struct runtime_ops *ops,
                         const struct runtime_spec *spec, struct error *err);
int session_node_cleanup(const struct session *s, const struct runtime_ops *ops,
                         const struct runtime_spec *spec, struct error *err);
/* 8: less is free than limits.disk_free asks for. */
int session_check_disk(const struct session *s, struct error *err);
/* The allocation that trials are steps of, where the scenario says so. */
int session_find_allocation(struct session *s, struct error *err);
/* The program on this host: the given one (4: it is not there), else the one beside ncbench or on
 * PATH; NULL: none. Caller frees. */
char *session_find_nanochat(const char *given, struct error *err);
/* Find nanochat and the checksum of what will run. */
int session_find_workload(struct session *s, const char *given, struct error *err);
/* Writes session.json. state: "running", "complete", "incomplete", "cancelled", "failed". */
int session_save(struct session *s, const char *state, int exit_code, struct error *err);
int session_open_trials(struct session *s, struct error *err);
/* summary.runtimes: which images and versions; what a resumed session is held against. */
void session_put_runtimes(struct session *s);
/* What a killed ncbench left running: processes that bear the session's mark, and containers of
 * trials that never got a record. Exit 4 for what cannot be ended. */
int session_sweep(struct session *s, struct error *err);
/* Newest session in a scenario's folder, or NULL; caller frees. job_id: of those that this job of
 * Slurm ran last; NULL: of all. */
char *session_newest(const char *folder, const char *job_id);
/* Is the process that session.json names still running here? */
bool session_is_alive(const json_t *summary);
/* Identity of this process and host into the summary (pid, pid_start_ticks, host, boot_id). */
void session_put_process(json_t *summary);

#endif
