#include "workload/train.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/progress.h"
#include "workload/stop.h"
#include "workload/train_priv.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

/* ---- one step: the timed region ------------------------------------------------------------- */

double train_lr_multiplier(const struct train *t)
{
    const struct train_options *o = t->options;
    return schedule_lr_multiplier(t->step, t->iterations, o->warmup_ratio, o->warmdown_ratio,
                                  o->final_lr_frac);
}

/* Queues the work of all micro-batches of this rank; *loss is the sum of their mean losses. */
static int accumulate(struct train *t, struct step_record *r, double *loss, struct error *err)
{
    for (int64_t i = 0; i < t->accumulation; i++) {
        double before = clock_mono_s(), micro_loss;
        if (loader_next(t->loader, t->inputs, t->targets, err))
            return -err->code;
        r->data_wait_s += clock_mono_s() - before;
        if (i == t->accumulation - 1 && comm_can_overlap(t->run->comm))
            optimizer_reduce_early(t->optimizer);
        if (step_clock_mark(&t->clock, i, MARK_FORWARD, err) ||
            model_forward(t->model, t->inputs, t->targets, t->B, t->T, NULL, err) ||
            step_clock_mark(&t->clock, i, MARK_BACKWARD, err) || model_backward(t->model, err) ||
            step_clock_mark(&t->clock, i, MARK_END, err) ||
            model_loss(t->model, &micro_loss, err)) /* with all queued: the device does not wait */
            return -err->code;
        *loss += micro_loss;
    }
    return step_clock_read(&t->clock, &r->fwd_s, &r->bwd_s, err);
}

/* The mean loss over the batch of all ranks and, in the same all-reduce, whether some rank got a
 * signal: so all of them end at the same step. */
static int reduce_loss(struct train *t, double sum, double *loss, int *stop, struct error *err)
{
    int signal = stop_requested();
    double v[3] = {sum / (double)t->accumulation, signal == SIGTERM, signal == SIGINT};
    if (comm_all_reduce_sum_f64(t->run->comm, v, 3, err))
        return -err->code;
    *loss = v[0] / comm_world(t->run->comm);
    *stop = v[1] > 0 ? SIGTERM : v[2] > 0 ? SIGINT : 0;
    return 0;
}

static int not_finite(const struct train *t, const char *what, double value, struct error *err)
{
    char last[64] = "no step had a finite loss";
    if (isfinite(t->last_loss))
        snprintf(last, sizeof last, "the last finite loss is %.6f at step %" PRId64, t->last_loss,
                 t->step - 1);
    error_set(err, NANOCHAT_EXIT_NUMERIC, "%s is %s at step %" PRId64 "; %s", what,
              isnan(value) ? "not a number" : "infinite", t->step, last);
    return error_hint(err, "try smaller learning rates, or a warm-up (--warmup-ratio)");
}

static int update(struct train *t, struct step_record *r, struct error *err)
{
    double start = clock_mono_s(), comm_s = 0;
    if (optimizer_step(t->optimizer, train_lr_multiplier(t), schedule_muon_momentum(t->step),
                       &r->grad_norm, &comm_s, err) ||
        t->run->device->ops->sync(t->run->device, err)) /* the work is queued, not done */
        return -err->code;
    r->opt_s = clock_mono_s() - start - comm_s;
    if (!isfinite(r->grad_norm))
        return not_finite(t, "the norm of the gradient", r->grad_norm, err);
    return 0;
}

/* The handicap control of a benchmark: a known slowdown that must be found. */
static void wait_handicap(const struct train *t, struct step_record *r)
{
    double until = r->t_end_s + t->handicap * (r->t_end_s - r->t_start_s);
    while (r->t_end_s < until)
        r->t_end_s = clock_mono_s();
}

int train_step(struct train *t, struct step_record *r, int *stop, struct error *err)
{
    struct comm *comm = t->run->comm;
    struct device *device = t->run->device;
    double sum = 0;
    *r = (struct step_record){.step = t->step,
                              .data_prepare_s = t->data_prepare_s,
                              .loss = NAN,
                              .grad_norm = -1,
                              .tokens = t->options->total_batch_size};
    comm_set_step(comm, t->step);
    comm_take_time_s(comm);
    if (device->ops->sync(device, err))
        return -err->code;
    r->t_start_s = clock_mono_s();
    if (model_zero_grad(t->model, err) || accumulate(t, r, &sum, err) ||
        reduce_loss(t, sum, &r->loss, stop, err))
        return -err->code;
    if (!isfinite(r->loss))
        not_finite(t, "the loss", r->loss, err);
    else
        update(t, r, err);
    r->comm_s = comm_take_time_s(comm);
    r->t_end_s = clock_mono_s();
    if (t->handicap > 0)
        wait_handicap(t, r);
    r->epoch = loader_epoch(t->loader);
    return -err->code;
}

/* ---- between steps -------------------------------------------------------------------------- */

static bool due(int64_t step, int64_t every)
{
    return every > 0 && step % every == 0;
}

