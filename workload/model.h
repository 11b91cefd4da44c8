/* nanochat's transformer (October 2025): forward, backward, parameters.
 *
 * The model is written on the ops tables of kernels/kernels.h and knows no back end. All memory is
 * one plan made at creation for micro-batches of at most B*T tokens: nothing is allocated later.
 *
 * Parameters are named as upstream's state dict names them ("transformer.wte.weight",
 * "transformer.h.0.attn.c_q.weight", …, "lm_head.weight"), row-major [out, in], float32.
 *
 * A training step:
 *     model_set_grad_scale(m, 1.0 / accumulation);          // once: it does not change
 *     model_zero_grad(m);
 *     for each micro-batch:
 *         model_forward(m, inputs, targets, b, t, &loss, err);   // mean over non-ignored targets
 *         model_backward(m, err);                                // adds to the gradients
 *     optimizer_step(…)
 *
 * The head is the one place where forward does work of backward: its logits are too big to be kept,
 * so the gradients of lm_head and of its input are made while a chunk of them is in the cache. A
 * forward whose backward is not wanted is model_eval. */
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
    void *compute; /* what the GEMMs read: the master itself, or a copy in the device's format */
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
/* Elements of the longest buffer that the optimizer hands to a collective. */
int64_t model_config_max_collective(const struct model_config *config);
/* Bytes of weights, gradients and activations for micro-batches of B*T. */
int64_t model_bytes(struct device *device, const struct model_config *config, int64_t B, int64_t T);
/* Do so many ranks of one node fit, each with `extra` bytes for what else it will allocate
 * (optimizer_bytes)? A device of its own (memory->own) holds one of them. If not: NANOCHAT_EXIT_OOM
 * with what is needed, what is left and the device batch size that would fit. */
int model_check_memory(struct device *device, const struct model_config *config, int64_t B,
                       int64_t T, const struct device_memory *memory, int ranks, int64_t extra,
                       struct error *err);

/* device is borrowed. Checks the shape (NANOCHAT_EXIT_PLAN) and the memory (model_check_memory)
 * before it allocates. Weights are zero until they are set. */
int model_create(struct model **out, struct device *device, const struct model_config *config,
                 int64_t B, int64_t T, struct error *err);
void model_free(struct model *m);
/* Upstream's initialisation from a seed: equal for equal seeds whatever the rank or thread count.
 */
int model_init_weights(struct model *m, uint64_t seed, struct error *err);
/* To be called after masters have been written by anyone but the optimizer (a checkpoint, a test).
 */
int model_weights_changed(struct model *m, struct error *err);

const struct model_config *model_get_config(const struct model *m);
size_t model_n_params(const struct model *m);
struct param *model_param(struct model *m, size_t i);              /* order of the state dict */
struct param *model_find_param(struct model *m, const char *name); /* NULL if absent */

/* Loss of a micro-batch of b rows of t tokens (t <= T, b*t <= B*T): the mean
 * over targets that are not -1 (NaN if all are, as upstream). *loss is a double, non-finite values
 * pass through. Keeps what backward needs and adds lm_head's gradient, times the gradient scale. A
 * token or target outside the vocabulary is NANOCHAT_EXIT_DATA. loss NULL: model_loss tells it, so
 * that backward can be queued before anyone waits for forward. */
int model_forward(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b,
                  int64_t t, double *loss, struct error *err);
/* The loss of the last forward that was not told; waits for all that is queued. */
int model_loss(struct model *m, double *loss, struct error *err);
/* The other gradients of the last forward, times the gradient scale, added to param.grad. */
int model_backward(struct model *m, struct error *err);
/* Called by model_backward as soon as the work is queued that makes a part of the gradients: of
 * lm_head, of each layer from the last to the first (its matrices lie behind each other), of the
 * embedding. NULL: nobody is called. */
typedef int grad_ready(void *user, float *grad, int64_t n, struct error *err);
void model_set_grad_ready(struct model *m, grad_ready *callback, void *user);
/* Factor of all gradients, 1 at first: 1/accumulation makes their sum a mean. */
void model_set_grad_scale(struct model *m, double scale);
int model_zero_grad(struct model *m, struct error *err);
/* As model_forward without any gradient, and the loss of each target: float[b*t], 0 where ignored.
 * per_token may be NULL. Drops what an earlier forward kept. */
int model_eval(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b, int64_t t,
               double *loss, float *per_token, struct error *err);
/* Softcapped logits (host memory) of the last `last` positions of each row: float[b*last*vocab];
 * last = t: of all. */
int model_logits(struct model *m, const int32_t *inputs, int64_t b, int64_t t, int64_t last,
                 float *logits, struct error *err);
/* From now on forward and backward are launched as graphs (workload/replay.h), where micro-batches
 * are of one shape with equally many targets; others, and backwards whose gradients somebody waits
 * for (model_set_grad_ready), are queued op by op. Both must have run before. */
void model_use_graphs(struct model *m);
/* Graphs launched; *why: not NULL where one could not be captured. */
int64_t model_graph_launches(const struct model *m, const char **why);
/* Seconds for which the host queued forwards and backwards since the last call. */
double model_take_queue_s(struct model *m);
int64_t
model_max_sequence(const struct model *m); /* T: the longest row that the calls above take */
struct device *model_device(const struct model *m);
void *model_workspace(const struct model *m); /* scratch for kernel ops between model calls */

#endif
