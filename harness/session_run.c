/* The loop of a session: blocks in the plan's order, looks, repeats, and how it ends. */
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/pus.h"
#include "harness/blocks.h"
#include "harness/disturbance.h"
#include "harness/progress.h"
#include "harness/reaper.h"
#include "harness/session.h"
#include "harness/trial.h"
#include "harness/verdict.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIDY_UP_S 30.0 /* before the end of an allocation */

struct run {
    struct session *s;
    const struct session_options *options;
    struct interrupt interrupt;
    struct progress progress;
    struct trial_context context;
    struct study study;
    bool *stopped; /* cells that are decided */
    int64_t failures;
    int64_t last_seq;
    cpu_set_t *affinity;
    bool ended;       /* by max_failures or fail_fast */
    bool lost;        /* the allocation */
    double longest_s; /* trial so far */
};

/* A block in the plan: its trials lie side by side. */
struct span {
    size_t first, count;
};

static struct span block_at(const struct plan *plan, size_t first)
{
    struct span b = {first, 0};
    const struct planned_trial *t = &plan->trials[first];
    while (first + b.count < plan->count && plan->trials[first + b.count].cell == t->cell &&
           plan->trials[first + b.count].block == t->block)
        b.count++;
    return b;
}

static bool is_of(const struct session *s, const struct record *r, const struct planned_trial *t)
{
    const struct cell *cell = &s->scenario.cells[t->cell];
    return r->block == t->block && !strcmp(r->cell, cell->id) &&
           !strcmp(r->runtime, cell->runtimes[t->runtime].name);
}

/* The highest attempt at a block so far, in any stratum (its trial's directory has that name). */
static int64_t attempts(const struct session *s, struct span b)
{
    const struct planned_trial *t = &s->plan.trials[b.first];
    int64_t highest = 0;
    for (size_t i = 0; i < s->records.count; i++) {
        const struct record *r = &s->records.items[i];
        if (r->block == t->block && !strcmp(r->cell, s->scenario.cells[t->cell].id) &&
            r->attempt > highest)
            highest = r->attempt;
    }
    return highest;
}

/* Is every trial of the block ok (or disturbed, where that is enough) in one and the same attempt
 * (and so in one stratum)? */
static bool has_attempt(const struct session *s, struct span b, bool disturbed_too)
{
    for (int64_t a = attempts(s, b); a > 0; a--) {
        size_t good = 0;
        for (size_t i = 0; i < s->records.count; i++) {
            const struct record *r = &s->records.items[i];
            bool wanted =
                r->outcome == OUTCOME_OK || (disturbed_too && r->outcome == OUTCOME_DISTURBED);
            for (size_t k = 0; wanted && r->attempt == a && k < b.count; k++)
                good += is_of(s, r, &s->plan.trials[b.first + k]);
        }
        if (good == b.count)
            return true;
    }
    return false;
}

static bool is_complete(const struct session *s, struct span b)
{
    return has_attempt(s, b, false);
}

/* Complete, or disturbed: such a block is repeated at the end alone, within the cap. */
static bool is_settled(const struct session *s, struct span b)
{
    return has_attempt(s, b, true);
}

/* Is the time over? In an allocation also when the longest trial so far would not fit any more: it
 * would be ended by Slurm. */
static bool is_late(const struct run *r)
{
    double reserve = r->s->allocation.job_id ? r->longest_s : 0;
    return r->context.deadline_s > 0 && clock_mono_s() + reserve >= r->context.deadline_s;
}

static bool is_over(struct run *r)
{
    interrupt_poll(&r->interrupt);
    return r->interrupt.signal || r->ended || r->lost || is_late(r);
}

/* ---- one trial ----------------------------------------------------------------------------------
 */
static void count_failure(struct run *r, const struct record *record)
{
    if (record->outcome == OUTCOME_OK || record->outcome == OUTCOME_CANCELLED ||
        record->outcome == OUTCOME_DISTURBED)
        return;
    r->failures++;
    int64_t most = r->s->scenario.limits.max_failures;
    if (r->options->fail_fast || (most > 0 && r->failures >= most))
        r->ended = true;
}

