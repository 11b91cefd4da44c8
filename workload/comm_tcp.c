/* Collectives over TCP: exchanges between all ranks, sums in rank order, so that results are
 * bitwise those of the shm back end. */
#include "workload/comm_tcp_priv.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SMALL                                                                                      \
    2048 /* floats: up to here all ranks sum all elements, one exchange instead of two             \
          */
#define SCRATCH_FLOATS ((int64_t)4 << 20) /* of all ranks together */
#define LEAST_PIECE ((int64_t)4096)
#define MOST_PIECE ((int64_t)1 << 18)

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The part of a segment of n elements that is dealt with in a round. */
static int64_t part(const struct tcp *t, int64_t n, int64_t round, int64_t *length)
{
    int64_t begin = min64(round * t->piece, n);
    *length = min64(t->piece, n - begin);
    return begin;
}

/* Where each segment begins; returns the number of rounds for the longest. */
static int64_t plan_segments(struct tcp *t, const int64_t *counts, int world)
{
    int64_t total = 0, longest = 0;
    for (int r = 0; r < world; r++) {
        t->start[r] = total;
        total += counts[r];
        longest = counts[r] > longest ? counts[r] : longest;
    }
    return (longest + t->piece - 1) / t->piece;
}

static float *scratch_of(const struct tcp *t, int rank)
{
    return t->scratch + rank * t->piece;
}

/* terms[0] + terms[1] + …: the own term is in `own`, the others in the scratch area. */
static void sum_in_rank_order(float *own, const struct comm *c, int64_t n)
{
    const struct tcp *t = c->priv;
    const int me = c->config.rank, world = c->config.world;
    float *acc = scratch_of(t, 0);
    if (me == 0)
        memcpy(acc, own, (size_t)n * sizeof *acc);
    for (int r = 1; r < world; r++) {
        const float *x = r == me ? own : scratch_of(t, r);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            acc[i] += x[i];
    }
    memcpy(own, acc, (size_t)n * sizeof *acc);
}

static int tcp_reduce_scatter(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    struct tcp *t = c->priv;
    const int me = c->config.rank;
    int64_t mine, theirs, rounds = plan_segments(t, counts, c->config.world);
    for (int64_t round = 0; round < rounds; round++) {
        int64_t own = part(t, counts[me], round, &mine);
        for (int r = 0; r < c->config.world; r++) {
            int64_t begin = part(t, counts[r], round, &theirs);
            tcp_plan(t, r, buf + t->start[r] + begin, theirs * (int64_t)sizeof *buf,
                     scratch_of(t, r), mine * (int64_t)sizeof *buf);
        }
        if (tcp_exchange(c, err))
            return -err->code;
        sum_in_rank_order(buf + t->start[me] + own, c, mine);
    }
    return 0;
}

static int tcp_all_gather(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    struct tcp *t = c->priv;
    const int me = c->config.rank;
    int64_t mine, theirs, rounds = plan_segments(t, counts, c->config.world);
    for (int64_t round = 0; round < rounds; round++) {
        int64_t own = part(t, counts[me], round, &mine);
        for (int r = 0; r < c->config.world; r++) {
            int64_t begin = part(t, counts[r], round, &theirs);
            tcp_plan(t, r, buf + t->start[me] + own, mine * (int64_t)sizeof *buf,
                     buf + t->start[r] + begin, theirs * (int64_t)sizeof *buf);
        }
        if (tcp_exchange(c, err))
            return -err->code;
    }
    return 0;
}

static int reduce_small(struct comm *c, float *buf, int64_t n, struct error *err)
{
    struct tcp *t = c->priv;
    for (int r = 0; r < c->config.world; r++)
        tcp_plan(t, r, buf, n * (int64_t)sizeof *buf, scratch_of(t, r), n * (int64_t)sizeof *buf);
    if (tcp_exchange(c, err))
        return -err->code;
    sum_in_rank_order(buf, c, n);
    return 0;
}

static int tcp_all_reduce(struct comm *c, float *buf, int64_t n, struct error *err)
{
    struct tcp *t = c->priv;
    const int world = c->config.world;
    if (n <= SMALL)
        return n ? reduce_small(c, buf, n, err) : 0;
    /* even split; the first n % world ranks own one element more */
    for (int r = 0; r < world; r++)
        t->counts[r] = n / world + (r < n % world);
    if (tcp_reduce_scatter(c, buf, t->counts, err))
        return -err->code;
    return tcp_all_gather(c, buf, t->counts, err);
}

static int tcp_all_reduce_f64(struct comm *c, double *buf, int64_t n, bool max, struct error *err)
{
    struct tcp *t = c->priv;
    const int64_t most = t->piece / 2; /* doubles in a piece */
    for (int64_t at = 0; at < n; at += most) {
        int64_t m = min64(most, n - at);
        for (int r = 0; r < c->config.world; r++)
            tcp_plan(t, r, buf + at, m * (int64_t)sizeof *buf, scratch_of(t, r),
                     m * (int64_t)sizeof *buf);
        if (tcp_exchange(c, err))
            return -err->code;
        memcpy(scratch_of(t, c->config.rank), buf + at, (size_t)m * sizeof *buf);
        for (int64_t i = 0; i < m; i++) {
            double acc = ((const double *)(const void *)scratch_of(t, 0))[i];
            for (int r = 1; r < c->config.world; r++)
                acc = comm_combine(acc, ((const double *)(const void *)scratch_of(t, r))[i], max);
            buf[at + i] = acc;
        }
    }
    return 0;
}

static int tcp_broadcast(struct comm *c, void *buf, int64_t bytes, int root, struct error *err)
{
    struct tcp *t = c->priv;
    for (int r = 0; r < c->config.world; r++) {
        if (c->config.rank == root)
            tcp_plan(t, r, buf, bytes, NULL, 0);
        else
            tcp_plan(t, r, NULL, 0, buf, r == root ? bytes : 0);
    }
    return tcp_exchange(c, err);
}

static int tcp_barrier(struct comm *c, struct error *err)
{
    for (int r = 0; r < c->config.world; r++)
        tcp_plan(c->priv, r, NULL, 0, NULL, 0);
    return tcp_exchange(c, err);
}

static int tcp_init(struct comm *c, const struct comm_config *config, struct error *err)
{
    const int world = config->world;
    struct tcp *t = mem_zalloc(1, sizeof *t);
    c->priv = t;
    t->peers = mem_zalloc((size_t)world, sizeof *t->peers);
    for (int r = 0; r < world; r++)
        t->peers[r].fd = -1;
    t->polls = mem_zalloc((size_t)world, sizeof *t->polls);
    t->start = mem_zalloc(2 * (size_t)world, sizeof *t->start);
    t->counts = t->start + world;
    t->piece = SCRATCH_FLOATS / world;
    t->piece = t->piece > MOST_PIECE ? MOST_PIECE : t->piece < LEAST_PIECE ? LEAST_PIECE : t->piece;
    t->scratch = mem_zalloc((size_t)(world * t->piece), sizeof *t->scratch);
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
    free(t->start);
    free(t->scratch);
    free(t);
}

const struct comm_ops comm_tcp_ops = {
    .name = "tcp",
    .init = tcp_init,
    .all_reduce_sum = tcp_all_reduce,
    .all_reduce_f64 = tcp_all_reduce_f64,
    .reduce_scatter_sum = tcp_reduce_scatter,
    .all_gather = tcp_all_gather,
    .broadcast = tcp_broadcast,
    .barrier = tcp_barrier,
    .watch = tcp_watch,
    .close = tcp_close,
};
