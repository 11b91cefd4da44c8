/* The shared-memory segment of the shm back end, and meeting in it.
 *
 * Layout: a header, one slot a rank (a futex word that counts the meetings which that rank has
 * reached, who it is, where it may run), then two staging areas of chunk_bytes a rank.
 *
 * A meeting ends for a rank when every rank has reached it. Between meeting m-1 and m a rank writes
 * only its own staging area of parity m & 1; after m all read the areas of that parity. A rank
 * that passes m+1 knows that all have finished reading those of m, because reaching m+1 comes
 * after reading, so it may write parity m & 1 again for m+2: one meeting a chunk is enough.
 *
 * Rendezvous: the segment is made nameless, filled in, locked with flock and only then linked into
 * /dev/shm, so that nobody ever sees half a segment. The lock dies with its owner: a name whose
 * segment is not locked is left over from a dead run and is taken over. The name goes away as
 * soon as all ranks have attached; from then on the kernel frees everything with the last rank. */
#ifndef WORKLOAD_COMM_SHM_PRIV_H
#define WORKLOAD_COMM_SHM_PRIV_H

#include "workload/comm_priv.h"

#include <stdatomic.h>

#define SHM_MAX_PUS 8192 /* the largest NR_CPUS of Linux */

enum shm_reason { SHM_FINE, SHM_DIED, SHM_LEFT, SHM_LATE, SHM_ABSENT };

struct shm_slot {
    _Alignas(128) _Atomic uint32_t arrived; /* futex word: meetings reached */
    _Atomic uint32_t waiters;               /* sleepers on `arrived`: no wake-up without any */
    _Atomic int32_t pid;                    /* 0: not attached yet */
    _Atomic uint32_t left;                  /* closed its communicator */
    _Atomic uint64_t begun;                 /* of another back end: comm_ops.begun */
    _Atomic uint64_t start_ticks;           /* with pid: survives reuse of the number; 0: unknown */
    _Atomic uint64_t pid_space;             /* the namespace in which pid means something */
    uint64_t pus[SHM_MAX_PUS / 64];         /* affinity at attach */
};

struct shm_header {
    char magic[8];
    int32_t world;
    int32_t unused;
    int64_t chunk_bytes;
    char id[COMM_ID_MAX];
    _Alignas(128) _Atomic uint32_t attached; /* futex word */
    _Atomic uint32_t lost; /* the first loss: reason << 24 | rank, one word; 0: none */
    struct shm_slot slots[];
};

struct shm {
    struct shm_header *head;
    char *staging;
    size_t bytes; /* of the mapping */
    uint32_t met; /* meetings so far */
    bool may_spin;
    uint64_t pid_space;
    int64_t *quota, *start, *slot_at; /* [world], scratch of a collective's plan */
};

/* Create (local rank 0) or find the segment and wait until all ranks are in. */
int shm_attach(struct comm *c, struct shm *s, struct error *err);
void shm_detach(struct comm *c, struct shm *s);
/* Reach the next meeting and wait for all others. */
int shm_meet(struct comm *c, struct error *err);
/* Staging area of a rank for the meeting number `meeting`. */
static inline void *shm_stage(const struct shm *s, int rank, uint32_t meeting)
{
    return s->staging + ((size_t)rank * 2 + (meeting & 1)) * (size_t)s->head->chunk_bytes;
}

/* shm_wait.c: peers. */
int shm_lose(struct comm *c, int rank, enum shm_reason reason, struct error *err);
int shm_check_peers(struct comm *c, uint32_t meeting, struct error *err);
/* comm_ops.begun and watch. */
void shm_begun(struct comm *c, uint64_t n);
int shm_watch(struct comm *c, uint64_t n, bool late, struct error *err);
/* Field 22 of /proc/PID/stat, or 0 if there is no such living process (a zombie does not live). */
uint64_t shm_process_start_ticks(int32_t pid);
/* Is its process known to be gone? false for one in another PID namespace (a container a rank):
 * what /proc says of its number is about somebody else, so only a deadline finds it. */
bool shm_is_dead(const struct shm *s, const struct shm_slot *slot);
/* Which PID namespace this process is in; 0: unknown. */
uint64_t shm_pid_space(void);
/* Sleep until *word is not `seen`, at most one tick. */
void shm_futex_wait(_Atomic uint32_t *word, uint32_t seen);
void shm_futex_wake(_Atomic uint32_t *word);

#endif
