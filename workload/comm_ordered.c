#include "workload/comm_ordered.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

/* Floats: up to here all ranks sum all elements, one exchange instead of two. */
#define SMALL 2048
#define SCRATCH_FLOATS ((int64_t)4 << 20) /* of all ranks together */
#define LEAST_PIECE ((int64_t)4096)
#define MOST_PIECE ((int64_t)1 << 18)

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The part of a segment of n elements that is dealt with in a round. */
static int64_t part(const struct ordered *o, int64_t n, int64_t round, int64_t *length)
{
    int64_t begin = min64(round * o->piece, n);
    *length = min64(o->piece, n - begin);
    return begin;
}

/* Where each segment begins; returns the number of rounds for the longest. */
static int64_t plan_segments(struct ordered *o, const int64_t *counts, int world)
{
    int64_t total = 0, longest = 0;
    for (int r = 0; r < world; r++) {
        o->start[r] = total;
        total += counts[r];
        longest = counts[r] > longest ? counts[r] : longest;
    }
    return (longest + o->piece - 1) / o->piece;
}

static float *scratch_of(const struct ordered *o, int rank)
{
    return o->scratch + rank * o->piece;
}

/* terms[0] + terms[1] + …: the own term is in `own`, the others in the scratch area. */
static void sum_in_rank_order(float *own, const struct comm *c, int64_t n)
{
    const struct ordered *o = c->priv;
    const int me = c->config.rank, world = c->config.world;
    float *acc = scratch_of(o, 0);
    if (me == 0)
        memcpy(acc, own, (size_t)n * sizeof *acc);
    for (int r = 1; r < world; r++) {
        const float *x = r == me ? own : scratch_of(o, r);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            acc[i] += x[i];
    }
    memcpy(own, acc, (size_t)n * sizeof *acc);
}

int ordered_reduce_scatter(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    struct ordered *o = c->priv;
    const int me = c->config.rank;
    int64_t mine, theirs, rounds = plan_segments(o, counts, c->config.world);
    for (int64_t round = 0; round < rounds; round++) {
        int64_t own = part(o, counts[me], round, &mine);
        for (int r = 0; r < c->config.world; r++) {
            int64_t begin = part(o, counts[r], round, &theirs);
            o->plan(c, r, buf + o->start[r] + begin, theirs * (int64_t)sizeof *buf,
                    scratch_of(o, r), mine * (int64_t)sizeof *buf);
        }
        if (o->exchange(c, err))
            return -err->code;
        sum_in_rank_order(buf + o->start[me] + own, c, mine);
    }
    return 0;
}

int ordered_all_gather(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    struct ordered *o = c->priv;
    const int me = c->config.rank;
    int64_t mine, theirs, rounds = plan_segments(o, counts, c->config.world);
    for (int64_t round = 0; round < rounds; round++) {
        int64_t own = part(o, counts[me], round, &mine);
        for (int r = 0; r < c->config.world; r++) {
            int64_t begin = part(o, counts[r], round, &theirs);
            o->plan(c, r, buf + o->start[me] + own, mine * (int64_t)sizeof *buf,
                    buf + o->start[r] + begin, theirs * (int64_t)sizeof *buf);
        }
        if (o->exchange(c, err))
            return -err->code;
    }
    return 0;
}

static int reduce_small(struct comm *c, float *buf, int64_t n, struct error *err)
{
    struct ordered *o = c->priv;
    for (int r = 0; r < c->config.world; r++)
        o->plan(c, r, buf, n * (int64_t)sizeof *buf, scratch_of(o, r), n * (int64_t)sizeof *buf);
    if (o->exchange(c, err))
        return -err->code;
    sum_in_rank_order(buf, c, n);
    return 0;
}

int ordered_all_reduce(struct comm *c, float *buf, int64_t n, struct error *err)
{
    struct ordered *o = c->priv;
    const int world = c->config.world;
    if (n <= SMALL)
        return n ? reduce_small(c, buf, n, err) : 0;
    /* even split; the first n % world ranks own one element more */
    for (int r = 0; r < world; r++)
        o->counts[r] = n / world + (r < n % world);
    if (ordered_reduce_scatter(c, buf, o->counts, err))
        return -err->code;
    return ordered_all_gather(c, buf, o->counts, err);
}

int ordered_all_reduce_f64(struct comm *c, double *buf, int64_t n, bool max, struct error *err)
{
    struct ordered *o = c->priv;
    const int64_t most = o->piece / 2; /* doubles in a piece */
    for (int64_t at = 0; at < n; at += most) {
        int64_t m = min64(most, n - at);
        for (int r = 0; r < c->config.world; r++)
            o->plan(c, r, buf + at, m * (int64_t)sizeof *buf, scratch_of(o, r),
                    m * (int64_t)sizeof *buf);
        if (o->exchange(c, err))
            return -err->code;
        memcpy(scratch_of(o, c->config.rank), buf + at, (size_t)m * sizeof *buf);
        for (int64_t i = 0; i < m; i++) {
            double acc = ((const double *)(const void *)scratch_of(o, 0))[i];
            for (int r = 1; r < c->config.world; r++)
                acc = comm_combine(acc, ((const double *)(const void *)scratch_of(o, r))[i], max);
            buf[at + i] = acc;
        }
    }
    return 0;
}

int ordered_broadcast(struct comm *c, void *buf, int64_t bytes, int root, struct error *err)
{
    struct ordered *o = c->priv;
    int64_t at = 0;
    do {
        char *piece = (char *)buf + at;
        int64_t n = min64(bytes - at, ORDERED_MOST_BYTES);
        for (int r = 0; r < c->config.world; r++) {
            if (c->config.rank == root)
                o->plan(c, r, piece, n, NULL, 0);
            else
                o->plan(c, r, NULL, 0, piece, r == root ? n : 0);
        }
        if (o->exchange(c, err))
            return -err->code;
        at += n;
    } while (at < bytes);
    return 0;
}

int ordered_barrier(struct comm *c, struct error *err)
{
    struct ordered *o = c->priv;
    for (int r = 0; r < c->config.world; r++)
        o->plan(c, r, NULL, 0, NULL, 0);
    return o->exchange(c, err);
}

void ordered_init(struct ordered *o, int world)
{
    int64_t piece = SCRATCH_FLOATS / world;
    o->piece = piece > MOST_PIECE ? MOST_PIECE : piece < LEAST_PIECE ? LEAST_PIECE : piece;
    o->scratch = mem_zalloc((size_t)(world * o->piece), sizeof *o->scratch);
    o->start = mem_zalloc(2 * (size_t)world, sizeof *o->start);
    o->counts = o->start + world;
}

void ordered_release(struct ordered *o)
{
    free(o->start);
    free(o->scratch);
}
