/* AdamW, and the sum of squares for clipping. */
#include "kernels/cpu/cpu_priv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

#define MAX_PARTIALS 1024
#define MIN_BLOCK 16384

VECTOR_CLONES static double block_sum_squares(const float *x, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* Blocks depend on n alone and are added in their order. */
int cpu_sum_squares(struct device *d, double *sum, const float *x, int64_t n, struct error *err)
{
    (void)d, (void)err;
    double partial[MAX_PARTIALS];
    int64_t block = (n + MAX_PARTIALS - 1) / MAX_PARTIALS;
    block = block < MIN_BLOCK ? MIN_BLOCK : block;
    int64_t blocks = (n + block - 1) / block;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < blocks; i++)
        partial[i] =
            block_sum_squares(x + i * block, n - i * block < block ? n - i * block : block);
    *sum = 0;
    for (int64_t i = 0; i < blocks; i++)
        *sum += partial[i];
    return 0;
}

struct adamw_factors {
    float keep, step, b1, one_b1, b2, one_b2, inv_root2, eps, scale;
};

VECTOR_CLONES static void adamw_block(float *p, float *m, float *v, const float *grad, int64_t n,
                                      struct adamw_factors f)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * f.scale;
        m[i] = f.b1 * m[i] + f.one_b1 * g;
        v[i] = f.b2 * v[i] + f.one_b2 * g * g;
        p[i] = p[i] * f.keep - f.step * m[i] / (sqrtf(v[i]) * f.inv_root2 + f.eps);
    }
}

int cpu_adamw(struct device *d, float *weight, float *m, float *v, const float *grad, int64_t n,
              const struct adamw_args *args, struct error *err)
{
    (void)d, (void)err;
    double t = (double)args->step;
    struct adamw_factors f = {
        .keep = (float)(1.0 - args->lr * args->weight_decay),
        .step = (float)(args->lr / (1.0 - pow(args->beta1, t))),
        .b1 = (float)args->beta1,
        .one_b1 = (float)(1.0 - args->beta1),
        .b2 = (float)args->beta2,
        .one_b2 = (float)(1.0 - args->beta2),
        .inv_root2 = (float)(1.0 / sqrt(1.0 - pow(args->beta2, t))),
        .eps = (float)args->eps,
        .scale = (float)args->grad_scale,
    };
#pragma omp parallel
    {
        int64_t from, to;
        thread_share(n, 16, &from, &to);
        adamw_block(weight + from, m + from, v + from, grad + from, to - from, f);
    }
    return 0;
}
