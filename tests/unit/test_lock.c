/* Locks between jobs: who holds one, and what a dead holder leaves. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "runtimes/lock.h"
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t hold_lock(const char *path, int ready)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    struct lock lock = LOCK_INIT;
    struct error err = ERROR_INIT;
    if (lock_take(&lock, path, 1, &err) || write(ready, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void locks(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_free char *path = mem_printf("%s/lock", dir);
    int pipe_fd[2];
    char byte;
    CU_ASSERT_EQUAL(pipe(pipe_fd), 0);
    pid_t holder = hold_lock(path, pipe_fd[1]);
    CU_ASSERT_EQUAL(read(pipe_fd[0], &byte, 1), 1);
    CU_ASSERT(lock_is_held(path));
    auto_lock struct lock lock = LOCK_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(lock_take(&lock, path, 0.1, &err), -NCBENCH_EXIT_ENVIRONMENT);
    auto_free char *who = mem_printf("still held by pid %d on ", (int)holder);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, who));
    /* A holder that dies leaves no lock behind, only the file. */
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    auto_error struct error second = ERROR_INIT;
    CU_ASSERT_EQUAL(lock_take(&lock, path, 5, &second), 0);
    CU_ASSERT(fs_exists(path));
    lock_drop(&lock);
    CU_ASSERT(!lock_is_held(path));
    CU_ASSERT(!lock_is_held("/nosuch"));
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

UNIT_MAIN({"locks", locks})
