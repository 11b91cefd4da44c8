#include "kernels/cuda/optimizer.cuh"

#include <cmath>

static constexpr int THREADS = 256, PARTS = 512; /* blocks of a reduction, whatever the size */

/* ---- cast ---------------------------------------------------------------------------------- */
__global__ void weight_cast_kernel(__nv_bfloat16 *w, const float *master, int64_t n)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * 8;
    if (i + 8 <= n) {
        pack<float> a, b;
        pack<__nv_bfloat16> out;
        a.load(master + i);
        b.load(master + i + 4);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            out.v[j] = a.v[j];
            out.v[j + 4] = b.v[j];
        }
        out.store(w + i);
        return;
    }
    for (; i < n; i++)
        w[i] = __float2bfloat16_rn(master[i]);
}

int cuda_weight_cast(struct device *d, void *w, const float *master, int64_t n, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    if (s->graph_mode == GRAPH_RENEWS)
        return 0;
    weight_cast_kernel<<<blocks_for(n, THREADS * 8), THREADS, 0, s->stream>>>((__nv_bfloat16 *)w,
                                                                              master, n);
    CUDA_LAUNCHED("weight_cast", err);
}

/* ---- sums in a fixed order ------------------------------------------------------------------ */
__device__ inline double block_sum_f64(double x)
{
    __shared__ double shared[THREADS];
    shared[threadIdx.x] = x;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    return shared[0];
}

template <typename T> __global__ void sum_squares_kernel(double *parts, const T *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const double v = (double)to_float(x[i]);
        sum += v * v;
    }
    sum = block_sum_f64(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

__global__ void sum_parts_kernel(double *out, const double *parts, int n)
{
    double sum = 0;
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        sum += parts[i];
    sum = block_sum_f64(sum);
    if (threadIdx.x == 0)
        *out = sum;
}

/* *out (device) = Σ x²; parts: PARTS doubles. */
template <typename T>
static void queue_sum_squares(struct cuda_state *s, double *out, double *parts, const T *x,
                              int64_t n)
{
    sum_squares_kernel<T><<<PARTS, THREADS, 0, s->stream>>>(parts, x, n);
    sum_parts_kernel<<<1, THREADS, 0, s->stream>>>(out, parts, PARTS);
}

int cuda_sum_squares(struct device *d, double *sum, const float *x, int64_t n, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    void *scratch;
    if (cuda_scratch(s, &scratch, (PARTS + 1) * sizeof(double), err))
        return -err->code;
    double *parts = (double *)scratch;
    queue_sum_squares(s, parts + PARTS, parts, x, n);
    CUDA_TRY(cudaGetLastError(), err);
    CUDA_TRY(cudaMemcpyAsync(s->host_scalar, parts + PARTS, sizeof(double), cudaMemcpyDeviceToHost,
                             s->stream),
             err);
    CUDA_TRY(cudaStreamSynchronize(s->stream), err);
    *sum = *s->host_scalar;
    return 0;
}

/* ---- AdamW --------------------------------------------------------------------------------- */
struct adamw_factors {
    float keep; /* 1 − lr·wd */
    float beta1, beta2;
    float step_size;    /* lr/(1 − β1^t) */
    float inverse_root; /* 1/sqrt(1 − β2^t) */
    float eps, grad_scale;
};

__device__ inline void adamw_element(float &p, float &m, float &v, float g, const adamw_factors &f)
{
    g *= f.grad_scale;
    p *= f.keep;
    m = f.beta1 * m + (1.0f - f.beta1) * g;
    v = f.beta2 * v + (1.0f - f.beta2) * g * g;
    p -= f.step_size * m / (sqrtf(v) * f.inverse_root + f.eps);
}

__global__ void adamw_kernel(float *weight, float *m, float *v, const float *grad, int64_t n,
                             const adamw_factors *factors)
{
    const adamw_factors f = *factors;
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * 4;
    if (i + 4 <= n) {
        pack<float> p, a, b, g;
        p.load(weight + i);
        a.load(m + i);
        b.load(v + i);
        g.load(grad + i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            adamw_element(p.v[j], a.v[j], b.v[j], g.v[j], f);
        p.store(weight + i);
        a.store(m + i);
        b.store(v + i);
        return;
    }
    for (; i < n; i++)
        adamw_element(weight[i], m[i], v[i], grad[i], f);
}

__global__ void adamw_unaligned_kernel(float *weight, float *m, float *v, const float *grad,
                                       int64_t n, const adamw_factors *factors)
{
    const adamw_factors f = *factors;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        adamw_element(weight[i], m[i], v[i], grad[i], f);
}

static bool aligned16(const void *a, const void *b, const void *c, const void *e)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)e) & 15) == 0;
}

