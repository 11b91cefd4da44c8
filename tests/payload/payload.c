/* What tests run in place of a training program, also inside containers: static, a few syscalls.
 *
 * Commands are done from left to right, so that a test says what happens in one line:
 *
 *     payload hello steps 5 0.01 done exit 0
 *     payload ignore-term fork-setsid sleep 600
 *
 *   exit N           end with code N
 *   kill-self SIG    die by that signal (number)
 *   ignore-term      ignore TERM, INT and HUP from here on
 *   fork-setsid      a child in its own session, ignoring TERM, that sleeps 600 s; its pid on
 * stdout eat-memory MIB   allocate and touch close-stdout     close standard output sleep S
 * seconds, may be fractional spin S           use the CPU for that long print TEXT       and a
 * newline, on standard output warn TEXT        and a newline, on standard error flood MIB that much
 * text on standard output garbage          bytes that are not UTF-8, on standard error print-env0
 * the environment, each entry followed by NUL print-args0      the arguments behind this one, each
 * followed by NUL; ends the commands print-stdin      copy standard input to standard output
 *   print-cwd        the working directory and a newline
 *   print-file F     copy a file to standard output
 *   write-file F S   create F with text S
 *   wait-file F      until F exists
 *   hello            append a hello event to $NCBENCH_TRIAL_DIR/events.rank<RANK>.jsonl, or to
 *                    events.node00000.jsonl with NCBENCH_TRIAL_FILES=node
 *   steps N S        N step events, each S seconds long
 *   torn             append half an event, without a newline
 *   done N           append a done event with exit code N
 *   disable-thp      no transparent huge pages for this process and what it executes
 *   exec F …         become the program F (looked for in PATH) with the arguments behind it
 *
 * A command that cannot be done ends the program with 99 and says why. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("payload: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(99);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_s(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) && errno == EINTR)
        continue;
}

static void write_all(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno != EINTR)
            fail("write: %s", strerror(errno));
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

static void copy_fd(int fd)
{
    char buf[65536];
    ssize_t n;
    while ((n = read(fd, buf, sizeof buf)) > 0)
        write_all(1, buf, (size_t)n);
    if (n < 0)
        fail("read: %s", strerror(errno));
}

static int rank_of_environment(void)
{
    const char *rank = getenv("RANK");
    return rank ? (int)strtol(rank, NULL, 10) : 0;
}

static bool shares_files(void)
{
    const char *files = getenv("NCBENCH_TRIAL_FILES");
    return files && !strcmp(files, "node");
}

/* One write for one line, as the contract asks. fmt begins with "{". */
static void event(const char *fmt, ...)
{
    const char *dir = getenv("NCBENCH_TRIAL_DIR");
    if (!dir)
        fail("NCBENCH_TRIAL_DIR is not set");
    char path[4096], line[4096];
    int n = 0;
    if (shares_files()) {
        snprintf(path, sizeof path, "%s/events.node00000.jsonl", dir);
        n = snprintf(line, sizeof line, "\n{\"by_rank\": %d, ", rank_of_environment());
        fmt++;
    } else {
        snprintf(path, sizeof path, "%s/events.rank%05d.jsonl", dir, rank_of_environment());
    }
    va_list ap;
    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        fail("%s: %s", path, strerror(errno));
    write_all(fd, line, (size_t)n);
    close(fd);
}

static void hello(void)
{
    event("{\"event\": \"hello\", \"schema\": \"events/1.0\", \"t_s\": %.9f, \"rank\": %d, "
          "\"pid\": %d}\n",
          now_s(), rank_of_environment(), (int)getpid());
}

static void steps(long n, double seconds)
{
    for (long i = 0; i < n; i++) {
        double start = now_s();
        sleep_s(seconds);
        event("{\"event\": \"step\", \"step\": %ld, \"epoch\": 0, \"t_start_s\": %.9f, "
              "\"t_end_s\": %.9f, \"data_wait_s\": 0, \"fwd_s\": 0, \"bwd_s\": 0, \"comm_s\": 0, "
              "\"opt_s\": 0, \"loss\": %.6f, \"grad_norm\": 1, \"tokens\": 512}\n",
              i, start, now_s(), 4.0 - 0.01 * (double)i);
    }
}

static void fork_setsid(void)
{
    int ready[2];
    if (pipe(ready))
        fail("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        fail("fork: %s", strerror(errno));
    if (pid == 0) {
        setsid();
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        write_all(ready[1], "", 1);
        sleep_s(600);
        _exit(0);
    }
    close(ready[1]);
    char byte;
    if (read(ready[0], &byte, 1) != 1)
        fail("the child died");
    close(ready[0]);
    printf("%d\n", (int)pid);
    fflush(stdout);
}

static void eat_memory(long mib)
{
    size_t bytes = (size_t)mib << 20;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        fail("eat-memory %ld: %s", mib, strerror(errno));
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)p)[i] = (char)i;
}

