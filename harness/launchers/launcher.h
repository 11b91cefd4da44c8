/* Launchers: how the process that a runtime's argv describes is started on its node or nodes.
 *
 * `local` forks on this machine. `slurm` makes it a step of the allocation that this program runs
 * in: what is started here is srun, and its tasks are elsewhere. A launcher starts, signals and
 * ends; waiting is the trial's, the same for all. */
#ifndef HARNESS_LAUNCHERS_LAUNCHER_H
#define HARNESS_LAUNCHERS_LAUNCHER_H

#include "common/error.h"
#include "common/spawn.h"
#include "common/str.h"
#include "harness/launchers/slurm.h"

struct launcher_job {
    /* in, borrowed */
    const struct strv *argv, *env;
    const char *cwd;
    const char *stdout_path, *stderr_path;
    const cpu_set_t *affinity; /* of the job; NULL: the harness's own */
    size_t affinity_bytes;
    const struct slurm_allocation *allocation; /* slurm */
    const char *step_name;                     /* slurm: unique in the allocation */
    /* out */
    pid_t pid; /* leader of a session and a process group of its own */
    double started_s;
    enum spawn_step failed_step;
    int failed_errno;
    char step_id[SLURM_STEP_ID_MAX]; /* "1234.5"; empty: none, or not known (yet) */
    double next_ask_s, pause_s;      /* when Slurm is asked for it next; how long after that */
};

struct launcher_ops {
    const char *name;
    const char *summary;
    /* Standard input is /dev/null. When the harness dies, the leader is killed. */
    int (*start)(struct launcher_job *job, struct error *err);
    /* To the program, wherever it runs: SIGTERM asks it to end, SIGKILL ends it. */
    void (*signal)(struct launcher_job *job, int sig);
    /* Now and then while it runs; NULL: nothing to do. */
    void (*tick)(struct launcher_job *job);
    /* After the leader has ended: nothing of it is left elsewhere, or it is named in what. Waits at
     * most so many seconds. NULL: there is no elsewhere. */
    bool (*gone)(struct launcher_job *job, double seconds, struct str *what);
};

extern const struct launcher_ops launcher_local;
extern const struct launcher_ops launcher_slurm;

#endif
