/* A warp works on one token: it loads the cosines and sines of its position once and takes the
 * token's heads in turn, four at a time, eight lanes a head. A lane holds N neighbouring elements
 * of the first half of a head and the same of the second; N = 8 where D allows it, else 1. */
#include "kernels/cuda/rope.cuh"

static constexpr int GROUP = 8, GROUPS = 32 / GROUP, WARPS = 8;

__device__ inline float group_sum(float x)
{
#pragma unroll
    for (int offset = GROUP / 2; offset > 0; offset >>= 1)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, offset);
    return x;
}

/* N elements of T as floats; 16 bytes at a time where N allows it. */
template <typename T, int N> struct few {
    float v[N];
    __device__ void load(const T *p)
    {
        if (N % pack<T>::n == 0) {
#pragma unroll
            for (int i = 0; i < N; i += pack<T>::n) {
                pack<T> q;
                q.load(p + i);
#pragma unroll
                for (int j = 0; j < pack<T>::n && i + j < N; j++)
                    v[i + j] = q.v[j];
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = to_float(p[i]);
        }
    }
    __device__ void store(T *p) const
    {
        if (N % pack<T>::n == 0) {
#pragma unroll
            for (int i = 0; i < N; i += pack<T>::n) {
                pack<T> q;
#pragma unroll
                for (int j = 0; j < pack<T>::n; j++)
                    q.v[j] = i + j < N ? v[i + j] : 0.0f;
                q.store(p + i);
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; i++)
                p[i] = from_float<T>(v[i]);
        }
    }
};

struct rope_shape {
    int64_t rows, T;
    int heads, D;  /* q and k heads */
    int64_t width; /* elements of a packed row */
};

/* The rotation of this lane's elements at a position. */
template <int N, int CHUNKS> struct rotation {
    few<float, N> cos[CHUNKS], sin[CHUNKS];
    __device__ void load(const float *cos_table, const float *sin_table, int64_t position, int half,
                         int lane)
    {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int i = (c * GROUP + lane) * N;
            if (i < half) {
                cos[c].load(cos_table + position * half + i);
                sin[c].load(sin_table + position * half + i);
            }
        }
    }
};

template <typename T, int N, int CHUNKS>
__global__ void __launch_bounds__(WARPS * 32)
    rope_norm_fwd_kernel(T *qkv, float *rstd, const float *__restrict__ cos_table,
                         const float *__restrict__ sin_table, rope_shape s)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + (threadIdx.x >> 5);
    if (row >= s.rows)
        return;
    const int lane = threadIdx.x % GROUP, group = (threadIdx.x & 31) / GROUP, half = s.D / 2;
    rotation<N, CHUNKS> r;
    r.load(cos_table, sin_table, row % s.T, half, lane);
    for (int base = 0; base < s.heads; base += GROUPS) { /* all lanes stay for the sums */
        const int head = base + group;
        const bool active = head < s.heads;
        T *p = qkv + row * s.width + (int64_t)(active ? head : 0) * s.D;
        few<T, N> y1[CHUNKS], y2[CHUNKS];
        float sum = 0.0f;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int i = (c * GROUP + lane) * N;
            if (i < half) {
                few<T, N> x1, x2;
                x1.load(p + i);
                x2.load(p + half + i);
#pragma unroll
                for (int j = 0; j < N; j++) {
                    y1[c].v[j] = x1.v[j] * r.cos[c].v[j] + x2.v[j] * r.sin[c].v[j];
                    y2[c].v[j] = -x1.v[j] * r.sin[c].v[j] + x2.v[j] * r.cos[c].v[j];
                    sum += y1[c].v[j] * y1[c].v[j] + y2[c].v[j] * y2[c].v[j];
                }
            }
        }
        const float inverse = inverse_rms(group_sum(sum), (float)s.D);
        if (!active)
            continue;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int i = (c * GROUP + lane) * N;
            if (i < half) {
#pragma unroll
                for (int j = 0; j < N; j++) {
                    y1[c].v[j] *= inverse;
                    y2[c].v[j] *= inverse;
                }
                y1[c].store(p + i);
                y2[c].store(p + half + i);
            }
        }
        if (lane == 0)
            rstd[row * s.heads + head] = inverse;
    }
}

