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

/* The pass over bfloat16 logits alone: losses, and with a sink the gradient over the logits and an
 * e5m2 copy of it. V a multiple of 8. */
struct fp8_sink;
int cross_entropy_fp8(struct cuda_state *s, float *losses, void *logits, const int32_t *targets,
                      float scale, const struct fp8_sink *sink, int64_t rows, int64_t V,
                      struct error *err);

#endif
