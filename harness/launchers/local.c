#include "common/protocol.h"
#include "harness/launchers/launcher.h"

#include <signal.h>

static int start(struct launcher_job *job, struct error *err)
{
    struct spawn s = {
        .argv = job->argv->items,
        .env = job->env->items,
        .cwd = job->cwd,
        .stdout_path = job->stdout_path,
        .stderr_path = job->stderr_path,
        .new_session = true,
        .parent_death_signal = SIGKILL,
        .affinity = job->affinity,
        .affinity_bytes = job->affinity_bytes,
    };
    int rc = spawn_start(&s, NCBENCH_EXIT_ENVIRONMENT, err);
    job->pid = s.pid;
    job->started_s = s.started_s;
    job->failed_step = s.failed_step;
    job->failed_errno = s.failed_errno;
    return rc;
}

static void signal_group(struct launcher_job *job, int sig)
{
    if (job->pid > 1)
        kill(-job->pid, sig);
}

const struct launcher_ops launcher_local = {
    .name = "local",
    .summary = "on this node",
    .start = start,
    .signal = signal_group,
};
