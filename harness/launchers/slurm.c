/* Steps of an allocation. The process started here is srun; the program runs on other nodes. */
#include "harness/launchers/slurm.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/protocol.h"
#include "harness/launchers/launcher.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_S 10.0
#define FIRST_LOOK_S 0.15 /* a step is made within milliseconds of srun's start */
#define LOOK_AT_NODES_S 3.0
#define LONGEST_PAUSE_S 10.0

static int start(struct launcher_job *job, struct error *err)
{
    job->step_id[0] = '\0';
    job->pause_s = FIRST_LOOK_S;
    job->next_ask_s = clock_mono_s() + FIRST_LOOK_S;
    return launcher_local.start(job, err);
}

enum found { FOUND_NONE, FOUND_STEP, FOUND_NO_ANSWER };

/* The first step of the job whose name begins so: its id, "12.3". */
static enum found find_step(const char *job_id, const char *prefix,
                            char id[static SLURM_STEP_ID_MAX])
{
    auto_strv argv = STRV_INIT;
    auto_str out = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    char *save = NULL;
    strv_push(&argv, "squeue");
    strv_push(&argv, "--steps");
    strv_push(&argv, "--noheader");
    strv_push(&argv, "--format=%i|%j");
    strv_pushf(&argv, "--jobs=%s", job_id);
    if (slurm_ask(&argv, ASK_S, &out, &err)) /* a job that is over has no steps */
        return strstr(err.message, "Invalid job id") ? FOUND_NONE : FOUND_NO_ANSWER;
    for (char *line = strtok_r(out.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *bar = strchr(line, '|');
        if (!bar || !str_starts_with(str_trim(bar + 1), prefix))
            continue;
        *bar = '\0';
        snprintf(id, SLURM_STEP_ID_MAX, "%s", str_trim(line));
        return FOUND_STEP;
    }
    return FOUND_NONE;
}

static enum found find_own(struct launcher_job *job)
{
    return find_step(job->allocation->job_id, job->step_name, job->step_id);
}

static void tick(struct launcher_job *job)
{
    double now = clock_mono_s();
    if (*job->step_id || now < job->next_ask_s)
        return;
    find_own(job);
    job->pause_s = job->pause_s < LONGEST_PAUSE_S ? job->pause_s * 2 : LONGEST_PAUSE_S;
    job->next_ask_s = now + job->pause_s;
}

static void cancel(const char *step_id, const char *how)
{
    auto_strv argv = STRV_INIT;
    auto_str out = STR_INIT;
    auto_error struct error ignored = ERROR_INIT; /* it may have ended just now */
    strv_push(&argv, "scancel");
    if (how)
        strv_push(&argv, how);
    strv_push(&argv, step_id);
    slurm_ask(&argv, ASK_S, &out, &ignored);
}

/* srun turns a TERM into the end of the step at once; the program is to get it first. */
static void signal_step(struct launcher_job *job, int sig)
{
    if (!*job->step_id)
        find_own(job);
    if (*job->step_id)
        cancel(job->step_id, sig == SIGKILL ? NULL : "--signal=TERM");
    if (sig == SIGKILL || !*job->step_id)
        launcher_local.signal(job, sig);
}

bool slurm_end_steps(const struct slurm_allocation *a, const char *prefix, double seconds,
                     struct str *what)
{
    double deadline = clock_mono_s() + seconds, pause = 0.02;
    char id[SLURM_STEP_ID_MAX] = "";
    for (;;) {
        enum found found = find_step(a->job_id, prefix, id);
        if (found == FOUND_NONE)
            return true;
        if (clock_mono_s() >= deadline) {
            str_appendf(what, "step %s of Slurm%s", found == FOUND_STEP ? id : prefix,
                        found == FOUND_STEP ? "" : ", which does not answer,");
            return false;
        }
        if (found == FOUND_STEP && pause > 0.3) /* it does not go by itself */
            cancel(id, NULL);
        clock_sleep_s(pause);
        pause = pause < 1 ? pause * 2 : 1;
    }
}

/* A step on a node that is down cannot be seen to end: the allocation is of no use any more. */
static bool gone(struct launcher_job *job, double seconds, struct str *what)
{
    for (double end = clock_mono_s() + seconds; clock_mono_s() < end;) {
        auto_str why = STR_INIT;
        str_clear(what);
        if (slurm_end_steps(job->allocation, job->step_name, LOOK_AT_NODES_S, what))
            return true;
        if (!slurm_is_usable(job->allocation, true, &why))
            return true;
    }
    return false;
}

const struct launcher_ops launcher_slurm = {
    .name = "slurm",
    .summary = "a step of the Slurm allocation that ncbench runs in",
    .start = start,
    .signal = signal_step,
    .tick = tick,
    .gone = gone,
};
