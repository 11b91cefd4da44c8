/* Small allocations that do not fail.
 *
 * For names, paths, argument vectors and records: a machine that cannot give a few kilobytes cannot
 * go on, so these print one line and end the process with EXIT_CODE_OOM. Anything whose size
 * depends on the model or on a file (weights, activations, token buffers) is allocated with
 * mem_try_alloc and reports an error instead. */
#ifndef COMMON_MEM_H
#define COMMON_MEM_H

#include "common/error.h"

#include <stdarg.h>
#include <stddef.h>

/* What the process ends with when a small allocation fails: 9, "out of memory". */
#define EXIT_CODE_OOM 9

void *mem_alloc(size_t bytes);                         /* uninitialised; bytes may be 0 */
void *mem_zalloc(size_t count, size_t size);           /* zeroed; overflow-checked */
void *mem_realloc(void *p, size_t count, size_t size); /* overflow-checked */
char *mem_strdup(const char *s);                       /* NULL gives NULL */
char *mem_strndup(const char *s, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *mem_vprintf(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));

/* Large, 64-byte-aligned, zeroed allocation for `what`; an error with EXIT_CODE_OOM that names
 * `what` and the bytes when the system has not enough. Free with free(). */
int mem_try_alloc(void **out, size_t bytes, const char *what, struct error *err);

/* Make room for one more element: grows *items (elements of `size` bytes) geometrically so that
 * index `count` is valid. *cap is in elements. */
void mem_grow(void **items, size_t *cap, size_t count, size_t size);

/* Append value to a {T *items; size_t count, cap;}-shaped vector. */
#define vec_push(v, value)                                                                         \
    do {                                                                                           \
        mem_grow((void **)&(v)->items, &(v)->cap, (v)->count, sizeof *(v)->items);                 \
        (v)->items[(v)->count++] = (value);                                                        \
    } while (0)

#endif