int cuda_adamw(struct device *d, float *weight, float *m, float *v, const float *grad, int64_t n,
               const struct adamw_args *args, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    adamw_factors f;
    f.keep = (float)(1.0 - args->lr * args->weight_decay);
    f.beta1 = (float)args->beta1;
    f.beta2 = (float)args->beta2;
    f.step_size = (float)(args->lr / (1.0 - pow(args->beta1, (double)args->step)));
    f.inverse_root = (float)(1.0 / sqrt(1.0 - pow(args->beta2, (double)args->step)));
    f.eps = (float)args->eps;
    f.grad_scale = (float)args->grad_scale;
    if (n <= 0)
        return 0;
    const void *at;
    if (cuda_arguments(s, &at, &f, sizeof f, err))
        return -err->code;
    if (s->graph_mode == GRAPH_RENEWS)
        return 0;
    const adamw_factors *factors = (const adamw_factors *)at;
    if (aligned16(weight, m, v, grad))
        adamw_kernel<<<blocks_for(n, THREADS * 4), THREADS, 0, s->stream>>>(weight, m, v, grad, n,
                                                                            factors);
    else
        adamw_unaligned_kernel<<<blocks_for(n, THREADS), THREADS, 0, s->stream>>>(weight, m, v,
                                                                                  grad, n, factors);
    CUDA_LAUNCHED("adamw", err);
}

/* ---- Muon ----------------------------------------------------------------------------------
 * All matrices of a shape that fit the scratch go through Newton-Schulz as one batch. A tall matrix
 * is not transposed: its Gram matrix is xᵀ·x and multiplies from the right. */
struct muon_factors {
    float mu, grad_scale;
    float lr; /* with the shape's factor */
};

template <typename T>
__global__ void momentum_kernel(T *u, float *buf, const float *grad, int64_t n,
                                const muon_factors *factors)
{
    const float mu = factors->mu, grad_scale = factors->grad_scale;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    const float g = grad[i] * grad_scale;
    const float b = buf[i] + (1.0f - mu) * (g - buf[i]);
    buf[i] = b;
    u[i] = from_float<T>(g + mu * (b - g));
}

template <typename T> __global__ void divide_kernel(T *x, const double *sum_squares, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const float norm = (float)sqrt(*sum_squares) + 1e-7f;
    if (i < n)
        x[i] = from_float<T>(to_float(x[i]) / norm);
}

template <typename T>
__global__ void apply_kernel(float *weight, const T *x, const muon_factors *factors, int64_t n)
{
    const float lr = factors->lr;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        weight[i] -= lr * to_float(x[i]);
}

