/* What looking costs: training steps with and without the collectors.
 *
 *     collectors [--depth=2] [--vocab=4096] [--seq=256] [--batch=2] [--threads=1] [--pairs=200]
 *
 * In the rank: steps with everything that a trial records of them and steps without, in pairs
 * ordered ABBA. Of the time of a step as trials record it, the paired ratio with its 95 % interval,
 * and the time of the collectors' calls in it (16 `comm` records, as of 16 collectives), which
 * noise of the machine does not hide. Apart from it, what they do between steps: counters before
 * and after, formatting and writing the events. That is in a trial's wall time, not in its steps'.
 *
 * Outside: what the harness's collectors (host, rusage, cgroup) take at start and stop of a trial
 * and at each tick, at most twice a second, of the time of one PU. */
#include "common/clock.h"
#include "common/counters.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "harness/collectors/collector.h"
#include "harness/stats_paired.h"
#include "workload/events.h"
#include "workload/model.h"
#include "workload/optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLLECTIVES 16
#define WARM_UP 5
#define TICKS_PER_S 2

struct bench {
    int64_t depth, V, T, B, threads, pairs;
    struct device *device;
    struct model *model;
    struct optimizer *optimizer;
    int32_t *tokens;
    struct events *events;
    struct counters *counters;
    int64_t *counts, step;
    double *watched_s, *alone_s, *calls_s, *between_s; /* of each pair */
};

/* As many as a scenario counts unless told otherwise. */
static const char counted[] =
    "rusage::VOLUNTARY-SWITCHES,rusage::INVOLUNTARY-SWITCHES,rusage::MINOR-FAULTS";

static int prepare(struct bench *x, const char *dir, char **argv, struct error *err)
{
    struct device_config device = {.type = "cpu", .threads = (int)x->threads};
    struct model_config c = model_config_for_depth(x->depth, x->T, x->V);
    struct optimizer_config o = {
        .embedding_lr = 0.2, .unembedding_lr = 0.004, .matrix_lr = 0.02, .grad_clip = 1.0};
    auto_strv names = STRV_INIT;
    counters_split(counted, &names);
    x->counters = counters_open(&names);
    x->counts = mem_zalloc(counters_count(x->counters), sizeof *x->counts);
    setenv(ENV_TRIAL_DIR, dir, 1);
    if (events_open(&x->events, 0, clock_mono_s(), 1, argv, err) ||
        device_open(&x->device, &device, err) ||
        model_create(&x->model, x->device, &c, x->B, x->T, err) ||
        model_init_weights(x->model, 42, err) ||
        optimizer_create(&x->optimizer, x->model, NULL, &o, err))
        return -err->code;
    int64_t n = x->B * x->T + 1;
    x->tokens = mem_zalloc((size_t)n, sizeof *x->tokens);
    for (int64_t i = 0; i < n; i++)
        x->tokens[i] = (int32_t)(i * 7919 % x->V);
    return 0;
}

/* What the observer of the collectives does within a step. */
static double record_collectives(struct bench *x, int64_t step)
{
    double start_s = clock_mono_s();
    for (int i = 0; i < COLLECTIVES; i++) {
        const struct comm_record c = {.step = step,
                                      .seq = i,
                                      .op = "reduce_scatter",
                                      .bytes = 1 << 20,
                                      .time_us = 123.456 + i,
                                      .lost_rank = -1};
        events_comm(x->events, &c);
    }
    return clock_mono_s() - start_s;
}

/* calls_s: of the collectors within the step; NULL: they are off. */
static int train_step(struct bench *x, struct step_record *r, double *calls_s, struct error *err)
{
    double loss, norm, comm_s;
    r->t_start_s = clock_mono_s();
    if (model_zero_grad(x->model, err) ||
        model_forward(x->model, x->tokens, x->tokens + 1, x->B, x->T, &loss, err) ||
        model_backward(x->model, err) ||
        optimizer_step(x->optimizer, 1.0, 0.95, &norm, &comm_s, err))
        return -err->code;
    if (calls_s)
        *calls_s = record_collectives(x, x->step);
    r->t_end_s = clock_mono_s();
    r->loss = loss;
    r->grad_norm = norm;
    r->step = x->step++;
    r->tokens = x->B * x->T;
    return 0;
}

/* As workload/train.c tells it. */
static int tell(struct bench *x, const struct step_record *r, struct error *err)
{
    json_t *fields = json_object(), *values = json_object();
    json_put_int(fields, "step", r->step);
    for (size_t i = 0; i < counters_count(x->counters); i++)
        json_put_int(values, counters_info(x->counters, i)->name, x->counts[i]);
    json_put(fields, "values", values);
    return events_put(x->events, EVENT_COUNTERS, fields, err) || events_flush(x->events, err);
}

static int watched_step(struct bench *x, int64_t slot, struct error *err)
{
    struct step_record r = {0};
    double t0 = clock_mono_s();
    counters_begin(x->counters);
    double t1 = clock_mono_s();
    if (train_step(x, &r, &x->calls_s[slot], err))
        return -err->code;
    double t2 = clock_mono_s();
    counters_end(x->counters, x->counts);
    events_step(x->events, &r);
    if (tell(x, &r, err))
        return -err->code;
    x->between_s[slot] = (t1 - t0) + (clock_mono_s() - t2);
    x->watched_s[slot] = r.t_end_s - r.t_start_s;
    return 0;
}

