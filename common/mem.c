#include "common/mem.h"

#include "common/protocol.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(EXIT_CODE_OOM == NANOCHAT_EXIT_OOM, "one code for out of memory");

static void oom_exit(size_t bytes)
{
    char line[96];
    int n = snprintf(line, sizeof line, "error: out of memory (%zu bytes)\n", bytes);
    if (write(STDERR_FILENO, line, (size_t)n) < 0) {
        /* nothing more can be said */
    }
    _exit(EXIT_CODE_OOM);
}

static size_t checked_mul(size_t a, size_t b)
{
    size_t out;
    if (__builtin_mul_overflow(a, b, &out))
        oom_exit(SIZE_MAX);
    return out;
}

void *mem_alloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        oom_exit(bytes);
    return p;
}

void *mem_zalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        oom_exit(checked_mul(count, size));
    return p;
}

void *mem_realloc(void *p, size_t count, size_t size)
{
    size_t bytes = checked_mul(count, size);
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        oom_exit(bytes);
    return q;
}

char *mem_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *out = mem_alloc(len + 1);
    memcpy(out, s, len);
    out[len] = '\0';
    return out;
}

char *mem_strdup(const char *s)
{
    return s ? mem_strndup(s, strlen(s)) : NULL;
}

char *mem_vprintf(const char *fmt, va_list ap)
{
    char *out = NULL;
    if (vasprintf(&out, fmt, ap) < 0)
        oom_exit(0);
    return out;
}

char *mem_printf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *out = mem_vprintf(fmt, ap);
    va_end(ap);
    return out;
}

int mem_try_alloc(void **out, size_t bytes, const char *what, struct error *err)
{
    const size_t align = 64; /* a cache line, and the widest vector register */
    size_t rounded = (bytes + align - 1) / align * align;
    if (rounded < bytes)
        return error_set(err, EXIT_CODE_OOM, "%s: size overflows", what);
    void *p = aligned_alloc(align, rounded ? rounded : align);
    if (!p)
        return error_set(err, EXIT_CODE_OOM, "%s: cannot allocate %.1f MiB", what,
                         (double)bytes / (1024.0 * 1024.0));
    memset(p, 0, rounded ? rounded : align);
    *out = p;
    return 0;
}

void mem_grow(void **items, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return;
    size_t next = *cap ? *cap + *cap / 2 + 1 : 8;
    *items = mem_realloc(*items, next, size);
    *cap = next;
}