/* Everything that upstream does at the head of a turn. */
static int turn(struct train *t, struct error *err)
{
    const struct train_options *o = t->options;
    bool last = t->step == t->iterations;
    bool resumed_here = t->first_step > 0 && t->step == t->first_step;
    if (t->evaluator && (last || due(t->step, o->eval_every)) && train_evaluate(t, err))
        return -err->code;
    bool sample = last || (t->step > 0 && due(t->step, o->sample_every));
    if (o->sample_every > 0 && sample && train_sample(t, err))
        return -err->code;
    bool save = last || (t->step > 0 && due(t->step, o->save_every));
    if (o->save_every != 0 && save && !resumed_here && train_save(t, err))
        return -err->code;
    return 0;
}

/* Takes a step into the books, prints its line, writes the events that it collected. */
static int account(struct train *t, const struct step_record *r, struct error *err)
{
    double dt = r->t_end_s - r->t_start_s;
    t->last_loss = r->loss;
    t->smooth_loss = progress_smooth(t->smooth_loss, r->loss);
    if (t->step > 10) /* the first ones are warm-up */
        t->total_time_s += dt;
    if (due(t->step, t->options->log_every) && train_log(t, r, err))
        return -err->code;
    t->step++;
    return events_flush(t->run->events, err);
}

static int plant_nan(struct train *t, struct error *err)
{
    if (t->step != t->options->debug_nan_at_step)
        return 0;
    const struct param *p = model_param(t->model, model_n_params(t->model) - 1);
    const float nan = NAN; /* in the last weight matrix, so that every token meets it */
    struct device *device = t->run->device;
    return device->ops->to_device(device, p->weight, &nan, sizeof nan, err) ||
                   model_weights_changed(t->model, err)
               ? -err->code
               : 0;
}

/* A step's counts, after it and outside of its time. */
static int tell_counters(struct train *t, int64_t step, struct error *err)
{
    struct counters *c = t->run->counters;
    if (!c)
        return 0;
    json_t *fields = json_object(), *values = json_object();
    json_put_int(fields, "step", step);
    for (size_t i = 0; i < counters_count(c); i++) {
        const struct counter_info *info = counters_info(c, i);
        if (info->source && t->counts[i] >= 0)
            json_put_int(values, info->name, t->counts[i]);
        else if (info->source) /* those without one are told in the env event */
            json_put_null(values, info->name, "it could not be read");
    }
    json_put(fields, "values", values);
    return events_put(t->run->events, EVENT_COUNTERS, fields, err);
}

static int counted_step(struct train *t, struct step_record *r, int *stop, struct error *err)
{
    if (t->run->counters)
        counters_begin(t->run->counters);
    int rc = train_step(t, r, stop, err);
    if (t->run->counters)
        counters_end(t->run->counters, t->counts);
    return rc;
}

/* Reading and tokenising are work of their own: not in a step's time, but told with the next one.
 */
static int prepare_data(struct train *t, struct error *err)
{
    double before = clock_mono_s();
    if (loader_prepare(t->loader, t->accumulation, err))
        return -err->code;
    t->data_prepare_s = clock_mono_s() - before;
    return 0;
}

/* After a step: from the next one on its work may be launched as graphs. */
static int choose_graphs(struct train *t, const struct step_record *r, struct error *err)
{
    struct graphs *g = &t->graphs;
    const double queue_s = model_take_queue_s(t->model);
    if (!graphs_step(g, queue_s, r->fwd_s + r->bwd_s))
        return 0;
    if (g->verdict == GRAPHS_USED) {
        model_use_graphs(t->model);
        optimizer_use_graphs(t->optimizer);
    }
    return run_print(t->run, err, "CUDA graphs: %s (%s)\n",
                     g->verdict == GRAPHS_USED ? "on" : "off", g->why);
}

static int one_step(struct train *t, int *stop, struct error *err)
{
    struct events *events = t->run->events;
    struct step_record record;
    bool first = t->step == t->first_step;
    if (prepare_data(t, err) || plant_nan(t, err) ||
        (first && events_phase_begin(events, PHASE_FIRST_STEP, err)))
        return -err->code;
    int rc = counted_step(t, &record, stop, err);
    if (!rc || err->code == NANOCHAT_EXIT_NUMERIC) /* a loss that is not finite is null there */
        events_step(events, &record);
    if (rc)
        return rc;
    if (choose_graphs(t, &record, err))
        return -err->code;
    if (tell_counters(t, record.step, err))
        return -err->code;
    if (first && events_phase_end(events, PHASE_FIRST_STEP, err))
        return -err->code;
    return account(t, &record, err);
}

static int loop(struct train *t, struct error *err)
{
    for (;;) {
        int stop = 0;
        if (turn(t, err))
            return -err->code;
        if (t->step == t->iterations)
            return 0;
        if (one_step(t, &stop, err))
            return -err->code;
        if (stop) {
            char done[48];
            snprintf(done, sizeof done, "step %" PRId64, t->step - 1);
            return stop_error(stop, done, err);
        }
    }
}

int train_run(struct run *run, const struct train_options *options, struct error *err)
{
    struct train t;
    if (!train_open(&t, run, options, err) && !train_config_event(&t, err) && !loop(&t, err))
        train_summary(&t, err);
    run_teardown(run);
    train_close(&t);
    return -err->code;
}
