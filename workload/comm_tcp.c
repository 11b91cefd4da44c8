/* Collectives over TCP: comm_ordered.h, carried by frames between all ranks. */
#include "workload/comm_tcp_priv.h"

#include "common/mem.h"

#include <stdlib.h>

static int tcp_init(struct comm *c, const struct comm_config *config, struct error *err)
{
    const int world = config->world;
    struct tcp *t = mem_zalloc(1, sizeof *t);
    c->priv = t;
    t->peers = mem_zalloc((size_t)world, sizeof *t->peers);
    for (int r = 0; r < world; r++)
        t->peers[r].fd = -1;
    t->polls = mem_zalloc((size_t)world, sizeof *t->polls);
    ordered_init(&t->ordered, world);
    t->ordered.plan = tcp_plan;
    t->ordered.exchange = tcp_exchange;
    return tcp_connect_all(c, t, err);
}

static void tcp_close(struct comm *c)
{
    struct tcp *t = c->priv;
    if (!t)
        return;
    tcp_leave(c);
    free(t->peers);
    free(t->polls);
    ordered_release(&t->ordered);
    free(t);
}

const struct comm_ops comm_tcp_ops = {
    .name = "tcp",
    .init = tcp_init,
    .all_reduce_sum = ordered_all_reduce,
    .all_reduce_f64 = ordered_all_reduce_f64,
    .reduce_scatter_sum = ordered_reduce_scatter,
    .all_gather = ordered_all_gather,
    .broadcast = ordered_broadcast,
    .barrier = ordered_barrier,
    .watch = tcp_watch,
    .close = tcp_close,
};
