/* A lock file that two jobs on one machine, or on nodes that share a file system with locks, take
 * before they make or import the same thing.
 *
 * The kernel holds the lock, not the file: it ends with the process that took it, however that
 * ends, so that there is no stale lock to break. The file holds host and pid of the last holder,
 * for messages alone, and stays. */
#ifndef RUNTIMES_LOCK_H
#define RUNTIMES_LOCK_H

#include "common/error.h"

#include <stdbool.h>

struct lock {
    int fd; /* -1: not held */
};
#define LOCK_INIT                                                                                  \
    {                                                                                              \
        -1                                                                                         \
    }
#define auto_lock __attribute__((cleanup(lock_drop)))

/* Waits at most timeout_s; says once, on standard error, for whom. 4: not had in that time, the
 * holder is named; 8: the file cannot be made. The directory must exist. */
int lock_take(struct lock *lock, const char *path, double timeout_s, struct error *err);
void lock_drop(struct lock *lock);
/* Does anybody hold the lock of this file or directory now? False if it does not exist. */
bool lock_is_held(const char *path);

#endif
