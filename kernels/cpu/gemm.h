/* Matrix products through CBLAS, split over our own OpenMP threads.
 *
 * The library is told to use one thread and each of ours computes its part of the result, so that
 * there is one thread pool whatever library is linked (two spinning pools halve the speed of a
 * small machine), and any CBLAS will do, a serial one too. Inside a parallel region every function
 * here works on the calling thread alone.
 *
 * Matrices are row-major; op(A) is [m, k], op(B) [k, n]; with t the operand is stored transposed.
 */
#ifndef KERNELS_CPU_GEMM_H
#define KERNELS_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct operand {
    const float *data;
    int64_t stride;
    bool t;
};
#define OPERAND(data, stride)                                                                      \
    (struct operand)                                                                               \
    {                                                                                              \
        data, stride, false                                                                        \
    }
#define OPERAND_T(data, stride)                                                                    \
    (struct operand)                                                                               \
    {                                                                                              \
        data, stride, true                                                                         \
    }

/* Once, before the first product. */
void gemm_setup(void);
/* "openblas 0.3.21 (Cooperlake)": the linked library as it names itself. */
void gemm_library(char *out, size_t size);

/* c = alpha·op(a)·op(b) + beta·c on the calling thread; beta 0 overwrites whatever c holds. */
void gemm_alone(float *c, int64_t ldc, struct operand a, struct operand b, float alpha, float beta,
                int64_t m, int64_t n, int64_t k);
/* The same by all threads. */
void gemm(float *c, int64_t ldc, struct operand a, struct operand b, float alpha, float beta,
          int64_t m, int64_t n, int64_t k);
/* c [n, n] = op(a)·op(a)ᵀ, both triangles, at half the work. ldc = n. */
void gemm_gram(float *c, struct operand a, int64_t n, int64_t k);

/* This thread's share [*from, *to) of n items, in whole grains. */
void thread_share(int64_t n, int64_t grain, int64_t *from, int64_t *to);

/* work(ctx, from, to) over [0, n), by all threads; inside a parallel region by the calling thread
 * in one piece (a nested region of one thread would allocate its team each time). */
typedef void row_work(void *ctx, int64_t from, int64_t to);
void for_rows(int64_t n, row_work *work, void *ctx);

#endif
