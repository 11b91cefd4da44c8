/* The conventions of nccl-tests for the speed of collectives: algbw = bytes / time, and busbw =
 * algbw times a factor, what the bus carries whatever the number of ranks. */
#ifndef COMMON_BUSBW_H
#define COMMON_BUSBW_H

#include <stdint.h>

/* op by its name in `comm` events ("all_reduce_sum", "AllReduce", …): 2(n-1)/n, (n-1)/n or 1.
 * NaN: n < 2, or no factor is agreed for the operation. */
double busbw_factor(const char *op, int64_t n);
/* In 10^9 bytes a second; NaN for no time. */
double algbw_gb_s(double bytes, double time_us);

#endif
