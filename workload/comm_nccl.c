/* Collectives between GPUs, on any device with struct collective_ops (NCCL on CUDA).
 *
 * Large buffers lie on the device: a call queues the collective and its join and returns; wait
 * polls until it is done, with the deadline, an eye on the peers and on the library's own errors.
 * Whoever is lost, the collectives are ended at once (NCCL's kernels would spin for ever), so that
 * the device can be synced and closed.
 *
 * A second communicator stands beside this one: shm, or tcp where the ranks are on several nodes.
 * It carries the host's small values (loss, norm, agreements, the library's id) and knows which
 * peers are lost (comm_ops.watch). */
#include "workload/comm_priv.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "kernels/collectives.h"
#include "kernels/kernels.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_S 0.05  /* how often a waiting rank looks after its peers */
#define NAP_S 50e-6  /* between two looks at the device */
#define YIELDS 200   /* looks without a nap first: small collectives take microseconds */
#define BLAME_S 1.0  /* after an error of the library: until a dead peer is seen */
#define FINISH_S 5.0 /* patience with the others' orderly end */

struct pending {
    struct comm_record record;
    uint64_t number; /* which of this rank's collectives, from 1 */
    bool joined;
};

struct nccl {
    const struct collective_ops *ops;
    struct collectives *end; /* NULL: not connected, or ended */
    struct device *device;
    const char *identity;
    struct comm *host; /* beside this one */
    uint64_t begun;
    bool broken; /* ended without a rank to blame */
    int n_pending;
    struct pending pending[COLLECTIVE_SLOTS];
};

/* ---- losses ---------------------------------------------------------------------------------- */

static int broken_error(const struct comm *c, const struct comm_record *r, struct error *err)
{
    const struct comm at = {.step = r->step, .op = r->op};
    char where[COMM_WHERE_MAX];
    comm_where(&at, where);
    if (c->lost_rank >= 0)
        return error_set(err, NANOCHAT_EXIT_PEER, "lost rank %d in %s", c->lost_rank, where);
    return error_set(err, NANOCHAT_EXIT_PEER,
                     "rank %d: %s did not complete within %.3g s although no rank is known to be "
                     "lost",
                     c->config.rank, where, c->config.timeout_s);
}

/* The communicator beside this one, under this one's name. */
static struct comm *host_begin(struct comm *c, const char *op, int64_t step)
{
    struct comm *host = ((struct nccl *)c->priv)->host;
    host->op = op;
    host->step = step;
    return host;
}

static int host_end(struct comm *c, int rc)
{
    c->lost_rank = ((struct nccl *)c->priv)->host->lost_rank;
    return rc;
}

/* Is a peer lost? `late`: the deadline has passed, so that something is wrong. */
static int judge(struct comm *c, const struct pending *p, bool late, struct error *err)
{
    struct comm *host = host_begin(c, p->record.op, p->record.step);
    if (host_end(c, host->ops->watch(host, p->number, late, err)))
        return -err->code;
    return late ? broken_error(c, &p->record, err) : 0;
}

static void end_all(struct nccl *n)
{
    if (n->end)
        n->ops->close(n->end);
    n->end = NULL;
    n->broken = true;
}

/* The library says that something is wrong: mostly because a peer is gone, which shows soon. */
static int explain(struct comm *c, const struct pending *p, struct error *cause, struct error *err)
{
    double begin = clock_mono_s();
    while (clock_mono_s() - begin < BLAME_S) {
        if (judge(c, p, false, err)) {
            error_release(cause);
            return -err->code;
        }
        clock_sleep_s(TICK_S);
    }
    const struct comm at = {.step = p->record.step, .op = p->record.op};
    char where[COMM_WHERE_MAX];
    comm_where(&at, where);
    error_move(err, cause);
    return error_wrap(err, "rank %d, %s", c->config.rank, where);
}

struct watch {
    double begin; /* of what has the deadline; NaN: that has not begun */
    double looked;
    int naps;
};

/* Between two looks at the device: a nap, and now and then the peers. */
static int look_around(struct comm *c, const struct pending *p, struct watch *w, struct error *err)
{
    double now = clock_mono_s();
    bool late = now - w->begin > c->config.timeout_s; /* false while begin is NaN */
    if (late || now - w->looked > TICK_S) {
        w->looked = now;
        if (judge(c, p, late, err))
            return -err->code;
    }
    if (w->naps++ < YIELDS)
        sched_yield();
    else
        clock_sleep_s(NAP_S);
    return 0;
}

static struct watch watch_from(double begin)
{
    return (struct watch){begin, clock_mono_s(), 0};
}

