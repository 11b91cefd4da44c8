/* A piece of work that queues the same ops on the same memory every time, as a graph of the device:
 * captured once, then launched as a whole. The device does the same in the same order, so the bits
 * are those of queueing it op by op; the host has less to do. */
#ifndef WORKLOAD_REPLAY_H
#define WORKLOAD_REPLAY_H

#include "kernels/kernels.h"

typedef int replay_work(void *user, struct error *err);

struct replay {
    struct device *device; /* borrowed */
    bool armed;            /* off at first: the work is queued op by op */
    bool renews; /* its ops take numbers that change (device_ops.graph_renew): one such a device */
    struct device_graph *graph;
    int64_t launches, captures;
    char why[160]; /* it could not be captured, and is not tried again; "" */
};

/* The work, in whichever way. Armed, it must have been queued op by op before, with the same
 * shapes, and must neither wait nor touch memory of the host. */
int replay_run(struct replay *r, replay_work *work, void *user, struct error *err);
void replay_close(struct replay *r);

#endif
