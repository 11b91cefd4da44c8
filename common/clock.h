/* Clocks. Arithmetic is done on CLOCK_MONOTONIC seconds only; wall time is a label. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stddef.h>

/* CLOCK_MONOTONIC in seconds, corrected for a time namespace (/proc/self/timens_offsets), so that
 * values from inside and outside a container can be subtracted. Async-signal-safe after the first
 * call. */
double clock_mono_s(void);
/* The offset that clock_mono_s subtracts: 0 outside a time namespace. */
double clock_timens_offset_s(void);
/* Start of this process on the same scale, from /proc/self/stat (10 ms grain), or -1. */
double clock_process_start_s(void);
#define CLOCK_UTC_MAX 32
/* "2026-11-30T18:52:07.113402Z". Returns out. */
char *clock_utc(char out[static CLOCK_UTC_MAX]);
void clock_sleep_s(double seconds);

#endif
