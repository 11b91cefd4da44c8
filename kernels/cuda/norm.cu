/* One warp a row: a row of up to 16 packs a lane stays in registers between the two passes, so each
 * element is read once. Widths that are no multiple of the pack take the scalar kernels. */
#include "kernels/cuda/norm.cuh"

#include "kernels/cuda/fp8.cuh"

#include <cub/device/device_radix_sort.cuh>

static constexpr int WARPS = 8; /* rows a block */

template <typename T, int PACKS, typename W>
__global__ void norm_fwd_kernel(T *__restrict__ xn, float *__restrict__ rstd,
                                const T *__restrict__ x, const int32_t *__restrict__ tokens,
                                int64_t rows, int C, W copy)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + (threadIdx.x >> 5);
    const int lane = threadIdx.x & 31;
    if (row >= rows)
        return;
    const T *in = x + (tokens ? (int64_t)tokens[row] : row) * C;
    pack<T> keep[PACKS];
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int i = (p * 32 + lane) * pack<T>::n;
        if (i < C) {
            keep[p].load(in + i);
#pragma unroll
            for (int j = 0; j < pack<T>::n; j++)
                sum += keep[p].v[j] * keep[p].v[j];
        }
    }
    const float r = inverse_rms(warp_sum(sum), (float)C);
    copy.start();
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int i = (p * 32 + lane) * pack<T>::n;
        if (i < C) {
#pragma unroll
            for (int j = 0; j < pack<T>::n; j++)
                keep[p].v[j] *= r;
            keep[p].store(xn + row * C + i);
            copy.template put<pack<T>::n>(row * C + i, keep[p].v);
        }
    }
    if (lane == 0)
        rstd[row] = r;
    copy.finish();
}

template <typename T>
__global__ void norm_fwd_scalar(T *xn, float *rstd, const T *x, const int32_t *tokens, int64_t rows,
                                int C)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + (threadIdx.x >> 5);
    const int lane = threadIdx.x & 31;
    if (row >= rows)
        return;
    const T *in = x + (tokens ? (int64_t)tokens[row] : row) * C;
    float sum = 0.0f;
    for (int i = lane; i < C; i += 32)
        sum += to_float(in[i]) * to_float(in[i]);
    const float r = inverse_rms(warp_sum(sum), (float)C);
    for (int i = lane; i < C; i += 32)
        xn[row * C + i] = from_float<T>(to_float(in[i]) * r);
    if (lane == 0)
        rstd[row] = r;
}

/* dx (+)= r·(g − xn·mean(xn·g)). */
template <typename T, int PACKS, typename W>
__global__ void norm_bwd_kernel(T *__restrict__ dx, const T *__restrict__ dxn,
                                const T *__restrict__ xn, const float *__restrict__ rstd,
                                bool accumulate, int64_t rows, int C, W copy)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + (threadIdx.x >> 5);
    const int lane = threadIdx.x & 31;
    if (row >= rows)
        return;
    /* kept as they lie in memory: half the registers, and all loads in flight at once */
    uint4 g[PACKS], x[PACKS], old[PACKS];
    float dot = 0.0f;
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int i = (p * 32 + lane) * pack<T>::n;
        if (i < C) {
            g[p] = *reinterpret_cast<const uint4 *>(dxn + row * C + i);
            x[p] = *reinterpret_cast<const uint4 *>(xn + row * C + i);
            if (accumulate)
                old[p] = *reinterpret_cast<const uint4 *>(dx + row * C + i);
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        if ((p * 32 + lane) * pack<T>::n < C) {
            const T *a = reinterpret_cast<const T *>(&g[p]),
                    *b = reinterpret_cast<const T *>(&x[p]);
#pragma unroll
            for (int j = 0; j < pack<T>::n; j++)
                dot += to_float(a[j]) * to_float(b[j]);
        }
    }
    const float mean = warp_sum(dot) / (float)C, r = rstd[row];
    copy.start();
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        const int i = (p * 32 + lane) * pack<T>::n;
        if (i < C) {
            const T *a = reinterpret_cast<const T *>(&g[p]),
                    *b = reinterpret_cast<const T *>(&x[p]);
            const T *c = reinterpret_cast<const T *>(&old[p]);
            pack<T> out;
#pragma unroll
            for (int j = 0; j < pack<T>::n; j++) {
                const float v = r * (to_float(a[j]) - to_float(b[j]) * mean);
                out.v[j] = accumulate ? to_float(c[j]) + v : v;
            }
            out.store(dx + row * C + i);
            copy.template put<pack<T>::n>(row * C + i, out.v);
        }
    }
    copy.finish();
}

template <typename T>
__global__ void norm_bwd_scalar(T *dx, const T *dxn, const T *xn, const float *rstd,
                                bool accumulate, int64_t rows, int C)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + (threadIdx.x >> 5);
    const int lane = threadIdx.x & 31;
    if (row >= rows)
        return;
    float dot = 0.0f;
    for (int i = lane; i < C; i += 32)
        dot += to_float(dxn[row * C + i]) * to_float(xn[row * C + i]);
    const float mean = warp_sum(dot) / (float)C, r = rstd[row];
    for (int i = lane; i < C; i += 32) {
        const int64_t at = row * C + i;
        const float v = r * (to_float(dxn[at]) - to_float(xn[at]) * mean);
        dx[at] = from_float<T>(accumulate ? to_float(dx[at]) + v : v);
    }
}

