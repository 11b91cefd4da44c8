/* A profiler plugin for NCCL 2.27.3 and newer (interfaces 4 and 5), without any of its headers.
 *
 * A handle is no pointer but a place and its generation, so that a call about an event whose place
 * was taken since is noticed and does no harm. Calls come from the ranks' and the proxies' threads;
 * one lock, held for some tens of instructions, covers all. Nothing is allocated. */
#include "workload/nccl_profiler/figures.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- NCCL's interface -------------------------------------------------------------------------*/

enum { COLL = 2, P2P = 4, PROXY_OP = 8, PROXY_STEP = 16, KERNEL = 64 };
enum { ASKED = COLL | P2P | PROXY_OP | PROXY_STEP | KERNEL };
/* Told unasked, as what the asked ones belong to: groups, calls of the interface and launches. */
enum { UNASKED = 1 | 256 | 512 | 1024 | 2048 };
enum { KERNEL_STOP = 22 };

struct coll {
    uint64_t sequence;
    const char *name;
    const void *send;
    void *receive;
    size_t n;
    int root;
    const char *type;
    uint8_t channels, warps;
    const char *algorithm, *protocol;
};
struct p2p {
    const char *name;
    void *buffer;
    const char *type;
    size_t n;
    int peer;
    uint8_t channels;
};
struct kernel {
    uint8_t channel;
    uint64_t time;
};
struct description {
    union {
        uint64_t v5;
        uint8_t v4;
    } type;
    void *parent;
    int rank;
    union {
        struct coll coll;
        struct p2p p2p;
        struct kernel kernel;
    } of;
};
_Static_assert(offsetof(struct description, parent) == 8, "parent");
_Static_assert(offsetof(struct description, rank) == 16, "rank");
_Static_assert(offsetof(struct description, of) == 24, "the union");
_Static_assert(offsetof(struct coll, name) == 8, "coll: name");
_Static_assert(offsetof(struct coll, channels) == 56, "coll: channels");
_Static_assert(offsetof(struct p2p, channels) == 36, "p2p: channels");
_Static_assert(offsetof(struct kernel, time) == 8, "kernel: time");

typedef int start_event(void *context, void **handle, const struct description *d);
struct interface_rest {
    start_event *start;
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, const uint64_t *args);
    int (*finalize)(void *context);
};
struct interface_v4 {
    const char *name;
    int (*init)(void **, int *, const char *, uint64_t, int, int, int, void (*)(void));
    struct interface_rest rest;
};
struct interface_v5 {
    const char *name;
    int (*init)(void **, uint64_t, int *, const char *, int, int, int, void (*)(void));
    struct interface_rest rest;
};
_Static_assert(sizeof(struct interface_v4) == 48, "the interface");

/* ---- places ---------------------------------------------------------------------------------- */

