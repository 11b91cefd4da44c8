/* What srun and slurmstepd say when a step ends badly. Fixed fragments are looked for, never whole
 * lines: node names, step numbers and versions are in them. */
#include "harness/launchers/slurm.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rule {
    const char *text;
    enum outcome outcome;
    bool job_over;
    const char *reason; /* the line itself is added where it says more */
};

/* In this order: the more particular first. */
static const struct rule rules[] = {
    {"DUE TO NODE FAILURE", OUTCOME_UNAVAILABLE, true, "a node failed"},
    {"Node failure on ", OUTCOME_UNAVAILABLE, true, "a node failed"},
    {"DUE TO PREEMPTION", OUTCOME_CANCELLED, true, "the job was preempted"},
    {"DUE TO JOB REQUEUE", OUTCOME_CANCELLED, true, "the job was requeued"},
    {"DUE TO TIME LIMIT", OUTCOME_TIMEOUT, false, "the time limit of the step was reached"},
    {"failed on node ", OUTCOME_UNAVAILABLE, false, "the step could not be started on a node"},
    {"Unable to create step", OUTCOME_UNAVAILABLE, false, "srun could not make the step"},
    {"Unable to allocate resources", OUTCOME_UNAVAILABLE, false, "srun got no resources"},
    {"Unable to confirm allocation", OUTCOME_UNAVAILABLE, true, "the allocation is gone"},
    {"Unable to contact slurm controller", OUTCOME_UNAVAILABLE, false, "Slurm does not answer"},
    {"Requested nodes are busy", OUTCOME_UNAVAILABLE, false, "the nodes are busy"},
    {"Invalid job id specified", OUTCOME_UNAVAILABLE, true, "the job is over"},
};

/* The line of text that holds `at`, cut to a sentence's length. */
static char *line_at(const char *text, const char *at)
{
    const char *begin = at;
    while (begin > text && begin[-1] != '\n')
        begin--;
    size_t n = strcspn(begin, "\n");
    return mem_strndup(begin, n < 200 ? n : 200);
}

/* "srun: error: n1: task 0: Exited with exit code 5", "… tasks 0-3: Killed". */
static bool parse_task(const char *line, struct slurm_word *w)
{
    static const struct {
        const char *text;
        int signal;
    } ends[] = {{"Killed", SIGKILL},
                {"Terminated", SIGTERM},
                {"Segmentation fault", SIGSEGV},
                {"Aborted", SIGABRT},
                {"Bus error", SIGBUS},
                {"Floating point exception", SIGFPE},
                {"Illegal instruction", SIGILL}};
    char node[64] = "";
    const char *task = strstr(line, ": task");
    int code;
    if (sscanf(line, "srun: error: %63[^: ]:", node) != 1 || !task ||
        !(task = strchr(task + 2, ':')))
        return false;
    task += 2;
    w->exit_code = -1;
    w->signal = 0;
    if (sscanf(task, "Exited with exit code %d", &code) == 1)
        w->exit_code = code;
    for (size_t i = 0; w->exit_code < 0 && i < sizeof ends / sizeof *ends; i++)
        if (!strncmp(task, ends[i].text, strlen(ends[i].text)))
            w->signal = ends[i].signal;
    snprintf(w->node, sizeof w->node, "%s", node);
    return w->exit_code >= 0 || w->signal;
}

/* How well the end of a task explains the whole: its own code, a lost peer, killed for another. */
static int weight(const struct slurm_word *w)
{
    if (w->exit_code < 0)
        return w->signal == SIGTERM || w->signal == SIGKILL ? 1 : 4;
    if (w->exit_code > 128)
        return 1;
    return w->exit_code == NANOCHAT_EXIT_PEER ? 2 : 3;
}

/* The task that explains the failure; returns where its line begins, or NULL. */
static const char *find_task(const char *text, struct slurm_word *w)
{
    const char *found = NULL;
    int best = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        auto_free char *line = mem_strndup(p, n);
        struct slurm_word one = *w;
        if (parse_task(line, &one) && weight(&one) > best) {
            best = weight(&one);
            found = found ? found : p;
            *w = one;
        }
        p += n + (p[n] == '\n');
    }
    return found;
}

void slurm_read_word(const char *text, struct slurm_word *w, struct str *reason)
{
    *w = (struct slurm_word){.outcome = OUTCOME_COUNT, .exit_code = -1};
    const char *task = find_task(text, w);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const char *at = strstr(text, rules[i].text);
        if (!at)
            continue;
        auto_free char *line = line_at(text, at);
        w->outcome = rules[i].outcome;
        w->job_over = rules[i].job_over || strstr(line, "*** JOB ");
        if (w->job_over && w->outcome == OUTCOME_TIMEOUT)
            w->outcome = OUTCOME_CANCELLED; /* the job's time, not the trial's */
        str_appendf(reason, "%s: %s", rules[i].reason, line);
        return;
    }
    /* Somebody cancelled it; but srun itself cancels what is left when a task has failed. */
    const char *cancelled = strstr(text, " CANCELLED AT ");
    const char *aborted = strstr(text, "Job step aborted: ");
    if (!cancelled || (aborted && aborted < cancelled))
        cancelled = aborted;
    if (!cancelled || (task && task < cancelled))
        return;
    auto_free char *line = line_at(text, cancelled);
    w->outcome = OUTCOME_CANCELLED;
    w->job_over = strstr(line, "*** JOB ") != NULL;
    str_appendf(reason, "cancelled from outside: %s", line);
}
