/* Muon: momentum, then the Newton-Schulz iteration towards the nearest orthogonal matrix.
 *
 * A tall matrix is not transposed: with the Gram matrix taken over the short side and multiplied
 * from the right, the same iteration runs on it as it lies. */
#include "kernels/cpu/cpu_priv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vmath.h"

#include <math.h>
#include <omp.h>

#define NS_A 3.4445f
#define NS_B (-4.7750f)
#define NS_C 2.0315f
#define NS_STEPS 5
#define ITEMS_APART_BYTES ((int64_t)256 << 20)

struct momentum_args {
    float mu, scale;
    bool bf16;
};

struct ns {
    float *x, *y;   /* rows x cols each */
    float *a, *b;   /* s x s each, s = min(rows, cols) */
    float *partial; /* one sum a row */
    int64_t rows, cols, s;
    const struct muon_item *item;
    struct momentum_args args;
    float norm, lr;
};

static int64_t ns_floats(int64_t rows, int64_t cols)
{
    int64_t s = rows < cols ? rows : cols;
    return 2 * rows * cols + 2 * s * s + rows;
}

/* Matrices that are worked on at the same time, each by one thread; 1: all threads on each. */
static int slots(int threads, int64_t rows, int64_t cols)
{
    return threads * ns_floats(rows, cols) * (int64_t)sizeof(float) <= ITEMS_APART_BYTES ? threads
                                                                                         : 1;
}

int64_t cpu_muon_scratch(int threads, int64_t rows, int64_t cols)
{
    return slots(threads, rows, cols) * ns_floats(rows, cols);
}

static inline float bf16(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {x};
    if (x != x)
        return x;
    v.u += 0x7FFF + (v.u >> 16 & 1); /* to nearest, ties to even */
    v.u &= 0xFFFF0000u;
    return v.f;
}

/* A row of buf += (1−μ)(g − buf), u = g + μ(buf − g); returns Σ u². */
VECTOR_CLONES static float momentum_row(float *u, float *buf, const float *grad, int64_t n,
                                        struct momentum_args a)
{
    float sum = 0, one_mu = 1.0f - a.mu;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float g = grad[i] * a.scale;
        buf[i] += one_mu * (g - buf[i]);
        float v = g + a.mu * (buf[i] - g);
        u[i] = a.bf16 ? bf16(v) : v;
        sum += u[i] * u[i];
    }
    return sum;
}

VECTOR_CLONES static void scale_row(float *x, float f, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] *= f;
}

VECTOR_CLONES static void divide_row_bf16(float *x, float by, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = bf16(x[i] / by);
}

VECTOR_CLONES static void round_row(float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = bf16(x[i]);
}

VECTOR_CLONES static void combine_row(float *b, const float *a, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        b[i] = NS_B * a[i] + NS_C * b[i];
}

/* out = f·in, rounded. */
VECTOR_CLONES static void scaled_row_bf16(float *out, const float *in, float f, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = bf16(f * in[i]);
}

/* y = f·x + y, each operation rounded. */
VECTOR_CLONES static void axpy_row_bf16(float *y, const float *x, float f, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = bf16(bf16(f * x[i]) + bf16(y[i]));
}

VECTOR_CLONES static void update_row(float *w, const float *o, float lr, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        w[i] -= lr * o[i];
}

/* ---- passes over rows, by one thread or by all --------------------------------------------------
 */

static void momentum_rows(void *ctx, int64_t from, int64_t to)
{
    struct ns *s = ctx;
    for (int64_t r = from; r < to; r++) {
        int64_t at = r * s->cols;
        s->partial[r] =
            momentum_row(s->x + at, s->item->momentum + at, s->item->grad + at, s->cols, s->args);
    }
}

static void normalise_rows(void *ctx, int64_t from, int64_t to)
{
    struct ns *s = ctx;
    for (int64_t r = from; r < to; r++) {
        if (s->args.bf16)
            divide_row_bf16(s->x + r * s->cols, s->norm, s->cols);
        else
            scale_row(s->x + r * s->cols, 1.0f / s->norm, s->cols);
    }
}

/* b = a·I + b·A + c·A² */
static void polynomial_rows(void *ctx, int64_t from, int64_t to)
{
    struct ns *s = ctx;
    for (int64_t r = from; r < to; r++) {
        combine_row(s->b + r * s->s, s->a + r * s->s, s->s);
        s->b[r * s->s + r] += NS_A;
    }
}

/* A rounded; c·A into y, which is free then (rows·cols >= s·s). */
static void scaled_gram_rows_bf16(void *ctx, int64_t from, int64_t to)
{
    struct ns *s = ctx;
    for (int64_t r = from; r < to; r++) {
        round_row(s->a + r * s->s, s->s);
        scaled_row_bf16(s->y + r * s->s, s->a + r * s->s, NS_C, s->s);
    }
}

static void polynomial_rows_bf16(void *ctx, int64_t from, int64_t to)
{
    struct ns *s = ctx;
    for (int64_t r = from; r < to; r++)
        axpy_row_bf16(s->b + r * s->s, s->a + r * s->s, NS_B, s->s);
}

