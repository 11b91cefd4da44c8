/* Collectives made of exchanges, with sums in rank order, so that results are bitwise those of the
 * shm back end whatever carries the bytes.
 *
 * In an exchange each rank gives so many bytes, perhaps none, to every other rank and gets so many
 * from each, all at once. So every exchange is a meeting too, and whoever is late is waited for by
 * all others in the same call. A transport has plan and exchange; all else is here. */
#ifndef WORKLOAD_COMM_ORDERED_H
#define WORKLOAD_COMM_ORDERED_H

#include "workload/comm_priv.h"

/* What a transport's own state begins with (comm.priv points to it). */
struct ordered {
    /* What goes to a rank and comes from it in the next exchange. Called for every rank, also for
     * this one, where there is nothing to do; at most ORDERED_MOST_BYTES. */
    void (*plan)(struct comm *c, int rank, const void *from, int64_t from_bytes, void *to,
                 int64_t to_bytes);
    /* All of it, or NANOCHAT_EXIT_PEER by the deadline; nothing is planned afterwards. */
    int (*exchange)(struct comm *c, struct error *err);
    int64_t *start, *counts; /* [world], of the call in progress */
    float *scratch;          /* [world][piece] */
    int64_t piece;           /* floats of one rank that are summed at a time */
};

#define ORDERED_MOST_BYTES ((int64_t)1 << 30) /* counts of MPI are of type int */

/* Buffers for `world` ranks; plan and exchange are the transport's to set. */
void ordered_init(struct ordered *o, int world);
void ordered_release(struct ordered *o);

/* As in struct comm_ops. */
int ordered_all_reduce(struct comm *c, float *buf, int64_t n, struct error *err);
int ordered_all_reduce_f64(struct comm *c, double *buf, int64_t n, bool max, struct error *err);
int ordered_reduce_scatter(struct comm *c, float *buf, const int64_t *counts, struct error *err);
int ordered_all_gather(struct comm *c, float *buf, const int64_t *counts, struct error *err);
int ordered_broadcast(struct comm *c, void *buf, int64_t bytes, int root, struct error *err);
int ordered_barrier(struct comm *c, struct error *err);

#endif
