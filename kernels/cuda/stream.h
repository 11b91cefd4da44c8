/* The stream of a CUDA device, for the C files of the back end. */
#ifndef KERNELS_CUDA_STREAM_H
#define KERNELS_CUDA_STREAM_H

#ifdef __cplusplus
extern "C" {
#endif
#include "kernels/kernels.h"

#include <cuda_runtime_api.h>

cudaStream_t cuda_device_stream(struct device *d);

#ifdef __cplusplus
}
#endif
#endif
