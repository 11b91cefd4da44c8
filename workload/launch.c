#include "workload/launch.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "common/pus.h"
#include "common/spawn.h"
#include "workload/comm.h"
#include "workload/step_page.h"
#include "workload/stop.h"
#include "workload/trial_files.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define SWEEP_S 10.0 /* patience with killed processes that do not go */

struct rank {
    pid_t pid;    /* 0: not started, or reaped */
    bool told;    /* ended after it was told to */
    int status;   /* of wait; valid once reaped */
    int64_t step; /* the last it was in; STEP_NONE: none; only with a page */
};

struct launch {
    const struct launch_config *config;
    struct rank *ranks;
    int alive;
    int *order; /* local ranks in the order in which they ended */
    int n_ended;
    double kill_at;  /* clock_mono_s; 0: not ending */
    double asked_at; /* clock_mono_s of the signal that asked for it; 0: a rank failed */
    bool killed;
    struct step_page page;
    struct topo_plan plan; /* where each rank goes */
    int master_port;
    bool shared_logs; /* of the node's ranks, not each its own */
    sigset_t watched, old_mask;
};

/* ---- starting ------------------------------------------------------------------------------- */

/* A TCP port that nobody listens on now. The shm back end only uses its number. */
static int free_port(struct error *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) ||
        getsockname(fd, (struct sockaddr *)&a, &size)) {
        error_errno(err, NANOCHAT_EXIT_USAGE, errno, "cannot find a free port");
        error_hint(err, "choose one with --master-port");
        return -1;
    }
    return ntohs(a.sin_port);
}

static void set_int(struct strv *env, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    strv_env_set(env, name, text);
}

/* Threads for all ranks together as many as PUs. torchrun sets 1, which starves a CPU run. */
static void set_threads(struct strv *env, const struct launch *l)
{
    const int nproc = l->config->nproc;
    if (strv_env_get(env, "OMP_NUM_THREADS"))
        return;
    auto_pus usable = {0};
    int pus = pus_usable(&usable) ? 1 : pus_count(&usable);
    int threads = pus / nproc > 1 ? pus / nproc : 1;
    set_int(env, "OMP_NUM_THREADS", threads);
    log_info("OMP_NUM_THREADS is not set: %d for each rank (%d usable PUs, %d ranks)", threads, pus,
             nproc);
}

static void common_environment(struct strv *env, const struct launch *l)
{
    const struct launch_config *c = l->config;
    for (char **p = environ; *p; p++)
        strv_push(env, *p);
    set_int(env, ENV_WORLD_SIZE, c->nproc * c->nnodes);
    set_int(env, ENV_LOCAL_WORLD_SIZE, c->nproc);
    set_int(env, ENV_GROUP_RANK, c->node_rank);
    strv_env_set(env, ENV_MASTER_ADDR, c->master_addr ? c->master_addr : "127.0.0.1");
    set_int(env, ENV_MASTER_PORT, l->master_port);
    if (l->page.fd >= 0)
        set_int(env, ENV_STEP_FD, l->page.fd);
    set_threads(env, l);
}

static int global_rank(const struct launch *l, int local)
{
    return l->config->node_rank * l->config->nproc + local;
}

enum log { LOG_OUT, LOG_ERR };

static char *log_path(const struct launch *l, enum log which, int local)
{
    char name[32];
    if (l->shared_logs)
        snprintf(name, sizeof name, which == LOG_OUT ? NODE_OUT_FMT : NODE_ERR_FMT,
                 l->config->node_rank);
    else
        snprintf(name, sizeof name, which == LOG_OUT ? RANK_OUT_FMT : RANK_ERR_FMT,
                 global_rank(l, local));
    return mem_printf("%s/%s", l->config->log_dir, name);
}

