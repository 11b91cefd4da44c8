/* Causal attention, a block of query rows at a time: the scores of a block against the keys that
 * it may see are two matrix products and a softmax that stay in the cache. Backward makes the
 * probabilities again from the scores and the saved log-sum-exp. */
#include "kernels/cpu/cpu_priv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vmath.h"

#include <math.h>
#include <omp.h>

#define BLOCK 128 /* query rows */

int64_t cpu_attention_scratch(int threads, int64_t T)
{
    return threads * 2 * BLOCK * T;
}

/* Sixteen running maxima, which every compiler turns into vectors. A NaN is left to the sum. */
static inline float max_row(const float *s, int64_t n)
{
    enum { LANES = 16 };
    float lanes[LANES], max = s[0];
    int64_t j = 0;
    for (int i = 0; i < LANES; i++)
        lanes[i] = max;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++)
            lanes[i] = s[j + i] > lanes[i] ? s[j + i] : lanes[i];
    for (; j < n; j++)
        max = s[j] > max ? s[j] : max;
    for (int i = 0; i < LANES; i++)
        max = lanes[i] > max ? lanes[i] : max;
    return max;
}

/* s[0, n) becomes exp(scale·s − max)/sum, s[n, width) zero; returns log-sum-exp of scale·s. */
VECTOR_CLONES static float softmax_row(float *s, float scale, int64_t n, int64_t width)
{
    float sum = 0, shift = max_row(s, n) * scale;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        s[j] = vexp(s[j] * scale - shift);
        sum += s[j];
    }
    float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        s[j] *= inverse;
    for (int64_t j = n; j < width; j++)
        s[j] = 0;
    return shift + logf(sum);
}

/* s becomes the probabilities p, dp the gradient of the unscaled scores; zero beyond n. */
VECTOR_CLONES static void softmax_row_bwd(float *s, float *dp, float scale, float lse, float delta,
                                          int64_t n, int64_t width)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        float p = vexp(s[j] * scale - lse);
        s[j] = p;
        dp[j] = p * (dp[j] - delta) * scale;
    }
    for (int64_t j = n; j < width; j++)
        s[j] = dp[j] = 0;
}

VECTOR_CLONES static float dot_row(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

int cpu_attention_fwd(struct device *d, void *o, float *lse, const void *qkv, void *ws, int64_t B,
                      int64_t T, int64_t H, int64_t KV, int64_t D, struct error *err)
{
    (void)d, (void)err;
    const int64_t stride = (H + 2 * KV) * D, ldo = H * D, blocks = (T + BLOCK - 1) / BLOCK;
    const float scale = 1.0f / sqrtf((float)D);
    /* The long blocks first, so that the short ones fill the gaps at the end. */
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < B * H * blocks; task++) {
        int64_t b = task % (B * H) / H, h = task % H, i0 = (blocks - 1 - task / (B * H)) * BLOCK;
        int64_t m = T - i0 < BLOCK ? T - i0 : BLOCK, n = i0 + m;
        const float *rows = (const float *)qkv + b * T * stride;
        const float *q = rows + i0 * stride + h * D;
        const float *k = rows + (H + h / (H / KV)) * D, *v = k + KV * D;
        float *s = (float *)ws + omp_get_thread_num() * 2 * BLOCK * T;
        gemm_alone(s, n, OPERAND(q, stride), OPERAND_T(k, stride), 1.0f, 0.0f, m, n, D);
        for (int64_t i = 0; i < m; i++)
            lse[(b * H + h) * T + i0 + i] = softmax_row(s + i * n, scale, i0 + i + 1, n);
        gemm_alone((float *)o + (b * T + i0) * ldo + h * D, ldo, OPERAND(s, n), OPERAND(v, stride),
                   1.0f, 0.0f, m, D, n);
    }
    return 0;
}

struct head_bwd {
    const float *q, *k, *v, *o, *dout, *lse; /* of one head of one sequence */
    float *dq, *dk, *dv;
    float *s, *dp; /* BLOCK x T each */
    int64_t stride, ldo, T, D;
};

/* The block of query rows at i0; first: dk and dv are written, else added to. */
static void block_bwd(const struct head_bwd *a, int64_t i0, bool first)
{
    const float scale = 1.0f / sqrtf((float)a->D), beta = first ? 0.0f : 1.0f;
    int64_t m = a->T - i0 < BLOCK ? a->T - i0 : BLOCK, n = i0 + m;
    const struct operand q = OPERAND(a->q + i0 * a->stride, a->stride);
    const struct operand dout = OPERAND(a->dout + i0 * a->ldo, a->ldo);
    gemm_alone(a->s, n, q, OPERAND_T(a->k, a->stride), 1.0f, 0.0f, m, n, a->D);
    gemm_alone(a->dp, n, dout, OPERAND_T(a->v, a->stride), 1.0f, 0.0f, m, n, a->D);
    for (int64_t i = 0; i < m; i++) {
        float delta = dot_row(dout.data + i * a->ldo, a->o + (i0 + i) * a->ldo, a->D);
        softmax_row_bwd(a->s + i * n, a->dp + i * n, scale, a->lse[i0 + i], delta, i0 + i + 1, n);
    }
    gemm_alone(a->dv, a->stride, OPERAND_T(a->s, n), dout, 1.0f, beta, n, a->D, m);
    gemm_alone(a->dq + i0 * a->stride, a->stride, OPERAND(a->dp, n), OPERAND(a->k, a->stride), 1.0f,
               0.0f, m, a->D, n);
    gemm_alone(a->dk, a->stride, OPERAND_T(a->dp, n), q, 1.0f, beta, n, a->D, m);
}

/* A thread takes a key/value head with all its query heads, so that nothing is added by two. The
 * last block sees all keys and so initialises dk and dv. */
int cpu_attention_bwd(struct device *d, void *dqkv, const void *dout, const void *o,
                      const float *lse, const void *qkv, void *ws, int64_t B, int64_t T, int64_t H,
                      int64_t KV, int64_t D, struct error *err)
{
    (void)d, (void)err;
    const int64_t stride = (H + 2 * KV) * D, ldo = H * D, group = H / KV;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < B * KV; task++) {
        int64_t b = task / KV, kv = task % KV;
        const float *rows = (const float *)qkv + b * T * stride;
        float *drows = (float *)dqkv + b * T * stride;
        float *s = (float *)ws + omp_get_thread_num() * 2 * BLOCK * T;
        for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
            struct head_bwd a = {
                .q = rows + h * D,
                .k = rows + (H + kv) * D,
                .v = rows + (H + KV + kv) * D,
                .o = (const float *)o + b * T * ldo + h * D,
                .dout = (const float *)dout + b * T * ldo + h * D,
                .lse = lse + (b * H + h) * T,
                .dq = drows + h * D,
                .dk = drows + (H + kv) * D,
                .dv = drows + (H + KV + kv) * D,
                .s = s,
                .dp = s + BLOCK * T,
                .stride = stride,
                .ldo = ldo,
                .T = T,
                .D = D,
            };
            int64_t last = (T - 1) / BLOCK * BLOCK;
            for (int64_t i0 = last; i0 >= 0; i0 -= BLOCK)
                block_bwd(&a, i0, h == kv * group && i0 == last);
        }
    }
    return 0;
}
