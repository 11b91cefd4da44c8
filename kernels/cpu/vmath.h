/* exp and tanh for loops that the compiler vectorises, and the attribute that compiles a loop for
 * several instruction sets.
 *
 * The loops that call these are written with `#pragma omp simd`; there is no branch and no table.
 * NaN in gives NaN out. Relative error against float64 over the whole domain (measured by
 * tests/unit/test_kernels.c): vexp 2e-7, vtanh 4e-7. */
#ifndef KERNELS_CPU_VMATH_H
#define KERNELS_CPU_VMATH_H

#include <math.h>
#include <stdint.h>

/* One copy of the function for AVX-512, one for AVX2 and FMA, one for any x86-64, chosen when the
 * program is loaded. A loop inside an OpenMP region is compiled as another function, so these are
 * put on row functions that the regions call. Sanitizers cannot instrument the choice. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    defined(__OPTIMIZE__) && !defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES                                                                              \
    __attribute__((noinline, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTOR_CLONES __attribute__((noinline))
#endif

/* x = n·ln2 + r, |r| <= ln2/2: *scale = 2^n, returns e^r − 1 by its Taylor series (degree 7: the
 * rest is below 6e-9). Adding 1.5·2^23 rounds to an integer and leaves n in the low bits, so that
 * no float is ever converted to an integer (undefined for NaN). */
static inline float vexp_reduce(float x, float *scale)
{
    const float magic = 12582912.0f;
    union {
        float f;
        uint32_t u;
    } t, s;
    t.f = x * 1.44269504f + magic;
    float n = t.f - magic;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    s.u = (t.u << 23) + 0x3F800000u;
    *scale = s.f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    return r + r * r * p;
}

/* e^x for x in [-87, 88]; values outside are taken as the nearer end. */
static inline float vexp(float x)
{
    float scale;
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float p = vexp_reduce(x, &scale);
    return scale + scale * p;
}

/* tanh|x| = −q/(q + 2) with q = e^(−2|x|) − 1, which keeps small x exact. */
static inline float vtanh(float x)
{
    float scale, a = -2.0f * fabsf(x);
    a = a < -87.0f ? -87.0f : a;
    float p = vexp_reduce(a, &scale);
    float q = (scale - 1.0f) + scale * p;
    return copysignf(-q / (q + 2.0f), x);
}

#endif
