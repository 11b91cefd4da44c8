/* RMSNorm without gain, forward and backward, and the embedding that nanochat norms at once. */
#ifndef KERNELS_CUDA_NORM_CUH
#define KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/cuda_priv.h"

template <typename T> struct norm_ops {
    static int norm_fwd(struct device *d, void *xn, float *rstd, const void *x, int64_t rows,
                        int64_t C, struct error *err);
    static int norm_bwd(struct device *d, void *dx, const void *dxn, const void *xn,
                        const float *rstd, bool accumulate, int64_t rows, int64_t C,
                        struct error *err);
    static int embed_norm_fwd(struct device *d, void *x, float *rstd, const void *wte,
                              const int32_t *tokens, int64_t rows, int64_t C, struct error *err);
    static int embed_norm_bwd(struct device *d, float *dwte, const void *dx, const void *wte,
                              const float *rstd, const int32_t *tokens, int64_t rows, int64_t C,
                              struct error *err);
};

/* The same for bfloat16 with an 8-bit copy of the result: C a multiple of 8 up to 4096. */
struct fp8_sink;
int norm_fwd_fp8(struct cuda_state *s, void *xn, float *rstd, const void *x,
                 const struct fp8_sink *sink, int64_t rows, int64_t C, struct error *err);
int norm_bwd_fp8(struct cuda_state *s, void *dx, const void *dxn, const void *xn, const float *rstd,
                 bool accumulate, const struct fp8_sink *sink, int64_t rows, int64_t C,
                 struct error *err);

#endif
