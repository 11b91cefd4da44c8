/* The fallback: one warp a row of queries (forward, dq) or of keys (dk, dv). Lane l holds elements
 * l, l+32, … of a head. Scores are formed one key at a time by a warp reduction; nothing is kept
 * but the row's log-sum-exp. */
#include "kernels/cuda/attention.cuh"

static constexpr int WARPS = 4, MAX_D = 256, PER_LANE = MAX_D / 32;

struct attention_shape {
    int64_t B, T, H, KV, D, width; /* width: elements of a packed row */
};

/* Row of the head `head` (0 … H−1: q, then KV: k, then KV: v) at batch b, position t. */
template <typename T>
__device__ inline T *head_at(T *qkv, const attention_shape &s, int64_t b, int64_t t, int64_t head)
{
    return qkv + (b * s.T + t) * s.width + head * s.D;
}

template <typename T> __device__ inline void load_row(float *v, const T *p, int D)
{
#pragma unroll
    for (int c = 0; c < PER_LANE; c++) {
        const int i = c * 32 + (threadIdx.x & 31);
        v[c] = i < D ? to_float(p[i]) : 0.0f;
    }
}

template <typename T> __device__ inline void store_row(T *p, const float *v, int D)
{
#pragma unroll
    for (int c = 0; c < PER_LANE; c++) {
        const int i = c * 32 + (threadIdx.x & 31);
        if (i < D)
            p[i] = from_float<T>(v[c]);
    }
}

__device__ inline float dot_rows(const float *a, const float *b)
{
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < PER_LANE; c++)
        sum += a[c] * b[c];
    return warp_sum(sum);
}

/* Which (b, head, t) this warp works on. */
struct warp_row {
    int64_t b, head, t;
    bool active;
};
__device__ inline warp_row find_row(const attention_shape &s, int64_t heads)
{
    const int64_t i = (int64_t)blockIdx.x * WARPS + (threadIdx.x >> 5);
    warp_row r;
    r.active = i < s.B * heads * s.T;
    r.t = i % s.T;
    r.head = i / s.T % heads;
    r.b = i / s.T / heads;
    return r;
}

template <typename T>
__global__ void attention_fwd_kernel(T *o, float *lse, const T *qkv, attention_shape s, float scale)
{
    const warp_row r = find_row(s, s.H);
    if (!r.active)
        return;
    const int D = (int)s.D;
    const int64_t group = r.head / (s.H / s.KV);
    float q[PER_LANE], k[PER_LANE], v[PER_LANE], acc[PER_LANE] = {};
    float maximum = -INFINITY, sum = 0.0f;
    load_row(q, head_at(qkv, s, r.b, r.t, r.head), D);
    for (int64_t j = 0; j <= r.t; j++) {
        load_row(k, head_at(qkv, s, r.b, j, s.H + group), D);
        load_row(v, head_at(qkv, s, r.b, j, s.H + s.KV + group), D);
        const float score = dot_rows(q, k) * scale;
        const float new_maximum = fmaxf(maximum, score);
        const float shrink = expf(maximum - new_maximum), p = expf(score - new_maximum);
        sum = sum * shrink + p;
        maximum = new_maximum;
#pragma unroll
        for (int c = 0; c < PER_LANE; c++)
            acc[c] = acc[c] * shrink + p * v[c];
    }
#pragma unroll
    for (int c = 0; c < PER_LANE; c++)
        acc[c] /= sum;
    store_row(o + (r.b * s.T + r.t) * s.H * s.D + r.head * s.D, acc, D);
    if ((threadIdx.x & 31) == 0)
        lse[(r.b * s.H + r.head) * s.T + r.t] = maximum + logf(sum);
}

/* delta[b, h, t] = Σ dO∘O; dq = scale·Σ_j P(dP − delta)·k_j. */
template <typename T>
__global__ void attention_dq_kernel(T *dqkv, float *delta, const T *dout, const T *o,
                                    const float *lse, const T *qkv, attention_shape s, float scale)
{
    const warp_row r = find_row(s, s.H);
    if (!r.active)
        return;
    const int D = (int)s.D;
    const int64_t group = r.head / (s.H / s.KV);
    const int64_t out = (r.b * s.T + r.t) * s.H * s.D + r.head * s.D;
    const int64_t stat = (r.b * s.H + r.head) * s.T + r.t;
    float q[PER_LANE], g[PER_LANE], k[PER_LANE], v[PER_LANE], dq[PER_LANE] = {};
    load_row(q, head_at(qkv, s, r.b, r.t, r.head), D);
    load_row(g, dout + out, D);
    load_row(v, o + out, D);
    const float row_delta = dot_rows(g, v), row_lse = lse[stat];
    for (int64_t j = 0; j <= r.t; j++) {
        load_row(k, head_at(qkv, s, r.b, j, s.H + group), D);
        load_row(v, head_at(qkv, s, r.b, j, s.H + s.KV + group), D);
        const float p = expf(dot_rows(q, k) * scale - row_lse);
        const float ds = p * (dot_rows(g, v) - row_delta) * scale;
#pragma unroll
        for (int c = 0; c < PER_LANE; c++)
            dq[c] += ds * k[c];
    }
    store_row(head_at(dqkv, s, r.b, r.t, r.head), dq, D);
    if ((threadIdx.x & 31) == 0)
        delta[stat] = row_delta;
}

