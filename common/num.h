/* Numbers as text, independent of the locale: the decimal separator is always '.'.
 *
 * Every parser takes the whole string, refuses white space, and returns false (leaving *out alone)
 * for anything it does not understand completely, out-of-range values included. */
#ifndef COMMON_NUM_H
#define COMMON_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plain decimal integers: optional sign, digits; no leading '+', no 0x, no octal, no '_'. */
bool num_parse_i64(const char *text, int64_t *out);
/* Decimal floating point, "1e-5" included; no hexadecimal, infinity or NaN. */
bool num_parse_f64(const char *text, double *out);
/* "90s", "1m30s", "1.5h", "100ms", "20us": seconds. A unit (us ms s m h) is required. */
bool num_parse_duration(const char *text, double *seconds);
/* "64MiB" = 64 * 2^20, "64MB" = 64 * 10^6; units B kB KB MB GB TB KiB MiB GiB TiB, required. */
bool num_parse_size(const char *text, int64_t *bytes);
/* "1%" = 0.01. The sign % is required. */
bool num_parse_percent(const char *text, double *ratio);

#define NUM_F64_MAX 32 /* bytes that the longest output of num_format_f64 needs, NUL included */
/* Shortest text that reads back as exactly the same double. NaN and infinities give "null": they
 * must never reach a result, and JSON has no word for them. Returns out. */
char *num_format_f64(char out[static NUM_F64_MAX], double value);
/* 1234567 -> "1,234,567". Returns out. */
char *num_format_thousands(char *out, size_t size, int64_t value);
/* A duration for people: "450 ms", "12.3 s", "4 min 05 s". Returns out. */
char *num_format_duration(char *out, size_t size, double seconds);
/* Bytes for people: "64.0 MiB". Returns out. */
char *num_format_size(char *out, size_t size, double bytes);

#endif
