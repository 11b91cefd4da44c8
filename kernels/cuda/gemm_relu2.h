/* One product with relu² in its epilogue, by cuDNN's run-time fusion:
 *   forward   a  = relu(x·wᵀ)²         x [m, k], w [n, k], a [m, n]
 *   backward  dh = (dy·w) ∘ 2·sqrt(a)  dy [m, k], w [k, n], a [m, n]
 * cuBLASLt has no such epilogue.
 *
 * In bfloat16, or on 8-bit operands (e4m3; dy e5m2) with a scale each, where the result goes out
 * twice: in bfloat16, and multiplied by a scale in the format of the first operand; its largest
 * magnitude goes out beside them. Then w is [n, k] backward too: the product wants both operands
 * along k. */
#ifndef KERNELS_CUDA_GEMM_RELU2_H
#define KERNELS_CUDA_GEMM_RELU2_H

#include "kernels/cuda/cudnn_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum gemm_relu2_id {
    GEMM_X = 1,
    GEMM_W,
    GEMM_A,
    GEMM_Y,
    GEMM_TWO,
    /* floats in device memory, of 8-bit products alone */
    GEMM_X_SCALE,
    GEMM_W_SCALE,
    GEMM_COPY_SCALE,
    GEMM_COPY_AMAX,
    GEMM_COPY,
};

struct gemm_relu2 {
    bool backward, fp8;
    int64_t m, n, k;
};

int gemm_relu2_build(struct graph *g, const struct gemm_relu2 *shape, struct error *err);

#ifdef __cplusplus
}
#endif

#endif
