/* Counts what a program allocates. Include it in the one .c file of a test: it defines malloc and
 * its kin, mmap too. `counting` turns it on; COUNTING is 0 where a sanitizer or another C library
 * owns the allocator. */
#ifndef TESTS_UNIT_COUNT_ALLOCATIONS_H
#define TESTS_UNIT_COUNT_ALLOCATIONS_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTING 0
#else
#define COUNTING 1
#endif

/* Calls while `counting`: the program's, and the linked BLAS's with its threads; the library and
 * function of the program's last one. */
static atomic_long allocations __attribute__((unused)), by_blas __attribute__((unused));
static atomic_bool counting __attribute__((unused));
static char last_caller[256] __attribute__((unused));

#if COUNTING
#define EXPORT __attribute__((visibility("default")))
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static bool from_blas(void *caller)
{
    static const char *const libraries[] = {"blas", "blis", "libgomp"};
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/'), *file = slash ? slash : info.dli_fname;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (strstr(file, libraries[i]))
            return true;
    snprintf(last_caller, sizeof last_caller, "%s (%s)", info.dli_fname,
             info.dli_sname ? info.dli_sname : "?");
    return false;
}

static void note_from(void *caller)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add(from_blas(caller) ? &by_blas : &allocations, 1);
}
#define note() note_from(__builtin_return_address(0))

EXPORT void *malloc(size_t n)
{
    note();
    return __libc_malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
    note();
    return __libc_calloc(n, size);
}

EXPORT void *realloc(void *p, size_t n)
{
    note();
    return __libc_realloc(p, n);
}

EXPORT void *aligned_alloc(size_t align, size_t n)
{
    note();
    return __libc_memalign(align, n);
}

EXPORT void *memalign(size_t align, size_t n);
EXPORT void *memalign(size_t align, size_t n)
{
    note();
    return __libc_memalign(align, n);
}

EXPORT int posix_memalign(void **out, size_t align, size_t n)
{
    note();
    *out = __libc_memalign(align, n);
    return *out ? 0 : 12;
}

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    note();
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
#endif

#endif