/* From the gradient of y = r·rot(x) to that of x: dz = r·(dy − y·mean(y·dy)), then rotate back. */
template <typename T, int N, int CHUNKS>
__global__ void __launch_bounds__(WARPS * 32)
    rope_norm_bwd_kernel(T *dqkv, const T *__restrict__ qkv, const float *__restrict__ rstd,
                         const float *__restrict__ cos_table, const float *__restrict__ sin_table,
                         rope_shape s)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + (threadIdx.x >> 5);
    if (row >= s.rows)
        return;
    const int lane = threadIdx.x % GROUP, group = (threadIdx.x & 31) / GROUP, half = s.D / 2;
    rotation<N, CHUNKS> rot;
    rot.load(cos_table, sin_table, row % s.T, half, lane);
    for (int base = 0; base < s.heads; base += GROUPS) {
        const int head = base + group;
        const bool active = head < s.heads;
        const int64_t offset = row * s.width + (int64_t)(active ? head : 0) * s.D;
        few<T, N> g1[CHUNKS], g2[CHUNKS], y1[CHUNKS], y2[CHUNKS];
        float dot = 0.0f;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int i = (c * GROUP + lane) * N;
            if (i < half) {
                g1[c].load(dqkv + offset + i);
                g2[c].load(dqkv + offset + half + i);
                y1[c].load(qkv + offset + i);
                y2[c].load(qkv + offset + half + i);
#pragma unroll
                for (int j = 0; j < N; j++)
                    dot += g1[c].v[j] * y1[c].v[j] + g2[c].v[j] * y2[c].v[j];
            }
        }
        const float mean = group_sum(dot) / (float)s.D;
        if (!active)
            continue;
        const float r = rstd[row * s.heads + head];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int i = (c * GROUP + lane) * N;
            if (i < half) {
                few<T, N> d1, d2;
#pragma unroll
                for (int j = 0; j < N; j++) {
                    const float z1 = r * (g1[c].v[j] - y1[c].v[j] * mean);
                    const float z2 = r * (g2[c].v[j] - y2[c].v[j] * mean);
                    d1.v[j] = z1 * rot.cos[c].v[j] - z2 * rot.sin[c].v[j];
                    d2.v[j] = z1 * rot.sin[c].v[j] + z2 * rot.cos[c].v[j];
                }
                d1.store(dqkv + offset + i);
                d2.store(dqkv + offset + half + i);
            }
        }
    }
}

/* Heads of up to 512 elements: D/2 in chunks of GROUP x N. */
#define ROPE_DISPATCH(KERNEL, ...)                                                                 \
    do {                                                                                           \
        const unsigned grid = blocks_for(shape.rows, WARPS);                                       \
        const int half = shape.D / 2;                                                              \
        if (half % 8 == 0 && half <= 64)                                                           \
            KERNEL<T, 8, 1><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                      \
        else if (half % 8 == 0 && half <= 256)                                                     \
            KERNEL<T, 8, 4><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                      \
        else if (half <= 32)                                                                       \
            KERNEL<T, 1, 4><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                      \
        else if (half <= 256)                                                                      \
            KERNEL<T, 1, 32><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                     \
        else                                                                                       \
            return error_set(err, CUDA_EXIT_DEVICE, "heads of %d elements, expected at most 512",  \
                             shape.D);                                                             \
    } while (0)

template <typename T>
int rope_ops<T>::rope_norm_fwd(struct device *d, void *qkv, float *rstd, const float *cos,
                               const float *sin, int64_t B, int64_t T_, int64_t H, int64_t KV,
                               int64_t D, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const rope_shape shape = {B * T_, T_, (int)(H + KV), (int)D, (H + 2 * KV) * D};
    ROPE_DISPATCH(rope_norm_fwd_kernel, (T *)qkv, rstd, cos, sin, shape);
    CUDA_LAUNCHED("rope_norm_fwd", err);
}

template <typename T>
int rope_ops<T>::rope_norm_bwd(struct device *d, void *dqkv, const void *qkv, const float *rstd,
                               const float *cos, const float *sin, int64_t B, int64_t T_, int64_t H,
                               int64_t KV, int64_t D, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const rope_shape shape = {B * T_, T_, (int)(H + KV), (int)D, (H + 2 * KV) * D};
    ROPE_DISPATCH(rope_norm_bwd_kernel, (T *)dqkv, (const T *)qkv, rstd, cos, sin, shape);
    CUDA_LAUNCHED("rope_norm_bwd", err);
}

template struct rope_ops<float>;
template struct rope_ops<__nv_bfloat16>;