/* Call KERNEL<T, PACKS, W> with the smallest PACKS that covers a row. */
#define NORM_LAUNCH(KERNEL, W, ...)                                                                \
    do {                                                                                           \
        const unsigned grid = blocks_for(rows, WARPS);                                             \
        const int packs = (int)((C + 32 * pack<T>::n - 1) / (32 * pack<T>::n));                    \
        if (packs <= 1)                                                                            \
            KERNEL<T, 1, W><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                      \
        else if (packs <= 2)                                                                       \
            KERNEL<T, 2, W><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                      \
        else if (packs <= 3)                                                                       \
            KERNEL<T, 3, W><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                      \
        else if (packs <= 5)                                                                       \
            KERNEL<T, 5, W><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                      \
        else if (packs <= 8)                                                                       \
            KERNEL<T, 8, W><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                      \
        else                                                                                       \
            KERNEL<T, 16, W><<<grid, WARPS * 32, 0, s->stream>>>(__VA_ARGS__);                     \
    } while (0)

/* The same without a copy, or SCALAR<T> for widths that the vectors do not fit. */
#define NORM_DISPATCH(KERNEL, SCALAR, ...)                                                         \
    do {                                                                                           \
        if (C % pack<T>::n != 0 || C > 16 * 32 * pack<T>::n)                                       \
            SCALAR<T><<<blocks_for(rows, WARPS), WARPS * 32, 0, s->stream>>>(__VA_ARGS__);         \
        else                                                                                       \
            NORM_LAUNCH(KERNEL, no_writer, __VA_ARGS__, no_writer());                              \
    } while (0)

int norm_fwd_fp8(struct cuda_state *s, void *xn, float *rstd, const void *x,
                 const struct fp8_sink *sink, int64_t rows, int64_t C, struct error *err)
{
    typedef __nv_bfloat16 T;
    typedef fp8_writer<FP8_E4M3> W;
    const W copy = {*sink, 0, 0};
    NORM_LAUNCH(norm_fwd_kernel, W, (T *)xn, rstd, (const T *)x, nullptr, rows, (int)C, copy);
    CUDA_LAUNCHED("norm_fwd", err);
}

int norm_bwd_fp8(struct cuda_state *s, void *dx, const void *dxn, const void *xn, const float *rstd,
                 bool accumulate, const struct fp8_sink *sink, int64_t rows, int64_t C,
                 struct error *err)
{
    typedef __nv_bfloat16 T;
    typedef fp8_writer<FP8_E5M2> W;
    const W copy = {*sink, 0, 0};
    NORM_LAUNCH(norm_bwd_kernel, W, (T *)dx, (const T *)dxn, (const T *)xn, rstd, accumulate, rows,
                (int)C, copy);
    CUDA_LAUNCHED("norm_bwd", err);
}

template <typename T>
int norm_ops<T>::norm_fwd(struct device *d, void *xn, float *rstd, const void *x, int64_t rows,
                          int64_t C, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const int32_t *tokens = nullptr;
    NORM_DISPATCH(norm_fwd_kernel, norm_fwd_scalar, (T *)xn, rstd, (const T *)x, tokens, rows,
                  (int)C);
    CUDA_LAUNCHED("norm_fwd", err);
}

template <typename T>
int norm_ops<T>::embed_norm_fwd(struct device *d, void *x, float *rstd, const void *wte,
                                const int32_t *tokens, int64_t rows, int64_t C, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    NORM_DISPATCH(norm_fwd_kernel, norm_fwd_scalar, (T *)x, rstd, (const T *)wte, tokens, rows,
                  (int)C);
    CUDA_LAUNCHED("embed_norm_fwd", err);
}

template <typename T>
int norm_ops<T>::norm_bwd(struct device *d, void *dx, const void *dxn, const void *xn,
                          const float *rstd, bool accumulate, int64_t rows, int64_t C,
                          struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    NORM_DISPATCH(norm_bwd_kernel, norm_bwd_scalar, (T *)dx, (const T *)dxn, (const T *)xn, rstd,
                  accumulate, rows, (int)C);
    CUDA_LAUNCHED("norm_bwd", err);
}

/* ---- embedding backward ---------------------------------------------------------------------
 * Rows are sorted by token (stably), then one block sums the rows of one token in their order: no
 * atomics, the same bits every time. All rows of a token share e and r, so that
 * Σ r·(dx − x·mean(x·dx)) with x = e·r is r·(s − e·r²·<s, e>/C), s = Σ dx: one pass over dx. */
__global__ void iota_kernel(int32_t *out, int n)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        out[i] = i;
}