static int alone_step(struct bench *x, int64_t slot, struct error *err)
{
    struct step_record r = {0};
    int rc = train_step(x, &r, NULL, err);
    x->alone_s[slot] = r.t_end_s - r.t_start_s;
    return rc;
}

static int run_pairs(struct bench *x, struct error *err)
{
    for (int64_t i = -WARM_UP; i < x->pairs; i++) {
        const int64_t slot = i < 0 ? 0 : i;
        const bool alone_first = i & 1;
        if ((alone_first && alone_step(x, slot, err)) || watched_step(x, slot, err) ||
            (!alone_first && alone_step(x, slot, err)))
            return -err->code;
    }
    return 0;
}

static void report_rank(const struct bench *x)
{
    const size_t n = (size_t)x->pairs;
    struct paired p = stats_paired(x->alone_s, x->watched_s, n, .025);
    const double step_s = stats_median(x->alone_s, n), calls_s = stats_median(x->calls_s, n);
    const double between_s = stats_median(x->between_s, n);
    printf("in a step: %.2f ms without collectors; with/without %.5f, 95 %% interval %.5f to %.5f, "
           "%zu pairs\n",
           step_s * 1e3, p.ratio, p.ci.lo, p.ci.hi, n);
    printf("in a step: the collectors' calls take %.2f us, %.5f %% of it\n", calls_s * 1e6,
           calls_s / step_s * 100);
    printf("between steps: %.1f us, %.4f %% of a step\n", between_s * 1e6,
           between_s / step_s * 100);
}

static double per_call_s(double since_s, int n)
{
    return (clock_mono_s() - since_s) / n;
}

static void report_harness(void)
{
    enum { ROUNDS = 50 };
    struct collectors c;
    const struct collector_context context = {0};
    double start_s = 0, tick_s = 0, stop_s = 0, t;
    for (int i = 0; i < ROUNDS; i++) {
        t = clock_mono_s();
        collectors_start(&c, &context);
        start_s += per_call_s(t, ROUNDS);
        t = clock_mono_s();
        collectors_tick(&c, &(struct processes){0});
        tick_s += per_call_s(t, ROUNDS);
        t = clock_mono_s();
        collectors_stop(&c);
        json_decref(collectors_emit(&c));
        stop_s += per_call_s(t, ROUNDS);
        collectors_free(&c);
    }
    printf(
        "outside: %.2f ms before and %.2f ms after a trial; a tick %.1f us, %d a second: %.4f %% "
        "of one PU\n",
        start_s * 1e3, stop_s * 1e3, tick_s * 1e6, TICKS_PER_S, tick_s * TICKS_PER_S * 100);
}

static bool option(const char *arg, const char *name, int64_t *value)
{
    size_t n = strlen(name);
    return !strncmp(arg, name, n) && num_parse_i64(arg + n, value) && *value > 0;
}

static void finish(struct bench *x, const char *dir)
{
    struct error ignored = ERROR_INIT;
    events_finish(x->events, 0, NULL);
    optimizer_free(x->optimizer);
    model_free(x->model);
    device_close(x->device);
    counters_close(x->counters);
    fs_remove_tree(dir, 1, &ignored);
    error_release(&ignored);
    free(x->tokens);
    free(x->counts);
    free(x->watched_s);
    free(x->alone_s);
    free(x->calls_s);
    free(x->between_s);
}

int main(int argc, char **argv)
{
    struct bench x = {.depth = 2, .V = 4096, .T = 256, .B = 2, .threads = 1, .pairs = 200};
    char dir[] = "/tmp/ncbench-bench-XXXXXX";
    struct error err = ERROR_INIT;
    for (int i = 1; i < argc; i++)
        if (!option(argv[i], "--depth=", &x.depth) && !option(argv[i], "--vocab=", &x.V) &&
            !option(argv[i], "--seq=", &x.T) && !option(argv[i], "--batch=", &x.B) &&
            !option(argv[i], "--threads=", &x.threads) && !option(argv[i], "--pairs=", &x.pairs)) {
            fprintf(stderr, "bench: error: unknown option \"%s\"\n", argv[i]);
            return 2;
        }
    if (!mkdtemp(dir)) {
        perror("bench: error: /tmp");
        return 1;
    }
    x.watched_s = mem_zalloc((size_t)x.pairs, sizeof *x.watched_s);
    x.alone_s = mem_zalloc((size_t)x.pairs, sizeof *x.alone_s);
    x.calls_s = mem_zalloc((size_t)x.pairs, sizeof *x.calls_s);
    x.between_s = mem_zalloc((size_t)x.pairs, sizeof *x.between_s);
    if (!prepare(&x, dir, argv, &err) && !run_pairs(&x, &err)) {
        report_rank(&x);
        report_harness();
    }
    error_print(&err, "bench");
    finish(&x, dir);
    return err.code;
}
