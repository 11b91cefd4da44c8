#include "kernels/cuda/linear.cuh"

static constexpr int THREADS = 512;

template <typename T> __global__ void relu2_kernel(T *h, int64_t n)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * pack<T>::n;
    if (i + pack<T>::n <= n) {
        pack<T> p;
        p.load(h + i);
#pragma unroll
        for (int j = 0; j < pack<T>::n; j++) {
            const float v = p.v[j] > 0.0f ? p.v[j] : (p.v[j] != p.v[j] ? p.v[j] : 0.0f);
            p.v[j] = v * v; /* a NaN stays one */
        }
        p.store(h + i);
        return;
    }
    for (; i < n; i++) {
        const float x = to_float(h[i]), v = x > 0.0f ? x : (x != x ? x : 0.0f);
        h[i] = from_float<T>(v * v);
    }
}

/* dh *= 2·sqrt(a): sqrt(relu(h)²) = relu(h). */
template <typename T> __global__ void relu2_bwd_kernel(T *dh, const T *__restrict__ a, int64_t n)
{
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * pack<T>::n;
    if (i + pack<T>::n <= n) {
        pack<T> p, q;
        p.load(dh + i);
        q.load(a + i);
#pragma unroll
        for (int j = 0; j < pack<T>::n; j++)
            p.v[j] *= 2.0f * sqrtf(q.v[j]);
        p.store(dh + i);
        return;
    }
    for (; i < n; i++)
        dh[i] = from_float<T>(to_float(dh[i]) * 2.0f * sqrtf(to_float(a[i])));
}

template <typename T>
int linear_ops<T>::fwd(struct device *d, void *y, const void *x, const void *w, bool accumulate,
                       int64_t rows, int64_t in, int64_t out, struct error *err)
{
    struct gemm g = {};
    g.m = rows;
    g.n = out;
    g.k = in;
    g.tb = true;
    g.type_ab = g.type_y = format<T>::type;
    g.alpha = 1.0f;
    g.beta = accumulate ? 1.0f : 0.0f;
    g.batch = 1;
    return gemm_run(cuda_state_of(d), &g, y, x, w, err);
}

template <typename T>
int linear_ops<T>::bwd_input(struct device *d, void *dx, const void *dy, const void *w,
                             int64_t rows, int64_t in, int64_t out, struct error *err)
{
    struct gemm g = {};
    g.m = rows;
    g.n = in;
    g.k = out;
    g.type_ab = g.type_y = format<T>::type;
    g.alpha = 1.0f;
    g.batch = 1;
    return gemm_run(cuda_state_of(d), &g, dx, dy, w, err);
}

template <typename T>
int linear_ops<T>::bwd_weight(struct device *d, float *dw, const void *dy, const void *x,
                              int64_t rows, int64_t in, int64_t out, struct error *err)
{
    struct gemm g = {};
    g.m = out;
    g.n = in;
    g.k = rows;
    g.ta = true;
    g.type_ab = format<T>::type;
    g.type_y = CUDA_R_32F;
    g.alpha = 1.0f;
    g.beta = 1.0f;
    g.batch = 1;
    return gemm_run(cuda_state_of(d), &g, dw, dy, x, err);
}

/* Try cuDNN's fusion, for bfloat16 alone: 0 done, > 0 not available, < 0 error. */
static int try_fused_fwd(struct cuda_state *s, void *a, const void *x, const void *w, int64_t rows,
                         int64_t in, int64_t out, __nv_bfloat16 *, struct error *err)
{
#ifdef HAVE_CUDNN
    return fuse_relu2_forward(s, a, x, w, rows, in, out, nullptr, err);
#else
    (void)s, (void)a, (void)x, (void)w, (void)rows, (void)in, (void)out, (void)err;
    return 1;
#endif
}
static int try_fused_fwd(struct cuda_state *, void *, const void *, const void *, int64_t, int64_t,
                         int64_t, float *, struct error *)
{
    return 1;
}
static int try_fused_bwd(struct cuda_state *s, void *dh, const void *dy, const void *w,
                         const void *a, int64_t rows, int64_t in, int64_t out, __nv_bfloat16 *,
                         struct error *err)
{
#ifdef HAVE_CUDNN
    return fuse_relu2_backward(s, dh, dy, w, a, rows, in, out, nullptr, err);
#else
    (void)s, (void)dh, (void)dy, (void)w, (void)a, (void)rows, (void)in, (void)out, (void)err;
    return 1;
#endif
}
static int try_fused_bwd(struct cuda_state *, void *, const void *, const void *, const void *,
                         int64_t, int64_t, int64_t, float *, struct error *)
{
    return 1;
}

template <typename T>
int linear_ops<T>::relu2_fwd(struct device *d, void *a, const void *x, const void *w, int64_t rows,
                             int64_t in, int64_t out, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const int fused = try_fused_fwd(s, a, x, w, rows, in, out, (T *)nullptr, err);
    if (fused <= 0)
        return fused;
    if (fwd(d, a, x, w, false, rows, in, out, err))
        return -err->code;
    const int64_t n = rows * out;
    relu2_kernel<T><<<blocks_for(n, THREADS * pack<T>::n), THREADS, 0, s->stream>>>((T *)a, n);
    CUDA_LAUNCHED("relu2", err);
}

template <typename T>
int linear_ops<T>::relu2_bwd_input(struct device *d, void *dh, const void *dy, const void *w,
                                   const void *a, int64_t rows, int64_t in, int64_t out,
                                   struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const int fused = try_fused_bwd(s, dh, dy, w, a, rows, in, out, (T *)nullptr, err);
    if (fused <= 0)
        return fused;
    if (bwd_input(d, dh, dy, w, rows, in, out, err))
        return -err->code;
    const int64_t n = rows * in;
    relu2_bwd_kernel<T>
        <<<blocks_for(n, THREADS * pack<T>::n), THREADS, 0, s->stream>>>((T *)dh, (const T *)a, n);
    CUDA_LAUNCHED("relu2_bwd", err);
}

template struct linear_ops<float>;
template struct linear_ops<__nv_bfloat16>;
