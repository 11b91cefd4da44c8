/* What lib/nanochat-nccl-profiler.so gives: NCCL finds ncclProfiler_v4 and _v5 in it, nanochat (or
 * a test) the table nanochat_nccl_profiler. Sums only, of bounded size, over all communicators of
 * the process. */
#ifndef WORKLOAD_NCCL_PROFILER_FIGURES_H
#define WORKLOAD_NCCL_PROFILER_FIGURES_H

#include <stdint.h>

#define NCCL_PROFILE_ABI 1
#define NCCL_PROFILE_KINDS 16 /* the last one takes what finds no place, as "other" */
#define NCCL_PROFILE_NAME 24

/* A collective or a point-to-point call, by name. */
struct nccl_profile_kind {
    char name[NCCL_PROFILE_NAME]; /* "": unused */
    uint64_t calls;
    uint64_t enqueue_ns; /* the host's time between start and stop */
    uint64_t complete;   /* calls whose kernel times came from all channels */
    uint64_t kernel_ns;  /* of those: first start to last stop, by the GPU's clock */
    uint64_t kernel_max_ns;
};

enum nccl_profile_wait {
    NCCL_PROFILE_SEND_GPU,
    NCCL_PROFILE_SEND_PEER,
    NCCL_PROFILE_SEND_NET,
    NCCL_PROFILE_RECV_NET,
    NCCL_PROFILE_RECV_FLUSH,
    NCCL_PROFILE_RECV_GPU,
    NCCL_PROFILE_WAITS
};

struct nccl_profile {
    struct nccl_profile_kind kinds[NCCL_PROFILE_KINDS];
    uint64_t communicators; /* that have called for it */
    uint64_t proxy_ops, proxy_steps;
    uint64_t wait_ns[NCCL_PROFILE_WAITS]; /* of the proxy's steps, by what they waited for */
    uint64_t overwritten; /* events that were still open when their place was needed */
    uint64_t stale;       /* calls about events that are no longer, or never were, known */
    uint64_t unknown;     /* events of a type that this plugin does not know */
};

struct nccl_profiler {
    uint32_t abi;
    void (*read)(struct nccl_profile *out); /* a consistent copy; any thread */
    /* For tests, while no event is in flight: another clock in ns (NULL: CLOCK_MONOTONIC). */
    void (*set_clock)(uint64_t (*now)(void));
    void (*reset)(void); /* for tests */
};

#endif
