/* Linear layers: cuBLASLt, with relu² fused by cuDNN where it has a plan, else by kernels of our
 * own. */
#ifndef KERNELS_CUDA_LINEAR_CUH
#define KERNELS_CUDA_LINEAR_CUH

#include "kernels/cuda/cuda_priv.h"

template <typename T> struct linear_ops {
    static int fwd(struct device *d, void *y, const void *x, const void *w, bool accumulate,
                   int64_t rows, int64_t in, int64_t out, struct error *err);
    static int relu2_fwd(struct device *d, void *a, const void *x, const void *w, int64_t rows,
                         int64_t in, int64_t out, struct error *err);
    static int bwd_input(struct device *d, void *dx, const void *dy, const void *w, int64_t rows,
                         int64_t in, int64_t out, struct error *err);
    static int relu2_bwd_input(struct device *d, void *dh, const void *dy, const void *w,
                               const void *a, int64_t rows, int64_t in, int64_t out,
                               struct error *err);
    static int bwd_weight(struct device *d, float *dw, const void *dy, const void *x, int64_t rows,
                          int64_t in, int64_t out, struct error *err);
};

#endif
