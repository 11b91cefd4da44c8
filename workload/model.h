/* nanochat's transformer (October 2025): forward, backward, parameters.
 *
 * The model is written on the ops tables of kernels/kernels.h and knows no back end. All memory is
 * one plan made at creation for micro-batches of at most B*T tokens: nothing is allocated later.
 *
 * Parameters are named as upstream's state dict names them ("transformer.wte.weight",
 * "transformer.h.0.attn.c_q.weight", …, "lm_head.weight"), row-major [out, in], float32.
 *
 * A training step:
 *     model_zero_grad(m);
 *     for each micro-batch:
 *         model_forward(m, inputs, targets, &loss, err);   // mean loss over non-ignored targets
 *         model_backward(m, 1.0 / accumulation, err);      // adds to the gradients
 *     optimizer_step(…) */
#ifndef WORKLOAD_MODEL_H
#define WORKLOAD_MODEL_H

#include "common/error.h"
#include "common/json.h"
#include "kernels/kernels.h"

#include <stdint.h>

struct model_config {
    int64_t sequence_len, vocab_size, n_layer, n_head, n_kv_head, n_embd;
};

enum param_kind { PARAM_EMBEDDING, PARAM_HEAD, PARAM_MATRIX };

struct param {
    char name[64];
    enum param_kind kind;
    int64_t rows, cols;
    float *weight; /* float32 master, in device memory (host memory for the CPU) */
    float *grad;
};

struct model;

/* Dimensions of a depth as upstream derives them: width 64*depth, heads of 128 (docs). */
struct model_config model_config_for_depth(int64_t depth, int64_t sequence_len, int64_t vocab_size);
/* An impossible shape is NANOCHAT_EXIT_PLAN with what would work. */
int model_config_check(const struct model_config *config, struct error *err);
int64_t model_config_params(const struct model_config *config); /* 2VC + 12LC² (fewer with GQA) */
/* FLOPs per token, forward and backward: 6(N - VC) + 12·L·C·T (docs/methodology.md). */
double model_config_flops_per_token(const struct model_config *config);
json_t *model_config_json(const struct model_config *config);
int model_config_from_json(const json_t *obj, struct model_config *out, struct error *err);
/* Bytes of weights, gradients and activations for micro-batches of B*T. */
int64_t model_bytes(const struct model_config *config, int64_t B, int64_t T);

/* device is borrowed. More than the memory left: NANOCHAT_EXIT_OOM, before allocating, with the
 * device batch size that would fit. */
int model_create(struct model **out, struct device *device, const struct model_config *config,
                 int64_t B, int64_t T, struct error *err);
void model_free(struct model *m);
/* Upstream's initialisation from a seed: equal for equal seeds whatever the rank or thread count.
 */
void model_init_weights(struct model *m, uint64_t seed);

const struct model_config *model_get_config(const struct model *m);
size_t model_n_params(const struct model *m);
struct param *model_param(struct model *m, size_t i);              /* order of the state dict */
struct param *model_find_param(struct model *m, const char *name); /* NULL if absent */

/* Loss of a micro-batch of b rows of t tokens (b*t <= B*T): the mean over targets that are not -1;
 * *loss is a double, non-finite values pass through. Keeps what backward needs. */
int model_forward(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b,
                  int64_t t, double *loss, struct error *err);
/* Gradients of the last forward, times scale, added to param.grad. */
int model_backward(struct model *m, double scale, struct error *err);
void model_zero_grad(struct model *m);
/* As model_forward without keeping anything, and the loss of each target: float[b*t], 0 where
 * ignored. per_token may be NULL. */
int model_eval(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b, int64_t t,
               double *loss, float *per_token, struct error *err);
/* Softcapped logits of every position: float[b*t*vocab]. */
int model_logits(struct model *m, const int32_t *inputs, int64_t b, int64_t t, float *logits,
                 struct error *err);

#endif