static void result_rows_bf16(void *ctx, int64_t from, int64_t to)
{
    struct ns *s = ctx;
    for (int64_t r = from; r < to; r++)
        axpy_row_bf16(s->y + r * s->cols, s->x + r * s->cols, NS_A, s->cols);
}

static void update_rows(void *ctx, int64_t from, int64_t to)
{
    struct ns *s = ctx;
    for (int64_t r = from; r < to; r++)
        update_row(s->item->weight + r * s->cols, s->x + r * s->cols, s->lr, s->cols);
}

/* ---- the iteration ------------------------------------------------------------------------------
 */

/* x = u/(|u| + 1e-7). */
static void ns_start(struct ns *s)
{
    for_rows(s->rows, momentum_rows, s);
    double sum = 0;
    for (int64_t r = 0; r < s->rows; r++)
        sum += (double)s->partial[r];
    s->norm = (float)sqrt(sum);
    s->norm = s->args.bf16 ? bf16(bf16(s->norm) + 1e-7f) : s->norm + 1e-7f;
    for_rows(s->rows, normalise_rows, s);
}

static void swap_xy(struct ns *s)
{
    float *x = s->x;
    s->x = s->y;
    s->y = x;
}

/* y = m·x for a wide matrix, x·m for a tall one; m symmetric. */
static void ns_apply(struct ns *s, const float *m)
{
    if (s->rows > s->cols)
        gemm(s->y, s->cols, OPERAND(s->x, s->cols), OPERAND(m, s->s), 1.0f, 0.0f, s->rows, s->cols,
             s->s);
    else
        gemm(s->y, s->cols, OPERAND(m, s->s), OPERAND(s->x, s->cols), 1.0f, 0.0f, s->rows, s->cols,
             s->s);
}

static void ns_gram(struct ns *s)
{
    if (s->rows > s->cols)
        gemm_gram(s->a, OPERAND_T(s->x, s->cols), s->s, s->rows);
    else
        gemm_gram(s->a, OPERAND(s->x, s->cols), s->s, s->cols);
}

/* x = (a·I + b·A + c·A²)·x, A = x·xᵀ: the sum is made on the small matrix. */
static void ns_step(struct ns *s)
{
    ns_gram(s);
    gemm_gram(s->b, OPERAND(s->a, s->s), s->s, s->s);
    for_rows(s->s, polynomial_rows, s);
    ns_apply(s, s->b);
    swap_xy(s);
}

/* A = x·xᵀ; B = b·A + (c·A)·A; x = a·x + B·x with PyTorch's roundings to bfloat16: every result is
 * rounded, scalar factors are not. */
static void ns_step_bf16(struct ns *s)
{
    int64_t n = s->s;
    ns_gram(s);
    for_rows(n, scaled_gram_rows_bf16, s);
    gemm(s->b, n, OPERAND(s->y, n), OPERAND(s->a, n), 1.0f, 0.0f, n, n, n);
    for_rows(n, polynomial_rows_bf16, s);
    ns_apply(s, s->b);
    for_rows(s->rows, result_rows_bf16, s);
    swap_xy(s);
}

static void muon_one(const struct muon_item *item, const struct muon_args *args, float *scratch,
                     int64_t rows, int64_t cols)
{
    double ratio = (double)rows / (double)cols;
    int64_t side = rows < cols ? rows : cols;
    struct ns s = {
        .x = scratch,
        .y = scratch + rows * cols,
        .rows = rows,
        .cols = cols,
        .s = side,
        .item = item,
        .args = {(float)args->momentum, (float)args->grad_scale, args->bf16},
        .lr = (float)(args->lr * sqrt(ratio > 1.0 ? ratio : 1.0)),
    };
    s.a = s.y + rows * cols;
    s.b = s.a + side * side;
    s.partial = s.b + side * side;
    ns_start(&s);
    for (int i = 0; i < NS_STEPS; i++) {
        if (args->bf16)
            ns_step_bf16(&s);
        else
            ns_step(&s);
    }
    for_rows(rows, update_rows, &s);
}

/* With scratch enough each thread takes a matrix of its own (the functions above then find
 * themselves inside a parallel region and stay on it); big ones are worked on by all. What is left
 * over when the matrices do not go evenly into the threads is done by all, too. */
int cpu_muon(struct device *d, const struct muon_item *items, int64_t n,
             const struct muon_args *args, void *ws, int64_t rows, int64_t cols, struct error *err)
{
    (void)err;
    int threads = ((const struct cpu_state *)d->state)->threads;
    int64_t apart = slots(threads, rows, cols) > 1 ? n / threads * threads : 0;
    if (apart > 0) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < apart; i++)
            muon_one(&items[i], args, (float *)ws + omp_get_thread_num() * ns_floats(rows, cols),
                     rows, cols);
    }
    for (int64_t i = apart; i < n; i++)
        muon_one(&items[i], args, ws, rows, cols);
    return 0;
}
