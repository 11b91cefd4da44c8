/* What the shared object lib/nanochat-cuda.so gives to the program that opens it. */
#ifndef KERNELS_CUDA_BACKEND_H
#define KERNELS_CUDA_BACKEND_H

#include "kernels/kernels.h"

#define CUDA_BACKEND_SYMBOL "nanochat_cuda_backend"

/* Tables for activations of that type ("bfloat16", "float32"); false if there are none. */
typedef bool cuda_backend_fn(const char *dtype, const struct device_ops **device,
                             const struct kernel_ops **kernels);

#endif
