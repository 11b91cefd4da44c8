/* Vocabulary end: logits a bounded number of rows at a time, softcap and cross entropy in one pass.
 */
#ifndef KERNELS_CUDA_HEAD_CUH
#define KERNELS_CUDA_HEAD_CUH

#include "kernels/cuda/cuda_priv.h"

/* Rows of logits that exist at once. */
int64_t head_chunk_rows(int64_t rows, int64_t V);

template <typename T> struct head_ops {
    static int loss(struct device *d, float *losses, void *dx, float *dw, const void *x,
                    const void *w, const int32_t *targets, double scale, void *ws, int64_t rows,
                    int64_t C, int64_t V, struct error *err);
    static int logits(struct device *d, float *logits, const void *x, const void *w, int64_t rows,
                      int64_t C, int64_t V, struct error *err);
};

#endif
