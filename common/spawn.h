/* Starting child processes.
 *
 * The child's failures between fork and exec (chdir, open, dup2, setrlimit, exec's errno) come back
 * to the parent over a close-on-exec pipe, so that the caller learns which step failed with which
 * errno instead of guessing from exit code 127. Standard input is /dev/null unless said otherwise.
 * Between fork and exec only async-signal-safe calls are made. No shell anywhere.
 *
 *     struct spawn child = {.argv = argv.items, .env = env.items, .stderr_path = log};
 *     if (spawn_start(&child, err)) return …;
 *     waitpid(child.pid, …); */
#ifndef COMMON_SPAWN_H
#define COMMON_SPAWN_H

#include "common/error.h"
#include "common/str.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum spawn_step {
    SPAWN_OK,
    SPAWN_FORK,
    SPAWN_CHDIR,
    SPAWN_STDIO,
    SPAWN_SESSION,
    SPAWN_AFFINITY,
    SPAWN_EXEC,
};

struct spawn {
    /* in */
    char *const *argv;       /* NULL-terminated; argv[0] with a slash is a path, else by PATH */
    char *const *env;        /* NULL: this process's environment */
    const char *cwd;         /* NULL: unchanged */
    const char *stdin_path;  /* NULL: /dev/null */
    const char *stdout_path; /* created or truncated; NULL: inherited */
    const char *stderr_path; /* as stdout; may be the same path */
    int stdout_fd;           /* > 0: use this descriptor instead of a path */
    int stderr_fd;
    bool new_session;          /* setsid: own session and process group */
    bool new_group;            /* setpgid(0, 0) */
    int parent_death_signal;   /* PR_SET_PDEATHSIG; 0: none */
    const cpu_set_t *affinity; /* NULL: inherited; else `affinity_bytes` long */
    size_t affinity_bytes;
    /* out */
    pid_t pid; /* > 0 on success */
    enum spawn_step failed_step;
    int failed_errno;
    double started_s; /* clock_mono_s just before fork */
};

/* 0 when exec succeeded. On failure the child is already reaped; err carries `code` and names the
 * step and argv[0]. */
int spawn_start(struct spawn *s, int code, struct error *err);

/* Run to the end, capturing standard output and standard error (either may be NULL to drop it),
 * with a deadline in seconds after which the child's group is killed. *status is the wait status.
 * Not being able to start it, and the deadline, are errors; a non-zero exit is not. */
int spawn_capture(char *const *argv, char *const *env, double timeout_s, struct str *out,
                  struct str *errout, int *status, int code, struct error *err);
/* The same in the directory cwd; NULL: unchanged. */
int spawn_capture_in(const char *cwd, char *const *argv, char *const *env, double timeout_s,
                     struct str *out, struct str *errout, int *status, int code, struct error *err);

/* From now on a pending signal of these (INT, TERM, HUP; the caller blocks them) ends spawn_capture
 * with an error: the child's group gets TERM, later KILL. The signal stays pending. NULL: none. */
void spawn_interrupted_by(const sigset_t *signals);

/* Is a program of that name on PATH (or, with a slash, executable)? Caller frees; NULL if not. */
char *spawn_find_program(const char *name);

#endif
