/* Placeholder of the ops tables; the model's author fills it. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H
struct device;
#endif
