/* The float32 rate that this machine's cores reach, measured. */
#ifndef KERNELS_CPU_PEAK_H
#define KERNELS_CPU_PEAK_H

/* FLOP/s of independent fused multiply-adds on `threads` threads for about `seconds`, the best of
 * several slices (so that a moment of interference does not lower it). The widest unit that the CPU
 * has is chosen at run time: AVX-512, AVX2 + FMA, NEON, else plain C. */
double cpu_measure_peak_flops(int threads, double seconds);
/* "AVX-512", "AVX2", "NEON", "scalar": what cpu_measure_peak_flops uses here. */
const char *cpu_peak_unit(void);

#endif