#define PLACES 2048 /* of each pool: a step of the proxy must not push out a collective */
struct place {
    uint64_t generation;
    bool open, stopped; /* a collective stays open after its stop, until its kernels have ended */
    uint8_t type, channels, ended;
    bool broken; /* a kernel time is missing */
    int kind;
    int wait; /* < 0: none */
    uint64_t begin, last, parent;
};
struct pool {
    uint64_t taken;
    struct place places[PLACES];
};
enum { CALLS, PARTS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool pools[2];
static struct nccl_profile sums;

static uint64_t monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static uint64_t (*now)(void) = monotonic;

/* The next free place, so that a long event is not pushed out by many short ones; where LOOKS are
 * taken, the oldest of them. */
#define LOOKS 64
static uint64_t next_number(const struct pool *p)
{
    for (uint64_t n = p->taken + 1; n <= p->taken + LOOKS; n++)
        if (!p->places[n % PLACES].open)
            return n;
    return p->taken + 1;
}

/* The number of an event of its pool, from 1, and the pool in the lowest bit. */
static struct place *take(int which, uint64_t *handle)
{
    struct pool *p = &pools[which];
    uint64_t number = p->taken = next_number(p);
    struct place *at = &p->places[number % PLACES];
    sums.overwritten += at->open;
    *handle = number << 1 | (uint64_t)which;
    *at = (struct place){.generation = number, .open = true, .wait = -1, .begin = now()};
    return at;
}

static struct place *find(uint64_t handle)
{
    struct place *at = &pools[handle & 1].places[(handle >> 1) % PLACES];
    if (handle >> 1 && at->open && at->generation == handle >> 1)
        return at;
    sums.stale++;
    return NULL;
}

static int kind_of(const char *name)
{
    int i = 0;
    if (!name || !*name)
        name = "unnamed";
    while (i < NCCL_PROFILE_KINDS - 1 && sums.kinds[i].name[0] &&
           strncmp(sums.kinds[i].name, name, NCCL_PROFILE_NAME - 1) != 0)
        i++;
    if (!sums.kinds[i].name[0])
        snprintf(sums.kinds[i].name, NCCL_PROFILE_NAME, "%s",
                 i < NCCL_PROFILE_KINDS - 1 ? name : "other");
    return i;
}

/* ---- events ---------------------------------------------------------------------------------- */

static uint64_t begin_call(uint8_t type, const char *name, uint8_t channels)
{
    uint64_t handle;
    struct place *at = take(CALLS, &handle);
    at->type = type;
    at->channels = channels;
    at->kind = kind_of(name);
    sums.kinds[at->kind].calls++;
    return handle;
}

static uint64_t begin_part(uint8_t type, const struct description *d)
{
    uint64_t handle;
    struct place *at = take(PARTS, &handle);
    at->type = type;
    at->parent = (uint64_t)(uintptr_t)d->parent;
    if (type == KERNEL)
        at->begin = d->of.kernel.time;
    sums.proxy_ops += type == PROXY_OP;
    sums.proxy_steps += type == PROXY_STEP;
    return handle;
}

static uint64_t begin(uint64_t type, const struct description *d)
{
    switch (type) {
    case COLL: return begin_call(COLL, d->of.coll.name, d->of.coll.channels);
    case P2P: return begin_call(P2P, d->of.p2p.name, d->of.p2p.channels);
    case PROXY_OP:
    case PROXY_STEP:
    case KERNEL: return begin_part((uint8_t)type, d);
    default: sums.unknown += !(type & UNASKED); return 0;
    }
}

static int start(uint64_t type, void **handle, const struct description *d)
{
    pthread_mutex_lock(&lock);
    *handle = (void *)(uintptr_t)begin(type, d);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int start_v4(void *context, void **handle, const struct description *d)
{
    (void)context;
    return start(d->type.v4, handle, d);
}

static int start_v5(void *context, void **handle, const struct description *d)
{
    (void)context;
    return start(d->type.v5, handle, d);
}

/* A call is over when it has been stopped and all its channels have ended. Its `last` and
 * `parent` are the GPU's times: last stop, first start. */
static void settle(struct place *call)
{
    struct nccl_profile_kind *k = &sums.kinds[call->kind];
    if (!call->stopped || call->ended < call->channels)
        return;
    call->open = false;
    if (!call->channels || call->broken)
        return;
    uint64_t ns = call->last - call->parent;
    k->complete++;
    k->kernel_ns += ns;
    k->kernel_max_ns = ns > k->kernel_max_ns ? ns : k->kernel_max_ns;
}

static void kernel_ended(struct place *part, uint64_t end)
{
    struct place *call = part->parent ? find(part->parent) : NULL;
    part->stopped = true; /* its place is kept until NCCL's stop, which follows */
    if (!call || (call->type != COLL && call->type != P2P))
        return;
    if (!part->begin || end < part->begin)
        call->broken = true;
    if (!call->ended++ || part->begin < call->parent)
        call->parent = part->begin;
    call->last = end > call->last ? end : call->last;
    settle(call);
}

static void end_wait(struct place *step)
{
    uint64_t t = now();
    if (step->wait >= 0)
        sums.wait_ns[step->wait] += t - step->last;
    step->wait = -1;
    step->last = t;
}

static int wait_of(int state)
{
    switch (state) {
    case 8: return NCCL_PROFILE_SEND_GPU;
    case 9: return NCCL_PROFILE_SEND_NET;
    case 10: return NCCL_PROFILE_RECV_NET;
    case 11: return NCCL_PROFILE_RECV_FLUSH;
    case 12: return NCCL_PROFILE_RECV_GPU;
    case 20: return NCCL_PROFILE_SEND_PEER;
    default: return -1;
    }
}

static void change(struct place *at, int state, const uint64_t *args)
{
    if (at->type == KERNEL && state == KERNEL_STOP && !at->stopped)
        kernel_ended(at, args ? *args : 0);
    if (at->type != PROXY_STEP || wait_of(state) < 0)
        return;
    end_wait(at);
    at->wait = wait_of(state);
}

static int state(void *handle, int to, const uint64_t *args)
{
    pthread_mutex_lock(&lock);
    struct place *at = handle ? find((uint64_t)(uintptr_t)handle) : NULL;
    if (at)
        change(at, to, args);
    pthread_mutex_unlock(&lock);
    return 0;
}

static void end(struct place *at)
{
    if (at->type == COLL || at->type == P2P) {
        if (!at->stopped)
            sums.kinds[at->kind].enqueue_ns += now() - at->begin;
        at->stopped = true;
        settle(at);
        return;
    }
    if (at->type == PROXY_STEP)
        end_wait(at);
    at->open = false;
}

static int stop(void *handle)
{
    uint64_t h = (uint64_t)(uintptr_t)handle;
    pthread_mutex_lock(&lock);
    struct place *at = h ? find(h) : NULL;
    if (at)
        end(at);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int init(void **context, int *mask)
{
    pthread_mutex_lock(&lock);
    sums.communicators++;
    pthread_mutex_unlock(&lock);
    *context = &sums;
    *mask = ASKED;
    return 0;
}

static int init_v4(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks,
                   int rank, void (*log)(void))
{
    (void)name, (void)id, (void)nodes, (void)ranks, (void)rank, (void)log;
    return init(context, mask);
}

static int init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
                   int rank, void (*log)(void))
{
    return init_v4(context, mask, name, id, nodes, ranks, rank, log);
}

static int finalize(void *context)
{
    (void)context; /* the sums stay: they are read after the last communicator has gone */
    return 0;
}

static void copy_sums(struct nccl_profile *out)
{
    pthread_mutex_lock(&lock);
    *out = sums;
    pthread_mutex_unlock(&lock);
}

static void set_clock(uint64_t (*other)(void))
{
    now = other ? other : monotonic;
}

static void reset(void)
{
    pthread_mutex_lock(&lock);
    memset(pools, 0, sizeof pools);
    memset(&sums, 0, sizeof sums);
    pthread_mutex_unlock(&lock);
}

EXPORT extern const struct interface_v4 ncclProfiler_v4;
EXPORT extern const struct interface_v5 ncclProfiler_v5;
EXPORT extern const struct nccl_profiler nanochat_nccl_profiler;
const struct interface_v4 ncclProfiler_v4 = {
    "nanochat", init_v4, {start_v4, stop, state, finalize}};
const struct interface_v5 ncclProfiler_v5 = {
    "nanochat", init_v5, {start_v5, stop, state, finalize}};
const struct nccl_profiler nanochat_nccl_profiler = {NCCL_PROFILE_ABI, copy_sums, set_clock, reset};