static void spin(double seconds)
{
    for (double end = now_s() + seconds; now_s() < end;)
        continue;
}

static void flood(long mib)
{
    char block[4096];
    memset(block, 'x', sizeof block);
    block[sizeof block - 1] = '\n';
    for (long i = 0; i < mib * 256; i++)
        write_all(1, block, sizeof block);
}

static void print_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail("%s: %s", path, strerror(errno));
    copy_fd(fd);
    close(fd);
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        fail("%s: %s", path, strerror(errno));
    write_all(fd, text, strlen(text));
    close(fd);
}

static void print_cwd(void)
{
    char cwd[4096];
    if (!getcwd(cwd, sizeof cwd))
        fail("getcwd: %s", strerror(errno));
    printf("%s\n", cwd);
    fflush(stdout);
}

static void kill_self(int sig)
{
    signal(sig, SIG_DFL);
    kill(getpid(), sig);
    sleep_s(10); /* PID 1 of a namespace cannot kill itself */
    fail("signal %d did not end me", sig);
}

static void ignore_term(void)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

struct args {
    char **next;
};

static const char *take(struct args *a, const char *command)
{
    if (!*a->next)
        fail("%s: an argument is missing", command);
    return *a->next++;
}

static long take_int(struct args *a, const char *command)
{
    return strtol(take(a, command), NULL, 10);
}

static double take_seconds(struct args *a, const char *command)
{
    return strtod(take(a, command), NULL);
}

/* Commands that take arguments; false if it is none of them. */
static int with_arguments(const char *c, struct args *a)
{
    if (!strcmp(c, "exit"))
        exit((int)take_int(a, c));
    if (!strcmp(c, "kill-self"))
        kill_self((int)take_int(a, c));
    else if (!strcmp(c, "eat-memory"))
        eat_memory(take_int(a, c));
    else if (!strcmp(c, "sleep"))
        sleep_s(take_seconds(a, c));
    else if (!strcmp(c, "spin"))
        spin(take_seconds(a, c));
    else if (!strcmp(c, "print"))
        dprintf(1, "%s\n", take(a, c));
    else if (!strcmp(c, "warn"))
        dprintf(2, "%s\n", take(a, c));
    else if (!strcmp(c, "flood"))
        flood(take_int(a, c));
    else if (!strcmp(c, "print-file"))
        print_file(take(a, c));
    else if (!strcmp(c, "done"))
        event("{\"event\": \"done\", \"exit_code\": %ld, \"t_s\": %.9f}\n", take_int(a, c),
              now_s());
    else if (!strcmp(c, "write-file")) {
        const char *path = take(a, c);
        write_file(path, take(a, c));
    } else if (!strcmp(c, "wait-file")) {
        for (const char *path = take(a, c); access(path, F_OK) != 0;)
            sleep_s(0.01);
    } else if (!strcmp(c, "steps")) {
        long n = take_int(a, c);
        steps(n, take_seconds(a, c));
    } else {
        return 0;
    }
    return 1;
}

static int without_arguments(const char *c, struct args *a)
{
    if (!strcmp(c, "ignore-term"))
        ignore_term();
    else if (!strcmp(c, "fork-setsid"))
        fork_setsid();
    else if (!strcmp(c, "close-stdout"))
        close(1);
    else if (!strcmp(c, "garbage"))
        write_all(2, "\xff\xfe\x80 broken \xc3\n", 13);
    else if (!strcmp(c, "print-stdin"))
        copy_fd(0);
    else if (!strcmp(c, "print-cwd"))
        print_cwd();
    else if (!strcmp(c, "hello"))
        hello();
    else if (!strcmp(c, "torn"))
        event("{\"event\": \"step\", \"step\": 1, \"t_st");
    else if (!strcmp(c, "print-env0"))
        for (char **e = environ; *e; e++)
            write_all(1, *e, strlen(*e) + 1);
    else if (!strcmp(c, "disable-thp")) {
        if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
            fail("disable-thp: %s", strerror(errno));
    } else if (!strcmp(c, "exec")) {
        execvp(*a->next, a->next);
        fail("exec %s: %s", *a->next, strerror(errno));
    } else if (!strcmp(c, "print-args0"))
        for (; *a->next; a->next++)
            write_all(1, *a->next, strlen(*a->next) + 1);
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    struct args a = {argv + (argc > 0)};
    while (*a.next) {
        const char *command = *a.next++;
        if (!with_arguments(command, &a) && !without_arguments(command, &a))
            fail("unknown command \"%s\"", command);
    }
    return 0;
}
