/* A trial: one fresh launch of the workload under one runtime in one cell.
 *
 *   trial_run: directory → launch description → create (runtime) → start (launcher) → wait →
 *              end everything → read the events → judge → record
 *
 * The steps are files of their own: trial_launch.c (argv, environment, mounts), trial_wait.c,
 * trial_end.c, trial_judge.c (evidence → outcome), trial_record.c (facts → JSON), trial_fake.c (the
 * fake runtime: facts without processes). What they hand on is struct trial_facts.
 *
 * A failed trial is not an error: it is a record. Errors end the session: results cannot be written
 * (8), something survived (4). */
#ifndef HARNESS_TRIAL_H
#define HARNESS_TRIAL_H

#include "common/clock.h"
#include "harness/collectors/collector.h"
#include "harness/events_reader.h"
#include "harness/launchers/launcher.h"
#include "harness/plan.h"
#include "harness/reaper.h"
#include "harness/scenario.h"
#include "harness/signals.h"
#include "runtimes/runtime.h"

#include <stdbool.h>
#include <stdint.h>

/* What all trials of a session share; owned by the session, read-only for trials. */
struct trial_context {
    const struct scenario *scenario;
    const char *session_id;
    const char *session_dir;     /* absolute */
    const char *nanochat;        /* on the host; NULL: not found (needed by verbs only) */
    const char *workload_sha256; /* of the program on the host; NULL: unknown */
    const char *plan_sha256;
    /* of runtime r in cell c at [c * n_runtimes + r], from its describe hook; NULL: none */
    json_t *const *descriptions;
    const cpu_set_t *affinity; /* of the ranks; NULL: the harness's own */
    size_t affinity_bytes;
    int64_t stratum;
    const struct launcher_ops *launcher;
    const struct slurm_allocation *allocation; /* NULL unless the launcher is slurm */
    struct interrupt *interrupt;
    double deadline_s; /* end of the session, clock_mono_s; 0: none */
    /* Called while a trial runs, a few times a second; may be NULL. step < 0: none yet. */
    void (*progress)(void *user, const struct planned_trial *trial, int64_t step);
    void *progress_user;
};

/* Why the trial ended, as far as the harness knows by itself. */
enum trial_end { END_BY_ITSELF, END_NOT_STARTED, END_TIMEOUT, END_NO_OUTPUT, END_CANCELLED };

struct trial_process {
    struct launcher_job job;
    struct strv workload_env; /* what the program must see */
    struct strv argv, env;    /* of what is started: the runtime's client */
    char *stdout_path, *stderr_path;
    char *trial_id; /* of the container: the trial's, and the rank's where there are several */
    struct runtime_launch launch;
};

struct trial_facts {
    const struct trial_context *context;
    const struct planned_trial *planned;
    const struct cell *cell;
    const struct runtime_spec *spec;
    const struct runtime_ops *ops;
    char *id;     /* "c03.b07.podman", ".a2" behind it for a second attempt */
    char *marker; /* NCBENCH_TRIAL_ID=<unique_id> */
    struct reaper_scope scope;
    char *unique_id; /* session and id: NCBENCH_TRIAL_ID, names of containers */
    char *dir;       /* absolute; NULL for the fake runtime */
    int64_t attempt, seq;
    int64_t ranks;        /* in all */
    struct strv workload; /* the argv of the workload */
    struct strv env;      /* the environment it is given */
    struct mounts mounts;
    struct trial_process *processes;
    struct reaper_child *children; /* of the processes; pid 0: not started */
    size_t n_processes;

    char started_utc[CLOCK_UTC_MAX];
    double origin_s; /* before create */
    double create_s; /* NaN: the runtime has no such step */
    double spawn_s;  /* NaN: nothing was started */
    double reap_s;   /* of the last process */
    double end_s;    /* everything verified gone */
    enum trial_end end;
    int cancel_signal;
    struct error start_error; /* END_NOT_STARTED */
    bool create_failed;       /* it was the runtime's create */
    struct slurm_word word;   /* of srun, where trials are steps */
    int first_failed;         /* process that ended with a failure while others ran; -1: none */
    bool killed;              /* ended by us, after the grace time or at once */
    struct str strays;        /* processes that outlived the launched one and were killed */
    struct trial_events events;
    json_t *collected; /* of the collectors */
    json_t *topology;  /* as the record has it; NULL: none, because */
    char *no_topology;
    struct str stderr_tail;

