/* Collectives of one node through shared memory.
 *
 * Buffers of any length pass through the ranks' staging areas in rounds, so that the segment stays
 * small. Every element is summed by one rank, in rank order, and then copied: all ranks hold
 * the same bits. */
#include "workload/comm_shm_priv.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

#define LINE 16          /* floats in a cache line */
#define SMALL 2048       /* up to here all ranks sum all elements: one meeting instead of two */
#define PREFIX_BLOCK 512 /* floats: the partial sum in front of the own term, on the stack */

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t chunk_floats(const struct shm *s)
{
    return s->head->chunk_bytes / (int64_t)sizeof(float);
}

static void add(float *into, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        into[i] += x[i];
}

/* terms[0] + terms[1] + … in this order, into terms[own]: the sum in front of the own term is
 * built aside, then each of the two is added once. */
static void sum_block(float *own, const struct shm *s, int rank, int world, uint32_t meeting,
                      int64_t at, int64_t n)
{
    float prefix[PREFIX_BLOCK];
    if (rank > 0) {
        memcpy(prefix, (const float *)shm_stage(s, 0, meeting) + at, (size_t)n * sizeof *prefix);
        for (int r = 1; r < rank; r++)
            add(prefix, (const float *)shm_stage(s, r, meeting) + at, n);
        add(own, prefix, n); /* a + b is b + a to the bit */
    }
    for (int r = rank + 1; r < world; r++)
        add(own, (const float *)shm_stage(s, r, meeting) + at, n);
}

static void sum_in_rank_order(float *own, const struct comm *c, uint32_t meeting, int64_t at,
                              int64_t n)
{
    for (int64_t i = 0; i < n; i += PREFIX_BLOCK)
        sum_block(own + i, c->priv, c->config.rank, c->config.world, meeting, at + i,
                  min64(PREFIX_BLOCK, n - i));
}

/* Where each segment begins in the buffer; the sum of counts. */
static int64_t plan_starts(struct shm *s, const int64_t *counts, int world)
{
    int64_t total = 0;
    for (int r = 0; r < world; r++) {
        s->start[r] = total;
        total += counts[r];
    }
    return total;
}

/* Every segment is cut into the same number of rounds, whatever its length, so that all ranks add
 * at the same time. A round's pieces lie behind each other in the staging area, each from a cache
 * line on: at most total/rounds + LINE * world floats. */
static int64_t plan_scatter(struct shm *s, const int64_t *counts, int world)
{
    int64_t total = plan_starts(s, counts, world), at = 0;
    int64_t rounds = divide_up(total, chunk_floats(s) - (int64_t)LINE * world);
    for (int r = 0; rounds && r < world; r++) {
        s->quota[r] = divide_up(counts[r], rounds);
        s->slot_at[r] = at;
        at += divide_up(s->quota[r], LINE) * LINE;
    }
    return rounds;
}

/* The piece of rank r's segment in a round: its offset in the segment and its length. */
static int64_t piece(const struct shm *s, const int64_t *counts, int r, int64_t round, int64_t *n)
{
    int64_t begin = min64(round * s->quota[r], counts[r]);
    *n = min64(s->quota[r], counts[r] - begin);
    return begin;
}

static int shm_reduce_scatter(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    struct shm *s = c->priv;
    int me = c->config.rank;
    int64_t n, rounds = plan_scatter(s, counts, c->config.world);
    for (int64_t round = 0; round < rounds; round++) {
        uint32_t meeting = s->met + 1;
        float *stage = shm_stage(s, me, meeting);
        for (int r = 0; r < c->config.world; r++) {
            int64_t begin = piece(s, counts, r, round, &n);
            if (r != me && n)
                memcpy(stage + s->slot_at[r], buf + s->start[r] + begin, (size_t)n * sizeof *buf);
        }
        if (shm_meet(c, err))
            return -err->code;
        int64_t begin = piece(s, counts, me, round, &n);
        sum_in_rank_order(buf + s->start[me] + begin, c, meeting, s->slot_at[me], n);
    }
    return 0;
}

static int64_t plan_gather(struct shm *s, const int64_t *counts, int world)
{
    int64_t rounds = 0;
    plan_starts(s, counts, world);
    for (int r = 0; r < world; r++) {
        int64_t own = divide_up(counts[r], chunk_floats(s));
        rounds = own > rounds ? own : rounds;
    }
    for (int r = 0; rounds && r < world; r++)
        s->quota[r] = divide_up(counts[r], rounds);
    return rounds;
}