/* -1 without an error: inherit. */
static int open_log(const struct launch *l, enum log which, int local, struct error *err)
{
    if (!l->config->log_dir)
        return -1;
    auto_free char *path = log_path(l, which, local);
    const int fresh = l->shared_logs && local > 0 ? 0 : O_TRUNC;
    int fd = open(path, O_WRONLY | O_CREAT | fresh | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        error_errno(err, NANOCHAT_EXIT_WRITE, errno, "cannot create %s", path);
    return fd;
}

/* What was asked for, so that the rank can tell whether it got it. */
static void set_binding(struct strv *env, const struct launch *l, int local)
{
    auto_free char *pus = l->plan.ranks ? pus_text(&l->plan.ranks[local]) : mem_strdup("");
    strv_env_set(env, ENV_BIND, topo_bind_name(l->config->bind));
    strv_env_set(env, ENV_BIND_PUS, pus);
    strv_env_set(env, ENV_BIND_NOTE, l->plan.note ? l->plan.note : "");
}

static int start_rank(struct launch *l, struct strv *env, int local, struct error *err)
{
    set_int(env, ENV_RANK, global_rank(l, local));
    set_int(env, ENV_LOCAL_RANK, local);
    set_binding(env, l, local);
    auto_close int out = open_log(l, LOG_OUT, local, err);
    auto_close int errors = err->code ? -1 : open_log(l, LOG_ERR, local, err);
    if (err->code)
        return -err->code;
    struct spawn s = {.argv = l->config->argv,
                      .env = env->items,
                      .stdout_fd = out,
                      .stderr_fd = errors,
                      .new_group = true,
                      .parent_death_signal = SIGKILL};
    auto_free cpu_set_t *affinity = NULL;
    if (l->plan.ranks)
        affinity = pus_affinity(&l->plan.ranks[local], &s.affinity_bytes);
    s.affinity = affinity;
    if (spawn_start(&s, NANOCHAT_EXIT_PEER, err))
        return error_wrap(err, "rank %d", global_rank(l, local));
    l->ranks[local].pid = s.pid;
    l->alive++;
    return 0;
}

/* ---- ending --------------------------------------------------------------------------------- */

static void signal_ranks(const struct launch *l, int sig)
{
    for (int r = 0; r < l->config->nproc; r++)
        if (l->ranks[r].pid > 0)
            kill(-l->ranks[r].pid, sig);
}

/* Ask all ranks to end, and give them the grace time. */
static void begin_end(struct launch *l, int sig)
{
    l->kill_at = clock_mono_s() + l->config->grace_s;
    signal_ranks(l, sig);
    signal_ranks(l, SIGCONT); /* a stopped one could not hear it */
}

static void kill_all(struct launch *l)
{
    l->killed = true;
    signal_ranks(l, SIGKILL);
}

static void rank_ended(struct launch *l, int local, int status)
{
    struct rank *r = &l->ranks[local];
    r->pid = 0;
    r->status = status;
    r->told = l->kill_at > 0;
    r->step = l->page.steps ? atomic_load(&l->page.steps[local]) : STEP_NONE;
    l->order[l->n_ended++] = local;
    l->alive--;
}

/* Reap what has ended. A rank's group is killed while the rank, a zombie, still holds its number:
 * later the number might be another's. Ranks that end together are judged together: none of them
 * ended because the other was told off. */
static void reap(struct launch *l)
{
    siginfo_t info;
    bool any_failed = false;
    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
            break;
        int local = 0, status = 0;
        while (local < l->config->nproc && l->ranks[local].pid != info.si_pid)
            local++;
        if (local < l->config->nproc)
            kill(-info.si_pid, SIGKILL);
        waitpid(info.si_pid, &status, 0);
        if (local == l->config->nproc)
            continue; /* an orphan that we adopted */
        rank_ended(l, local, status);
        any_failed = any_failed || status != 0;
    }
    if (any_failed && !l->kill_at)
        begin_end(l, SIGTERM);
}

/* A second signal ends it at once; those that come together are one, as in the ranks: a runtime's
 * client hands on what our group gets as well. */
static void end_by_signal(struct launch *l, int sig)
{
    double now = clock_mono_s();
    if (!l->kill_at) {
        l->asked_at = now;
        begin_end(l, sig);
    } else if (!l->asked_at || now - l->asked_at >= STOP_TWICE_S) {
        kill_all(l);
    }
}

static void handle_signal(struct launch *l, int sig)
{
    switch (sig) {
    case SIGCHLD: reap(l); break;
    case SIGUSR1:
    case SIGUSR2: signal_ranks(l, sig); break;
    default: end_by_signal(l, sig);
    }
}

static void supervise(struct launch *l)
{
    while (l->alive > 0) {
        double wait = 1; /* SIGCHLD may be lost between two reaps only in theory; look anyway */
        if (l->kill_at && !l->killed) {
            wait = l->kill_at - clock_mono_s();
            if (wait <= 0) {
                kill_all(l);
                continue;
            }
        }
        struct timespec ts = {.tv_sec = (time_t)wait,
                              .tv_nsec = (long)((wait - (double)(time_t)wait) * 1e9)};
        int sig = sigtimedwait(&l->watched, NULL, &ts);
        handle_signal(l, sig > 0 ? sig : SIGCHLD);
        reap(l);
    }
}

