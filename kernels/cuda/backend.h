/* What the shared object lib/nanochat-cuda.so gives to the program that opens it. */
#ifndef KERNELS_CUDA_BACKEND_H
#define KERNELS_CUDA_BACKEND_H

#include "kernels/collectives.h"
#include "kernels/kernels.h"

/* A text: the checksum of the headers that the two sides share, as they were when that side was
 * compiled (CUDA_INTERFACE, by the Makefile). Another one is not opened: an object of an earlier
 * build may lie where this build's would. */
#define CUDA_INTERFACE_SYMBOL "nanochat_cuda_interface"

#define CUDA_BACKEND_SYMBOL "nanochat_cuda_backend"

/* Tables for that number format: "bfloat16", "float32", "fp8", "fp8-wgrad"; false if there are
 * none. */
typedef bool cuda_backend_fn(const char *dtype, const struct device_ops **device,
                             const struct kernel_ops **kernels);

/* Collectives between GPUs; the symbol is absent where the object was built without them. */
#define CUDA_COLLECTIVES_SYMBOL "nanochat_cuda_collectives"
typedef const struct collective_ops *cuda_collectives_fn(void);

#endif
