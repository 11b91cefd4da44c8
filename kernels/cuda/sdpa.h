/* Causal attention in bfloat16 by cuDNN: the graphs of forward and backward, each a pattern that
 * cuDNN recognises and runs as one fused kernel.
 *
 * Tensors are [B, heads, T, D] with the layout in strides: packed rows [q: H | k: KV | v: KV] x D.
 * lse is float [B, H, T], the log-sum-exp of each row. */
#ifndef KERNELS_CUDA_SDPA_H
#define KERNELS_CUDA_SDPA_H

#include "kernels/cuda/cudnn_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sdpa_shape {
    int64_t B, T, H, KV, D;
    bool deterministic; /* backward without the float32 accumulator of dq: same bits every time */
};

enum sdpa_id {
    SDPA_Q = 1,
    SDPA_K,
    SDPA_V,
    SDPA_O,
    SDPA_LSE,
    SDPA_DO,
    SDPA_DQ,
    SDPA_DK,
    SDPA_DV,
    SDPA_SCALE,
    SDPA_NEG_INF,
    SDPA_ONE,
    SDPA_DQ_ACC,
    SDPA_ROW_SUM,
};

int sdpa_build_forward(struct graph *g, const struct sdpa_shape *shape, struct error *err);
int sdpa_build_backward(struct graph *g, const struct sdpa_shape *shape, struct error *err);

#ifdef __cplusplus
}
#endif

#endif