/* The parent of a process by /proc, or 0. */
static pid_t parent_of(const char *pid)
{
    auto_free char *path = mem_printf("/proc/%s/stat", pid);
    auto_str text = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    int parent = 0;
    if (fs_read_file(path, &text, 1, &ignored))
        return 0;
    const char *p = strrchr(text.data, ')');
    return p && sscanf(p + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static void kill_children(void)
{
    auto_strv names = STRV_INIT;
    auto_error struct error ignored = ERROR_INIT;
    if (fs_list_dir("/proc", &names, 1, &ignored))
        return;
    for (size_t i = 0; i < names.count; i++) {
        int64_t pid;
        if (num_parse_i64(names.items[i], &pid) && parent_of(names.items[i]) == getpid())
            kill((pid_t)pid, SIGKILL);
    }
}

/* Whatever left its rank's group has become our child by now, or will when its parent dies. */
static void sweep_orphans(void)
{
    double deadline = clock_mono_s() + SWEEP_S;
    for (;;) {
        pid_t got = waitpid(-1, NULL, WNOHANG);
        if (got < 0 && errno == ECHILD)
            return;
        if (got > 0)
            continue;
        if (clock_mono_s() > deadline) {
            log_warn("processes of the ranks do not end although they were killed");
            return;
        }
        kill_children();
        clock_sleep_s(0.002);
    }
}

/* ---- result --------------------------------------------------------------------------------- */

/* How well a failure explains the end of the run; 0: not a failure. A rank that misses a peer (8)
 * explains less than that peer; one that was told to end may still have had a reason of its own. */
static int blame(const struct rank *r)
{
    if (r->status == 0)
        return 0;
    bool exited = WIFEXITED(r->status);
    bool misses_peer = exited && WEXITSTATUS(r->status) == NANOCHAT_EXIT_PEER;
    if (r->told)
        return exited && !misses_peer ? 3 : 1;
    return misses_peer ? 2 : 4;
}

/* The rank to blame, the earliest of those with the best explanation; -1: none failed. */
static int find_cause(const struct launch *l)
{
    int cause = -1, best = 0;
    for (int i = 0; i < l->n_ended; i++) {
        int b = blame(&l->ranks[l->order[i]]);
        if (b > best) {
            best = b;
            cause = l->order[i];
        }
    }
    return cause;
}

static void describe_step(const struct launch *l, const struct rank *r, char *out, size_t size)
{
    out[0] = '\0';
    if (!l->page.steps)
        return;
    if (r->step == STEP_NONE)
        snprintf(out, size, " before the first step");
    else
        snprintf(out, size, " at step %lld", (long long)r->step);
}

static int report_failure(const struct launch *l, int local, struct error *err)
{
    const struct rank *r = &l->ranks[local];
    char step[48];
    describe_step(l, r, step, sizeof step);
    if (WIFSIGNALED(r->status)) {
        int sig = WTERMSIG(r->status);
        error_set(err, NANOCHAT_EXIT_PEER, "rank %d was ended by signal %d (%s)%s%s",
                  global_rank(l, local), sig, strsignal(sig), step,
                  r->told ? ", after it was told to end" : "");
    } else {
        int code = WEXITSTATUS(r->status);
        error_set(err, code >= 125 ? NANOCHAT_EXIT_BUG : code, "rank %d ended with exit code %d%s",
                  global_rank(l, local), code, step);
    }
    if (l->config->log_dir) {
        auto_free char *path = log_path(l, LOG_ERR, local);
        error_hint(err, "its messages are in %s", path);
    }
    return -err->code;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void watch_signals(struct launch *l)
{
    static const int watched[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    sigemptyset(&l->watched);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(&l->watched, watched[i]);
    sigprocmask(SIG_BLOCK, &l->watched, &l->old_mask);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static int start_all(struct launch *l, struct error *err)
{
    auto_strv env = STRV_INIT;
    common_environment(&env, l);
    for (int r = 0; r < l->config->nproc; r++)
        if (start_rank(l, &env, r, err))
            return -err->code;
    return 0;
}

/* A run that was killed while its ranks arrived may have left a name in /dev/shm. */
static void clean_rendezvous(const struct launch *l)
{
    const struct comm_config config = {.master_addr = l->config->master_addr,
                                       .master_port = l->master_port};
    comm_forget(&config);
}

int launch_run(const struct launch_config *config, struct error *err)
{
    struct launch l = {
        .config = config, .master_port = config->master_port, .shared_logs = trial_files_shared()};
    if (launch_plan(config, &l.plan, err))
        return -err->code;
    if (!l.master_port && (l.master_port = free_port(err)) < 0) {
        topo_plan_release(&l.plan);
        return -err->code;
    }
    l.ranks = mem_zalloc((size_t)config->nproc, sizeof *l.ranks);
    l.order = mem_zalloc((size_t)config->nproc, sizeof *l.order);
    step_page_create(&l.page, config->nproc);
    watch_signals(&l);
    if (start_all(&l, err))
        begin_end(&l, SIGTERM);
    supervise(&l);
    sweep_orphans();
    clean_rendezvous(&l);
    int cause = find_cause(&l);
    if (cause >= 0 && !err->code)
        report_failure(&l, cause, err);
    sigprocmask(SIG_SETMASK, &l.old_mask, NULL);
    step_page_release(&l.page);
    topo_plan_release(&l.plan);
    free(l.order);
    free(l.ranks);
    return -err->code;
}