static int shm_all_gather(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    struct shm *s = c->priv;
    int me = c->config.rank;
    int64_t n, rounds = plan_gather(s, counts, c->config.world);
    for (int64_t round = 0; round < rounds; round++) {
        uint32_t meeting = s->met + 1;
        int64_t begin = piece(s, counts, me, round, &n);
        if (n)
            memcpy(shm_stage(s, me, meeting), buf + s->start[me] + begin, (size_t)n * sizeof *buf);
        if (shm_meet(c, err))
            return -err->code;
        for (int r = 0; r < c->config.world; r++) {
            begin = piece(s, counts, r, round, &n);
            if (r != me && n)
                memcpy(buf + s->start[r] + begin, shm_stage(s, r, meeting),
                       (size_t)n * sizeof *buf);
        }
    }
    return 0;
}

static int reduce_small(struct comm *c, float *buf, int64_t n, struct error *err)
{
    struct shm *s = c->priv;
    uint32_t meeting = s->met + 1;
    memcpy(shm_stage(s, c->config.rank, meeting), buf, (size_t)n * sizeof *buf);
    if (shm_meet(c, err))
        return -err->code;
    sum_in_rank_order(buf, c, meeting, 0, n);
    return 0;
}

/* Even split; the first n % world ranks own one element more. */
static int reduce_large(struct comm *c, float *buf, int64_t n, struct error *err)
{
    struct shm *s = c->priv;
    int world = c->config.world;
    int64_t *counts = s->slot_at + world;
    for (int r = 0; r < world; r++)
        counts[r] = n / world + (r < n % world);
    if (shm_reduce_scatter(c, buf, counts, err))
        return -err->code;
    return shm_all_gather(c, buf, counts, err);
}

static int shm_all_reduce(struct comm *c, float *buf, int64_t n, struct error *err)
{
    if (n == 0)
        return 0;
    if (n <= SMALL && n <= chunk_floats(c->priv))
        return reduce_small(c, buf, n, err);
    return reduce_large(c, buf, n, err);
}

static int shm_all_reduce_f64(struct comm *c, double *buf, int64_t n, bool max, struct error *err)
{
    struct shm *s = c->priv;
    int64_t chunk = s->head->chunk_bytes / (int64_t)sizeof *buf;
    for (int64_t at = 0; at < n; at += chunk) {
        int64_t m = min64(chunk, n - at);
        uint32_t meeting = s->met + 1;
        memcpy(shm_stage(s, c->config.rank, meeting), buf + at, (size_t)m * sizeof *buf);
        if (shm_meet(c, err))
            return -err->code;
        for (int64_t i = 0; i < m; i++) {
            double acc = ((const double *)shm_stage(s, 0, meeting))[i];
            for (int r = 1; r < c->config.world; r++)
                acc = comm_combine(acc, ((const double *)shm_stage(s, r, meeting))[i], max);
            buf[at + i] = acc;
        }
    }
    return 0;
}

static int shm_broadcast(struct comm *c, void *buf, int64_t bytes, int root, struct error *err)
{
    struct shm *s = c->priv;
    int64_t chunk = s->head->chunk_bytes;
    for (int64_t at = 0; at < bytes; at += chunk) {
        size_t m = (size_t)min64(chunk, bytes - at);
        uint32_t meeting = s->met + 1;
        if (c->config.rank == root)
            memcpy(shm_stage(s, root, meeting), (char *)buf + at, m);
        if (shm_meet(c, err))
            return -err->code;
        if (c->config.rank != root)
            memcpy((char *)buf + at, shm_stage(s, root, meeting), m);
    }
    return 0;
}

static int shm_init(struct comm *c, const struct comm_config *config, struct error *err)
{
    struct shm *s = mem_zalloc(1, sizeof *s);
    c->priv = s;
    /* one block: quota, start, slot_at, and the counts of reduce_large */
    s->quota = mem_zalloc(4 * (size_t)config->world, sizeof *s->quota);
    s->start = s->quota + config->world;
    s->slot_at = s->start + config->world;
    return shm_attach(c, s, err);
}

static void shm_close(struct comm *c)
{
    struct shm *s = c->priv;
    if (!s)
        return;
    shm_detach(c, s);
    free(s->quota);
    free(s);
}

const struct comm_ops comm_shm_ops = {
    .name = "shm",
    .init = shm_init,
    .all_reduce_sum = shm_all_reduce,
    .all_reduce_f64 = shm_all_reduce_f64,
    .reduce_scatter_sum = shm_reduce_scatter,
    .all_gather = shm_all_gather,
    .broadcast = shm_broadcast,
    .barrier = shm_meet,
    .begun = shm_begun,
    .watch = shm_watch,
    .close = shm_close,
};
