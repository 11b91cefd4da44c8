/* Before a session is resumed: nothing of the ncbench that was killed may still run beside it. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "harness/reaper.h"
#include "harness/session.h"
#include "harness/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_S 10.0

#define STEPS_S 30.0 /* patience with steps that are to end */

static bool has_record(const struct session *s, const char *trial)
{
    for (size_t i = 0; i < s->records.count; i++)
        if (!strcmp(s->records.items[i].trial, trial))
            return true;
    return false;
}

/* The arm that a trial directory "c00.b01.podman" or "c00.b01.podman.a2" belongs to. */
static const struct planned_trial *planned(const struct session *s, const char *name)
{
    for (size_t i = 0; i < s->plan.count; i++) {
        const char *id = s->plan.trials[i].id;
        size_t n = strlen(id);
        if (!strncmp(name, id, n) && (!name[n] || !strncmp(name + n, ".a", 2)))
            return &s->plan.trials[i];
    }
    return NULL;
}

/* As if the trial were to be ended: on this node, or on each node of a step. */
static int stop_process(struct trial_facts *f, const char *id, struct error *err)
{
    struct strv none = STRV_INIT;
    struct mounts mounts = {0};
    struct trial_process *p = &f->processes[0];
    p->launch = (struct runtime_launch){.spec = f->spec,
                                        .trial_id = id,
                                        .trial_dir = f->dir,
                                        .session_dir = f->context->session_dir,
                                        .argv = &none,
                                        .env = &none,
                                        .mounts = &mounts,
                                        .cwd = f->dir};
    if (!trial_is_step(f))
        return f->ops->stop ? f->ops->stop(&p->launch, err) : 0;
    trial_step_remove(f);
    return f->flags.count ? error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s", f->flags.items[0]) : 0;
}

static int stop_all(const struct trial_context *context, const struct planned_trial *t, int64_t n,
                    struct error *err)
{
    struct trial_facts f;
    trial_facts_init(&f, context, t, 1, 0);
    f.dir = mem_printf("%s/trials/%s", context->session_dir, t->id);
    f.processes = mem_zalloc(1, sizeof *f.processes);
    f.n_processes = 1;
    for (int64_t i = 0; i < n && !err->code; i++) {
        auto_free char *id = trial_process_id(f.unique_id, i, n);
        stop_process(&f, id, err);
    }
    trial_facts_release(&f);
    return err->code ? error_wrap(err, "what trial %s left behind", t->id) : 0;
}

static int stop_unrecorded(struct session *s, const char *name, struct error *err)
{
    const struct planned_trial *t = planned(s, name);
    if (!t || has_record(s, name))
        return 0;
    const struct trial_context context = {.scenario = &s->scenario,
                                          .session_id = s->id,
                                          .session_dir = s->dir,
                                          .allocation =
                                              s->allocation.job_id ? &s->allocation : NULL};
    struct planned_trial tried = *t;
    snprintf(tried.id, sizeof tried.id, "%s", name); /* whichever attempt it was */
    return stop_all(&context, &tried,
                    trial_process_count(&s->scenario, &s->scenario.cells[t->cell]), err);
}

int session_sweep(struct session *s, struct error *err)
{
    auto_free char *marker = mem_printf("%s=%s.", ENV_TRIAL_ID, s->id);
    auto_free char *trials = mem_printf("%s/trials", s->dir);
    struct reaper_scope scope = {.marker = marker, .prefix = true, .since_ticks = ~0ull};
    struct processes found = {0};
    auto_strv names = STRV_INIT;
    auto_str left = STR_INIT;
    if (s->allocation.job_id && !slurm_end_steps(&s->allocation, s->id, STEPS_S, &left))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s of the session cannot be ended",
                         left.data);
    reaper_find(&scope, &found);
    if (found.count)
        log_info("ending %zu process%s that the session left running", found.count,
                 found.count == 1 ? "" : "es");
    processes_release(&found);
    if (fs_is_dir(trials) && fs_list_dir(trials, &names, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    for (size_t i = 0; i < names.count; i++)
        if (stop_unrecorded(s, names.items[i], err))
            return -err->code;
    if (!reaper_kill_all(&scope, SWEEP_S, &left))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                         "%s: %s of the session still runs and cannot be ended", s->shown,
                         left.data);
    return 0;
}
