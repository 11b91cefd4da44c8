/* The CUDA back end is a shared object of its own, opened at run time, so that the program never
 * links CUDA: lib/nanochat-cuda.so beside the program's folder, or what $NANOCHAT_CUDA_LIB names.
 */
#ifndef KERNELS_DEVICE_CUDA_H
#define KERNELS_DEVICE_CUDA_H

#include "kernels/kernels.h"

/* Is the object there? (It may still refuse to open.) */
bool device_cuda_present(void);
/* Its tables for activations of a type; NANOCHAT_EXIT_DEVICE when it cannot be opened. */
int device_cuda_tables(const char *dtype, const struct device_ops **device,
                       const struct kernel_ops **kernels, struct error *err);
/* Collectives of the object whose tables were taken; NULL: it was built without NCCL. */
const struct collective_ops *device_cuda_collectives(void);

#endif
