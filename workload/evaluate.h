/* Validation loss and bits per byte.
 *
 * bpb = (sum of the losses, in nats, of the targets that stand for bytes) / (ln 2 * sum of those
 * bytes), over all ranks. Bytes are the raw bytes of the token; special tokens have none and do not
 * count. Every rank makes the same number of batches. */
#ifndef WORKLOAD_EVALUATE_H
#define WORKLOAD_EVALUATE_H

#include "workload/comm.h"
#include "workload/data.h"
#include "workload/model.h"

struct evaluator; /* a loader that starts at the same place each time, and its buffers */

struct evaluation {
    double loss;    /* mean of all targets, nats */
    double bpb;     /* NaN: no token has bytes (synthetic data, or no tokenizer) */
    int64_t tokens; /* of all ranks */
    int64_t bytes;
    double time_s;
};

/* data: split, rank, world, B and T set. tokens: asked for, rounded down to whole batches of all
 * ranks; less than one is NANOCHAT_EXIT_PLAN. token_bytes is borrowed; NULL: no bpb. */
int evaluator_open(struct evaluator **out, const struct data_config *data, int64_t tokens,
                   const int32_t *token_bytes, struct error *err);
/* Collective. A signal ends it early on all ranks: NANOCHAT_EXIT_PEER. */
int evaluator_run(struct evaluator *e, struct model *model, struct comm *comm,
                  struct evaluation *out, struct error *err);
void evaluator_close(struct evaluator *e);

/* The sums behind a bpb, to be tested alone: adds nats and bytes of n targets. */
void evaluate_count_bytes(const float *losses, const int32_t *targets, int64_t n,
                          const int32_t *token_bytes, double *nats, double *bytes);

#endif
