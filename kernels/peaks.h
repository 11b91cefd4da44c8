/* Peak rates of known GPUs: dense bfloat16 with float32 accumulation, from the vendors' data
 * sheets.
 *
 * The name is matched in lower case by the first row whose text it holds, most specific first. A
 * GPU that is not in the table has no peak: MFU is then null, never a guess. */
#ifndef KERNELS_PEAKS_H
#define KERNELS_PEAKS_H

/* FLOP/s, or -1 for an unknown name. *row: the text that matched (static), or NULL. */
double peak_bf16_flops(const char *device_name, const char **row);

#endif
