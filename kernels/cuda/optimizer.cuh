/* AdamW, Muon and the sum of squares on float32 masters; the cast of weights for the products. */
#ifndef KERNELS_CUDA_OPTIMIZER_CUH
#define KERNELS_CUDA_OPTIMIZER_CUH

#include "kernels/cuda/cuda_priv.h"

int cuda_weight_cast(struct device *d, void *w, const float *master, int64_t n, struct error *err);
int cuda_sum_squares(struct device *d, double *sum, const float *x, int64_t n, struct error *err);
int cuda_adamw(struct device *d, float *weight, float *m, float *v, const float *grad, int64_t n,
               const struct adamw_args *args, struct error *err);
int cuda_muon(struct device *d, const struct muon_item *items, int64_t n,
              const struct muon_args *args, void *ws, int64_t rows, int64_t cols,
              struct error *err);
/* Scratch for one matrix of a shape. */
int64_t cuda_muon_item_bytes(int64_t rows, int64_t cols, bool bf16);

#endif
