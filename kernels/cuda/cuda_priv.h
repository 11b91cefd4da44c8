/* What the files of the CUDA back end share: its state, error macros, number formats.
 *
 * One process drives one GPU with one stream. Ops queue work and return; an error of a launch is
 * returned at once, an asynchronous one by the next sync. Two op tables exist, for activations in
 * bfloat16 and in float32; every op is written once, as a template over the activation type. */
#ifndef KERNELS_CUDA_CUDA_PRIV_H
#define KERNELS_CUDA_CUDA_PRIV_H

#ifdef __cplusplus
extern "C" {
#endif
#include "kernels/kernels.h"
#ifdef __cplusplus
}
#endif

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#ifdef HAVE_CUDNN
#include <cudnn.h>
#endif

enum { CUDA_EXIT_DEVICE = 4, CUDA_EXIT_OOM = 9 }; /* NANOCHAT_EXIT_* of common/protocol.h */

/* Of small numbers for kernels: half of them for ops in a graph, half for the others. */
enum { ARGUMENT_SLOTS = 256, ARGUMENT_BYTES = 64 };

enum graph_mode { GRAPH_NONE, GRAPH_CAPTURES, GRAPH_RENEWS };

enum { STAGING_SLOTS = 4, STAGING_BYTES = 1 << 20 };

struct gemm_cache;
struct sdpa_cache;
struct fuse_cache;
struct fp8_state;

struct cuda_state {
    int index;
    cudaStream_t stream;
    struct cudaDeviceProp properties;
    cublasLtHandle_t lt;
    void *lt_workspace;
    struct gemm_cache *gemms;
#ifdef HAVE_CUDNN
    cudnnHandle_t dnn;
    struct sdpa_cache *sdpas;
    struct fuse_cache *fuses;
#endif
    void *scratch; /* grows at first use, never inside a step that ran before */
    size_t scratch_bytes;
    double *host_scalar;          /* pinned */
    void *staging[STAGING_SLOTS]; /* pinned, for small copies to the device */
    cudaEvent_t slot_free[STAGING_SLOTS];
    int next_slot;
    char *arguments, *host_arguments;     /* the same slots on the device and pinned */
    int graph_arguments, other_arguments; /* taken */
    enum graph_mode graph_mode;
    int64_t scratch_moves;          /* graphs made before the last one are void */
    int64_t used_bytes, peak_bytes; /* of all that was allocated here */
    int64_t workspace_bytes;        /* as last told to the model: what muon may use of ws */
    bool deterministic;
    bool own_attention; /* --attention own */
    struct plan_store plans;
    struct fp8_state *fp8; /* kernels/cuda/fp8.cuh; NULL: products in the format of activations */
};

static inline struct cuda_state *cuda_state_of(struct device *d)
{
    return (struct cuda_state *)d->state;
}

