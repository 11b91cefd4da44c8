/* z = 15·tanh(x/15) lies in [−15, 15], so Σ exp(z − 15) can neither overflow nor vanish: no pass
 * for the maximum. One block a row; the gradient overwrites the logits. */
#include "kernels/cuda/head.cuh"

#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/linear.cuh"

#include <cuda_fp16.h>

static constexpr float CAP = 15.0f;
static constexpr int THREADS = 1024, KEEP = 8; /* packs a thread keeps in registers */

template <typename T> __device__ inline float soft_tanh(float x);
template <> __device__ inline float soft_tanh<float>(float x)
{
    return tanhf(x);
}
template <> __device__ inline float soft_tanh<__nv_bfloat16>(float x)
{
    float y; /* 2^-11 relative: below bfloat16's own rounding */
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
template <typename T> __device__ inline float soft_exp(float x);
template <> __device__ inline float soft_exp<float>(float x)
{
    return expf(x);
}
template <> __device__ inline float soft_exp<__nv_bfloat16>(float x)
{
    return __expf(x);
}

/* Tangents that wait in registers for the sum: float32 as they are; for bfloat16 logits as halves,
 * whose 2^-11 is finer than the logits' 2^-8, so that a thread's share of a row fits. */
template <typename T> struct tanhs;
template <> struct tanhs<float> {
    float v[pack<float>::n];
    __device__ void keep(const pack<float> &p)
    {
#pragma unroll
        for (int j = 0; j < pack<float>::n; j++)
            v[j] = p.v[j];
    }
    __device__ void take(pack<float> &p) const
    {
#pragma unroll
        for (int j = 0; j < pack<float>::n; j++)
            p.v[j] = v[j];
    }
};
template <> struct tanhs<__nv_bfloat16> {
    __half2 v[pack<__nv_bfloat16>::n / 2];
    __device__ void keep(const pack<__nv_bfloat16> &p)
    {
#pragma unroll
        for (int j = 0; j < pack<__nv_bfloat16>::n / 2; j++)
            v[j] = __floats2half2_rn(p.v[2 * j], p.v[2 * j + 1]);
    }
    __device__ void take(pack<__nv_bfloat16> &p) const
    {
#pragma unroll
        for (int j = 0; j < pack<__nv_bfloat16>::n / 2; j++) {
            const float2 f = __half22float2(v[j]);
            p.v[2 * j] = f.x;
            p.v[2 * j + 1] = f.y;
        }
    }
};

/* p: logits in, t = tanh(x/15) out; returns Σ exp(15t − 15). */
template <typename T>
__device__ inline float add_exponentials(pack<T> &p, int64_t i, int32_t target, float *target_logit)
{
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < pack<T>::n; j++) {
        const float t = soft_tanh<T>(p.v[j] * (1.0f / CAP));
        p.v[j] = t;
        sum += soft_exp<T>(CAP * t - CAP);
    }
    if (target >= i && target < i + pack<T>::n) {
#pragma unroll
        for (int j = 0; j < pack<T>::n; j++)
            if (i + j == target)
                *target_logit = CAP * p.v[j];
    }
    return sum;
}

/* p: t; writes (softmax − 1[target])·(1 − t²)·scale over the logits. */
template <typename T, typename W>
__device__ inline void write_gradient(T *x, pack<T> &p, int64_t i, int32_t target, float inverse,
                                      float scale, int64_t V, W &copy)
{
    const bool here = target >= i && target < i + pack<T>::n;
#pragma unroll
    for (int j = 0; j < pack<T>::n; j++) {
        const float t = p.v[j];
        float q = soft_exp<T>(CAP * t - CAP) * inverse;
        if (here && i + j == target)
            q -= 1.0f;
        p.v[j] = q * (1.0f - t * t) * scale;
    }
    if (!copy.alone())
        p.store(x + i);
    copy.template put<pack<T>::n>((int64_t)blockIdx.x * V + i, p.v);
}