/* Is there nothing to run on any more? Then the session ends, to be resumed in another job. */
static bool lost_allocation(struct run *r, bool look_at_nodes)
{
    auto_str why = STR_INIT;
    if (!r->s->allocation.job_id || slurm_is_usable(&r->s->allocation, look_at_nodes, &why))
        return false;
    progress_say(&r->progress, "        %s: no more trials here", why.data);
    r->lost = true;
    return true;
}

static int run_trial(struct run *r, const struct planned_trial *t, int64_t attempt,
                     struct error *err)
{
    struct session *s = r->s;
    json_t *record = NULL;
    if (session_check_disk(s, err))
        return -err->code;
    if (lost_allocation(r, false))
        return 0;
    progress_trial_start(&r->progress);
    double begin_s = clock_mono_s();
    trial_run(&r->context, t, attempt, ++r->last_seq, &record, err);
    if (!record)
        return -err->code;
    disturbance_judge(&s->scenario, &s->records, record);
    auto_error struct error failed = ERROR_INIT;
    if (record_append(s->trials_fd, s->trials_path, record, &failed)) {
        json_decref(record);
        if (!err->code)
            error_move(err, &failed);
        return -err->code;
    }
    if (records_add(&s->records, record, s->trials_path, &failed)) {
        error_move(err, &failed);
        return -err->code;
    }
    const struct record *last = &s->records.items[s->records.count - 1];
    double took_s = clock_mono_s() - begin_s;
    r->longest_s = took_s > r->longest_s ? took_s : r->longest_s;
    progress_trial_end(&r->progress, last);
    if (last->outcome == OUTCOME_UNAVAILABLE || last->outcome == OUTCOME_CANCELLED)
        lost_allocation(r, true);
    count_failure(r, last);
    return err->code ? -err->code : 0;
}

/* Trials whose word the whole block takes back (another loss than the baseline's). */
static void derive_block(struct run *r, size_t from)
{
    struct records *all = &r->s->records;
    size_t ok = 0, still = 0;
    for (size_t i = from; i < all->count; i++)
        ok += all->items[i].outcome == OUTCOME_OK;
    records_derive(all, from);
    for (size_t i = from; i < all->count; i++) {
        still += all->items[i].outcome == OUTCOME_OK;
        if (all->items[i].outcome == OUTCOME_INVALID)
            progress_say(&r->progress, "        %s: invalid", all->items[i].trial);
    }
    for (; still < ok; still++) {
        struct record gone = {.outcome = OUTCOME_INVALID};
        count_failure(r, &gone);
    }
}

static void look(struct run *r, size_t cell)
{
    struct blocks blocks = {0};
    if (r->study.n_arms < 2 || r->study.stop == STOP_NEVER)
        return;
    blocks_make(&r->study, &r->s->records, cell, &blocks);
    if (!r->stopped[cell] && verdict_look(&r->study, &blocks, cell)) {
        r->stopped[cell] = true;
        progress_say(&r->progress, "        %s: done after %zu blocks",
                     r->s->scenario.cells[cell].id, blocks.complete);
    }
    blocks_release(&blocks);
}

static int run_block(struct run *r, struct span b, struct error *err)
{
    int64_t attempt = attempts(r->s, b) + 1;
    size_t from = r->s->records.count;
    for (size_t i = 0; i < b.count && !is_over(r); i++)
        if (run_trial(r, &r->s->plan.trials[b.first + i], attempt, err))
            return -err->code;
    derive_block(r, from);
    if (!r->s->plan.trials[b.first].warmup_block)
        look(r, r->s->plan.trials[b.first].cell);
    return 0;
}

/* ---- the plan -----------------------------------------------------------------------------------
 */
static void count_total(struct run *r, bool repeats)
{
    size_t left = 0;
    for (size_t i = 0; i < r->s->plan.count;) {
        struct span b = block_at(&r->s->plan, i);
        const struct planned_trial *t = &r->s->plan.trials[i];
        if (!r->stopped[t->cell] && !is_settled(r->s, b) && !(repeats && t->warmup_block))
            left += b.count;
        i += b.count;
    }
    r->progress.total = r->progress.done + left;
}

static int run_plan(struct run *r, struct error *err)
{
    count_total(r, false);
    for (size_t i = 0; i < r->s->plan.count && !is_over(r);) {
        struct span b = block_at(&r->s->plan, i);
        size_t cell = r->s->plan.trials[i].cell;
        bool was = r->stopped[cell];
        if (!was && !is_settled(r->s, b) && run_block(r, b, err))
            return -err->code;
        i += b.count;
        if (r->stopped[cell] != was) /* what is left of a decided cell is not run */
            for (size_t k = i; k < r->s->plan.count; k++)
                r->progress.total -= r->s->plan.trials[k].cell == cell;
    }
    return 0;
}

