/* Rotary embedding and QK-norm in place on packed rows. */
#ifndef KERNELS_CUDA_ROPE_CUH
#define KERNELS_CUDA_ROPE_CUH

#include "kernels/cuda/cuda_priv.h"

template <typename T> struct rope_ops {
    static int rope_norm_fwd(struct device *d, void *qkv, float *rstd, const float *cos,
                             const float *sin, int64_t B, int64_t T_, int64_t H, int64_t KV,
                             int64_t D, struct error *err);
    static int rope_norm_bwd(struct device *d, void *dqkv, const void *qkv, const float *rstd,
                             const float *cos, const float *sin, int64_t B, int64_t T_, int64_t H,
                             int64_t KV, int64_t D, struct error *err);
};

#endif