/* Vectorised: V a multiple of the pack. Writes the gradient over the logits when WITH_GRADIENT. */
template <typename T, bool WITH_GRADIENT, typename W>
__global__ void __launch_bounds__(THREADS)
    cross_entropy_kernel(float *__restrict__ losses, T *__restrict__ logits,
                         const int32_t *__restrict__ targets, float scale, int64_t V, W copy)
{
    __shared__ float shared[33];
    __shared__ float target_logit;
    const int64_t row = blockIdx.x;
    T *x = logits + row * V;
    const int32_t target = targets[row];
    if (WITH_GRADIENT)
        copy.start();
    if (target < 0) {
        if (WITH_GRADIENT) {
            pack<T> zero;
#pragma unroll
            for (int j = 0; j < pack<T>::n; j++)
                zero.v[j] = 0.0f;
            for (int64_t i = (int64_t)threadIdx.x * pack<T>::n; i < V; i += THREADS * pack<T>::n) {
                if (!copy.alone())
                    zero.store(x + i);
                copy.template put<pack<T>::n>(row * V + i, zero.v);
            }
        }
        if (threadIdx.x == 0)
            losses[row] = 0.0f;
        return;
    }
    tanhs<T> kept[KEEP];
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < KEEP; c++) {
        const int64_t i = ((int64_t)c * THREADS + threadIdx.x) * pack<T>::n;
        if (i < V) {
            pack<T> p;
            p.load(x + i);
            sum += add_exponentials<T>(p, i, target, &target_logit);
            kept[c].keep(p);
        }
    }
    for (int64_t i = ((int64_t)KEEP * THREADS + threadIdx.x) * pack<T>::n; i < V;
         i += THREADS * pack<T>::n) {
        pack<T> p;
        p.load(x + i);
        sum += add_exponentials<T>(p, i, target, &target_logit);
    }
    sum = block_sum(sum, shared); /* its barriers also publish target_logit before any overwrite */
    if (threadIdx.x == 0)
        losses[row] = logf(sum) + CAP - target_logit;
    if (!WITH_GRADIENT)
        return;
    const float inverse = 1.0f / sum;
#pragma unroll
    for (int c = 0; c < KEEP; c++) {
        const int64_t i = ((int64_t)c * THREADS + threadIdx.x) * pack<T>::n;
        if (i < V) {
            pack<T> p;
            kept[c].take(p);
            write_gradient<T, W>(x, p, i, target, inverse, scale, V, copy);
        }
    }
    for (int64_t i = ((int64_t)KEEP * THREADS + threadIdx.x) * pack<T>::n; i < V;
         i += THREADS * pack<T>::n) {
        pack<T> p;
        p.load(x + i);
#pragma unroll
        for (int j = 0; j < pack<T>::n; j++)
            p.v[j] = soft_tanh<T>(p.v[j] * (1.0f / CAP));
        write_gradient<T, W>(x, p, i, target, inverse, scale, V, copy);
    }
}

/* Any V, element by element. */
template <typename T>
__global__ void cross_entropy_scalar(float *losses, T *logits, const int32_t *targets, float scale,
                                     int64_t V, bool with_gradient)
{
    __shared__ float shared[33];
    const int64_t row = blockIdx.x;
    T *x = logits + row * V;
    const int32_t target = targets[row];
    if (target < 0) {
        for (int64_t i = threadIdx.x; with_gradient && i < V; i += blockDim.x)
            x[i] = from_float<T>(0.0f);
        if (threadIdx.x == 0)
            losses[row] = 0.0f;
        return;
    }
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < V; i += blockDim.x)
        sum += soft_exp<T>(CAP * soft_tanh<T>(to_float(x[i]) * (1.0f / CAP)) - CAP);
    sum = block_sum(sum, shared);
    const float z = CAP * soft_tanh<T>(to_float(x[target]) * (1.0f / CAP));
    __syncthreads(); /* everyone has read the target's logit */
    if (threadIdx.x == 0)
        losses[row] = logf(sum) + CAP - z;
    for (int64_t i = threadIdx.x; with_gradient && i < V; i += blockDim.x) {
        const float t = soft_tanh<T>(to_float(x[i]) * (1.0f / CAP));
        const float p = soft_exp<T>(CAP * t - CAP) / sum - (i == target ? 1.0f : 0.0f);
        x[i] = from_float<T>(p * (1.0f - t * t) * scale);
    }
}

template <typename T> __global__ void softcap_kernel(float *out, const T *x, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = CAP * tanhf(to_float(x[i]) * (1.0f / CAP));
}

