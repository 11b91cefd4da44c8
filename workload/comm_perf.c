#include "workload/comm_perf.h"

#include "common/busbw.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const comm_perf_names[PERF_N] = {"all_reduce", "reduce_scatter", "all_gather",
                                             "broadcast"};

struct comm_perf {
    struct run *run;
    struct comm *comm;
    struct device *device;
    int rank, world;
    int64_t max_bytes, iterations, warmup;
    bool check;
    void *buf;       /* device memory */
    float *host;     /* max_bytes, to fill and to check */
    int64_t *counts; /* [world] */
    double *samples; /* [iterations], us */
    double *across;  /* [2 * iterations], over the ranks */
    int64_t n_samples;
    bool timed; /* calls are samples, not warm-up */
};

const char *comm_perf_redop(enum comm_perf_op op)
{
    return op == PERF_ALL_REDUCE || op == PERF_REDUCE_SCATTER ? "sum" : NULL;
}

static void observe(void *user, const struct comm_record *record)
{
    struct comm_perf *p = user;
    if (record->lost_rank >= 0 || p->timed)
        events_comm(p->run->events, record);
    if (record->lost_rank < 0 && p->timed && p->n_samples < p->iterations)
        p->samples[p->n_samples++] = record->time_us;
}

/* ---- exactness ------------------------------------------------------------------------------- */

/* -30 … 30: sums of up to 2^18 ranks are exact. */
static float value(int rank, int64_t i)
{
    uint64_t x = ((uint64_t)i * 2654435761u) >> 7;
    return (float)((int64_t)((x + (uint64_t)rank * 7) % 61) - 30);
}

static float sum_over_ranks(const struct comm_perf *p, int64_t i)
{
    float sum = 0;
    for (int r = 0; r < p->world; r++)
        sum += value(r, i);
    return sum;
}

static int64_t segment(const struct comm_perf *p, int rank)
{
    int64_t first = 0;
    for (int r = 0; r < rank; r++)
        first += p->counts[r];
    return first;
}

static int64_t differing(const struct comm_perf *p, enum comm_perf_op op, int64_t n)
{
    int64_t wrong = 0, first = 0, end = n;
    if (op == PERF_REDUCE_SCATTER) { /* the rest is undefined */
        first = segment(p, p->rank);
        end = first + p->counts[p->rank];
    }
    int owner = 0;
    for (int64_t i = first, next = p->counts[0]; i < end; i++) {
        while (op == PERF_ALL_GATHER && i >= next)
            next += p->counts[++owner];
        float want = comm_perf_redop(op) ? sum_over_ranks(p, i) : value(owner, i);
        wrong += p->host[i] != want;
    }
    return wrong;
}

static int call(struct comm_perf *p, enum comm_perf_op op, int64_t n, struct error *err)
{
    switch (op) {
    case PERF_ALL_REDUCE: return comm_all_reduce_sum(p->comm, p->buf, n, err);
    case PERF_REDUCE_SCATTER: return comm_reduce_scatter_sum(p->comm, p->buf, p->counts, err);
    case PERF_ALL_GATHER: return comm_all_gather(p->comm, p->buf, p->counts, err);
    default: return comm_broadcast_f32(p->comm, p->buf, n, 0, err);
    }
}

/* Adds the wrong elements of all ranks to *wrong. */
static int verify(struct comm_perf *p, enum comm_perf_op op, int64_t n, int64_t *wrong,
                  struct error *err)
{
    const struct device_ops *d = p->device->ops;
    int64_t bytes = n * (int64_t)sizeof(float);
    for (int64_t i = 0; i < n; i++)
        p->host[i] = value(p->rank, i);
    if (d->to_device(p->device, p->buf, p->host, bytes, err) || call(p, op, n, err) ||
        comm_wait(p->comm, err) || d->to_host(p->device, p->host, p->buf, bytes, err))
        return -err->code;
    double all = (double)differing(p, op, n);
    if (comm_all_reduce_sum_f64(p->comm, &all, 1, err))
        return -err->code;
    *wrong += (int64_t)all;
    return 0;
}

/* ---- times ----------------------------------------------------------------------------------- */

