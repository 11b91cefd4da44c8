#include "kernels/cpu/gemm.h"

#include "kernels/cpu/vmath.h"

#include <omp.h>
#include <stdio.h>

/* The standard C interface to BLAS, as far as it is used; every library has its own header. */
enum { CblasRowMajor = 101, CblasNoTrans = 111, CblasTrans = 112, CblasLower = 122 };
extern void cblas_sgemm(int order, int transa, int transb, int m, int n, int k, float alpha,
                        const float *a, int lda, const float *b, int ldb, float beta, float *c,
                        int ldc);
extern void cblas_ssyrk(int order, int uplo, int trans, int n, int k, float alpha, const float *a,
                        int lda, float beta, float *c, int ldc);

/* Present or not according to the library linked. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern void bli_thread_set_num_threads(long threads) __attribute__((weak));
extern char *bli_info_get_version_str(void) __attribute__((weak));
extern int bli_arch_query_id(void) __attribute__((weak));
extern char *bli_arch_string(int id) __attribute__((weak));
extern void MKL_Set_Num_Threads(int threads) __attribute__((weak));

void gemm_setup(void)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
    if (bli_thread_set_num_threads)
        bli_thread_set_num_threads(1);
    if (MKL_Set_Num_Threads)
        MKL_Set_Num_Threads(1);
}

void gemm_library(char *out, size_t size)
{
    if (openblas_get_config && openblas_get_corename) {
        char version[32] = "";
        sscanf(openblas_get_config(), "OpenBLAS %31s", version);
        snprintf(out, size, "openblas %s (%s)", version, openblas_get_corename());
    } else if (bli_info_get_version_str && bli_arch_query_id && bli_arch_string) {
        snprintf(out, size, "blis %s (%s)", bli_info_get_version_str(),
                 bli_arch_string(bli_arch_query_id()));
    } else {
        snprintf(out, size, "%s", BLAS_NAME);
    }
}

void thread_share(int64_t n, int64_t grain, int64_t *from, int64_t *to)
{
    int64_t threads = omp_get_num_threads(), id = omp_get_thread_num();
    int64_t grains = (n + grain - 1) / grain;
    *from = grains * id / threads * grain;
    *to = grains * (id + 1) / threads * grain;
    *from = *from < n ? *from : n;
    *to = *to < n ? *to : n;
}

void for_rows(int64_t n, row_work *work, void *ctx)
{
    if (omp_in_parallel()) {
        work(ctx, 0, n);
        return;
    }
#pragma omp parallel
    {
        int64_t from, to;
        thread_share(n, 1, &from, &to);
        if (from < to)
            work(ctx, from, to);
    }
}

void gemm_alone(float *c, int64_t ldc, struct operand a, struct operand b, float alpha, float beta,
                int64_t m, int64_t n, int64_t k)
{
    if (m > 0 && n > 0)
        cblas_sgemm(CblasRowMajor, a.t ? CblasTrans : CblasNoTrans, b.t ? CblasTrans : CblasNoTrans,
                    (int)m, (int)n, (int)k, alpha, a.data, (int)a.stride, b.data, (int)b.stride,
                    beta, c, (int)ldc);
}

static struct operand shifted(struct operand x, int64_t row, int64_t col)
{
    x.data += x.t ? col * x.stride + row : row * x.stride + col;
    return x;
}

/* Grid of `threads` tiles over m x n with the least data read by a tile: rows x cols. */
static int grid_rows(int threads, int64_t m, int64_t n)
{
    int best = threads;
    double best_cost = -1;
    for (int rows = 1; rows <= threads; rows++) {
        if (threads % rows)
            continue;
        double cost = (double)m / rows + (double)n / (threads / rows);
        /* On a tie the tall grid: operand b is packed anew by each thread, a is not shared. */
        if (best_cost < 0 || cost <= best_cost) {
            best_cost = cost;
            best = rows;
        }
    }
    return best;
}

static void part(int64_t n, int64_t parts, int64_t index, int64_t *from, int64_t *count)
{
    const int64_t grain = 16; /* a cache line of floats */
    int64_t grains = (n + grain - 1) / grain;
    int64_t begin = grains * index / parts * grain, end = grains * (index + 1) / parts * grain;
    begin = begin < n ? begin : n;
    end = end < n ? end : n;
    *from = begin;
    *count = end - begin;
}

void gemm(float *c, int64_t ldc, struct operand a, struct operand b, float alpha, float beta,
          int64_t m, int64_t n, int64_t k)
{
    if (omp_in_parallel() || omp_get_max_threads() == 1) {
        gemm_alone(c, ldc, a, b, alpha, beta, m, n, k);
        return;
    }
#pragma omp parallel
    {
        int threads = omp_get_num_threads(), id = omp_get_thread_num();
        int rows = grid_rows(threads, m, n), cols = threads / rows;
        int64_t i, mi, j, nj;
        part(m, rows, id / cols, &i, &mi);
        part(n, cols, id % cols, &j, &nj);
        gemm_alone(c + i * ldc + j, ldc, shifted(a, i, 0), shifted(b, 0, j), alpha, beta, mi, nj,
                   k);
    }
}

/* Rows [from, to) of the upper triangle from the lower one, by columns that stay in the cache. */
static void mirror_rows(float *c, int64_t n, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        for (int64_t j = i + 1; j < n; j++)
            c[i * n + j] = c[j * n + i];
}

#define GRAM_TILE 96

void gemm_gram(float *c, struct operand a, int64_t n, int64_t k)
{
    if (omp_in_parallel() || omp_get_max_threads() == 1) {
        cblas_ssyrk(CblasRowMajor, CblasLower, a.t ? CblasTrans : CblasNoTrans, (int)n, (int)k,
                    1.0f, a.data, (int)a.stride, 0.0f, c, (int)n);
        mirror_rows(c, n, 0, n);
        return;
    }
    int64_t tiles = (n + GRAM_TILE - 1) / GRAM_TILE;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < tiles * (tiles + 1) / 2; t++) {
            int64_t row = 0, col = t;
            while (col > row) /* tile t of the lower triangle, counted row by row */
                col -= ++row;
            int64_t i = row * GRAM_TILE, j = col * GRAM_TILE;
            int64_t mi = n - i < GRAM_TILE ? n - i : GRAM_TILE;
            int64_t nj = n - j < GRAM_TILE ? n - j : GRAM_TILE;
            struct operand left = shifted(a, i, 0), right = shifted(a, j, 0);
            right.t = !right.t;
            gemm_alone(c + i * n + j, n, left, right, 1.0f, 0.0f, mi, nj, k);
        }
#pragma omp for schedule(static, 16)
        for (int64_t i = 0; i < n; i++)
            mirror_rows(c, n, i, i + 1);
    }
}
