/* Waiting for a trial: no busy loop, every limit in one place. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The end of a process and signals wake us at once; ticks are for limits and the display. Few of
 * them: on a small machine they take time from the ranks. */
#define TICK_SHOWN_S 0.25
#define TICK_S 1.0

struct watch {
    double grown_s;  /* when output was last seen to grow */
    int64_t bytes;   /* of all files in the trial's directory */
    double looked_s; /* when the trial's processes were last looked up */
    double pause_s;  /* until they are looked up again */
    double ticked_s;
    double measured_s; /* when the size of the output was last looked at */
    struct processes found;
};

static int64_t output_bytes(const char *dir)
{
    auto_strv names = STRV_INIT;
    auto_error struct error ignored = ERROR_INIT;
    int64_t total = 0;
    fs_list_dir(dir, &names, NCBENCH_EXIT_RESULTS, &ignored);
    for (size_t i = 0; i < names.count; i++) {
        auto_free char *path = mem_printf("%s/%s", dir, names.items[i]);
        struct stat st;
        if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
            total += st.st_size;
    }
    return total;
}

/* All ended; or one of several has failed, and the others would wait for it. What they say when
 * they are ended for that is not the reason, so the first failure is kept. */
static bool is_over(struct trial_facts *f)
{
    size_t ended = 0;
    for (size_t i = 0; i < f->n_processes; i++) {
        const struct reaper_child *c = &f->children[i];
        ended += c->reaped;
        if (!c->reaped || c->status == 0)
            continue;
        if (f->first_failed < 0 || c->reaped_s < f->children[f->first_failed].reaped_s)
            f->first_failed = (int)i;
    }
    return f->first_failed >= 0 || ended == f->n_processes;
}

/* A container has a cgroup of its own, which has to be found while it lives. Looking through /proc
 * costs milliseconds, so it is done seldom, and not at all where the harness's cgroup is the
 * trial's too. */
static void observe(struct trial_facts *f, struct watch *w, struct collectors *c, double now)
{
    if (now - w->ticked_s < 0.5)
        return;
    w->ticked_s = now;
    w->found.count = 0;
    if ((f->ops->flags & RUNTIME_CONTAINER) && now - w->looked_s >= w->pause_s) {
        reaper_find(&f->scope, &w->found);
        w->looked_s = now;
        w->pause_s = w->pause_s < 10 ? w->pause_s * 2 : 10;
    }
    collectors_tick(c, &w->found);
}

/* Thousands of files on a parallel file system are not to be looked at five times a second. */
static bool is_due(const struct trial_facts *f, struct watch *w, double now)
{
    const double pause = f->context->scenario->limits.no_output_s / 20;
    if (f->ranks > 16 && now - w->measured_s < pause)
        return false;
    w->measured_s = now;
    return true;
}

/* Did the clock or a signal decide? */
static bool is_ended(struct trial_facts *f, struct watch *w, double now)
{
    const struct trial_context *c = f->context;
    const struct limits *limits = &c->scenario->limits;
    if (c->interrupt->signal) {
        f->end = END_CANCELLED;
        f->cancel_signal = c->interrupt->signal;
    } else if (c->deadline_s > 0 && now >= c->deadline_s) {
        f->end = END_CANCELLED;
    } else if (limits->trial_s > 0 && now - f->spawn_s >= limits->trial_s) {
        f->end = END_TIMEOUT;
    } else if (limits->no_output_s > 0 && is_due(f, w, now)) {
        int64_t bytes = output_bytes(f->dir);
        if (bytes != w->bytes)
            w->grown_s = now;
        w->bytes = bytes;
        if (now - w->grown_s >= limits->no_output_s)
            f->end = END_NO_OUTPUT;
    }
    return f->end != END_BY_ITSELF;
}

static void show_progress(const struct trial_facts *f)
{
    if (!f->context->progress)
        return;
    const bool shared = f->context->scenario->output.files_per_node;
    auto_free char *path =
        mem_printf(shared ? "%s/" EVENTS_NODE_FILE_FMT : "%s/" EVENTS_FILE_FMT, f->dir, 0);
    f->context->progress(f->context->progress_user, f->planned, events_last_step(path));
}

/* How long to sleep: a tick, or less when a limit comes first. */
static double pause_s(const struct trial_facts *f, double now)
{
    const struct trial_context *c = f->context;
    double limit = c->scenario->limits.trial_s, pause = c->progress ? TICK_SHOWN_S : TICK_S;
    if (limit > 0 && f->spawn_s + limit - now < pause)
        pause = f->spawn_s + limit - now;
    if (c->deadline_s > 0 && c->deadline_s - now < pause)
        pause = c->deadline_s - now;
    return pause > 0.001 ? pause : 0.001;
}

void trial_wait(struct trial_facts *f, struct collectors *collectors)
{
    struct watch w = {.bytes = -1, .pause_s = 1};
    w.grown_s = w.ticked_s = clock_mono_s();
    for (;;) {
        reaper_collect(f->children, f->n_processes);
        double now = clock_mono_s();
        if (is_over(f) || is_ended(f, &w, now))
            break;
        observe(f, &w, collectors, now);
        for (size_t i = 0; f->context->launcher->tick && i < f->n_processes; i++)
            f->context->launcher->tick(&f->processes[i].job);
        show_progress(f);
        interrupt_wait(f->context->interrupt, pause_s(f, now));
    }
    processes_release(&w.found);
}
