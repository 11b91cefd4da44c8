/* Products on 8-bit operands: activations and weights as e4m3, output gradients as e5m2, one scale
 * a tensor; sums in float32, results in bfloat16.
 *
 * The op table knows bfloat16 activations only. Beside some of them the back end keeps an 8-bit
 * copy, found by the pointer of the activation: written by the kernel that makes the activation
 * (norms, relu², cross entropy) in the same pass, or by a pass of its own before
 * the product that wants it (attention's output, and whatever else). A copy is good until its
 * activation is written again, which every op reports (fp8_written), or until its buffer is taken
 * for another one: then it is made anew. Two buffers suffice, because a product follows its
 * producer.
 *
 * Scales. A tensor is multiplied by `used` before it is rounded; `used` aims its largest magnitude
 * of the micro-step before (fp8_roll, once a micro-step) at half the format's largest number. The
 * pass that writes a copy also takes the tensor's largest magnitude of now; a check behind it looks
 * whether it lies within [MAX/window, MAX] when scaled, and if not (first use, a jump) makes the
 * copy again with the right scale. So nothing ever saturates or sinks below the format, and in the
 * steady state the check is an empty launch. Where a bound is known (norms: sqrt(C); the logits'
 * gradient: its factor) the scale is fixed and there is neither. Weights are scaled by their own
 * largest magnitude, once a change. The history is no part of a checkpoint: a resumed run starts
 * with checks that find nothing, its first micro-step may differ by a rounding.
 *
 * Memory beside the plan's, at d20 (B = 32, T = 2048): two buffers of rows * 4C bytes (640 MiB) and
 * two bytes a weight of a linear layer (910 MiB); weight gradients in 8 bits take up to rows * 5C
 * (400 MiB), the head's chunk * (V + C) (1.0 GiB) of the scratch.
 *
 * NaN stays NaN, and infinity becomes NaN: e4m3 has no infinity, and none is hidden as a number. */
#ifndef KERNELS_CUDA_FP8_CUH
#define KERNELS_CUDA_FP8_CUH

#include "kernels/cuda/cuda_priv.h"

#include <cuda_fp8.h>

enum fp8_kind { FP8_E4M3, FP8_E5M2 };

/* In device memory, one a tensor. */
struct alignas(16) fp8_scale { /* cublasLt wants its scales on 16 bytes */
    float dequantise;          /* x = dequantise * stored: what the product takes */
    float used;                /* stored = used * x */
    unsigned amax;             /* bits of the largest |x| since the last roll */
    float max;                 /* largest number of the format; 0: the scale is fixed */
};

/* Where a kernel leaves the 8-bit copy of what it writes; element i goes to out[i]. */
struct fp8_sink {
    uint8_t *out;
    struct fp8_scale *scale;
    bool alone; /* nobody wants the bfloat16 tensor itself: it may be left unwritten */
};

/* An operand of a product. */
struct fp8_matrix {
    const uint8_t *data;
    const struct fp8_scale *scale;
    fp8_kind kind;
};

/* What a scale belongs to: a pointer that stays the same from step to step, and its part in it. */
enum fp8_role {
    FP8_INPUT,
    FP8_OUTPUT_GRADIENT,
    FP8_WRITTEN,
    FP8_WEIGHT,
    FP8_NORM,
    FP8_LOGITS,
    FP8_TRANSPOSED
};

/* weight_gradients: these in 8 bits too. */
int fp8_open(struct cuda_state *s, bool weight_gradients, struct error *err);
bool fp8_weight_gradients(const struct cuda_state *s);
void fp8_close(struct cuda_state *s);
/* Upstream's rule for a linear layer (multiples of 16, none below 128), and whole tiles of rows. */
bool fp8_fits(int64_t rows, int64_t in, int64_t out);
/* Buffers for copies will be at least that large. */
void fp8_expect(struct cuda_state *s, int64_t elements);

/* Memory was written (or freed): copies of it are void, weights in it are cast again. */
void fp8_written(struct cuda_state *s, const void *p, int64_t bytes);
void fp8_freed(struct cuda_state *s, const void *p, int64_t bytes);
/* New scales from the magnitudes seen since the last roll; once a micro-step. */
int fp8_roll(struct cuda_state *s, struct error *err);

/* A tensor's scale, made at first use. */
int fp8_find_scale(struct cuda_state *s, struct fp8_scale **out, const void *key, fp8_role role,
                   fp8_kind kind, struct error *err);
/* Before a kernel that writes the bfloat16 tensor y of n elements and its copy. */
int fp8_begin(struct cuda_state *s, struct fp8_sink *sink, const void *y, int64_t n, fp8_kind kind,
              const void *key, fp8_role role, struct error *err);
/* Behind it: the check. */
int fp8_check(struct cuda_state *s, const struct fp8_sink *sink, const void *y, int64_t n,
              fp8_kind kind, struct error *err);