/* Blocks of a cell that may still be repeated: what the cap leaves. Of those that are analysed, and
 * rounded down; but one of a few may be, unless the cap is 0. */
static int64_t repeats_left(const struct run *r, size_t cell)
{
    double share = r->s->scenario.disturbance.max_repeated;
    int64_t analysed = r->s->plan.blocks - r->s->scenario.sampling.discard_first_block;
    int64_t left = (int64_t)floor(share * (double)analysed + 1e-9);
    left = share > 0 && left < 1 ? 1 : left;
    for (size_t i = 0; i < r->s->plan.count;) {
        struct span b = block_at(&r->s->plan, i);
        left -= r->s->plan.trials[i].cell == cell && attempts(r->s, b) > 1;
        i += b.count;
    }
    return left;
}

/* Blocks that failed or were disturbed are repeated once, at the end and whole, up to
 * disturbance.max_repeated of a cell's. */
static int run_repeats(struct run *r, struct error *err)
{
    int64_t *left = mem_alloc((r->s->scenario.n_cells + 1) * sizeof *left);
    for (size_t c = 0; c < r->s->scenario.n_cells; c++)
        left[c] = repeats_left(r, c);
    int rc = 0;
    for (size_t i = 0; i < r->s->plan.count && !rc && !is_over(r);) {
        struct span b = block_at(&r->s->plan, i);
        const struct planned_trial *t = &r->s->plan.trials[i];
        i += b.count;
        if (r->stopped[t->cell] || t->warmup_block || is_complete(r->s, b) || left[t->cell]-- <= 0)
            continue;
        r->progress.total += b.count;
        rc = run_block(r, b, err);
    }
    free(left);
    return rc;
}

/* An arm that never once succeeded is left out of the analysis of its cell; the session is not
 * complete for that. */
static bool arm_succeeded(const struct session *s, const struct planned_trial *t)
{
    const struct cell *cell = &s->scenario.cells[t->cell];
    for (size_t i = 0; i < s->records.count; i++) {
        const struct record *r = &s->records.items[i];
        bool good = r->outcome == OUTCOME_OK || r->outcome == OUTCOME_DISTURBED;
        if (good && !r->warmup_block && !strcmp(r->cell, cell->id) &&
            !strcmp(r->runtime, cell->runtimes[t->runtime].name))
            return true;
    }
    return false;
}

static bool all_complete(const struct run *r)
{
    for (size_t i = 0; i < r->s->plan.count; i++)
        if (!r->s->plan.trials[i].warmup_block && !arm_succeeded(r->s, &r->s->plan.trials[i]))
            return false;
    for (size_t i = 0; i < r->s->plan.count;) {
        struct span b = block_at(&r->s->plan, i);
        const struct planned_trial *t = &r->s->plan.trials[i];
        if (!r->stopped[t->cell] && !t->warmup_block && !is_settled(r->s, b))
            return false;
        i += b.count;
    }
    return true;
}

/* A resumed session may have decided cells already. */
static void look_back(struct run *r)
{
    for (size_t c = 0; r->s->resumed && c < r->s->scenario.n_cells; c++)
        look(r, c);
}

/* ---- begin and end ------------------------------------------------------------------------------
 */
/* Keep the harness off the ranks' CPUs where there is one to spare; the ranks keep the whole set.
 */
static void pin_away(struct run *r)
{
    int64_t needed = 0;
    for (size_t c = 0; c < r->s->scenario.n_cells; c++) {
        const struct cell *cell = &r->s->scenario.cells[c];
        int64_t here = cell->ranks_per_node * cell->threads_per_rank;
        needed = here > needed ? here : needed;
    }
    auto_pus usable = {0}, one = {0};
    if (pus_usable(&usable) || pus_count(&usable) <= needed)
        return;
    pus_add(&one, (unsigned)pus_last(&usable));
    size_t bytes;
    auto_free cpu_set_t *set = pus_affinity(&one, &bytes);
    if (sched_setaffinity(0, bytes, set))
        return;
    r->affinity = pus_affinity(&usable, &r->context.affinity_bytes);
    r->context.affinity = r->affinity;
}

