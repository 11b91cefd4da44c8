/* Ending a trial: ask, wait, kill, look everywhere, ask the runtime, verify. Each step answers a
 * report: setsid escapes the kill of a group; conmon outlives podman (podman#15557); a container
 * outlives its client; the next trial started before the last one was dead. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/trial.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_S 1.0     /* for what ends by itself behind a trial that ended by itself */
#define ELSEWHERE_S 60.0 /* Slurm's own patience with processes that do not end */
#define LEAST_KILL_S 3.0 /* a killed process may need a while to give its memory back */

static bool any_running(const struct trial_facts *f)
{
    for (size_t i = 0; i < f->n_processes; i++)
        if (f->children[i].pid > 0 && !f->children[i].reaped)
            return true;
    return false;
}

static void signal_groups(struct trial_facts *f, int sig)
{
    for (size_t i = 0; i < f->n_processes; i++)
        if (f->children[i].pid > 0 && !f->children[i].reaped)
            f->context->launcher->signal(&f->processes[i].job, sig);
}

/* TERM, and the grace time: long enough for a last event; a second signal to us ends it. */
static void ask(struct trial_facts *f)
{
    struct interrupt *interrupt = f->context->interrupt;
    double deadline = clock_mono_s() + f->context->scenario->limits.kill_grace_s;
    signal_groups(f, SIGTERM);
    while (any_running(f) && interrupt->count < 2) {
        double left = deadline - clock_mono_s();
        if (left <= 0)
            break;
        interrupt_wait(interrupt, left < 0.1 ? left : 0.1);
        reaper_collect(f->children, f->n_processes);
    }
    f->killed = any_running(f);
}

static void kill_groups(struct trial_facts *f)
{
    double deadline = clock_mono_s() + LEAST_KILL_S;
    signal_groups(f, SIGKILL);
    while (any_running(f) && clock_mono_s() < deadline) {
        interrupt_wait(f->context->interrupt, 0.02);
        reaper_collect(f->children, f->n_processes);
    }
}

/* conmon and the like need a moment to follow their container: killing them would leave its
 * remains. What stays longer is a stray. */
static void settle(struct trial_facts *f)
{
    double deadline = clock_mono_s() + SETTLE_S, pause = 0.002;
    struct processes found = {0};
    for (;;) {
        reaper_collect(f->children, f->n_processes);
        reaper_find(&f->scope, &found);
        if (found.count == 0 || clock_mono_s() >= deadline)
            break;
        clock_sleep_s(pause);
        pause = pause < 0.05 ? pause * 2 : 0.05;
    }
    for (size_t i = 0; i < found.count; i++)
        str_appendf(&f->strays, "%s%s", i ? ", " : "", found.items[i].name);
    processes_release(&found);
}

/* Is anything left of the runtime's own (a container)? */
static bool runtime_leftover(const struct trial_facts *f, struct str *what)
{
    for (size_t i = 0; i < f->n_processes; i++)
        if (f->ops->leftover && f->ops->leftover(&f->processes[i].launch, what))
            return true;
    return false;
}

static void runtime_stop(struct trial_facts *f)
{
    for (size_t i = 0; f->ops->stop && i < f->n_processes; i++) {
        auto_error struct error err = ERROR_INIT;
        if (f->ops->stop(&f->processes[i].launch, &err))
            strv_pushf(&f->flags, "stop_failed: %s", err.message);
    }
}

/* What the launcher started elsewhere. */
static bool elsewhere_gone(struct trial_facts *f, double seconds, struct str *left)
{
    const struct launcher_ops *launcher = f->context->launcher;
    bool failed = false;
    for (size_t i = 0; launcher->gone && i < f->n_processes; i++) {
        if (f->children[i].pid > 0 && !launcher->gone(&f->processes[i].job, seconds, left))
            return false;
        failed = failed || f->children[i].status != 0;
    }
    if (failed && trial_is_step(f))
        trial_step_remove(f);
    return true;
}

bool trial_end_all(struct trial_facts *f, struct str *left)
{
    double grace = f->context->scenario->limits.kill_grace_s;
    bool by_itself = !any_running(f);
    if (!by_itself) {
        ask(f);
        kill_groups(f);
    }
    for (size_t i = 0; i < f->n_processes; i++)
        if (f->children[i].reaped && !(f->children[i].reaped_s <= f->reap_s))
            f->reap_s = f->children[i].reaped_s;
    auto_str ignored = STR_INIT;
    if (!elsewhere_gone(f, grace + ELSEWHERE_S, left))
        return false;
    if (by_itself && f->end == END_BY_ITSELF)
        settle(f);
    if (!by_itself || f->strays.len || f->end != END_BY_ITSELF || runtime_leftover(f, &ignored))
        runtime_stop(f);
    if (!reaper_kill_all(&f->scope, grace > LEAST_KILL_S ? grace : LEAST_KILL_S, left))
        return false;
    str_clear(&ignored);
    if (!runtime_leftover(f, &ignored))
        return true;
    runtime_stop(f);
    return !runtime_leftover(f, left);
}