/* As fp8_begin, where |y| <= bound always: no check needed. */
int fp8_begin_bounded(struct cuda_state *s, struct fp8_sink *sink, const void *y, int64_t n,
                      fp8_kind kind, double bound, fp8_role role, struct error *err);
/* The scale of the logits' gradient, whose bound may change from call to call. */
int fp8_logits_scale(struct cuda_state *s, struct fp8_scale **out, double bound, struct error *err);

/* x (n bfloat16 elements) as an operand: its copy, made now if there is none. */
int fp8_operand(struct cuda_state *s, struct fp8_matrix *out, const void *x, int64_t n,
                fp8_kind kind, const void *key, fp8_role role, struct error *err);
/* w [out, in] as an operand: as it is for the forward product, transposed for the gradient. */
int fp8_weight(struct cuda_state *s, struct fp8_matrix *out_matrix, const void *w, int64_t in,
               int64_t out, bool transposed, struct error *err);

/* h = relu(h)² in place and its copy; dh *= 2·sqrt(a) in place and its copy. n: a multiple of 16.
 */
int fp8_relu2(struct cuda_state *s, void *h, int64_t n, const struct fp8_sink *sink,
              struct error *err);
int fp8_relu2_backward(struct cuda_state *s, void *dh, const void *a, int64_t n,
                       const struct fp8_sink *sink, struct error *err);

/* dw [out, in] += dyᵀ·x, with x [rows, in] in bfloat16. */
int fp8_weight_gradient(struct cuda_state *s, float *dw, const struct fp8_matrix *dy, const void *x,
                        int64_t rows, int64_t in, int64_t out, struct error *err);

/* The table's ops. */
void fp8_fill_ops(struct kernel_ops *k);

#ifdef __CUDACC__
__device__ inline bool fp8_is_known(unsigned amax)
{
    return amax > 0 && amax < 0x7F800000u;
}
__device__ inline float fp8_aim(float max, unsigned amax)
{
    return fminf(fmaxf(0.5f * max / __uint_as_float(amax), 1e-30f), 1e30f);
}
/* What a copy of a tensor with these magnitudes should have been multiplied by. */
__device__ inline float fp8_right_factor(const struct fp8_scale &s)
{
    if (s.max == 0.0f || !fp8_is_known(s.amax))
        return s.used;
    const float scaled = __uint_as_float(s.amax) * s.used, window = s.max < 1000.0f ? 16 : 4096;
    return scaled <= s.max && scaled * window >= s.max ? s.used : fp8_aim(s.max, s.amax);
}

/* Two floats as two bytes; infinities as NaN. */
template <fp8_kind K> __device__ inline unsigned fp8_pair(float x, float y)
{
    float2 v = {x + (x - x), y + (y - y)};
    return __nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, K == FP8_E4M3 ? __NV_E4M3 : __NV_E5M2);
}

/* Given to kernels by value: start, put, finish by whole warps. */
template <fp8_kind K> struct fp8_writer {
    static constexpr bool on = true;
    struct fp8_sink sink;
    float factor;
    unsigned most;

    __device__ void start()
    {
        factor = sink.scale->used;
        most = 0;
    }
    /* N: 1, 4, 8 or 16. Elements at..at+N-1, aligned to N. */
    template <int N> __device__ void put(int64_t at, const float *v)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            most = max(most, __float_as_uint(fabsf(v[i])));
        if constexpr (N == 1) {
            sink.out[at] = (uint8_t)fp8_pair<K>(v[0] * factor, 0.0f);
        } else {
            unsigned words[N / 4];
#pragma unroll
            for (int i = 0; i < N; i += 4)
                words[i / 4] = fp8_pair<K>(v[i] * factor, v[i + 1] * factor) |
                               fp8_pair<K>(v[i + 2] * factor, v[i + 3] * factor) << 16;
            if constexpr (N == 16)
                *reinterpret_cast<uint4 *>(sink.out + at) =
                    make_uint4(words[0], words[1], words[2], words[3]);
            else if constexpr (N == 8)
                *reinterpret_cast<uint2 *>(sink.out + at) = make_uint2(words[0], words[1]);
            else
                *reinterpret_cast<unsigned *>(sink.out + at) = words[0];
        }
    }
    __device__ bool alone() const
    {
        return sink.alone;
    }
    __device__ void finish()
    {
        if (sink.scale->max == 0.0f)
            return;
        const unsigned m = __reduce_max_sync(0xFFFFFFFFu, most);
        /* a value read too early is only too small */
        if ((threadIdx.x & 31) == 0 && m > __ldca(&sink.scale->amax))
            atomicMax(&sink.scale->amax, m);
    }
};

/* Of kernels that write no copy. */
struct no_writer {
    static constexpr bool on = false;
    __device__ void start()
    {
    }
    template <int N> __device__ void put(int64_t, const float *)
    {
    }
    __device__ bool alone() const
    {
        return false;
    }
    __device__ void finish()
    {
    }
};
#endif

#endif
