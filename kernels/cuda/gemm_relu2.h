/* One bfloat16 product with relu² in its epilogue, by cuDNN's run-time fusion:
 *   forward   a  = relu(x·wᵀ)²         x [m, k], w [n, k], a [m, n]
 *   backward  dh = (dy·w) ∘ 2·sqrt(a)  dy [m, k], w [k, n], a [m, n]
 * cuBLASLt has no such epilogue. */
#ifndef KERNELS_CUDA_GEMM_RELU2_H
#define KERNELS_CUDA_GEMM_RELU2_H

#include "kernels/cuda/cudnn_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

enum gemm_relu2_id { GEMM_X = 1, GEMM_W, GEMM_A, GEMM_Y, GEMM_TWO };

int gemm_relu2_build(struct graph *g, bool backward, int64_t m, int64_t n, int64_t k,
                     struct error *err);

#ifdef __cplusplus
}
#endif

#endif
