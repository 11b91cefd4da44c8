/* RMSNorm without gain, alone and behind the embedding. */
#include "kernels/cpu/cpu_priv.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

/* y = x/rms(x); returns 1/rms. */
VECTOR_CLONES static float norm_row(float *y, const float *x, int64_t C)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < C; i++)
        sum += x[i] * x[i];
    /* 1/inf is 0: an overflow would turn the row into zeros and hide a model that is dead. */
    float r = isinf(sum) ? NAN : 1.0f / sqrtf(sum / (float)C + RMS_EPS);
#pragma omp simd
    for (int64_t i = 0; i < C; i++)
        y[i] = x[i] * r;
    return r;
}

/* dx = keep·dx + r·(g − y·mean(y·g)), y the normalised row. */
VECTOR_CLONES static void norm_row_bwd(float *dx, const float *g, const float *y, float r,
                                       bool accumulate, int64_t C)
{
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < C; i++)
        dot += y[i] * g[i];
    dot /= (float)C;
    if (accumulate) {
#pragma omp simd
        for (int64_t i = 0; i < C; i++)
            dx[i] += r * (g[i] - y[i] * dot);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < C; i++)
            dx[i] = r * (g[i] - y[i] * dot);
    }
}

/* dw += r·(g − e·r·mean(e·r·g)), e the row before its norm. */
VECTOR_CLONES static void embed_row_bwd(float *dw, const float *g, const float *e, float r,
                                        int64_t C)
{
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < C; i++)
        dot += e[i] * g[i];
    float f = dot * r * r / (float)C;
#pragma omp simd
    for (int64_t i = 0; i < C; i++)
        dw[i] += r * (g[i] - e[i] * f);
}

int cpu_norm_fwd(struct device *d, void *xn, float *rstd, const void *x, int64_t rows, int64_t C,
                 struct error *err)
{
    (void)d, (void)err;
    float *out = xn;
    const float *in = x;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        rstd[r] = norm_row(out + r * C, in + r * C, C);
    return 0;
}

int cpu_norm_bwd(struct device *d, void *dx, const void *dxn, const void *xn, const float *rstd,
                 bool accumulate, int64_t rows, int64_t C, struct error *err)
{
    (void)d, (void)err;
    float *out = dx;
    const float *g = dxn, *y = xn;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        norm_row_bwd(out + r * C, g + r * C, y + r * C, rstd[r], accumulate, C);
    return 0;
}

int cpu_embed_norm_fwd(struct device *d, void *x, float *rstd, const void *wte,
                       const int32_t *tokens, int64_t rows, int64_t C, struct error *err)
{
    (void)d, (void)err;
    float *out = x;
    const float *table = wte;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        rstd[r] = norm_row(out + r * C, table + tokens[r] * C, C);
    return 0;
}

/* A token belongs to one thread, which adds its rows in their order: no two threads meet, and the
 * sum is the same for any number of threads. */
int cpu_embed_norm_bwd(struct device *d, float *dwte, const void *dx, const void *wte,
                       const float *rstd, const int32_t *tokens, int64_t rows, int64_t C,
                       struct error *err)
{
    (void)err;
    const float *g = dx, *table = wte;
    int owners = ((const struct cpu_state *)d->state)->threads;
#pragma omp parallel for schedule(static, 1)
    for (int owner = 0; owner < owners; owner++) {
        for (int64_t r = 0; r < rows; r++) {
            int64_t token = tokens[r];
            if (token % owners == owner)
                embed_row_bwd(dwte + token * C, g + r * C, table + token * C, rstd[r], C);
        }
    }
    return 0;
}