/* dk, dv of one key: the sum over the queries behind it, of every head of its group. */
template <typename T>
__global__ void attention_dkv_kernel(T *dqkv, const float *delta, const T *dout, const float *lse,
                                     const T *qkv, attention_shape s, float scale)
{
    const warp_row r = find_row(s, s.KV);
    if (!r.active)
        return;
    const int D = (int)s.D;
    const int64_t per_group = s.H / s.KV;
    float k[PER_LANE], v[PER_LANE], q[PER_LANE], g[PER_LANE], dk[PER_LANE] = {}, dv[PER_LANE] = {};
    load_row(k, head_at(qkv, s, r.b, r.t, s.H + r.head), D);
    load_row(v, head_at(qkv, s, r.b, r.t, s.H + s.KV + r.head), D);
    for (int64_t h = r.head * per_group; h < (r.head + 1) * per_group; h++)
        for (int64_t i = r.t; i < s.T; i++) {
            const int64_t stat = (r.b * s.H + h) * s.T + i;
            load_row(q, head_at(qkv, s, r.b, i, h), D);
            load_row(g, dout + (r.b * s.T + i) * s.H * s.D + h * s.D, D);
            const float p = expf(dot_rows(q, k) * scale - lse[stat]);
            const float ds = p * (dot_rows(g, v) - delta[stat]) * scale;
#pragma unroll
            for (int c = 0; c < PER_LANE; c++) {
                dv[c] += p * g[c];
                dk[c] += ds * q[c];
            }
        }
    store_row(head_at(dqkv, s, r.b, r.t, s.H + r.head), dk, D);
    store_row(head_at(dqkv, s, r.b, r.t, s.H + s.KV + r.head), dv, D);
}

static int check_head(int64_t D, struct error *err)
{
    if (D <= MAX_D)
        return 0;
    return error_set(err, CUDA_EXIT_DEVICE, "attention heads of %lld elements, expected at most %d",
                     (long long)D, MAX_D);
}

/* 0 done, > 0: no plan, < 0 error. Only bfloat16 has cuDNN. */
static int try_cudnn_fwd(struct cuda_state *s, __nv_bfloat16 *o, float *lse, const void *qkv,
                         const attention_shape *a, struct error *err)
{
#ifdef HAVE_CUDNN
    if (!s->own_attention)
        return sdpa_forward(s, o, lse, qkv, a->B, a->T, a->H, a->KV, a->D, err);
#endif
    (void)s, (void)o, (void)lse, (void)qkv, (void)a, (void)err;
    return 1;
}
static int try_cudnn_fwd(struct cuda_state *, float *, float *, const void *,
                         const attention_shape *, struct error *)
{
    return 1;
}
static int try_cudnn_bwd(struct cuda_state *s, __nv_bfloat16 *dqkv, const void *dout, const void *o,
                         const float *lse, const void *qkv, const attention_shape *a,
                         struct error *err)
{
#ifdef HAVE_CUDNN
    if (!s->own_attention)
        return sdpa_backward(s, dqkv, dout, o, lse, qkv, a->B, a->T, a->H, a->KV, a->D, err);
#endif
    (void)s, (void)dqkv, (void)dout, (void)o, (void)lse, (void)qkv, (void)a, (void)err;
    return 1;
}
static int try_cudnn_bwd(struct cuda_state *, float *, const void *, const void *, const float *,
                         const void *, const attention_shape *, struct error *)
{
    return 1;
}

template <typename T>
int attention_ops<T>::fwd(struct device *d, void *o, float *lse, const void *qkv, void *ws,
                          int64_t B, int64_t T_, int64_t H, int64_t KV, int64_t D,
                          struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const attention_shape a = {B, T_, H, KV, D, (H + 2 * KV) * D};
    (void)ws;
    const int done = try_cudnn_fwd(s, (T *)o, lse, qkv, &a, err);
    if (done <= 0)
        return done;
    if (check_head(D, err))
        return -err->code;
    attention_fwd_kernel<T><<<blocks_for(B * H * T_, WARPS), WARPS * 32, 0, s->stream>>>(
        (T *)o, lse, (const T *)qkv, a, 1.0f / sqrtf((float)D));
    CUDA_LAUNCHED("attention_fwd", err);
}

template <typename T>
int attention_ops<T>::bwd(struct device *d, void *dqkv, const void *dout, const void *o,
                          const float *lse, const void *qkv, void *ws, int64_t B, int64_t T_,
                          int64_t H, int64_t KV, int64_t D, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const attention_shape a = {B, T_, H, KV, D, (H + 2 * KV) * D};
    (void)ws;
    const int done = try_cudnn_bwd(s, (T *)dqkv, dout, o, lse, qkv, &a, err);
    if (done <= 0)
        return done;
    void *delta;
    if (check_head(D, err) || cuda_scratch(s, &delta, (size_t)(B * H * T_) * sizeof(float), err))
        return -err->code;
    const float scale = 1.0f / sqrtf((float)D);
    attention_dq_kernel<T><<<blocks_for(B * H * T_, WARPS), WARPS * 32, 0, s->stream>>>(
        (T *)dqkv, (float *)delta, (const T *)dout, (const T *)o, lse, (const T *)qkv, a, scale);
    attention_dkv_kernel<T><<<blocks_for(B * KV * T_, WARPS), WARPS * 32, 0, s->stream>>>(
        (T *)dqkv, (const float *)delta, (const T *)dout, lse, (const T *)qkv, a, scale);
    CUDA_LAUNCHED("attention_bwd", err);
}

template struct attention_ops<float>;
template struct attention_ops<__nv_bfloat16>;
