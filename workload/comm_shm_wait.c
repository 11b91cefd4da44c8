/* Meeting in the shared segment: spinning, sleeping, deadlines, and noticing dead peers. */
#include "workload/comm_shm_priv.h"

#include "common/clock.h"
#include "common/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TICK_NS 50000000L /* how often a sleeper looks whether its peers live */
#define SPINS 300 /* about the price of a sleep and a wake-up, so never worse than twice it */

/* On aarch64 `yield` is over at once on most cores, and SPINS of it would be no wait at all; `isb`
 * takes about as long as x86-64's `pause`. */
static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

void shm_futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    const struct timespec tick = {.tv_sec = 0, .tv_nsec = TICK_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &tick, NULL, 0);
}

void shm_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Straight from /proc, no fixture root: this asks about real processes. No allocation: it runs
 * inside a step. Of the first thread, which is as old as its process: qemu-user puts a stat of its
 * own in place of the process's, with another start than the peers see. */
uint64_t shm_process_start_ticks(int32_t pid)
{
    char path[48], text[1024], state;
    unsigned long long ticks;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *p = strrchr(text, ')'); /* the name may hold anything */
    if (!p || sscanf(p + 1,
                     " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d"
                     " %llu",
                     &state, &ticks) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : ticks;
}

uint64_t shm_pid_space(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

bool shm_is_dead(const struct shm *s, const struct shm_slot *slot)
{
    uint64_t ticks = atomic_load(&slot->start_ticks);
    return ticks && atomic_load(&slot->pid_space) == s->pid_space &&
           shm_process_start_ticks(atomic_load(&slot->pid)) != ticks;
}

static bool has_reached(const struct shm_slot *slot, uint32_t meeting)
{
    return (int32_t)(atomic_load_explicit(&slot->arrived, memory_order_acquire) - meeting) >= 0;
}

static int lost_error(const struct comm *c, int rank, enum shm_reason reason, struct error *err)
{
    const struct shm *s = c->priv;
    char where[COMM_WHERE_MAX], why[96];
    comm_where(c, where);
    int pid = atomic_load(&s->head->slots[rank].pid);
    switch (reason) {
    case SHM_DIED: snprintf(why, sizeof why, "its process %d is dead", pid); break;
    case SHM_LEFT: snprintf(why, sizeof why, "it ended early (process %d)", pid); break;
    case SHM_ABSENT:
        snprintf(why, sizeof why, "it did not start within %.3g s", c->config.timeout_s);
        break;
    default:
        snprintf(why, sizeof why, "process %d did not arrive within %.3g s", pid,
                 c->config.timeout_s);
    }
    if (rank == c->config.rank)
        return error_set(err, NANOCHAT_EXIT_PEER,
                         "the other ranks gave this rank (%d) up in %s: it came too late", rank,
                         where);
    return error_set(err, NANOCHAT_EXIT_PEER, "lost rank %d in %s: %s", rank, where, why);
}

/* The first loss counts for all: a rank that gives up because of it is not the culprit. */
int shm_lose(struct comm *c, int rank, enum shm_reason reason, struct error *err)
{
    struct shm_header *h = ((struct shm *)c->priv)->head;
    uint32_t none = 0;
    if (reason != SHM_FINE)
        atomic_compare_exchange_strong(&h->lost, &none, (uint32_t)reason << 24 | (uint32_t)rank);
    uint32_t lost = atomic_load(&h->lost);
    rank = (int)(lost & 0xFFFFFF);
    reason = (enum shm_reason)(lost >> 24);
    c->lost_rank = rank;
    for (int r = 0; r < c->config.world; r++)
        shm_futex_wake(&h->slots[r].arrived);
    shm_futex_wake(&h->attached);
    return lost_error(c, rank, reason, err);
}

int shm_check_peers(struct comm *c, uint32_t meeting, struct error *err)
{
    const struct shm *s = c->priv;
    if (atomic_load(&s->head->lost))
        return shm_lose(c, 0, SHM_FINE, err);
    for (int r = 0; r < c->config.world; r++) {
        const struct shm_slot *slot = &s->head->slots[r];
        if (r == c->config.rank || !atomic_load(&slot->pid) || has_reached(slot, meeting))
            continue;
        bool dead = shm_is_dead(s, slot);
        bool left = atomic_load(&slot->left) != 0; /* in this order: it leaves before it dies */
        if ((dead || left) && !has_reached(slot, meeting)) /* it may have ended after arriving */
            return shm_lose(c, r, left ? SHM_LEFT : SHM_DIED, err);
    }
    return 0;
}

void shm_begun(struct comm *c, uint64_t n)
{
    struct shm *s = c->priv;
    atomic_store(&s->head->slots[c->config.rank].begun, n);
}

int shm_watch(struct comm *c, uint64_t n, bool late, struct error *err)
{
    const struct shm *s = c->priv;
    if (atomic_load(&s->head->lost))
        return shm_lose(c, 0, SHM_FINE, err);
    for (int r = 0; r < c->config.world; r++) {
        const struct shm_slot *slot = &s->head->slots[r];
        if (r == c->config.rank)
            continue;
        bool dead = shm_is_dead(s, slot);
        bool left = atomic_load(&slot->left) != 0; /* it leaves before it dies */
        bool behind = atomic_load(&slot->begun) < n;
        if ((left || late) && behind)
            return shm_lose(c, r, left ? SHM_LEFT : SHM_LATE, err);
        if (dead && !left) /* one that was killed may have begun it and not done its part */
            return shm_lose(c, r, SHM_DIED, err);
    }
    return 0;
}

/* *begin: when this call began to sleep, 0 before: its ranks share one deadline. */
static int wait_for(struct comm *c, int rank, uint32_t meeting, double *begin, struct error *err)
{
    const struct shm *s = c->priv;
    struct shm_slot *slot = &s->head->slots[rank];
    for (int i = 0; s->may_spin && i < SPINS; i++) {
        if (has_reached(slot, meeting))
            return 0;
        cpu_relax();
    }
    double checked = clock_mono_s();
    if (!(*begin > 0))
        *begin = checked;
    while (!has_reached(slot, meeting)) {
        atomic_fetch_add(&slot->waiters, 1);
        uint32_t seen = atomic_load(&slot->arrived);
        if ((int32_t)(seen - meeting) < 0)
            shm_futex_wait(&slot->arrived, seen);
        atomic_fetch_sub(&slot->waiters, 1);
        double now = clock_mono_s();
        if (has_reached(slot, meeting))
            return 0;
        if (now - *begin > c->config.timeout_s)
            return shm_lose(c, rank, SHM_LATE, err);
        if (atomic_load(&s->head->lost) || now - checked > TICK_NS * 0.9e-9) {
            if (shm_check_peers(c, meeting, err))
                return -err->code;
            checked = now;
        }
    }
    return 0;
}

int shm_meet(struct comm *c, struct error *err)
{
    struct shm *s = c->priv;
    if (c->lost_rank >= 0)
        return shm_lose(c, c->lost_rank, SHM_FINE, err);
    struct shm_slot *mine = &s->head->slots[c->config.rank];
    uint32_t meeting = ++s->met;
    atomic_store(&mine->arrived, meeting); /* seq_cst: before the look at waiters */
    if (atomic_load(&mine->waiters))
        shm_futex_wake(&mine->arrived);
    double begin = 0;
    for (int r = 0; r < c->config.world; r++)
        if (r != c->config.rank && wait_for(c, r, meeting, &begin, err))
            return -err->code;
    return 0;
}