/* Until the library's own work in the background is done. */
static int until_idle(struct comm *c, const struct pending *p, struct error *err)
{
    struct nccl *n = c->priv;
    struct watch w = watch_from(clock_mono_s());
    auto_error struct error cause = ERROR_INIT;
    int busy;
    while ((busy = n->ops->poll(n->end, &cause)) > 0)
        if (look_around(c, p, &w, err))
            return -err->code;
    return busy < 0 ? explain(c, p, &cause, err) : 0;
}

/* Until the collective of a slot is done. The deadline runs from where the device has reached it:
 * before that this rank's own work keeps it. */
static int until_done(struct comm *c, int slot, const struct pending *p, struct error *err)
{
    struct nccl *n = c->priv;
    struct watch w = watch_from(NAN);
    auto_error struct error cause = ERROR_INIT;
    double polled = w.looked;
    for (;;) {
        int state = n->ops->state(n->end, slot, &cause);
        if (state == COLLECTIVE_DONE)
            return 0;
        if (state == COLLECTIVE_RUNNING && isnan(w.begin))
            w.begin = clock_mono_s();
        if (state >= 0 && w.looked > polled) {
            polled = w.looked;
            state = n->ops->poll(n->end, &cause);
        }
        if (state < 0)
            return explain(c, p, &cause, err);
        if (look_around(c, p, &w, err))
            return -err->code;
    }
}

/* ---- queueing -------------------------------------------------------------------------------- */

static struct pending next_call(struct comm *c, int64_t bytes)
{
    struct nccl *n = c->priv;
    struct pending p = {
        .number = ++n->begun,
        .record = {.step = c->step, .seq = c->seq, .op = c->op, .bytes = bytes, .lost_rank = -1}};
    if (n->host->ops->begun)
        n->host->ops->begun(n->host, p.number);
    return p;
}

static int usable(struct comm *c, struct error *err)
{
    const struct nccl *n = c->priv;
    const struct comm_record now = {.step = c->step, .op = c->op};
    return n->broken || c->lost_rank >= 0 ? broken_error(c, &now, err) : 0;
}

static int launch(struct comm *c, const struct collective *what, int slot, const struct pending *p,
                  struct error *err)
{
    struct nccl *n = c->priv;
    auto_error struct error cause = ERROR_INIT;
    if (n->ops->launch(n->end, what, slot, &cause))
        explain(c, p, &cause, err);
    else if (!until_idle(c, p, err) && !n->ops->launched(n->end, slot, err))
        return 0;
    end_all(n);
    return -err->code;
}

static int nccl_wait(struct comm *c, struct error *err);

static int queue(struct comm *c, const struct collective *what, struct error *err)
{
    struct nccl *n = c->priv;
    if (usable(c, err) || (n->n_pending == COLLECTIVE_SLOTS && nccl_wait(c, err)))
        return -err->code;
    int slot = n->n_pending;
    struct pending p = next_call(c, what->n * (int64_t)sizeof(float));
    p.joined = !c->overlap;
    if (launch(c, what, slot, &p, err) || (p.joined && n->ops->join(n->end, slot, err)))
        return -err->code;
    n->pending[n->n_pending++] = p;
    return 0;
}

static int wait_for(struct comm *c, int slot, struct error *err)
{
    struct nccl *n = c->priv;
    struct pending *p = &n->pending[slot];
    double begin = clock_mono_s(), seconds, exposed;
    if (until_done(c, slot, p, err)) {
        p->record.lost_rank = c->lost_rank;
        p->record.time_us = (clock_mono_s() - begin) * 1e6;
        if (c->lost_rank >= 0)
            comm_report(c, &p->record);
        return -err->code;
    }
    if (n->ops->times(n->end, slot, &seconds, &exposed, err))
        return -err->code;
    c->time_s += exposed;
    p->record.time_us = seconds * 1e6;
    comm_report(c, &p->record);
    return 0;
}

static int nccl_wait(struct comm *c, struct error *err)
{
    struct nccl *n = c->priv;
    const int last = n->n_pending - 1; /* they end in order */
    if (last >= 0 && !n->pending[last].joined && n->ops->join(n->end, last, err))
        return -err->code;
    for (int slot = 0; slot < n->n_pending; slot++)
        if (wait_for(c, slot, err)) {
            n->n_pending = 0;
            end_all(n);
            return -err->code;
        }
    n->n_pending = 0;
    return n->broken ? usable(c, err) : 0;
}

static int64_t total(const struct comm *c, const int64_t *counts)
{
    int64_t sum = 0;
    for (int r = 0; r < c->config.world; r++)
        sum += counts[r];
    return sum;
}

static int nccl_all_reduce(struct comm *c, float *buf, int64_t n, struct error *err)
{
    const struct collective what = {.kind = COLLECTIVE_ALL_REDUCE, .buf = buf, .n = n};
    return n ? queue(c, &what, err) : 0;
}

