/* Collectives by NCCL. The library is opened when a communicator is made, so that a single GPU
 * needs none; only its header is needed to build.
 *
 * Communicators are non-blocking: a call may answer ncclInProgress, then poll tells when it is
 * through. Segments of equal length are one ncclReduceScatter or ncclAllGather, others a group of
 * ncclReduce or ncclBroadcast, one an owner: nothing is padded. */
#ifdef HAVE_NCCL
#include "common/protocol.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/stream.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnccl.so.2"
#define OLDEST NCCL_VERSION(2, 18, 1) /* non-blocking communicators that can be finalised */

_Static_assert(sizeof(ncclUniqueId) == COLLECTIVE_ID_BYTES, "the size of NCCL's unique id");

#define NCCL_CALLS(X)                                                                              \
    X(GetVersion)                                                                                  \
    X(GetUniqueId)                                                                                 \
    X(GetErrorString)                                                                              \
    X(GetLastError)                                                                                \
    X(CommInitRankConfig)                                                                          \
    X(CommGetAsyncError)                                                                           \
    X(CommFinalize)                                                                                \
    X(CommDestroy)                                                                                 \
    X(CommAbort)                                                                                   \
    X(GroupStart)                                                                                  \
    X(GroupEnd)                                                                                    \
    X(AllReduce)                                                                                   \
    X(Reduce)                                                                                      \
    X(ReduceScatter)                                                                               \
    X(AllGather)                                                                                   \
    X(Broadcast)
#define MEMBER(name) __typeof__(&nccl##name) name;
static struct {
    NCCL_CALLS(MEMBER)
    char version[32];
} api; /* filled once, read only afterwards */

struct slot {
    cudaEvent_t begin, end;   /* on the communication stream */
    cudaEvent_t reach, leave; /* on the device's stream, around the join */
    bool joined;
};

struct collectives {
    ncclComm_t comm;
    cudaStream_t stream, compute;
    cudaEvent_t order; /* the point of the device's stream that a launch waits for */
    int rank, world;
    bool finishing, finished; /* begun; through: it may be destroyed, not aborted */
    struct slot slots[COLLECTIVE_SLOTS];
};

/* ---- errors ---------------------------------------------------------------------------------- */

