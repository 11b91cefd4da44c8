/* Causal attention with grouped heads: cuDNN for bfloat16 where it has a plan, else own kernels
 * that are simple, deterministic, and right for every head size up to 256. */
#ifndef KERNELS_CUDA_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/cuda_priv.h"

template <typename T> struct attention_ops {
    static int fwd(struct device *d, void *o, float *lse, const void *qkv, void *ws, int64_t B,
                   int64_t T_, int64_t H, int64_t KV, int64_t D, struct error *err);
    static int bwd(struct device *d, void *dqkv, const void *dout, const void *o, const float *lse,
                   const void *qkv, void *ws, int64_t B, int64_t T_, int64_t H, int64_t KV,
                   int64_t D, struct error *err);
};

#endif
