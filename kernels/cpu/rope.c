/* Rotary embedding, then RMSNorm of each query and key head, in place. */
#include "kernels/cpu/cpu_priv.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

/* Rotate and normalise one head; returns 1/rms. */
VECTOR_CLONES static float rope_head(float *x, const float *cos, const float *sin, int64_t D)
{
    int64_t half = D / 2;
    float *hi = x + half, sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < half; i++) {
        float y1 = x[i] * cos[i] + hi[i] * sin[i];
        float y2 = hi[i] * cos[i] - x[i] * sin[i];
        x[i] = y1;
        hi[i] = y2;
        sum += y1 * y1 + y2 * y2;
    }
    /* An overflow must not turn the head into zeros (kernels/cpu/norm.c). */
    float r = isinf(sum) ? NAN : 1.0f / sqrtf(sum / (float)D + RMS_EPS);
#pragma omp simd
    for (int64_t i = 0; i < D; i++)
        x[i] *= r;
    return r;
}

/* Through the norm, then through the transposed rotation; y is what rope_head left. */
VECTOR_CLONES static void rope_head_bwd(float *g, const float *y, float r, const float *cos,
                                        const float *sin, int64_t D)
{
    int64_t half = D / 2;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < D; i++)
        dot += g[i] * y[i];
    dot /= (float)D;
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float z1 = r * (g[i] - y[i] * dot);
        float z2 = r * (g[i + half] - y[i + half] * dot);
        g[i] = z1 * cos[i] - z2 * sin[i];
        g[i + half] = z1 * sin[i] + z2 * cos[i];
    }
}

int cpu_rope_norm_fwd(struct device *d, void *qkv, float *rstd, const float *cos, const float *sin,
                      int64_t B, int64_t T, int64_t H, int64_t KV, int64_t D, struct error *err)
{
    (void)d, (void)err;
    int64_t heads = H + KV, stride = (H + 2 * KV) * D, half = D / 2;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < B * T; r++) {
        float *row = (float *)qkv + r * stride;
        for (int64_t h = 0; h < heads; h++)
            rstd[r * heads + h] = rope_head(row + h * D, cos + r % T * half, sin + r % T * half, D);
    }
    return 0;
}

int cpu_rope_norm_bwd(struct device *d, void *dqkv, const void *qkv, const float *rstd,
                      const float *cos, const float *sin, int64_t B, int64_t T, int64_t H,
                      int64_t KV, int64_t D, struct error *err)
{
    (void)d, (void)err;
    int64_t heads = H + KV, stride = (H + 2 * KV) * D, half = D / 2;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < B * T; r++) {
        float *g = (float *)dqkv + r * stride;
        const float *y = (const float *)qkv + r * stride;
        for (int64_t h = 0; h < heads; h++)
            rope_head_bwd(g + h * D, y + h * D, rstd[r * heads + h], cos + r % T * half,
                          sin + r % T * half, D);
    }
    return 0;
}
