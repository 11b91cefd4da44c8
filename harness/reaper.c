#include "harness/reaper.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int reaper_init(struct error *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno,
                           "cannot become the reaper of orphaned processes");
    return 0;
}

bool reaper_collect(struct reaper_child *children, size_t count)
{
    bool any = false;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        any = true;
        for (size_t i = 0; i < count; i++) {
            if (children[i].pid != pid || children[i].reaped)
                continue;
            children[i].reaped = true;
            children[i].status = status;
            children[i].reaped_s = clock_mono_s();
        }
    }
    return any;
}

bool process_parse_stat(const char *text, struct process *out)
{
    /* The name may hold spaces and parentheses: it ends at the last one. */
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    int pid, parent;
    if (!open || !close || close < open || sscanf(text, "%d", &pid) != 1)
        return false;
    if (sscanf(close + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &out->state, &parent, &out->start_ticks) != 3)
        return false;
    out->pid = pid;
    out->parent = parent;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

static bool read_proc(pid_t pid, const char *file, struct str *out)
{
    char path[64];
    auto_error struct error ignored = ERROR_INIT;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    str_clear(out);
    return fs_read_file(path, out, NCBENCH_EXIT_ENVIRONMENT, &ignored) == 0;
}

static bool read_process(pid_t pid, struct str *scratch, struct process *out)
{
    return read_proc(pid, "stat", scratch) && process_parse_stat(scratch->data, out);
}

static bool is_ours(pid_t pid)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return stat(path, &st) == 0 && st.st_uid == geteuid();
}

/* Is the marker one of the NUL-separated entries? */
static bool bears(pid_t pid, const struct reaper_scope *scope, struct str *scratch)
{
    const char *marker = scope->marker;
    if (!marker || !is_ours(pid) || !read_proc(pid, "environ", scratch))
        return false;
    for (const char *p = scratch->data, *end = p + scratch->len; p < end; p += strlen(p) + 1)
        if (scope->prefix ? str_starts_with(p, marker) : !strcmp(p, marker))
            return true;
    return false;
}

static void list_all(struct processes *all)
{
    auto_strv names = STRV_INIT;
    auto_str scratch = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    fs_list_dir("/proc", &names, NCBENCH_EXIT_ENVIRONMENT, &ignored);
    for (size_t i = 0; i < names.count; i++) {
        int64_t pid;
        struct process p;
        if (num_parse_i64(names.items[i], &pid) && read_process((pid_t)pid, &scratch, &p))
            vec_push(all, p);
    }
}

static const struct process *by_pid(const struct processes *all, pid_t pid)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].pid == pid)
            return &all->items[i];
    return NULL;
}

static bool descends(const struct processes *all, const struct process *p, pid_t ancestor)
{
    for (size_t depth = 0; p && depth < all->count; depth++) {
        if (p->parent == ancestor)
            return true;
        p = by_pid(all, p->parent);
    }
    return false;
}

unsigned long long reaper_now_ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    long hz = sysconf(_SC_CLK_TCK);
    return (unsigned long long)now.tv_sec * (unsigned long long)hz +
           (unsigned long long)now.tv_nsec * (unsigned long long)hz / 1000000000ull;
}

void reaper_find(const struct reaper_scope *scope, struct processes *out)
{
    struct processes all = {0};
    auto_str scratch = STR_INIT;
    out->count = 0;
    list_all(&all);
    for (size_t i = 0; i < all.count; i++) {
        const struct process *p = &all.items[i];
        if (p->pid == getpid() || p->state == 'Z' || p->state == 'X')
            continue;
        bool young = p->start_ticks >= scope->since_ticks;
        if ((young && descends(&all, p, getpid())) || bears(p->pid, scope, &scratch))
            vec_push(out, *p);
    }
    processes_release(&all);
}

/* Through a pidfd, checked after it is open: between the two nobody can take the pid over. */
static void signal_one(const struct process *p, int sig)
{
    auto_close int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    auto_str scratch = STR_INIT;
    struct process now;
    if (!read_process(p->pid, &scratch, &now) || now.start_ticks != p->start_ticks)
        return;
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0))
        kill(p->pid, sig);
}

void reaper_signal(const struct processes *found, int sig)
{
    for (size_t i = 0; i < found->count; i++)
        signal_one(&found->items[i], sig);
}

bool reaper_kill_all(const struct reaper_scope *scope, double seconds, struct str *left)
{
    double deadline = clock_mono_s() + seconds, pause = 0.002;
    struct processes found = {0};
    bool gone = false;
    for (;;) {
        reaper_find(scope, &found);
        gone = found.count == 0;
        if (gone || clock_mono_s() >= deadline)
            break;
        reaper_signal(&found, SIGKILL);
        clock_sleep_s(pause);
        pause = pause < 0.05 ? pause * 2 : 0.05;
        reaper_collect(NULL, 0);
    }
    reaper_collect(NULL, 0);
    for (size_t i = 0; i < found.count; i++)
        str_appendf(left, "%s%s (pid %d, state %c)", i ? ", " : "", found.items[i].name,
                    (int)found.items[i].pid, found.items[i].state);
    processes_release(&found);
    return gone;
}

void processes_release(struct processes *p)
{
    free(p->items);
    *p = (struct processes){0};
}
