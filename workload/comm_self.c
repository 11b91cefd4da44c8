/* The communicator of a single rank: every collective is the identity. */
#include "workload/comm_priv.h"

static int self_init(struct comm *c, const struct comm_config *config, struct error *err)
{
    (void)config;
    (void)err;
    comm_make_id(c->id);
    return 0;
}

static int self_reduce(struct comm *c, float *buf, int64_t n, struct error *err)
{
    (void)c, (void)buf, (void)n, (void)err;
    return 0;
}

static int self_reduce_f64(struct comm *c, double *buf, int64_t n, bool max, struct error *err)
{
    (void)c, (void)buf, (void)n, (void)max, (void)err;
    return 0;
}

static int self_segments(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    (void)c, (void)buf, (void)counts, (void)err;
    return 0;
}

static int self_broadcast(struct comm *c, void *buf, int64_t bytes, int root, struct error *err)
{
    (void)c, (void)buf, (void)bytes, (void)root, (void)err;
    return 0;
}

static int self_barrier(struct comm *c, struct error *err)
{
    (void)c, (void)err;
    return 0;
}

static void self_close(struct comm *c)
{
    (void)c;
}

const struct comm_ops comm_self_ops = {
    .name = "self",
    .init = self_init,
    .all_reduce_sum = self_reduce,
    .all_reduce_f64 = self_reduce_f64,
    .reduce_scatter_sum = self_segments,
    .all_gather = self_segments,
    .broadcast = self_broadcast,
    .barrier = self_barrier,
    .close = self_close,
};
