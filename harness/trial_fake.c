/* A trial under the fake runtime: its scripted response becomes facts, as if a rank had written
 * events; judge and record then do what they do for every trial. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/trial.h"
#include "runtimes/fake.h"

#include <math.h>
#include <string.h>

static void add_steps(struct trial_facts *f, const struct fake_response *r)
{
    struct rank_events e = {.last_t_s = NAN};
    double t = f->spawn_s + r->start_s;
    e.hello = json_object();
    json_put_f64(e.hello, "entry_s", t);
    e.done = json_object();
    json_put_int(e.done, "exit_code", 0);
    for (size_t i = 0; i < r->steps; i++) {
        bool last = i + 1 == r->steps;
        struct step_event s = {
            .step = (int64_t)i,
            .t_start_s = 0, /* durations alone count, and they stay exact so */
            .t_end_s = r->step_time_s[i],
            .data_wait_s = NAN,
            .fwd_s = NAN,
            .bwd_s = NAN,
            .comm_s = NAN,
            .opt_s = NAN,
            .loss = last ? r->loss_last : NAN,
            .grad_norm = NAN,
            .tokens = 1024.0 * (double)f->ranks,
        };
        vec_push(&e.steps, s);
    }
    struct phase_event teardown = {
        .name = PHASE_TEARDOWN, .begin_s = f->reap_s, .end_s = NAN, .open_s = f->reap_s};
    vec_push(&e.phases, teardown);
    vec_push(&f->events, e);
}

int trial_fake(struct trial_facts *f, struct error *err)
{
    struct fake_response r = {0};
    struct fake_trial trial = {f->context->scenario->sampling.seed, f->cell->id, f->planned->block,
                               f->seq};
    if (fake_respond(f->spec->script, &trial, &r, err))
        return error_wrap(err, "trial %s", f->id);
    f->judged = true;
    f->outcome = r.outcome;
    f->spawn_s = f->origin_s;
    f->reap_s = f->end_s = f->spawn_s + r.wall_s;
    if (r.outcome == OUTCOME_OK)
        add_steps(f, &r);
    else
        strv_push(&f->reasons, r.reason ? r.reason : "as its script says");
    fake_response_release(&r);
    return 0;
}