static void run_init(struct run *r, struct session *s, const struct session_options *o)
{
    double limit = o->timeout_s > 0 ? o->timeout_s : s->scenario.limits.session_s;
    const struct slurm_allocation *a = s->allocation.job_id ? &s->allocation : NULL;
    *r = (struct run){.s = s, .options = o};
    interrupt_open(&r->interrupt);
    progress_init(&r->progress, o->quiet ? "none" : o->progress, &s->scenario);
    study_from_scenario(&s->scenario, &r->study);
    r->stopped = mem_zalloc(s->scenario.n_cells + 1, sizeof *r->stopped);
    r->context = (struct trial_context){
        .scenario = &s->scenario,
        .session_id = s->id,
        .session_dir = s->dir,
        .nanochat = s->nanochat,
        .workload_sha256 = *s->workload_sha256 ? s->workload_sha256 : NULL,
        .plan_sha256 = s->plan_sha256,
        .descriptions = s->descriptions,
        .stratum = s->stratum,
        .launcher = a ? &launcher_slurm : &launcher_local,
        .allocation = a,
        .interrupt = &r->interrupt,
        .deadline_s = limit > 0 ? clock_mono_s() + limit : 0,
        .progress = r->progress.mode == PROGRESS_LIVE ? progress_tick : NULL,
        .progress_user = &r->progress,
    };
    for (size_t i = 0; i < s->records.count; i++)
        if (s->records.items[i].seq > r->last_seq)
            r->last_seq = s->records.items[i].seq;
    r->progress.done = 0;
    if (!a)
        pin_away(r);
    /* Early enough to end a trial, and to write what there is. */
    double end_s = a && a->end_s > 0 ? a->end_s - s->scenario.limits.kill_grace_s - TIDY_UP_S : 0;
    if (end_s > 0 && (r->context.deadline_s <= 0 || end_s < r->context.deadline_s))
        r->context.deadline_s = end_s;
}

static void run_release(struct run *r)
{
    progress_close(&r->progress);
    study_release(&r->study);
    interrupt_close(&r->interrupt);
    free(r->stopped);
    free(r->affinity);
}

static void put_cells(const struct run *r)
{
    json_t *cells = json_array();
    for (size_t c = 0; c < r->s->scenario.n_cells; c++) {
        struct blocks blocks = {0};
        blocks_make(&r->study, &r->s->records, c, &blocks);
        json_t *cell = json_object();
        json_put_str(cell, "id", r->s->scenario.cells[c].id);
        json_put_int(cell, "blocks_complete", (int64_t)blocks.complete);
        json_put_bool(cell, "decided", r->stopped[c]);
        json_array_append_new(cells, cell);
        blocks_release(&blocks);
    }
    json_object_set_new(r->s->summary, "cells", cells);
}

static int finish(struct run *r, int *exit_code, struct error *err)
{
    const char *state = "complete";
    *exit_code = NCBENCH_EXIT_OK;
    if (err->code) {
        state = "failed";
        *exit_code = err->code;
    } else if (r->interrupt.signal) {
        state = "cancelled";
        *exit_code = 128 + r->interrupt.signal;
    } else if (!all_complete(r)) {
        bool late = is_late(r);
        state = "incomplete";
        *exit_code = late && !r->ended && !r->lost ? NCBENCH_EXIT_LIMIT : NCBENCH_EXIT_TRIALS;
    }
    if (r->ended)
        progress_say(&r->progress, "        ended after %lld failed trial%s",
                     (long long)r->failures, r->failures == 1 ? "" : "s");
    put_cells(r);
    auto_error struct error saving = ERROR_INIT;
    if (session_save(r->s, state, *exit_code, &saving) && !err->code)
        error_move(err, &saving);
    return err->code ? -err->code : 0;
}

int session_run(struct session *s, const struct session_options *o, int *exit_code,
                struct error *err)
{
    struct run r;
    if (reaper_init(err))
        return -err->code;
    run_init(&r, s, o);
    look_back(&r);
    if (run_plan(&r, err) == 0)
        run_repeats(&r, err);
    session_cleanup(s);
    finish(&r, exit_code, err);
    run_release(&r);
    return err->code ? -err->code : 0;
}