int64_t head_chunk_rows(int64_t rows, int64_t V)
{
    /* 2 GiB of bfloat16. Each chunk adds to the weight's gradient, which is read and written once
     * more: fewer chunks move fewer bytes, and parts of them that fit into the L2 cache cost more
     * in launches than they save (docs/performance/notes.md). */
    const int64_t elements = (int64_t)16384 * 65536;
    int64_t chunk = elements / (V > 0 ? V : 1);
    chunk = chunk >= 128 ? chunk / 128 * 128 : 128;
    return chunk < rows ? chunk : rows;
}

template <typename T>
static int launch_cross_entropy(struct cuda_state *s, float *losses, T *logits,
                                const int32_t *targets, float scale, int64_t rows, int64_t V,
                                bool gradient, struct error *err)
{
    if (V % pack<T>::n)
        cross_entropy_scalar<T>
            <<<(unsigned)rows, 256, 0, s->stream>>>(losses, logits, targets, scale, V, gradient);
    else if (gradient)
        cross_entropy_kernel<T, true, no_writer><<<(unsigned)rows, THREADS, 0, s->stream>>>(
            losses, logits, targets, scale, V, no_writer());
    else
        cross_entropy_kernel<T, false, no_writer><<<(unsigned)rows, THREADS, 0, s->stream>>>(
            losses, logits, targets, scale, V, no_writer());
    CUDA_LAUNCHED("cross_entropy", err);
}

int cross_entropy_fp8(struct cuda_state *s, float *losses, void *logits, const int32_t *targets,
                      float scale, const struct fp8_sink *sink, int64_t rows, int64_t V,
                      struct error *err)
{
    typedef __nv_bfloat16 T;
    typedef fp8_writer<FP8_E5M2> W;
    if (!sink)
        return launch_cross_entropy<T>(s, losses, (T *)logits, targets, scale, rows, V, false, err);
    const W copy = {*sink, 0, 0};
    cross_entropy_kernel<T, true, W>
        <<<(unsigned)rows, THREADS, 0, s->stream>>>(losses, (T *)logits, targets, scale, V, copy);
    CUDA_LAUNCHED("cross_entropy", err);
}

template <typename T>
int head_ops<T>::loss(struct device *d, float *losses, void *dx, float *dw, const void *x,
                      const void *w, const int32_t *targets, double scale, void *ws, int64_t rows,
                      int64_t C, int64_t V, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const int64_t chunk = head_chunk_rows(rows, V);
    T *logits = (T *)ws;
    for (int64_t r = 0; r < rows; r += chunk) {
        const int64_t n = rows - r < chunk ? rows - r : chunk;
        const T *xr = (const T *)x + r * C;
        if (linear_ops<T>::fwd(d, logits, xr, w, false, n, C, V, err) ||
            launch_cross_entropy<T>(s, losses + r, logits, targets + r, (float)scale, n, V,
                                    dx != nullptr, err))
            return -err->code;
        if (dx && (linear_ops<T>::bwd_input(d, (T *)dx + r * C, logits, w, n, C, V, err) ||
                   linear_ops<T>::bwd_weight(d, dw, logits, xr, n, C, V, err)))
            return -err->code;
    }
    return 0;
}

template <typename T>
int head_ops<T>::logits(struct device *d, float *logits, const void *x, const void *w, int64_t rows,
                        int64_t C, int64_t V, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const int64_t chunk = head_chunk_rows(rows, V);
    void *raw;
    if (cuda_scratch(s, &raw, (size_t)(chunk * V) * sizeof(T), err))
        return -err->code;
    for (int64_t r = 0; r < rows; r += chunk) {
        const int64_t n = rows - r < chunk ? rows - r : chunk;
        if (linear_ops<T>::fwd(d, raw, (const T *)x + r * C, w, false, n, C, V, err))
            return -err->code;
        softcap_kernel<T>
            <<<blocks_for(n * V, 256), 256, 0, s->stream>>>(logits + r * V, (const T *)raw, n * V);
        CUDA_TRY(cudaGetLastError(), err);
    }
    return 0;
}

template struct head_ops<float>;
template struct head_ops<__nv_bfloat16>;
