/* Collectives between the devices of several ranks: the table of a back end whose devices have an
 * interconnect of their own (CUDA with NCCL).
 *
 * The table is thin and never waits: whoever uses it (workload/comm_nccl.c) polls, keeps the
 * deadlines and says who is lost. Order: a collective begins when the device's own stream has
 * done what was queued there before `launch`, and runs on a stream of its own; `join` makes the
 * device's stream wait for it. All ranks launch the same collectives in the same order.
 *
 * Slots number the collectives in flight: each has its events. A slot may be used again once
 * `state` has told COLLECTIVE_DONE for it. One thread at a time. */
#ifndef KERNELS_COLLECTIVES_H
#define KERNELS_COLLECTIVES_H

#include "common/error.h"

#include <stdint.h>

#define COLLECTIVE_ID_BYTES 128
#define COLLECTIVE_SLOTS 64

struct device;
struct collectives; /* one rank's end of a communicator */

enum collective_kind {
    COLLECTIVE_ALL_REDUCE,     /* sum, in place */
    COLLECTIVE_REDUCE_SCATTER, /* in place: the rank's own segment holds the sum */
    COLLECTIVE_ALL_GATHER,     /* in place: every segment as its owner had it */
    COLLECTIVE_BROADCAST,
};
enum collective_state {
    COLLECTIVE_WAITING, /* for earlier work of this rank's own device */
    COLLECTIVE_RUNNING, /* with the peers, or waiting for them */
    COLLECTIVE_DONE,
};

struct collective {
    enum collective_kind kind;
    float *buf;            /* device memory, the whole */
    int64_t n;             /* elements of the whole */
    const int64_t *counts; /* [world], scatter and gather: elements of each rank's segment */
    int root;              /* of a broadcast */
};

/* Errors: NANOCHAT_EXIT_PEER when the cause may lie with another rank, NANOCHAT_EXIT_DEVICE else.
 */
struct collective_ops {
    const char *name;
    /* "NCCL 2.28.9", static; NULL and an error when the library cannot be opened. */
    const char *(*identify)(struct error *err);
    /* On one rank; to be handed to all. */
    int (*make_id)(unsigned char id[COLLECTIVE_ID_BYTES], struct error *err);
    /* Begins to connect; done when poll returns 0. */
    int (*open)(struct collectives **out, struct device *d, const unsigned char *id, int rank,
                int world, struct error *err);
    /* 1: still at work in the background, call again; 0: idle and sound; < 0: failed. */
    int (*poll)(struct collectives *c, struct error *err);
    int (*launch)(struct collectives *c, const struct collective *what, int slot,
                  struct error *err);
    /* To be called when poll returns 0 after a launch. */
    int (*launched)(struct collectives *c, int slot, struct error *err);
    int (*join)(struct collectives *c, int slot, struct error *err);
    /* enum collective_state, or < 0. */
    int (*state)(struct collectives *c, int slot, struct error *err);
    /* Of one that is done: its time, and how long the device's stream stood at the join (0 without
     * one). May wait for the device's stream to pass the join. */
    int (*times)(struct collectives *c, int slot, double *seconds, double *exposed_s,
                 struct error *err);
    /* Begins an orderly end, after which poll returns 0; needs all ranks. */
    int (*finish)(struct collectives *c, struct error *err);
    /* Ends at once what is in flight, unless finish is through; frees. */
    void (*close)(struct collectives *c);
};

#endif
