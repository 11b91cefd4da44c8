/* Before a session is resumed: nothing of the ncbench that was killed may still run beside it. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "harness/reaper.h"
#include "harness/session.h"
#include "harness/trial.h"

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

static int stop_one(struct session *s, const struct planned_trial *t, const char *name,
                    int64_t process, int64_t of, struct error *err)
{
    const struct cell *cell = &s->scenario.cells[t->cell];
    const struct runtime_spec *spec = &cell->runtimes[t->runtime];
    const struct runtime_ops *ops = runtime_find(spec->kind);
    if (!ops || !ops->stop)
        return 0;
    auto_free char *dir = mem_printf("%s/trials/%s", s->dir, name);
    auto_free char *unique_id = mem_printf("%s.%s", s->id, name);
    auto_free char *id = trial_process_id(unique_id, process, of);
    struct strv none = STRV_INIT;
    struct mounts mounts = {0};
    struct runtime_launch launch = {.spec = spec,
                                    .trial_id = id,
                                    .trial_dir = dir,
                                    .session_dir = s->dir,
                                    .argv = &none,
                                    .env = &none,
                                    .mounts = &mounts,
                                    .cwd = dir};
    return ops->stop(&launch, err);
}

static int stop_unrecorded(struct session *s, const char *name, struct error *err)
{
    const struct planned_trial *t = planned(s, name);
    if (!t || has_record(s, name))
        return 0;
    const int64_t n = trial_process_count(&s->scenario, &s->scenario.cells[t->cell]);
    for (int64_t i = 0; i < n; i++)
        if (stop_one(s, t, name, i, n, err))
            return error_wrap(err, "what trial %s left behind", name);
    return 0;
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