/* One past the last row of the token at `start`. */
__device__ inline int find_end(const int32_t *sorted_tokens, int start, int rows)
{
    const int32_t token = sorted_tokens[start];
    int low = start + 1, end = rows;
    if (low < rows && sorted_tokens[low] != token)
        return low; /* most tokens come once */
    while (low < end) {
        const int middle = low + (end - low) / 2;
        if (sorted_tokens[middle] == token)
            low = middle + 1;
        else
            end = middle;
    }
    return end;
}

/* N elements a thread and turn; a row of up to blockDim x N x TURNS elements stays in registers. */
template <typename T, int N, int TURNS>
__global__ void embed_bwd_kernel(float *dwte, const T *__restrict__ dx, const T *__restrict__ wte,
                                 const float *__restrict__ rstd,
                                 const int32_t *__restrict__ sorted_tokens,
                                 const int32_t *__restrict__ order, int rows, int C)
{
    __shared__ float shared[33];
    const int start = (int)blockIdx.x;
    const int32_t token = sorted_tokens[start];
    if (start > 0 && sorted_tokens[start - 1] == token)
        return; /* not the first row of its token */
    const int end = find_end(sorted_tokens, start, rows);
    float sum[TURNS][N], dot = 0.0f;
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const int i = (t * (int)blockDim.x + (int)threadIdx.x) * N;
#pragma unroll
        for (int k = 0; k < N; k++)
            sum[t][k] = 0.0f;
        if (i >= C)
            continue;
#pragma unroll 4
        for (int j = start; j < end; j++) {
            const T *p = dx + (int64_t)order[j] * C + i;
            if (N == pack<T>::n) {
                pack<T> q;
                q.load(p);
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum[t][k] += q.v[k];
            } else {
#pragma unroll
                for (int k = 0; k < N; k++)
                    sum[t][k] += to_float(p[k]);
            }
        }
#pragma unroll
        for (int k = 0; k < N; k++)
            dot += sum[t][k] * to_float(wte[(int64_t)token * C + i + k]);
    }
    dot = block_sum(dot, shared);
    const float r = rstd[order[start]], factor = r * r * dot / (float)C;
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const int i = (t * (int)blockDim.x + (int)threadIdx.x) * N;
        if (i >= C)
            continue;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int64_t at = (int64_t)token * C + i + k;
            dwte[at] += r * (sum[t][k] - to_float(wte[at]) * factor);
        }
    }
}

template <typename T>
static int launch_embed_bwd(struct cuda_state *s, float *dwte, const T *dx, const T *wte,
                            const float *rstd, const int32_t *sorted, const int32_t *order, int n,
                            int C, struct error *err)
{
    constexpr int N = pack<T>::n;
    if (C % N == 0 && C <= 256 * N)
        embed_bwd_kernel<T, N, 1>
            <<<(unsigned)n, (unsigned)((C / N + 31) / 32 * 32), 0, s->stream>>>(
                dwte, dx, wte, rstd, sorted, order, n, C);
    else if (C <= 256)
        embed_bwd_kernel<T, 1, 1>
            <<<(unsigned)n, 256, 0, s->stream>>>(dwte, dx, wte, rstd, sorted, order, n, C);
    else if (C <= 8192)
        embed_bwd_kernel<T, 1, 16>
            <<<(unsigned)n, 512, 0, s->stream>>>(dwte, dx, wte, rstd, sorted, order, n, C);
    else
        return error_set(err, CUDA_EXIT_DEVICE, "a width of %d, expected at most 8192", C);
    CUDA_LAUNCHED("embed_norm_bwd", err);
}

template <typename T>
int norm_ops<T>::embed_norm_bwd(struct device *d, float *dwte, const void *dx, const void *wte,
                                const float *rstd, const int32_t *tokens, int64_t rows, int64_t C,
                                struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const int n = (int)rows;
    size_t sort_bytes = 0;
    CUDA_TRY(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, (int32_t *)nullptr,
                                             (int32_t *)nullptr, (int32_t *)nullptr,
                                             (int32_t *)nullptr, n, 0, 32, s->stream),
             err);
    const size_t row_bytes = ((size_t)n * 4 + 255) & ~(size_t)255;
    void *scratch;
    if (cuda_scratch(s, &scratch, 3 * row_bytes + sort_bytes, err))
        return -err->code;
    char *base = (char *)scratch;
    int32_t *sorted = (int32_t *)base, *order = (int32_t *)(base + row_bytes);
    int32_t *iota = (int32_t *)(base + 2 * row_bytes);
    iota_kernel<<<blocks_for(n, 256), 256, 0, s->stream>>>(iota, n);
    CUDA_TRY(cub::DeviceRadixSort::SortPairs(base + 3 * row_bytes, sort_bytes, tokens, sorted, iota,
                                             order, n, 0, 32, s->stream),
             err);
    return launch_embed_bwd<T>(s, dwte, (const T *)dx, (const T *)wte, rstd, sorted, order, n,
                               (int)C, err);
}

template struct norm_ops<float>;
template struct norm_ops<__nv_bfloat16>;
