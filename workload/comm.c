#include "workload/comm.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "kernels/kernels.h"
#include "workload/comm_priv.h"
#include "workload/step_page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_S 60

void comm_make_id(char out[static COMM_ID_MAX])
{
    unsigned char bytes[(COMM_ID_MAX - 1) / 2];
    /* at most 256 bytes are never cut short; only a kernel without getrandom fails */
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        BUG("getrandom failed: errno %d", errno);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void comm_where(const struct comm *c, char out[static COMM_WHERE_MAX])
{
    if (c->step >= 0)
        snprintf(out, COMM_WHERE_MAX, "%s of step %lld", c->op, (long long)c->step);
    else
        snprintf(out, COMM_WHERE_MAX, "%s before the first step", c->op);
}

/* Buffers of a device that is not the CPU. */
static const struct comm_ops *choose_device(const struct comm_config *config, const char *wanted,
                                            struct error *err)
{
    const struct device *d = config->device;
    if (strcmp(wanted, "auto") != 0) {
        error_set(err, NANOCHAT_EXIT_USAGE,
                  "--comm=%s is for buffers of the CPU, expected auto on %s", wanted, d->ops->name);
    } else if (!d->collectives) {
        error_set(err, NANOCHAT_EXIT_DEVICE,
                  "%d ranks on %s, but this build has no collectives between its devices",
                  config->world, d->ops->name);
        error_hint(err, "build where nccl.h is found (make CUDA=1 prints what it found)");
    }
    return err->code ? NULL : &comm_nccl_ops;
}

/* By name, or the fastest that reaches all ranks; NULL and an error where nothing connects them. */
static const struct comm_ops *choose(const struct comm_config *config, struct error *err)
{
    const struct device *d = config->device;
    const char *wanted = config->backend ? config->backend : "auto";
    const bool one_node = config->local_world == config->world;
    const bool mpi = !strcmp(wanted, "mpi");
    if (config->world == 1 && !mpi) /* MPI may know of more ranks than the environment tells */
        return &comm_self_ops;
    if (d && (d->collectives || strcmp(d->ops->name, "cpu") != 0))
        return choose_device(config, wanted, err);
    if (!strcmp(wanted, "auto"))
        return one_node ? &comm_shm_ops : &comm_tcp_ops;
    if (mpi)
        return &comm_mpi_ops;
    if (!strcmp(wanted, "tcp"))
        return &comm_tcp_ops;
    if (strcmp(wanted, "shm") != 0)
        error_set(err, NANOCHAT_EXIT_USAGE, "communicator \"%s\", expected auto, shm, tcp or mpi",
                  wanted);
    else if (!one_node)
        error_set(err, NANOCHAT_EXIT_PLAN,
                  "%d of %d ranks are on this node, but the shm communicator connects the ranks of "
                  "one node only; tcp connects several nodes",
                  config->local_world, config->world);
    return err->code ? NULL : &comm_shm_ops;
}

/* Can the ranks find each other, and no others? MPI's know each other already. */
static int check_meeting(const struct comm_config *config, const struct comm_ops *ops,
                         struct error *err)
{
    if (config->world == 1 || ops == &comm_mpi_ops || !(config->nameless || config->no_address))
        return 0;
    if (config->no_address) {
        error_set(err, NANOCHAT_EXIT_USAGE,
                  "ranks on several nodes, but nothing says on which rank 0 is");
        return error_hint(err, "set " ENV_MASTER_ADDR
                               " to its node for all ranks, as in mpirun -x " ENV_MASTER_ADDR
                               "=HOST; or --comm=mpi");
    }
    error_set(err, NANOCHAT_EXIT_USAGE,
              "the launcher gives this run no name, so that another one on this node could be "
              "taken for it");
    return error_hint(err,
                      "set " ENV_MASTER_PORT " to a port of its own for all ranks; or --comm=mpi");
}

int comm_open(struct comm **out, const struct comm_config *config, struct error *err)
{
    const struct comm_ops *ops = choose(config, err);
    if (!ops || check_meeting(config, ops, err))
        return -err->code;
    struct comm *c = mem_zalloc(1, sizeof *c);
    c->config = *config;
    if (!c->config.master_addr)
        c->config.master_addr = "127.0.0.1";
    if (!(c->config.timeout_s > 0))
        c->config.timeout_s = DEFAULT_TIMEOUT_S;
    c->lost_rank = -1;
    c->step = STEP_NONE;
    c->step_cell = step_page_cell(config->local_rank);
    c->op = "init";
    c->ops = ops;
    if (c->ops->init(c, &c->config, err) || c->ops->barrier(c, err)) {
        comm_close(c);
        return -err->code;
    }
    *out = c;
    return 0;
}

void comm_close(struct comm *c)
{
    if (!c)
        return;
    c->ops->close(c);
    free(c);
}

void comm_forget(const struct comm_config *config)
{
    comm_shm_forget(config);
}

int comm_rank(const struct comm *c)
{
    return c->config.rank;
}

int comm_world(const struct comm *c)
{
    return c->config.world;
}

const char *comm_backend(const struct comm *c)
{
    return c->ops->name;
}

const char *comm_id(const struct comm *c)
{
    return c->id;
}

void comm_set_observer(struct comm *c, comm_observer *observer, void *user)
{
    c->observer = observer;
    c->observer_user = user;
}

void comm_set_step(struct comm *c, int64_t step)
{
    c->step = step;
    if (c->step_cell)
        atomic_store_explicit(c->step_cell, step, memory_order_relaxed);
}

double comm_take_time_s(struct comm *c)
{
    double t = c->time_s;
    c->time_s = 0;
    return t;
}

double comm_time_s(const struct comm *c)
{
    return c->time_s;
}

json_t *comm_describe(const struct comm *c)
{
    json_t *about = json_object();
    json_put_str(about, "backend", c->ops->name);
    json_put_str(about, "comm_id", c->id);
    if (c->ops->describe)
        c->ops->describe(c, about);
    return about;
}

void comm_report(const struct comm *c, const struct comm_record *record)
{
    if (c->observer)
        c->observer(c->observer_user, record);
}

/* Every collective is one begin and one end around the back end's work. */
static double call_begin(struct comm *c, const char *op)
{
    c->op = op;
    return clock_mono_s();
}

static int call_end(struct comm *c, double begin_s, int64_t bytes, int rc)
{
    double elapsed = clock_mono_s() - begin_s;
    c->time_s += elapsed;
    const struct comm_record record = {.step = c->step,
                                       .seq = c->seq++,
                                       .op = c->op,
                                       .bytes = bytes,
                                       .time_us = elapsed * 1e6,
                                       .lost_rank = rc ? c->lost_rank : -1};
    if (!rc || c->lost_rank >= 0)
        comm_report(c, &record);
    return rc;
}

/* As call_end for calls on device buffers: where they are only queued, `wait` reports them. */
static int queue_end(struct comm *c, double begin_s, int64_t bytes, int rc)
{
    if (rc || !c->ops->wait)
        return call_end(c, begin_s, bytes, rc);
    c->seq++;
    return 0;
}

static int64_t counts_total(const struct comm *c, const int64_t *counts)
{
    int64_t total = 0;
    for (int r = 0; r < c->config.world; r++)
        total += counts[r];
    return total;
}

int comm_all_reduce_sum(struct comm *c, float *buf, int64_t n, struct error *err)
{
    double t = call_begin(c, "all_reduce");
    int rc = c->ops->all_reduce_sum(c, buf, n, err);
    return queue_end(c, t, n * (int64_t)sizeof *buf, rc);
}

static int all_reduce_f64(struct comm *c, double *buf, int64_t n, bool max, struct error *err)
{
    double t = call_begin(c, max ? "all_reduce_max" : "all_reduce");
    int rc = c->ops->all_reduce_f64(c, buf, n, max, err);
    return call_end(c, t, n * (int64_t)sizeof *buf, rc);
}

int comm_all_reduce_sum_f64(struct comm *c, double *buf, int64_t n, struct error *err)
{
    return all_reduce_f64(c, buf, n, false, err);
}

int comm_all_reduce_max_f64(struct comm *c, double *buf, int64_t n, struct error *err)
{
    return all_reduce_f64(c, buf, n, true, err);
}

int comm_reduce_scatter_sum(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    double t = call_begin(c, "reduce_scatter");
    int rc = c->ops->reduce_scatter_sum(c, buf, counts, err);
    return queue_end(c, t, counts_total(c, counts) * (int64_t)sizeof *buf, rc);
}

int comm_all_gather(struct comm *c, float *buf, const int64_t *counts, struct error *err)
{
    double t = call_begin(c, "all_gather");
    int rc = c->ops->all_gather(c, buf, counts, err);
    return queue_end(c, t, counts_total(c, counts) * (int64_t)sizeof *buf, rc);
}

int comm_broadcast(struct comm *c, void *buf, int64_t bytes, int root, struct error *err)
{
    double t = call_begin(c, "broadcast");
    int rc = c->ops->broadcast(c, buf, bytes, root, err);
    return call_end(c, t, bytes, rc);
}

int comm_broadcast_f32(struct comm *c, float *buf, int64_t n, int root, struct error *err)
{
    int64_t bytes = n * (int64_t)sizeof *buf;
    double t = call_begin(c, "broadcast");
    int rc = c->ops->broadcast_f32 ? c->ops->broadcast_f32(c, buf, n, root, err)
                                   : c->ops->broadcast(c, buf, bytes, root, err);
    return queue_end(c, t, bytes, rc);
}

int comm_barrier(struct comm *c, struct error *err)
{
    double t = call_begin(c, "barrier");
    return call_end(c, t, 0, c->ops->barrier(c, err));
}

int comm_wait(struct comm *c, struct error *err)
{
    return c->ops->wait ? c->ops->wait(c, err) : 0;
}

bool comm_can_overlap(const struct comm *c)
{
    return c->ops->wait != NULL;
}

void comm_set_overlap(struct comm *c, bool overlap)
{
    c->overlap = overlap;
}
