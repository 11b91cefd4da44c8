/* Linear layers, and relu² in the shadow of their products. */
#include "kernels/cpu/cpu_priv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

/* Rows between a product and the pass over its result: few enough to stay in the cache, enough to
 * make up for packing the weight again. */
#define BLOCK_ROWS 256

VECTOR_CLONES static void relu2(float *a, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float h = a[i] < 0 ? 0 : a[i]; /* NaN stays */
        a[i] = h * h;
    }
}

/* a = h², so h = sqrt(a) without keeping h. */
VECTOR_CLONES static void relu2_bwd(float *dh, const float *a, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dh[i] *= 2.0f * sqrtf(a[i]);
}

int cpu_linear_fwd(struct device *d, void *y, const void *x, const void *w, bool accumulate,
                   int64_t rows, int64_t in, int64_t out, struct error *err)
{
    (void)d, (void)err;
    gemm(y, out, OPERAND(x, in), OPERAND_T(w, in), 1.0f, accumulate, rows, out, in);
    return 0;
}

int cpu_linear_bwd_input(struct device *d, void *dx, const void *dy, const void *w, int64_t rows,
                         int64_t in, int64_t out, struct error *err)
{
    (void)d, (void)err;
    gemm(dx, in, OPERAND(dy, out), OPERAND(w, in), 1.0f, 0.0f, rows, in, out);
    return 0;
}

int cpu_linear_bwd_weight(struct device *d, float *dw, const void *dy, const void *x, int64_t rows,
                          int64_t in, int64_t out, struct error *err)
{
    (void)d, (void)err;
    gemm(dw, in, OPERAND_T(dy, out), OPERAND(x, in), 1.0f, 1.0f, out, in, rows);
    return 0;
}

int cpu_linear_relu2_fwd(struct device *d, void *a, const void *x, const void *w, int64_t rows,
                         int64_t in, int64_t out, struct error *err)
{
    (void)d, (void)err;
    float *y = a;
    const float *src = x;
#pragma omp parallel
    {
        int64_t from, to;
        thread_share(rows, 1, &from, &to);
        for (int64_t r = from; r < to; r += BLOCK_ROWS) {
            int64_t n = to - r < BLOCK_ROWS ? to - r : BLOCK_ROWS;
            gemm_alone(y + r * out, out, OPERAND(src + r * in, in), OPERAND_T(w, in), 1.0f, 0.0f, n,
                       out, in);
            relu2(y + r * out, n * out);
        }
    }
    return 0;
}

int cpu_linear_relu2_bwd_input(struct device *d, void *dh, const void *dy, const void *w,
                               const void *a, int64_t rows, int64_t in, int64_t out,
                               struct error *err)
{
    (void)d, (void)err;
    float *dst = dh;
    const float *g = dy, *act = a;
#pragma omp parallel
    {
        int64_t from, to;
        thread_share(rows, 1, &from, &to);
        for (int64_t r = from; r < to; r += BLOCK_ROWS) {
            int64_t n = to - r < BLOCK_ROWS ? to - r : BLOCK_ROWS;
            gemm_alone(dst + r * in, in, OPERAND(g + r * out, out), OPERAND(w, in), 1.0f, 0.0f, n,
                       in, out);
            relu2_bwd(dst + r * in, act + r * in, n * in);
        }
    }
    return 0;
}