int cuda_failed(struct error *err, cudaError_t rc, const char *what);
#define CUDA_TRY(call, err)                                                                        \
    do {                                                                                           \
        cudaError_t rc_ = (call);                                                                  \
        if (rc_ != cudaSuccess)                                                                    \
            return cuda_failed(err, rc_, #call);                                                   \
    } while (0)
/* After a kernel launch. */
#define CUDA_LAUNCHED(what, err)                                                                   \
    do {                                                                                           \
        cudaError_t rc_ = cudaGetLastError();                                                      \
        if (rc_ != cudaSuccess)                                                                    \
            return cuda_failed(err, rc_, what);                                                    \
        return 0;                                                                                  \
    } while (0)

/* Memory that was allocated (or, negative, freed) is part of what the device takes. */
void cuda_count_bytes(struct cuda_state *s, int64_t bytes);
/* Device memory of at least `bytes` that lives as long as the device; one user at a time. */
int cuda_scratch(struct cuda_state *s, void **out, size_t bytes, struct error *err);

/* A copy of `values` in device memory for the kernels queued behind it. Within a graph the copy is
 * part of it, and a renewal changes what it copies: nothing else is to be queued then. */
int cuda_arguments(struct cuda_state *s, const void **out, const void *values, size_t bytes,
                   struct error *err);
/* Choosing a plan waits and allocates, and would choose wrongly while nothing is done. */
int cuda_must_not_capture(const struct cuda_state *s, const char *what, struct error *err);

/* ---- GEMM ---------------------------------------------------------------------------------
 * Row-major y[m, n] = alpha·op(a)·op(b) + beta·y, batched by strides (elements; batch 1: ignored).
 * a is [m, k] (or [k, m] when ta), b is [k, n] (or [n, k] when tb). Plans are stored ones
 * (cuda_state.plans), or chosen at first use by timing the first of cuBLASLt's answers, on the real
 * inputs and a scratch output. */
struct gemm {
    int64_t m, n, k;
    bool ta, tb;
    /* Of both operands, with one exception: beside an e5m2 a, b is e4m3 (there is no product of two
     * e5m2). 8-bit operands: ta false and tb true, the only layout that Hopper takes. */
    cudaDataType_t type_ab, type_y;
    float alpha, beta;
    int batch;
    int64_t stride_a, stride_b, stride_y;
    const float *scale_a, *scale_b; /* of 8-bit operands: device memory, x = scale * stored */
    bool fast_accumulation;         /* of 8-bit products: fewer bits in the running sum */
};
int gemm_run(struct cuda_state *s, const struct gemm *g, void *y, const void *a, const void *b,
             struct error *err);
/* The same with y = alpha·op(a)·op(b) + beta·c. */
int gemm_run_onto(struct cuda_state *s, const struct gemm *g, void *y, const void *c, const void *a,
                  const void *b, struct error *err);
void gemm_cache_free(struct cuda_state *s);

/* ---- cuDNN (no float32): 0 done, 1 cuDNN has no plan for this shape, < 0 error ----------------
 */
int sdpa_forward(struct cuda_state *s, void *o, float *lse, const void *qkv, int64_t B, int64_t T,
                 int64_t H, int64_t KV, int64_t D, struct error *err);
int sdpa_backward(struct cuda_state *s, void *dqkv, const void *dout, const void *o,
                  const float *lse, const void *qkv, int64_t B, int64_t T, int64_t H, int64_t KV,
                  int64_t D, struct error *err);
/* What 8-bit operands need beside them: floats in device memory and where the result's copy goes.
 * `apart` makes the same in passes of its own; where that is faster, the fusion is not taken (1).
 */
struct fuse_fp8 {
    const float *x_scale, *w_scale, *copy_scale;
    void *copy, *copy_amax;
    int (*apart)(const void *arg, struct error *err);
    const void *apart_arg;
};
/* fp8 NULL: operands in bfloat16. With it w is [n, k] backward too, transposed. */
int fuse_relu2_forward(struct cuda_state *s, void *a, const void *x, const void *w, int64_t rows,
                       int64_t in, int64_t out, const struct fuse_fp8 *fp8, struct error *err);
int fuse_relu2_backward(struct cuda_state *s, void *dh, const void *dy, const void *w,
                        const void *a, int64_t rows, int64_t in, int64_t out,
                        const struct fuse_fp8 *fp8, struct error *err);
void cudnn_caches_free(struct cuda_state *s);

#ifdef __CUDACC__
/* ---- number formats -------------------------------------------------------------------------- */
template <typename T> struct format;
template <> struct format<float> {
    static constexpr cudaDataType_t type = CUDA_R_32F;
    static constexpr int vector = 4; /* elements in 16 bytes */
};
template <> struct format<__nv_bfloat16> {
    static constexpr cudaDataType_t type = CUDA_R_16BF;
    static constexpr int vector = 8;
};

__device__ inline float to_float(float x)
{
    return x;
}
__device__ inline float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
template <typename T> __device__ inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* 16 bytes of T as floats, one load or store. */
template <typename T> struct pack {
    static constexpr int n = format<T>::vector;
    float v[n];
    __device__ void load(const T *p)
    {
        uint4 raw = *reinterpret_cast<const uint4 *>(p);
        const T *t = reinterpret_cast<const T *>(&raw);
#pragma unroll
        for (int i = 0; i < n; i++)
            v[i] = to_float(t[i]);
    }
    __device__ void store(T *p) const
    {
        uint4 raw;
        T *t = reinterpret_cast<T *>(&raw);
#pragma unroll
        for (int i = 0; i < n; i++)
            t[i] = from_float<T>(v[i]);
        *reinterpret_cast<uint4 *>(p) = raw;
    }
};

__device__ inline float warp_sum(float x)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, offset);
    return x;
}
/* Sum over the block, the same in every thread; shared: 33 floats. */
__device__ inline float block_sum(float x, float *shared)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    x = warp_sum(x);
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    float y = lane < (int)(blockDim.x + 31) / 32 ? shared[lane] : 0.0f;
    y = warp_sum(y);
    __syncthreads();
    return y;
}

static inline unsigned blocks_for(int64_t n, int64_t per_block)
{
    int64_t b = (n + per_block - 1) / per_block;
    return (unsigned)(b < 1 ? 1 : b);
}

/* eps of torch's rms_norm in float32 */
#define NORM_EPS 1.1920929e-7f
/* 1/rms of n elements from the sum of their squares. rsqrt(inf) is 0: an overflow would turn the
 * row into zeros and hide a model that is dead. */
__device__ inline float inverse_rms(float sum, float n)
{
    return isinf(sum) ? NAN : rsqrtf(sum / n + NORM_EPS);
}
#endif

#endif
