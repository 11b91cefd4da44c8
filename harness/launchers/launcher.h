/* Launchers: how the process that a runtime's argv describes is started on its node.
 *
 * `local` forks on this machine. Others (srun steps) fill the same table. A launcher starts and
 * signals; waiting and ending are the trial's, the same for all. */
#ifndef HARNESS_LAUNCHERS_LAUNCHER_H
#define HARNESS_LAUNCHERS_LAUNCHER_H

#include "common/error.h"
#include "common/spawn.h"
#include "common/str.h"

struct launcher_job {
    /* in, borrowed */
    const struct strv *argv, *env;
    const char *cwd;
    const char *stdout_path, *stderr_path;
    const cpu_set_t *affinity; /* of the job; NULL: the harness's own */
    size_t affinity_bytes;
    /* out */
    pid_t pid; /* leader of a session and a process group of its own */
    double started_s;
    enum spawn_step failed_step;
    int failed_errno;
};

struct launcher_ops {
    const char *name;
    const char *summary;
    /* Standard input is /dev/null. When the harness dies, the leader is killed. */
    int (*start)(struct launcher_job *job, struct error *err);
    /* To the leader's whole group. */
    void (*signal)(const struct launcher_job *job, int sig);
};

extern const struct launcher_ops launcher_local;

#endif
