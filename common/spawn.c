#include "common/spawn.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct child_error {
    int step;
    int errnum;
};

#define INTERRUPT_POLL_S 0.1
#define INTERRUPT_GRACE_S 5

static void child_fail(int pipe_fd, enum spawn_step step)
{
    struct child_error e = {(int)step, errno};
    ssize_t n;
    do
        n = write(pipe_fd, &e, sizeof e);
    while (n < 0 && errno == EINTR);
    _exit(127);
}

static int open_onto(const char *path, int flags, int target)
{
    int fd = open(path, flags, 0644);
    if (fd < 0)
        return -1;
    if (fd != target) {
        if (dup2(fd, target) < 0)
            return -1;
        close(fd);
    }
    return 0;
}

static int child_stdio(const struct spawn *s)
{
    const int create = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
    if (open_onto(s->stdin_path ? s->stdin_path : "/dev/null", O_RDONLY, STDIN_FILENO))
        return -1;
    if (s->stdout_fd > 0 ? dup2(s->stdout_fd, STDOUT_FILENO) < 0
        : s->stdout_path ? open_onto(s->stdout_path, create, STDOUT_FILENO)
                         : 0)
        return -1;
    if (s->stderr_path && s->stdout_path && !strcmp(s->stderr_path, s->stdout_path))
        return dup2(STDOUT_FILENO, STDERR_FILENO) < 0 ? -1 : 0;
    if (s->stderr_fd > 0 ? dup2(s->stderr_fd, STDERR_FILENO) < 0
        : s->stderr_path ? open_onto(s->stderr_path, create, STDERR_FILENO)
                         : 0)
        return -1;
    return 0;
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < 32; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            signal(sig, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void child_main(const struct spawn *s, int pipe_fd, pid_t parent)
{
    reset_signals();
    if (s->parent_death_signal) {
        prctl(PR_SET_PDEATHSIG, s->parent_death_signal);
        if (getppid() != parent) /* it died before the prctl */
            _exit(127);
    }
    if (s->new_session ? setsid() < 0 : s->new_group ? setpgid(0, 0) < 0 : 0)
        child_fail(pipe_fd, SPAWN_SESSION);
    if (s->affinity && sched_setaffinity(0, s->affinity_bytes, s->affinity))
        child_fail(pipe_fd, SPAWN_AFFINITY);
    if (s->cwd && chdir(s->cwd))
        child_fail(pipe_fd, SPAWN_CHDIR);
    if (child_stdio(s))
        child_fail(pipe_fd, SPAWN_STDIO);
    environ = s->env ? (char **)s->env : environ;
    execvp(s->argv[0], s->argv);
    child_fail(pipe_fd, SPAWN_EXEC);
    _exit(127);
}

static const char *step_text(enum spawn_step step)
{
    switch (step) {
    case SPAWN_CHDIR: return "cannot enter the working directory of";
    case SPAWN_STDIO: return "cannot open the standard streams of";
    case SPAWN_SESSION: return "cannot start a session for";
    case SPAWN_AFFINITY: return "cannot bind";
    case SPAWN_EXEC: return "cannot execute";
    default: return "cannot start";
    }
}

static int start_failed(struct spawn *s, enum spawn_step step, int errnum, int code,
                        struct error *err)
{
    s->failed_step = step;
    s->failed_errno = errnum;
    s->pid = -1;
    return error_errno(err, code, errnum, "%s %s", step_text(step), s->argv[0]);
}

int spawn_start(struct spawn *s, int code, struct error *err)
{
    int fds[2];
    s->failed_step = SPAWN_OK;
    s->failed_errno = 0;
    if (pipe2(fds, O_CLOEXEC))
        return start_failed(s, SPAWN_FORK, errno, code, err);
    pid_t parent = getpid();
    s->started_s = clock_mono_s();
    s->pid = fork();
    if (s->pid == 0)
        child_main(s, fds[1], parent);
    int fork_errno = errno;
    close(fds[1]);
    if (s->pid < 0) {
        close(fds[0]);
        return start_failed(s, SPAWN_FORK, fork_errno, code, err);
    }
    struct child_error e;
    ssize_t n;
    do
        n = read(fds[0], &e, sizeof e);
    while (n < 0 && errno == EINTR);
    close(fds[0]);
    if (n != (ssize_t)sizeof e)
        return 0;
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return start_failed(s, (enum spawn_step)e.step, e.errnum, code, err);
}

/* Read what is there; false at the end of the stream. */
static bool drain(int fd, struct str *out)
{
    char buf[4096];
    ssize_t n = read(fd, buf, sizeof buf);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n && out)
        str_append_n(out, buf, (size_t)n);
    return n > 0;
}

static const sigset_t *interrupts;

void spawn_interrupted_by(const sigset_t *signals)
{
    interrupts = signals;
}

static bool interrupted(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t pending;
    if (!interrupts || sigpending(&pending))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigismember(interrupts, ends[i]) == 1 && sigismember(&pending, ends[i]) == 1)
            return true;
    return false;
}

