#include "runtimes/lock.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/host_name.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* "pid 12 on host", as the last holder wrote it. Caller frees. */
static char *holder(const char *path)
{
    auto_str text = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    if (fs_read_file(path, &text, 1, &ignored) || !text.len)
        return mem_strdup("another process");
    return mem_strndup(text.data, strcspn(text.data, "\n"));
}

static void sign(int fd)
{
    auto_free char *text = mem_printf("pid %d on %s\n", (int)getpid(), host_name());
    /* For people only: a full disk must not take the lock away. */
    if (ftruncate(fd, 0) || pwrite(fd, text, strlen(text), 0) < 0)
        log_debug("cannot sign a lock file");
}

int lock_take(struct lock *lock, const char *path, double timeout_s, struct error *err)
{
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot make lock file %s", path);
    double deadline = clock_mono_s() + timeout_s;
    for (bool told = false; flock(fd, LOCK_EX | LOCK_NB); told = true) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot lock %s", path);
        auto_free char *who = holder(path);
        if (clock_mono_s() >= deadline)
            return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s is still held by %s after %g s",
                             path, who, timeout_s);
        if (!told)
            log_info("waiting for %s, which holds %s", who, path);
        clock_sleep_s(0.05);
    }
    sign(fd);
    lock->fd = steal_fd(&fd);
    return 0;
}

void lock_drop(struct lock *lock)
{
    if (lock->fd >= 0)
        close(lock->fd);
    lock->fd = -1;
}

bool lock_is_held(const char *path)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
}
