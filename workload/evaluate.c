#include "workload/evaluate.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/stop.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

struct evaluator {
    struct data_config data;
    struct loader *loader;
    json_t *start; /* of the loader: every evaluation sees the same batches */
    int64_t batches;
    const int32_t *token_bytes;
    int32_t *inputs, *targets;
    float *losses;
};

static int allocate(struct evaluator *e, struct error *err)
{
    size_t n = (size_t)(e->data.B * e->data.T);
    return mem_try_alloc((void **)&e->inputs, n * sizeof *e->inputs, "evaluation inputs", err) ||
                   mem_try_alloc((void **)&e->targets, n * sizeof *e->targets, "evaluation targets",
                                 err) ||
                   mem_try_alloc((void **)&e->losses, n * sizeof *e->losses, "evaluation losses",
                                 err)
               ? -err->code
               : 0;
}

int evaluator_open(struct evaluator **out, const struct data_config *data, int64_t tokens,
                   const int32_t *token_bytes, struct error *err)
{
    int64_t batch = data->B * data->T * data->world;
    if (tokens < batch)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "%" PRId64 " tokens to evaluate are less than one batch of %" PRId64
                         " (device batch size %" PRId64 " x sequence length %" PRId64
                         " x %d rank%s)",
                         tokens, batch, data->B, data->T, data->world, data->world == 1 ? "" : "s");
    struct evaluator *e = mem_zalloc(1, sizeof *e);
    e->data = *data;
    e->data.prefetch_tokens = 1; /* no step is timed here: read as it goes */
    e->batches = tokens / batch;
    e->token_bytes = token_bytes;
    if (loader_open(&e->loader, &e->data, err) || allocate(e, err)) {
        evaluator_close(e);
        return -err->code;
    }
    e->start = loader_state(e->loader);
    *out = e;
    return 0;
}

void evaluator_close(struct evaluator *e)
{
    if (!e)
        return;
    if (e->loader)
        loader_close(e->loader);
    json_decref(e->start);
    free(e->inputs);
    free(e->targets);
    free(e->losses);
    free(e);
}

void evaluate_count_bytes(const float *losses, const int32_t *targets, int64_t n,
                          const int32_t *token_bytes, double *nats, double *bytes)
{
    for (int64_t i = 0; i < n; i++) {
        if (targets[i] < 0 || token_bytes[targets[i]] == 0)
            continue;
        *nats += (double)losses[i];
        *bytes += token_bytes[targets[i]];
    }
}

/* A signal that one rank has seen ends the evaluation on all of them. */
static int check_stop(struct comm *comm, struct error *err)
{
    double signal = stop_requested();
    if (comm_all_reduce_max_f64(comm, &signal, 1, err))
        return -err->code;
    return signal > 0 ? stop_error((int)signal, "part of an evaluation", err) : 0;
}

int evaluator_run(struct evaluator *e, struct model *model, struct comm *comm,
                  struct evaluation *out, struct error *err)
{
    double start = clock_mono_s();
    int64_t n = e->data.B * e->data.T;
    double sums[3] = {0}; /* loss, nats of targets with bytes, bytes */
    if (loader_restore(e->loader, e->start, err))
        return error_wrap(err, "evaluating");
    for (int64_t i = 0; i < e->batches; i++) {
        double loss;
        if (check_stop(comm, err) || loader_next(e->loader, e->inputs, e->targets, err) ||
            model_eval(model, e->inputs, e->targets, e->data.B, e->data.T, &loss, e->losses, err))
            return -err->code;
        sums[0] += loss;
        if (e->token_bytes)
            evaluate_count_bytes(e->losses, e->targets, n, e->token_bytes, &sums[1], &sums[2]);
    }
    if (comm_all_reduce_sum_f64(comm, sums, 3, err))
        return -err->code;
    *out = (struct evaluation){
        .loss = sums[0] / ((double)e->batches * e->data.world),
        .bpb = sums[2] > 0 ? sums[1] / (M_LN2 * sums[2]) : NAN,
        .tokens = e->batches * n * e->data.world,
        .bytes = (int64_t)sums[2],
        .time_s = clock_mono_s() - start,
    };
    return 0;
}