/* Wait for the child itself, not only for its streams, until the deadline. */
static bool reap_until(pid_t pid, double deadline, int *status)
{
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return true;
        if (got < 0 && errno != EINTR)
            return true;
        if (clock_mono_s() >= deadline)
            return false;
        clock_sleep_s(0.002);
    }
}

int spawn_capture(char *const *argv, char *const *env, double timeout_s, struct str *out,
                  struct str *errout, int *status, int code, struct error *err)
{
    return spawn_capture_in(NULL, argv, env, timeout_s, out, errout, status, code, err);
}

int spawn_capture_in(const char *cwd, char *const *argv, char *const *env, double timeout_s,
                     struct str *out, struct str *errout, int *status, int code, struct error *err)
{
    int o[2], e[2];
    if (pipe2(o, O_CLOEXEC))
        return error_errno(err, code, errno, "cannot make a pipe");
    if (pipe2(e, O_CLOEXEC)) {
        close(o[0]);
        close(o[1]);
        return error_errno(err, code, errno, "cannot make a pipe");
    }
    struct spawn s = {.argv = argv,
                      .env = env,
                      .cwd = cwd,
                      .stdout_fd = o[1],
                      .stderr_fd = e[1],
                      .new_group = true};
    int failed = spawn_start(&s, code, err);
    close(o[1]);
    close(e[1]);
    double deadline = clock_mono_s() + timeout_s;
    struct pollfd fds[2] = {{.fd = o[0], .events = POLLIN}, {.fd = e[0], .events = POLLIN}};
    while (!failed && (fds[0].fd >= 0 || fds[1].fd >= 0)) {
        double left = deadline - clock_mono_s();
        if (left <= 0 || interrupted())
            break;
        if (interrupts && left > INTERRUPT_POLL_S)
            left = INTERRUPT_POLL_S;
        if (poll(fds, 2, (int)(left * 1000) + 1) < 0 && errno != EINTR)
            break;
        if (fds[0].revents && !drain(o[0], out))
            fds[0].fd = -1;
        if (fds[1].revents && !drain(e[0], errout))
            fds[1].fd = -1;
    }
    close(o[0]);
    close(e[0]);
    if (failed)
        return failed;
    bool stop = interrupted();
    if (!stop && reap_until(s.pid, deadline, status))
        return 0;
    if (stop) {
        kill(-s.pid, SIGTERM);
        if (reap_until(s.pid, clock_mono_s() + INTERRUPT_GRACE_S, status)) {
            kill(-s.pid, SIGKILL); /* what it left in its group */
            return error_set(err, code, "%s was interrupted", argv[0]);
        }
    }
    kill(-s.pid, SIGKILL);
    while (waitpid(s.pid, status, 0) < 0 && errno == EINTR)
        continue;
    if (stop)
        return error_set(err, code, "%s was interrupted", argv[0]);
    return error_set(err, code, "%s did not end within %.0f s", argv[0], timeout_s);
}

char *spawn_find_program(const char *name)
{
    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? mem_strdup(name) : NULL;
    const char *path = getenv("PATH");
    auto_free char *copy = mem_strdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
    char *save = NULL;
    for (char *dir = strtok_r(copy, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        char *full = mem_printf("%s/%s", dir, name);
        if (access(full, X_OK) == 0 && access(full, R_OK) == 0)
            return full;
        free(full);
    }
    return NULL;
}
