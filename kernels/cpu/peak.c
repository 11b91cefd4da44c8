#include "kernels/cpu/peak.h"

#include "common/clock.h"

#include <omp.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Enough chains to cover latency x throughput with room to spare, and no more than the registers
 * hold: 4-5 cycles x 2 units with 16 registers on x86-64, 4 cycles x 4 units (Neoverse V) with 32
 * on aarch64. */
#if defined(__aarch64__)
#define CHAINS 24
#else
#define CHAINS 12
#endif
#define ROUNDS 100000
#define SLICES 8

/* Each runs ROUNDS x CHAINS multiply-adds and returns something that depends on all of them. The
 * values converge to 1, or with NEON grow by 1/4 a round: no lane ever becomes denormal or
 * infinite. Every loop over the chains is unrolled, or they would be kept in memory. */
#define EACH_CHAIN(i) _Pragma("GCC unroll 24") for (int i = 0; i < CHAINS; i++)
#define FMA_LOOP(type, set1, fma, result)                                                          \
    do {                                                                                           \
        type x[CHAINS], a = set1(0.5f), b = set1(0.5f);                                            \
        EACH_CHAIN(i) x[i] = set1(1.0f + (float)i);                                                \
        for (int64_t round = 0; round < ROUNDS; round++) {                                         \
            EACH_CHAIN(i) x[i] = fma(x[i], a, b);                                                  \
        }                                                                                          \
        union {                                                                                    \
            type v;                                                                                \
            float f[sizeof(type) / sizeof(float)];                                                 \
        } sum = {a};                                                                               \
        EACH_CHAIN(i) sum.v += x[i];                                                               \
        result = sum.f[0];                                                                         \
    } while (0)

#if defined(__x86_64__)
__attribute__((target("avx512f"), noinline)) static float loop_avx512(void)
{
    float result;
    FMA_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps, result);
    return result;
}

__attribute__((target("avx2,fma"), noinline)) static float loop_avx2(void)
{
    float result;
    FMA_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps, result);
    return result;
}
#elif defined(__aarch64__)
/* x + a·b: the instruction overwrites the summand, so that b + x·a would take two copies more. */
#define neon_fma(x, a, b) vfmaq_f32(x, a, b)
__attribute__((noinline)) static float loop_neon(void)
{
    float result;
    FMA_LOOP(float32x4_t, vdupq_n_f32, neon_fma, result);
    return result;
}
#endif

/* GCC's vector extension: whatever the compiler makes of it for the baseline. */
typedef float float4 __attribute__((vector_size(16)));
#define float4_set(v) ((float4){v, v, v, v})
#define float4_fma(x, a, b) ((x) * (a) + (b))
__attribute__((noinline)) static float loop_scalar(void)
{
    float result;
    FMA_LOOP(float4, float4_set, float4_fma, result);
    return result;
}

struct unit {
    const char *name;
    float (*loop)(void);
    int lanes;
};

static struct unit best_unit(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return (struct unit){"AVX-512", loop_avx512, 16};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct unit){"AVX2", loop_avx2, 8};
#elif defined(__aarch64__)
    return (struct unit){"NEON", loop_neon, 4};
#endif
    return (struct unit){"scalar", loop_scalar, 4};
}

const char *cpu_peak_unit(void)
{
    return best_unit().name;
}

/* FLOP/s of all threads over one slice: the work of all over the time of the slowest. */
static double slice(struct unit unit, int threads, double seconds)
{
    double flops = 0, longest = 0;
    volatile float sink = 0;
#pragma omp parallel num_threads(threads) reduction(+ : flops) reduction(max : longest)
    {
        double start = clock_mono_s(), now = start;
        float keep = 0;
#pragma omp barrier
        start = clock_mono_s();
        do {
            keep += unit.loop();
            flops += 2.0 * ROUNDS * CHAINS * unit.lanes;
            now = clock_mono_s();
        } while (now - start < seconds);
        sink = keep;
        longest = now - start;
    }
    (void)sink;
    return flops / longest;
}

double cpu_measure_peak_flops(int threads, double seconds)
{
    struct unit unit = best_unit();
    double best = 0;
    for (int i = 0; i < SLICES; i++) {
        double rate = slice(unit, threads, seconds / SLICES);
        best = rate > best ? rate : best;
    }
    return best;
}
