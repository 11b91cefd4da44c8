/* Collectives between ranks.
 *
 * A communicator connects the `world` processes of one run. Buffers are float32 arrays in the
 * address space of the caller; every call is collective: all ranks make the same calls in the same
 * order with the same sizes. Every call has a deadline. When it passes, or a peer has died, the
 * call fails with NANOCHAT_EXIT_PEER and a message that names the lost rank, the step and the
 * operation; the communicator is then unusable and comm_close is the only call left.
 *
 * Memory: `float *` buffers lie in the memory of comm_config.device, all others in the host's. With
 * a device whose collectives run on their own (nccl), calls on `float *` buffers return when the
 * collective is queued: what is queued on the device afterwards sees its result, and comm_wait
 * waits on the host, with the deadline. It must be called before the device is synced, or the host
 * would wait for a lost peer for ever. Elsewhere such calls are done when they return.
 *
 * Segments: reduce_scatter and all_gather take counts[world] (elements owned by each rank, summing
 * to the buffer's length), so that nothing is ever padded to a multiple of the world size.
 *
 * Back ends: `self` (one rank), `shm` (one node, host memory), `tcp` (any nodes, host memory),
 * `mpi` (likewise, for ranks that an MPI launcher has started), `nccl` (GPUs). Others fill struct
 * comm_ops. */
#ifndef WORKLOAD_COMM_H
#define WORKLOAD_COMM_H

#include "common/error.h"
#include "common/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;
struct device;

/* A collective, as handed to the observer; bytes follow nccl-tests' convention: the buffer of one
 * rank for all_reduce and broadcast, the whole for reduce_scatter and all_gather. */
struct comm_record {
    int64_t step;
    int64_t seq;    /* counts all collectives of this communicator from 0 */
    const char *op; /* static text */
    int64_t bytes;
    double time_us;
    int lost_rank; /* -1: the call succeeded; else it failed because of this rank */
};
typedef void comm_observer(void *user, const struct comm_record *record);

struct comm_config {
    int rank, world;
    int local_rank, local_world;
    const char *master_addr; /* NULL: 127.0.0.1 */
    int master_port;         /* names the run on this node together with master_addr; tcp: where
                                rank 0 listens */
    char job[96];    /* what the launcher calls the run, where nothing else names it: two runs
                        on one node must not meet. Empty: master_port does */
    bool nameless;   /* the launcher does not say: without MASTER_PORT only mpi can be told apart */
    bool no_address; /* nor where rank 0's node is, and there are several nodes */
    const char *backend;   /* "auto" (NULL), "shm", "tcp", "mpi" */
    double timeout_s;      /* deadline of every call; 0: 60 */
    int64_t max_elements;  /* longest buffer that is usual; 0: unknown. Only bounds the staging
                              area: longer buffers go through it in pieces */
    struct device *device; /* whose memory `float *` buffers are in; NULL: the host's */
};

struct comm_ops {
    const char *name;
    int (*init)(struct comm *c, const struct comm_config *config, struct error *err);
    int (*all_reduce_sum)(struct comm *c, float *buf, int64_t n, struct error *err);
    int (*all_reduce_f64)(struct comm *c, double *buf, int64_t n, bool max, struct error *err);
    int (*reduce_scatter_sum)(struct comm *c, float *buf, const int64_t *counts, struct error *err);
    int (*all_gather)(struct comm *c, float *buf, const int64_t *counts, struct error *err);
    int (*broadcast)(struct comm *c, void *buf, int64_t bytes, int root, struct error *err);
    /* As broadcast, of `float *` memory; NULL: broadcast does it. */
    int (*broadcast_f32)(struct comm *c, float *buf, int64_t n, int root, struct error *err);
    int (*barrier)(struct comm *c, struct error *err);
    /* Calls on `float *` only queue; this waits and tells the observer. NULL: they are done when
     * they return. */
    int (*wait)(struct comm *c, struct error *err);
    void (*describe)(const struct comm *c, json_t *into); /* may be NULL */
    /* Where this back end stands beside another that carries the large buffers (nccl): this rank
     * has begun n of the other's collectives (may be NULL); has a peer been lost without which the
     * n-th cannot end? `late`: its deadline has passed. Does not block unless late. */
    void (*begun)(struct comm *c, uint64_t n);
    int (*watch)(struct comm *c, uint64_t n, bool late, struct error *err);
    void (*close)(struct comm *c);
};

/* RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT into config; else
 * what mpirun has set, or SLURM_*; without them one rank. Without MASTER_PORT the port follows from
 * the launcher's own name of the run, so that two runs of a user do not meet. Contradictory values
 * are NANOCHAT_EXIT_USAGE. */
int comm_config_from_env(struct comm_config *config, struct error *err);
/* Open: `self` for a world of 1 (except for "mpi"), `nccl` for a device with collectives of its
 * own, else as config->backend says; auto is `shm` for one node and `tcp` for several. The first
 * collective is made here, so that a rank that never arrives is found now. shm for ranks on several
 * nodes is NANOCHAT_EXIT_PLAN, a device without collectives NANOCHAT_EXIT_DEVICE; a /dev/shm that
 * is too small is NANOCHAT_EXIT_PEER with the needed and the available bytes; a name of rank 0's
 * node that cannot be resolved, or a port that is taken, is NANOCHAT_EXIT_PEER too. "mpi" without
 * its shared object is NANOCHAT_EXIT_DEVICE, with an MPI that contradicts config
 * NANOCHAT_EXIT_USAGE. */
int comm_open(struct comm **out, const struct comm_config *config, struct error *err);
void comm_close(struct comm *c); /* NULL is fine; leaves no shared-memory segment */

/* Remove what ranks that were killed before all had arrived may have left in /dev/shm. For the
 * launcher, once all ranks of the run are gone; config as the ranks had it. */
void comm_forget(const struct comm_config *config);

int comm_rank(const struct comm *c);
int comm_world(const struct comm *c);
const char *comm_backend(const struct comm *c);
/* The same hexadecimal text on all ranks of one communicator, different between runs. */
const char *comm_id(const struct comm *c);
void comm_set_observer(struct comm *c, comm_observer *observer, void *user);
void comm_set_step(struct comm *c, int64_t step); /* for messages and records */
/* Seconds spent in collectives since comm_open or the last call of this function: by the host, and
 * where collectives are queued the time for which the device's own work stood still for them
 * (known once comm_wait has returned). */
double comm_take_time_s(struct comm *c);
double comm_time_s(const struct comm *c); /* the same so far, without taking it */
/* What else is to be said of the back end, into a `comm` object (new reference): backend, library
 * and, where it matters, what the machine has set. */
json_t *comm_describe(const struct comm *c);

/* In place; afterwards every rank holds the sum. The order of summation is by rank: the result is
 * bitwise equal on all ranks and from run to run. */
int comm_all_reduce_sum(struct comm *c, float *buf, int64_t n, struct error *err);
int comm_all_reduce_sum_f64(struct comm *c, double *buf, int64_t n, struct error *err);
int comm_all_reduce_max_f64(struct comm *c, double *buf, int64_t n, struct error *err);
/* In place; afterwards the rank's own segment of buf holds the sum over ranks, the rest is
 * undefined. */
int comm_reduce_scatter_sum(struct comm *c, float *buf, const int64_t *counts, struct error *err);
/* In place; every rank contributes its own segment and receives the others. */
int comm_all_gather(struct comm *c, float *buf, const int64_t *counts, struct error *err);
int comm_broadcast(struct comm *c, void *buf, int64_t bytes, int root, struct error *err);
int comm_broadcast_f32(struct comm *c, float *buf, int64_t n, int root, struct error *err);
int comm_barrier(struct comm *c, struct error *err);
/* Until all queued collectives are done, or a peer is lost. */
int comm_wait(struct comm *c, struct error *err);
/* Can collectives go on beside the device's own work? Then, while overlap is set, what is queued
 * on the device does not wait for them: their results are there when comm_wait has returned. */
bool comm_can_overlap(const struct comm *c);
void comm_set_overlap(struct comm *c, bool overlap);

#endif