static int cuda_error(struct error *err, cudaError_t rc, const char *what)
{
    cudaGetLastError();
    return error_set(err, NANOCHAT_EXIT_DEVICE, "CUDA: %s: %s", what, cudaGetErrorString(rc));
}
#define TRY(call)                                                                                  \
    do {                                                                                           \
        cudaError_t rc_ = (call);                                                                  \
        if (rc_ != cudaSuccess)                                                                    \
            return cuda_error(err, rc_, #call);                                                    \
    } while (0)

static int nccl_error(struct error *err, struct collectives *c, ncclResult_t rc, const char *what)
{
    bool peer = rc == ncclRemoteError || rc == ncclSystemError || rc == ncclInternalError;
    const char *more = api.GetLastError(c ? c->comm : NULL);
    return error_set(err, peer ? NANOCHAT_EXIT_PEER : NANOCHAT_EXIT_DEVICE, "NCCL: %s: %s%s%s",
                     what, api.GetErrorString(rc), more && *more ? ": " : "", more ? more : "");
}

static bool is_failure(ncclResult_t rc)
{
    return rc != ncclSuccess && rc != ncclInProgress;
}

/* ---- library --------------------------------------------------------------------------------- */

static int find_calls(void *library, struct error *err)
{
#define FIND(name)                                                                                 \
    api.name = (__typeof__(api.name))dlsym(library, "nccl" #name);                                 \
    if (!api.name)                                                                                 \
        return error_set(err, NANOCHAT_EXIT_DEVICE, LIBRARY " has no nccl" #name);
    NCCL_CALLS(FIND)
    return 0;
}

static int load(struct error *err)
{
    if (api.version[0])
        return 0;
    const char *given = getenv("NANOCHAT_NCCL_LIB");
    const char *path = given && *given ? given : LIBRARY;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* for the life of the process */
    if (!library) {
        error_set(err, NANOCHAT_EXIT_DEVICE, "NCCL cannot be opened: %s", dlerror());
        return error_hint(err, "several GPUs need " LIBRARY
                               "; put it where the loader finds it, or give its path in "
                               "NANOCHAT_NCCL_LIB");
    }
    int version = 0;
    if (find_calls(library, err))
        return -err->code;
    api.GetVersion(&version);
    if (version < OLDEST)
        return error_set(err, NANOCHAT_EXIT_DEVICE, "%s is version %d, expected %d or newer", path,
                         version, OLDEST);
    snprintf(api.version, sizeof api.version, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    return 0;
}

static const char *identify(struct error *err)
{
    return load(err) ? NULL : api.version;
}

static int make_id(unsigned char id[COLLECTIVE_ID_BYTES], struct error *err)
{
    ncclUniqueId unique;
    if (load(err))
        return -err->code;
    ncclResult_t rc = api.GetUniqueId(&unique);
    if (rc != ncclSuccess)
        return nccl_error(err, NULL, rc, "ncclGetUniqueId");
    memcpy(id, &unique, sizeof unique);
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int make_streams(struct collectives *c, struct error *err)
{
    int lowest, highest;
    TRY(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    TRY(cudaStreamCreateWithPriority(&c->stream, cudaStreamNonBlocking, highest));
    TRY(cudaEventCreateWithFlags(&c->order, cudaEventDisableTiming));
    for (int i = 0; i < COLLECTIVE_SLOTS; i++) {
        TRY(cudaEventCreate(&c->slots[i].begin));
        TRY(cudaEventCreate(&c->slots[i].end));
        TRY(cudaEventCreate(&c->slots[i].reach));
        TRY(cudaEventCreate(&c->slots[i].leave));
    }
    return 0;
}

static void close_comm(struct collectives *c)
{
    if (!c->comm)
        return;
    if (c->finished)
        api.CommDestroy(c->comm);
    else
        api.CommAbort(c->comm);
    c->comm = NULL;
}

static void nccl_close(struct collectives *c)
{
    close_comm(c);
    for (int i = 0; i < COLLECTIVE_SLOTS; i++) {
        const cudaEvent_t events[] = {c->slots[i].begin, c->slots[i].end, c->slots[i].reach,
                                      c->slots[i].leave};
        for (size_t k = 0; k < sizeof events / sizeof *events; k++)
            if (events[k])
                cudaEventDestroy(events[k]);
    }
    if (c->order)
        cudaEventDestroy(c->order);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    cudaGetLastError();
    free(c);
}

static int connect_ranks(struct collectives *c, const unsigned char *id, struct error *err)
{
    ncclUniqueId unique;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    memcpy(&unique, id, sizeof unique);
    config.blocking = 0;
    ncclResult_t rc = api.CommInitRankConfig(&c->comm, c->world, unique, c->rank, &config);
    return is_failure(rc) ? nccl_error(err, c, rc, "ncclCommInitRankConfig") : 0;
}

static int nccl_open(struct collectives **out, struct device *d, const unsigned char *id, int rank,
                     int world, struct error *err)
{
    if (load(err))
        return -err->code;
    struct collectives *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, NANOCHAT_EXIT_OOM, "no memory for a communicator");
    c->rank = rank;
    c->world = world;
    c->compute = cuda_device_stream(d);
    if (make_streams(c, err) || connect_ranks(c, id, err)) {
        nccl_close(c);
        return -err->code;
    }
    *out = c;
    return 0;
}

static int nccl_poll(struct collectives *c, struct error *err)
{
    ncclResult_t state = ncclSuccess, rc = api.CommGetAsyncError(c->comm, &state);
    if (rc != ncclSuccess)
        return nccl_error(err, c, rc, "ncclCommGetAsyncError");
    if (is_failure(state))
        return nccl_error(err, c, state, "communicator");
    c->finished = c->finishing && state == ncclSuccess;
    return state == ncclInProgress;
}

static int nccl_finish(struct collectives *c, struct error *err)
{
    ncclResult_t rc = api.CommFinalize(c->comm);
    if (is_failure(rc))
        return nccl_error(err, c, rc, "ncclCommFinalize");
    c->finishing = true;
    return 0;
}

/* ---- a collective ---------------------------------------------------------------------------- */

static bool are_equal(const int64_t *counts, int world)
{
    for (int r = 1; r < world; r++)
        if (counts[r] != counts[0])
            return false;
    return true;
}

static ncclResult_t scatter_equal(struct collectives *c, const struct collective *what)
{
    size_t part = (size_t)what->counts[0];
    float *buf = what->buf, *own = buf + part * (size_t)c->rank;
    if (what->kind == COLLECTIVE_REDUCE_SCATTER)
        return api.ReduceScatter(buf, own, part, ncclFloat32, ncclSum, c->comm, c->stream);
    return api.AllGather(own, buf, part, ncclFloat32, c->comm, c->stream);
}

/* Segments of any length: every owner's as a reduction to it, or a broadcast from it. */
static ncclResult_t scatter_uneven(struct collectives *c, const struct collective *what)
{
    float *segment = what->buf;
    ncclResult_t rc = api.GroupStart();
    for (int r = 0; r < c->world && !is_failure(rc); r++) {
        size_t n = (size_t)what->counts[r];
        if (n && what->kind == COLLECTIVE_REDUCE_SCATTER)
            rc = api.Reduce(segment, segment, n, ncclFloat32, ncclSum, r, c->comm, c->stream);
        else if (n)
            rc = api.Broadcast(segment, segment, n, ncclFloat32, r, c->comm, c->stream);
        segment += n;
    }
    ncclResult_t end = api.GroupEnd();
    return is_failure(rc) ? rc : end;
}

static ncclResult_t run(struct collectives *c, const struct collective *what)
{
    switch (what->kind) {
    case COLLECTIVE_ALL_REDUCE:
        return api.AllReduce(what->buf, what->buf, (size_t)what->n, ncclFloat32, ncclSum, c->comm,
                             c->stream);
    case COLLECTIVE_BROADCAST:
        return api.Broadcast(what->buf, what->buf, (size_t)what->n, ncclFloat32, what->root,
                             c->comm, c->stream);
    default:
        return are_equal(what->counts, c->world) ? scatter_equal(c, what) : scatter_uneven(c, what);
    }
}

static int nccl_launch(struct collectives *c, const struct collective *what, int slot,
                       struct error *err)
{
    c->slots[slot].joined = false;
    TRY(cudaEventRecord(c->order, c->compute));
    TRY(cudaStreamWaitEvent(c->stream, c->order, 0));
    TRY(cudaEventRecord(c->slots[slot].begin, c->stream));
    ncclResult_t rc = run(c, what);
    return is_failure(rc) ? nccl_error(err, c, rc, "launch") : 0;
}

static int nccl_launched(struct collectives *c, int slot, struct error *err)
{
    TRY(cudaEventRecord(c->slots[slot].end, c->stream));
    return 0;
}

static int nccl_join(struct collectives *c, int slot, struct error *err)
{
    struct slot *s = &c->slots[slot];
    TRY(cudaEventRecord(s->reach, c->compute));
    TRY(cudaStreamWaitEvent(c->compute, s->end, 0));
    TRY(cudaEventRecord(s->leave, c->compute));
    s->joined = true;
    return 0;
}

/* 1: the event has happened, 0: not yet. */
static int happened(cudaEvent_t event, struct error *err)
{
    cudaError_t rc = cudaEventQuery(event);
    if (rc == cudaSuccess)
        return 1;
    if (rc != cudaErrorNotReady)
        return cuda_error(err, rc, "a collective");
    cudaGetLastError(); /* "not ready" counts as an error until it is fetched */
    return 0;
}

static int nccl_state(struct collectives *c, int slot, struct error *err)
{
    int end = happened(c->slots[slot].end, err);
    if (end)
        return end < 0 ? end : COLLECTIVE_DONE;
    int begin = happened(c->slots[slot].begin, err);
    if (begin < 0)
        return begin;
    return begin ? COLLECTIVE_RUNNING : COLLECTIVE_WAITING;
}

static int nccl_times(struct collectives *c, int slot, double *seconds, double *exposed_s,
                      struct error *err)
{
    struct slot *s = &c->slots[slot];
    float ms;
    TRY(cudaEventElapsedTime(&ms, s->begin, s->end));
    *seconds = (double)ms * 1e-3;
    *exposed_s = 0;
    if (!s->joined)
        return 0;
    TRY(cudaEventSynchronize(s->leave));
    TRY(cudaEventElapsedTime(&ms, s->reach, s->leave));
    *exposed_s = (double)ms * 1e-3;
    return 0;
}

static const struct collective_ops nccl_ops = {
    .name = "nccl",
    .identify = identify,
    .make_id = make_id,
    .open = nccl_open,
    .poll = nccl_poll,
    .launch = nccl_launch,
    .launched = nccl_launched,
    .join = nccl_join,
    .state = nccl_state,
    .times = nccl_times,
    .finish = nccl_finish,
    .close = nccl_close,
};

cuda_collectives_fn nanochat_cuda_collectives __attribute__((visibility("default")));
const struct collective_ops *nanochat_cuda_collectives(void)
{
    return &nccl_ops;
}
#else
typedef int no_nccl; /* a translation unit holds something */
#endif
