/* Collectives between forked ranks, against sums computed alone, over shared memory and over tcp.
 */
#include "workload/comm.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/mem.h"
#include "tests/unit/comm_ranks.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void all_reduces(void)
{
    for (int world = 1; world <= RANKS_MAX; world++) {
        ranks_run(world, ranks_all_reduce);
        ranks_expect_all_fine(world);
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Arbitrary segments: empty ones, one that is everything, random ones. */
static int64_t draw_counts(uint32_t *state, int world, int64_t *counts)
{
    int64_t n = 0;
    uint32_t kind = next_random(state) % 4;
    int only = (int)(next_random(state) % (uint32_t)world);
    for (int r = 0; r < world; r++) {
        uint32_t top = kind == 0 ? 40 : kind == 1 ? 3000 : 200000;
        counts[r] = next_random(state) % 3 ? (int64_t)(next_random(state) % top) : 0;
        if (kind == 3 && r != only)
            counts[r] = 0;
        n += counts[r];
    }
    return n;
}

static int check_segments(struct comm *c, const int64_t *counts, int64_t n, struct error *err)
{
    int me = comm_rank(c), world = comm_world(c);
    auto_free float *buf = ranks_values(c, n);
    int64_t start = 0;
    for (int r = 0; r < me; r++)
        start += counts[r];
    if (comm_reduce_scatter_sum(c, buf, counts, err))
        return -err->code;
    for (int64_t i = start; i < start + counts[me]; i++)
        if (buf[i] != ranks_sum(world, i))
            return ranks_wrong(err, "reduce_scatter", i, buf[i], ranks_sum(world, i));
    for (int64_t i = 0; i < n; i++)
        if (i < start || i >= start + counts[me])
            buf[i] = -1e30f;
    if (comm_all_gather(c, buf, counts, err))
        return -err->code;
    for (int64_t i = 0; i < n; i++)
        if (buf[i] != ranks_sum(world, i))
            return ranks_wrong(err, "all_gather", i, buf[i], ranks_sum(world, i));
    return 0;
}

static int random_segments(struct comm *c, struct error *err)
{
    uint32_t state = 12345;
    int64_t counts[RANKS_MAX];
    for (int i = 0; i < 25; i++) {
        int64_t n = draw_counts(&state, comm_world(c), counts);
        if (check_segments(c, counts, n, err))
            return -err->code;
    }
    return 0;
}

static void segments_of_any_length(void)
{
    for (int world = 1; world <= RANKS_MAX; world++) {
        ranks_run(world, random_segments);
        ranks_expect_all_fine(world);
    }
}

static int doubles_and_broadcast(struct comm *c, struct error *err)
{
    int me = comm_rank(c), world = comm_world(c);
    double sums[3] = {1e-300, 1.0 / 3 * (me + 1), me}, top[2] = {-me, me};
    if (comm_all_reduce_sum_f64(c, sums, 3, err) || comm_all_reduce_max_f64(c, top, 2, err))
        return -err->code;
    double expected = 1.0 / 3;
    for (int r = 1; r < world; r++)
        expected += 1.0 / 3 * (r + 1);
    if (sums[1] != expected || sums[2] != world * (world - 1) / 2.0)
        return ranks_wrong(err, "sum of doubles", 1, sums[1], expected);
    if (top[0] != 0 || top[1] != world - 1)
        return ranks_wrong(err, "max of doubles", 1, top[1], world - 1);
    size_t bytes = 1500001;
    auto_free unsigned char *text = mem_alloc(bytes);
    for (int root = 0; root < world; root++) {
        for (size_t i = 0; i < bytes; i++)
            text[i] = me == root ? (unsigned char)(i * 31 + (size_t)root) : 0;
        if (comm_broadcast(c, text, (int64_t)bytes, root, err))
            return -err->code;
        for (size_t i = 0; i < bytes; i++)
            if (text[i] != (unsigned char)(i * 31 + (size_t)root))
                return ranks_wrong(err, "broadcast", (int64_t)i, text[i], 0);
    }
    return comm_barrier(c, err);
}

static void doubles_broadcast_barrier(void)
{
    for (int world = 1; world <= RANKS_MAX; world++) {
        ranks_run(world, doubles_and_broadcast);
        ranks_expect_all_fine(world);
    }
}

static int tell_id(struct comm *c, struct error *err)
{
    (void)err;
    snprintf(ranks[comm_rank(c)].message, sizeof ranks->message, "%s", comm_id(c));
    return error_set(err, 1, "%s", comm_id(c)); /* the message is carried to the parent */
}

static void one_id_a_run(void)
{
    char first[512];
    ranks_run(3, tell_id);
    CU_ASSERT_STR(ranks[1].message, ranks[0].message);
    CU_ASSERT_STR(ranks[2].message, ranks[0].message);
    CU_ASSERT_EQUAL(strlen(ranks[0].message), 32);
    memcpy(first, ranks[0].message, sizeof first);
    ranks_run(3, tell_id);
    CU_ASSERT(strcmp(first, ranks[0].message) != 0);
}

static struct comm_record records[8];
static int n_records;

static void remember(void *user, const struct comm_record *record)
{
    (void)user;
    if (n_records < 8)
        records[n_records++] = *record;
}

static int observed(struct comm *c, struct error *err)
{
    float buf[12] = {0};
    int64_t counts[2] = {5, 7};
    n_records = 0;
    comm_set_observer(c, remember, NULL);
    comm_set_step(c, 41);
    comm_take_time_s(c);
    if (comm_all_reduce_sum(c, buf, 12, err) || comm_reduce_scatter_sum(c, buf, counts, err) ||
        comm_all_gather(c, buf, counts, err) || comm_broadcast(c, buf, 9, 1, err) ||
        comm_barrier(c, err))
        return -err->code;
    static const char *const ops[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                      "barrier"};
    static const int64_t bytes[] = {48, 48, 48, 9, 0};
    double total = 0;
    if (n_records != 5)
        return error_set(err, 99, "%d records", n_records);
    for (int i = 0; i < 5; i++) {
        const struct comm_record *r = &records[i];
        if (strcmp(r->op, ops[i]) != 0 || r->bytes != bytes[i] || r->seq != i || r->step != 41 ||
            r->lost_rank != -1 || r->time_us < 0)
            return error_set(err, 99, "record %d: %s %lld", i, r->op, (long long)r->bytes);
        total += r->time_us * 1e-6;
    }
    double taken = comm_take_time_s(c);
    if (taken < total * 0.999 || taken > total * 1.001 + 1e-9 || comm_take_time_s(c) != 0)
        return error_set(err, 99, "time %g, records %g", taken, total);
    return 0;
}

static void observer_sees_every_collective(void)
{
    ranks_run(2, observed);
    ranks_expect_all_fine(2);
}

static void tcp_all_reduces(void)
{
    ranks_over_tcp(all_reduces);
}

static void tcp_segments(void)
{
    ranks_over_tcp(segments_of_any_length);
}

static void tcp_doubles(void)
{
    ranks_over_tcp(doubles_broadcast_barrier);
}

static void tcp_one_id(void)
{
    ranks_over_tcp(one_id_a_run);
}

static void tcp_observer(void)
{
    ranks_over_tcp(observer_sees_every_collective);
}

UNIT_MAIN({"all_reduce: bitwise the sum in rank order", all_reduces},
          {"segments of any length", segments_of_any_length},
          {"doubles, broadcast, barrier", doubles_broadcast_barrier},
          {"one id a run", one_id_a_run},
          {"the observer sees every collective", observer_sees_every_collective},
          {"tcp: all_reduce: bitwise the sum in rank order", tcp_all_reduces},
          {"tcp: segments of any length", tcp_segments},
          {"tcp: doubles, broadcast, barrier", tcp_doubles}, {"tcp: one id a run", tcp_one_id},
          {"tcp: the observer sees every collective", tcp_observer})