template <typename T> struct newton_schulz {
    struct cuda_state *s;
    int64_t rows, cols, side;
    int batch;
    T *x, *y, *a, *b;

    struct gemm product(int64_t m, int64_t n, int64_t k, float alpha, float beta) const
    {
        struct gemm g = {};
        g.m = m;
        g.n = n;
        g.k = k;
        g.type_ab = g.type_y = format<T>::type;
        g.alpha = alpha;
        g.beta = beta;
        g.batch = batch;
        return g;
    }

    /* x = a·x + (b·A + c·A²)·x, A the Gram matrix over the short side. */
    int step(struct error *err)
    {
        const float c1 = 3.4445f, c2 = -4.7750f, c3 = 2.0315f;
        const bool tall = rows > cols;
        const int64_t matrix = rows * cols, square = side * side;
        struct gemm gram = product(side, side, tall ? rows : cols, 1.0f, 0.0f);
        gram.ta = tall;
        gram.tb = !tall;
        gram.stride_a = gram.stride_b = matrix;
        gram.stride_y = square;
        struct gemm poly = product(side, side, side, c3, c2);
        poly.stride_a = poly.stride_b = poly.stride_y = square;
        struct gemm apply = product(rows, cols, side, 1.0f, c1);
        apply.stride_a = tall ? matrix : square;
        apply.stride_b = tall ? square : matrix;
        apply.stride_y = matrix;
        if (gemm_run(s, &gram, a, x, x, err) || gemm_run_onto(s, &poly, b, a, a, a, err) ||
            gemm_run_onto(s, &apply, y, x, tall ? x : b, tall ? b : x, err))
            return -err->code;
        T *old = x;
        x = y;
        y = old;
        return 0;
    }
};

int64_t cuda_muon_item_bytes(int64_t rows, int64_t cols, bool bf16)
{
    const int64_t side = rows < cols ? rows : cols;
    return (2 * rows * cols + 2 * side * side) * (bf16 ? 2 : 4);
}

template <typename T>
static int muon_batch(struct cuda_state *s, const struct muon_item *items, int64_t n,
                      const struct muon_args *args, void *ws, int64_t rows, int64_t cols,
                      struct error *err)
{
    const int64_t side = rows < cols ? rows : cols, matrix = rows * cols, square = side * side;
    T *base = (T *)ws;
    newton_schulz<T> ns = {s,
                           rows,
                           cols,
                           side,
                           (int)n,
                           base,
                           base + n * matrix,
                           base + 2 * n * matrix,
                           base + 2 * n * matrix + n * square};
    const double aspect = (double)rows / (double)cols;
    const muon_factors f = {(float)args->momentum, (float)args->grad_scale,
                            (float)(args->lr * sqrt(aspect > 1 ? aspect : 1))};
    const void *at;
    if (cuda_arguments(s, &at, &f, sizeof f, err))
        return -err->code;
    if (s->graph_mode == GRAPH_RENEWS)
        return 0;
    const muon_factors *factors = (const muon_factors *)at;
    void *scratch;
    if (cuda_scratch(s, &scratch, (size_t)(PARTS + n) * sizeof(double), err))
        return -err->code;
    double *parts = (double *)scratch, *sums = parts + PARTS;
    const unsigned grid = blocks_for(matrix, THREADS);
    for (int64_t i = 0; i < n; i++) {
        T *x = ns.x + i * matrix;
        momentum_kernel<T>
            <<<grid, THREADS, 0, s->stream>>>(x, items[i].momentum, items[i].grad, matrix, factors);
        queue_sum_squares(s, sums + i, parts, x, matrix);
        divide_kernel<T><<<grid, THREADS, 0, s->stream>>>(x, sums + i, matrix);
    }
    CUDA_TRY(cudaGetLastError(), err);
    for (int step = 0; step < 5; step++)
        if (ns.step(err))
            return -err->code;
    for (int64_t i = 0; i < n; i++)
        apply_kernel<T>
            <<<grid, THREADS, 0, s->stream>>>(items[i].weight, ns.x + i * matrix, factors, matrix);
    CUDA_LAUNCHED("muon", err);
}

int cuda_muon(struct device *d, const struct muon_item *items, int64_t n,
              const struct muon_args *args, void *ws, int64_t rows, int64_t cols, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const int64_t item = cuda_muon_item_bytes(rows, cols, args->bf16);
    int64_t at_once = s->workspace_bytes / item;
    if (at_once < 1)
        at_once = 1;
    for (int64_t i = 0; i < n; i += at_once) {
        const int64_t count = n - i < at_once ? n - i : at_once;
        if (args->bf16 ? muon_batch<__nv_bfloat16>(s, items + i, count, args, ws, rows, cols, err)
                       : muon_batch<float>(s, items + i, count, args, ws, rows, cols, err))
            return -err->code;
    }
    return 0;
}