static int segments(struct comm *c, enum collective_kind kind, float *buf, const int64_t *counts,
                    struct error *err)
{
    const struct collective what = {
        .kind = kind, .buf = buf, .n = total(c, counts), .counts = counts};
    return what.n ? queue(c, &what, err) : 0;
}

static int nccl_reduce_scatter(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    return segments(c, COLLECTIVE_REDUCE_SCATTER, buf, counts, err);
}

static int nccl_all_gather(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    return segments(c, COLLECTIVE_ALL_GATHER, buf, counts, err);
}

static int nccl_broadcast_f32(struct comm *c, float *buf, int64_t n, int root, struct error *err)
{
    const struct collective what = {.kind = COLLECTIVE_BROADCAST, .buf = buf, .n = n, .root = root};
    return n ? queue(c, &what, err) : 0;
}

/* ---- the host's values ------------------------------------------------------------------------
 */

static int nccl_all_reduce_f64(struct comm *c, double *buf, int64_t n, bool max, struct error *err)
{
    struct comm *host = host_begin(c, c->op, c->step);
    return host_end(c, host->ops->all_reduce_f64(host, buf, n, max, err));
}

static int nccl_broadcast(struct comm *c, void *buf, int64_t bytes, int root, struct error *err)
{
    struct comm *host = host_begin(c, c->op, c->step);
    return host_end(c, host->ops->broadcast(host, buf, bytes, root, err));
}

/* Ranks meet with nothing of their own in flight. */
static int nccl_barrier(struct comm *c, struct error *err)
{
    struct comm *host = host_begin(c, c->op, c->step);
    return nccl_wait(c, err) ? -err->code : host_end(c, host->ops->barrier(host, err));
}

/* ---- life ------------------------------------------------------------------------------------ */

static int connect_ranks(struct comm *c, struct error *err)
{
    struct nccl *n = c->priv;
    unsigned char id[COLLECTIVE_ID_BYTES] = {0};
    if ((c->config.rank == 0 && n->ops->make_id(id, err)) ||
        nccl_broadcast(c, id, sizeof id, 0, err) ||
        n->ops->open(&n->end, n->device, id, c->config.rank, c->config.world, err))
        return -err->code;
    const struct pending p = next_call(c, 0);
    if (!until_idle(c, &p, err))
        return 0;
    end_all(n);
    return -err->code;
}

static int nccl_init(struct comm *c, const struct comm_config *config, struct error *err)
{
    struct nccl *n = mem_zalloc(1, sizeof *n);
    struct comm_config host = *config;
    c->priv = n;
    n->device = config->device;
    n->ops = config->device->collectives;
    n->identity = n->ops->identify(err);
    host.device = NULL;
    host.max_elements = 0;
    if (!n->identity || comm_open(&n->host, &host, err))
        return -err->code;
    memcpy(c->id, n->host->id, sizeof c->id);
    return connect_ranks(c, err);
}

/* Together with the others, if they end too: the library waits for them. */
static void finish(struct nccl *n)
{
    auto_error struct error ignored = ERROR_INIT;
    double begin = clock_mono_s();
    if (n->ops->finish(n->end, &ignored))
        return;
    while (n->ops->poll(n->end, &ignored) > 0 && clock_mono_s() - begin < FINISH_S)
        clock_sleep_s(1e-3);
}

static void nccl_close(struct comm *c)
{
    struct nccl *n = c->priv;
    if (!n)
        return;
    comm_close(n->host); /* first: peers that still wait for this rank hear that it has left */
    if (n->end && !n->n_pending && c->lost_rank < 0)
        finish(n);
    end_all(n);
    free(n);
}

static void nccl_describe(const struct comm *c, json_t *into)
{
    const struct nccl *n = c->priv;
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    json_put_str(into, "library", n->identity);
    json_put_str(into, "host_values", comm_backend(n->host));
    if (nvls)
        json_put_str(into, "nccl_nvls_enable", nvls);
    else
        json_put_null(into, "nccl_nvls_enable", "not set");
}

const struct comm_ops comm_nccl_ops = {
    .name = "nccl",
    .init = nccl_init,
    .all_reduce_sum = nccl_all_reduce,
    .all_reduce_f64 = nccl_all_reduce_f64,
    .reduce_scatter_sum = nccl_reduce_scatter,
    .all_gather = nccl_all_gather,
    .broadcast = nccl_broadcast,
    .broadcast_f32 = nccl_broadcast_f32,
    .barrier = nccl_barrier,
    .wait = nccl_wait,
    .describe = nccl_describe,
    .close = nccl_close,
};
