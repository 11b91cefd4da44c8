/* Isolated measurements of collectives, by nccl-tests' conventions.
 *
 * S is the buffer of a rank for all_reduce and broadcast, the whole for reduce_scatter and
 * all_gather; algbw = S/t, busbw = algbw times 2(n-1)/n, (n-1)/n or 1 (broadcast); GB = 10^9 bytes;
 * with one rank there is no bus. Everything is float32 and in place, and segments are as even as S
 * allows, not cut to a multiple of the ranks.
 *
 * Exactness: buffers are filled with small integers made from rank and index, so that every sum is
 * exact, and all elements are compared before and after the timed calls, never within.
 *
 * Times are the communicator's own (comm_record): the device's where collectives are queued, else
 * the host's. They hold the wait for the slowest peer; of each call the least over the ranks is
 * nearly the pure transfer, and the spread over the ranks the skew. */
#ifndef WORKLOAD_COMM_PERF_H
#define WORKLOAD_COMM_PERF_H

#include "workload/run.h"

enum comm_perf_op { PERF_ALL_REDUCE, PERF_REDUCE_SCATTER, PERF_ALL_GATHER, PERF_BROADCAST, PERF_N };
extern const char *const comm_perf_names[PERF_N];

struct comm_perf_result {
    enum comm_perf_op op;
    int64_t bytes, count;                          /* count: elements of S */
    double time_us;                                /* mean over calls and ranks */
    double min_us, p50_us, p95_us, p99_us, max_us; /* of the calls of this rank */
    double transfer_us, skew_us;   /* medians over the calls: least over ranks; spread over ranks */
    double algbw_gb_s, busbw_gb_s; /* busbw NaN with one rank */
    int64_t wrong;                 /* elements, over all ranks; -1: not checked */
};

struct comm_perf;

/* Buffers for up to max_bytes; the observer of run->comm is this module's until it is freed. */
int comm_perf_create(struct comm_perf **out, struct run *run, int64_t max_bytes, int64_t iterations,
                     int64_t warmup, bool check, struct error *err);
void comm_perf_free(struct comm_perf *p);
/* One op and size; collective. bytes is a positive multiple of 4, at most max_bytes. */
int comm_perf_run(struct comm_perf *p, enum comm_perf_op op, int64_t bytes,
                  struct comm_perf_result *out, struct error *err);
/* "sum", or NULL where nothing is reduced. */
const char *comm_perf_redop(enum comm_perf_op op);

#endif