static int repeat(struct comm_perf *p, enum comm_perf_op op, int64_t n, int64_t times,
                  struct error *err)
{
    for (int64_t i = 0; i < times; i++)
        if (call(p, op, n, err))
            return -err->code;
    return comm_wait(p->comm, err);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nearest rank, of sorted values. */
static double percentile(const double *sorted, int64_t n, double q)
{
    int64_t k = (int64_t)ceil(q * (double)n) - 1;
    return sorted[k < 0 ? 0 : k];
}

static double median_of(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* The same call on all ranks: its least time and the spread. */
static int compare_ranks(struct comm_perf *p, struct comm_perf_result *out, struct error *err)
{
    int64_t n = p->iterations;
    for (int64_t i = 0; i < n; i++) {
        p->across[i] = p->samples[i];
        p->across[n + i] = -p->samples[i];
    }
    if (comm_all_reduce_max_f64(p->comm, p->across, 2 * n, err))
        return -err->code;
    for (int64_t i = 0; i < n; i++) {
        double longest = p->across[i], least = -p->across[n + i];
        p->across[i] = longest - least;
        p->across[n + i] = least;
    }
    out->skew_us = median_of(p->across, n);
    out->transfer_us = median_of(p->across + n, n);
    return 0;
}

static int summarise(struct comm_perf *p, struct comm_perf_result *out, struct error *err)
{
    int64_t n = p->iterations;
    double mean = 0;
    if (p->n_samples != n)
        BUG("%lld samples of %lld calls", (long long)p->n_samples, (long long)n);
    for (int64_t i = 0; i < n; i++)
        mean += p->samples[i] / (double)n;
    if (comm_all_reduce_sum_f64(p->comm, &mean, 1, err) || compare_ranks(p, out, err))
        return -err->code;
    qsort(p->samples, (size_t)n, sizeof *p->samples, by_value);
    out->time_us = mean / p->world;
    out->min_us = p->samples[0];
    out->p50_us = percentile(p->samples, n, 0.50);
    out->p95_us = percentile(p->samples, n, 0.95);
    out->p99_us = percentile(p->samples, n, 0.99);
    out->max_us = p->samples[n - 1];
    out->algbw_gb_s = algbw_gb_s((double)out->bytes, out->time_us);
    out->busbw_gb_s = out->algbw_gb_s * busbw_factor(comm_perf_names[out->op], p->world);
    return 0;
}

int comm_perf_run(struct comm_perf *p, enum comm_perf_op op, int64_t bytes,
                  struct comm_perf_result *out, struct error *err)
{
    int64_t n = bytes / (int64_t)sizeof(float);
    *out = (struct comm_perf_result){.op = op, .bytes = bytes, .count = n};
    for (int r = 0; r < p->world; r++)
        p->counts[r] = n / p->world + (r < n % p->world);
    if (p->check && verify(p, op, n, &out->wrong, err))
        return -err->code;
    /* zeros: a sum in place that is repeated would grow beyond all bounds */
    if (p->device->ops->zero(p->device, p->buf, bytes, err) || repeat(p, op, n, p->warmup, err) ||
        comm_barrier(p->comm, err))
        return -err->code;
    p->n_samples = 0;
    p->timed = true;
    int rc = repeat(p, op, n, p->iterations, err);
    p->timed = false;
    if (rc || summarise(p, out, err) || (p->check && verify(p, op, n, &out->wrong, err)))
        return -err->code;
    if (!p->check)
        out->wrong = -1;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int comm_perf_create(struct comm_perf **out, struct run *run, int64_t max_bytes, int64_t iterations,
                     int64_t warmup, bool check, struct error *err)
{
    struct comm_perf *p = mem_zalloc(1, sizeof *p);
    p->run = run;
    p->comm = run->comm;
    p->device = run->device;
    p->rank = comm_rank(run->comm);
    p->world = comm_world(run->comm);
    p->max_bytes = max_bytes;
    p->iterations = iterations;
    p->warmup = warmup;
    p->check = check;
    p->counts = mem_zalloc((size_t)p->world, sizeof *p->counts);
    p->samples = mem_zalloc((size_t)iterations, sizeof *p->samples);
    p->across = mem_zalloc(2 * (size_t)iterations, sizeof *p->across);
    comm_set_observer(p->comm, observe, p);
    if (mem_try_alloc((void **)&p->host, (size_t)max_bytes, "a buffer to check with", err) ||
        p->device->ops->alloc(p->device, &p->buf, max_bytes, "the buffer", err)) {
        comm_perf_free(p);
        return -err->code;
    }
    *out = p;
    return 0;
}

void comm_perf_free(struct comm_perf *p)
{
    if (!p)
        return;
    comm_set_observer(p->comm, events_comm, p->run->events);
    if (p->buf)
        p->device->ops->free(p->device, p->buf, p->max_bytes);
    free(p->host);
    free(p->counts);
    free(p->samples);
    free(p->across);
    free(p);
}
