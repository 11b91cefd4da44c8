/* Continuing a prompt. */
#ifndef WORKLOAD_SAMPLE_H
#define WORKLOAD_SAMPLE_H

#include "workload/model.h"

/* Tokens that end a continuation: they are not part of it. */
struct sample_stop {
    const int32_t *tokens;
    size_t n;
};

/* The most probable continuation of tokens[0, n): up to max_new tokens into out, their number into
 * *n_out. Of equal logits the lowest id wins, as in PyTorch's argmax. The whole sequence is
 * computed anew for each token (no cache): meant for a few short prompts. It ends early where the
 * model's sequence ends (model_max_sequence). An empty prompt or a token outside the vocabulary is
 * NANOCHAT_EXIT_DATA, NaN in the logits NANOCHAT_EXIT_NUMERIC. */
int sample_greedy(struct model *m, const int32_t *tokens, int64_t n, int64_t max_new,
                  const struct sample_stop *stop, int32_t *out, int64_t *n_out, struct error *err);

#endif
