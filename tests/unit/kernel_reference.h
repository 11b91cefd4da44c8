/* The formulas of kernels/kernels.h in float64, written for clarity: what the ops are tested
 * against, and what finite differences are taken of. */
#ifndef TESTS_UNIT_KERNEL_REFERENCE_H
#define TESTS_UNIT_KERNEL_REFERENCE_H

#include <stdint.h>

/* y = x/rms(x) for each of rows rows; y may be x. */
void ref_norm(double *y, const double *x, int64_t rows, int64_t C);
/* y = x·wᵀ. */
void ref_linear(double *y, const double *x, const double *w, int64_t rows, int64_t in, int64_t out);
void ref_relu2(double *y, int64_t n);
/* In place on packed rows; tables [T, D/2]. */
void ref_rope_norm(double *qkv, const float *cos, const float *sin, int64_t B, int64_t T, int64_t H,
                   int64_t KV, int64_t D);
void ref_attention(double *o, const double *qkv, int64_t B, int64_t T, int64_t H, int64_t KV,
                   int64_t D);
/* losses[r]; targets -1 give 0. */
void ref_head(double *losses, const double *x, const double *w, const int32_t *targets,
              int64_t rows, int64_t C, int64_t V);
/* The Newton-Schulz iteration on u [rows, cols], in place, transposing where rows > cols. */
void ref_newton_schulz(double *u, int64_t rows, int64_t cols);

#endif
