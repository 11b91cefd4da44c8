/* lm_head, softcap and cross entropy, in chunks of rows whose logits stay in the last-level cache.
 *
 * z = 15·tanh(l/15) lies in [−15, 15], so Σ exp(z − 15) can neither overflow nor vanish and needs
 * no pass for the maximum. */
#include "kernels/cpu/cpu_priv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

#define CHUNK_FLOATS ((int64_t)4 << 20) /* 16 MiB of logits */
#define CHUNK_ROWS_MIN 128
#define SUM_BLOCK 256 /* floats summed in float32 before they enter the float64 sum */

static int64_t chunk_rows(int64_t rows, int64_t V)
{
    int64_t chunk = CHUNK_FLOATS / V;
    chunk = chunk < CHUNK_ROWS_MIN ? CHUNK_ROWS_MIN : chunk;
    return chunk < rows ? chunk : rows;
}

int64_t cpu_head_scratch(int64_t rows, int64_t V)
{
    return chunk_rows(rows, V) * V;
}

VECTOR_CLONES static void softcap_row(float *z, int64_t V)
{
#pragma omp simd
    for (int64_t j = 0; j < V; j++)
        z[j] = SOFTCAP * vtanh(z[j] * (1.0f / SOFTCAP));
}

/* l becomes tanh(l/15); returns Σ exp(15·tanh − 15) of up to SUM_BLOCK elements. */
VECTOR_CLONES static float tanh_exp_sum(float *l, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        float t = vtanh(l[j] * (1.0f / SOFTCAP));
        l[j] = t;
        sum += vexp(SOFTCAP * t - SOFTCAP);
    }
    return sum;
}

/* t = tanh becomes softmax·(1 − t²)·scale, which lacks the target's −1. */
VECTOR_CLONES static void xent_row_bwd(float *t, float inverse, float scale, int64_t V)
{
#pragma omp simd
    for (int64_t j = 0; j < V; j++) {
        float p = vexp(SOFTCAP * t[j] - SOFTCAP) * inverse;
        t[j] = p * (1.0f - t[j] * t[j]) * scale;
    }
}

/* Loss of a row of logits, which become their gradient when grad is set. */
static float xent_row(float *l, int64_t target, bool grad, float scale, int64_t V)
{
    if (target < 0) {
        if (grad)
            for (int64_t j = 0; j < V; j++)
                l[j] = 0;
        return 0;
    }
    double sum = 0;
    for (int64_t j = 0; j < V; j += SUM_BLOCK)
        sum += tanh_exp_sum(l + j, V - j < SUM_BLOCK ? V - j : SUM_BLOCK);
    float t = l[target];
    if (grad) {
        xent_row_bwd(l, (float)(1.0 / sum), scale, V);
        l[target] -= (1.0f - t * t) * scale;
    }
    return (float)(log(sum) + SOFTCAP - SOFTCAP * (double)t);
}

int cpu_head_loss(struct device *d, float *losses, void *dx, float *dw, const void *x,
                  const void *w, const int32_t *targets, double scale, void *ws, int64_t rows,
                  int64_t C, int64_t V, struct error *err)
{
    (void)d, (void)err;
    float *logits = ws;
    int64_t chunk = chunk_rows(rows, V);
    for (int64_t r0 = 0; r0 < rows; r0 += chunk) {
        int64_t n = rows - r0 < chunk ? rows - r0 : chunk;
        const float *in = (const float *)x + r0 * C;
        gemm(logits, V, OPERAND(in, C), OPERAND_T(w, C), 1.0f, 0.0f, n, V, C);
#pragma omp parallel for schedule(static)
        for (int64_t r = 0; r < n; r++)
            losses[r0 + r] = xent_row(logits + r * V, targets[r0 + r], dx != NULL, (float)scale, V);
        if (dx) {
            gemm((float *)dx + r0 * C, C, OPERAND(logits, V), OPERAND(w, C), 1.0f, 0.0f, n, C, V);
            gemm(dw, C, OPERAND_T(logits, V), OPERAND(in, C), 1.0f, 1.0f, V, C, n);
        }
    }
    return 0;
}

int cpu_head_logits(struct device *d, float *logits, const void *x, const void *w, int64_t rows,
                    int64_t C, int64_t V, struct error *err)
{
    (void)d, (void)err;
    gemm(logits, V, OPERAND(x, C), OPERAND_T(w, C), 1.0f, 0.0f, rows, V, C);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        softcap_row(logits + r * V, V);
    return 0;
}