    enum outcome outcome;
    struct strv reasons, flags;
    char *hint;
    int failed_rank;   /* -1: none, or unknown */
    int failed_signal; /* that ended a rank or the program; 0: none */
    bool core_dumped;
    bool judged; /* the outcome is given (fake) */
};

/* attempt 1 uses the planned id. *record is the finished record (owned by the caller). */
int trial_run(const struct trial_context *context, const struct planned_trial *planned,
              int64_t attempt, int64_t seq, json_t **record, struct error *err);

/* ---- the steps, for the trial_*.c files and their tests -------------------------------------- */
void trial_facts_init(struct trial_facts *f, const struct trial_context *context,
                      const struct planned_trial *planned, int64_t attempt, int64_t seq);
void trial_facts_release(struct trial_facts *f);
/* How many processes the harness starts for a trial, each with an id (of its container) made from
 * the trial's; caller frees. */
int64_t trial_process_count(const struct scenario *s, const struct cell *cell);
char *trial_process_id(const char *unique_id, int64_t process, int64_t of);
/* Workload argv, environment, mounts, one struct trial_process a process, for f->dir. Nothing is
 * started or written. port: where the ranks of a foreign command meet. */
int trial_launch_compose(struct trial_facts *f, const char *port, struct error *err);
/* The directory f->dir, made anew, a free port, all of the above, and launch.json. */
int trial_launch_prepare(struct trial_facts *f, struct error *err);
/* The environment that every arm gets, in this order: the allow-listed variables of the host (PATH
 * HOME USER LOGNAME LANG LC_ALL TZ, and NANOCHAT_BASE_DIR), OMP_, OPENBLAS_, BLIS_ and
 * MKL_NUM_THREADS, workload.env, runtimes[].env, NCBENCH_TRIAL_ID and NCBENCH_TRIAL_DIR. */
void trial_environment(const struct trial_facts *f, struct strv *env);
/* Does the workload name a GPU as its device? */
bool trial_asks_for_cuda(const struct trial_facts *f);
/* Between samples of the node's GPUs; 0: none are wanted. */
double trial_gpu_interval_s(const struct trial_facts *f);
/* Until all processes have ended, or a limit or a signal says so (f->end). */
void trial_wait(struct trial_facts *f, struct collectors *collectors);
/* Nothing survives. False: something does; it is named in left. */
bool trial_end_all(struct trial_facts *f, struct str *left);
/* Where the ranks are no children of ours, what was observed of our children is none of theirs:
 * null, with the reason. collected: as collectors_emit gives it. */
void trial_mend_collected(const struct trial_facts *f, json_t *collected);
/* The name of the trial's node number `node`; NULL: the allocation has no such node. */
const char *trial_host(const struct trial_facts *f, int64_t node);
/* What the first rank of each node exported: kept under topo/<runtime>/<host>.xml, compared with
 * the host's own view and with the baseline's. */
void trial_topology(struct trial_facts *f);
void trial_judge(struct trial_facts *f);
json_t *trial_record_make(const struct trial_facts *f);
/* ---- trials that are steps of a Slurm allocation (trial_step.c) -------------------------------
 */
bool trial_is_step(const struct trial_facts *f);
/* The rendezvous of several nodes, for `nanochat launch`. */
void trial_step_rendezvous(const struct trial_facts *f, struct strv *argv);
/* Variables that srun gives each task, by name: what a container passes on of them. */
void trial_step_names(struct strv *env);
/* srun and its options around the argv of the runtime. */
void trial_step_wrap(struct trial_process *p, struct trial_facts *f);
/* Remove what the runtime may have left, on every node. */
void trial_step_remove(struct trial_facts *f);
/* Was it the scheduler? Then f->outcome and its reason are set. */
bool trial_step_judge(struct trial_facts *f);
/* Of a cancelled trial: was the job preempted or requeued? Then the first reason says so. */
void trial_step_blame(struct trial_facts *f);
/* The wait status of the task that explains the failure; status: srun's own. */
int trial_step_status(const struct trial_facts *f, int status);
void trial_step_record(const struct trial_facts *f, json_t *record);

/* Facts of a trial under the fake runtime. */
int trial_fake(struct trial_facts *f, struct error *err);

#endif
