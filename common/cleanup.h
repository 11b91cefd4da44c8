/* Cleanup attributes: a local that owns something releases it when it goes out of scope.
 *
 *     auto_free char *path = mem_printf("%s/%s", dir, name);
 *     auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
 *
 * Hand ownership over with steal(&pointer) or steal_fd(&fd). Every auto_ variable must be
 * initialised where it is declared. */
#ifndef COMMON_CLEANUP_H
#define COMMON_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_(void *p)
{
    free(*(void **)p);
}
static inline void cleanup_close_(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
static inline void cleanup_fclose_(FILE **f)
{
    if (*f)
        fclose(*f);
}
static inline void cleanup_dir_(DIR **d)
{
    if (*d)
        closedir(*d);
}

#define auto_free __attribute__((cleanup(cleanup_free_)))
#define auto_close __attribute__((cleanup(cleanup_close_)))
#define auto_fclose __attribute__((cleanup(cleanup_fclose_)))
#define auto_dir __attribute__((cleanup(cleanup_dir_)))

/* Take the value out of an owning variable and leave NULL (or -1) behind. */
#define steal(pp)                                                                                  \
    ({                                                                                             \
        __typeof__(*(pp)) steal_tmp_ = *(pp);                                                      \
        *(pp) = NULL;                                                                              \
        steal_tmp_;                                                                                \
    })
static inline int steal_fd(int *fd)
{
    int out = *fd;
    *fd = -1;
    return out;
}

#endif
