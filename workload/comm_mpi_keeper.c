/* MPI from its shared object, and the thread in which it starts and ends. */
#include "workload/comm_mpi_priv.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum keeper_state { KEEPER_STARTS, KEEPER_UP, KEEPER_LEAVES, KEEPER_GONE };

struct mpi_keeper {
    const struct mpi_transport *transport;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum keeper_state state;
    int slots, rank, world;
    char why[256]; /* what MPI said against it */
};

/* ---- the object ------------------------------------------------------------------------------ */
static char *library_path(void)
{
    return fs_own_library("NANOCHAT_MPI_LIB", "nanochat-mpi.so");
}

const struct mpi_transport *mpi_transport_open(struct error *err)
{
    auto_free char *path = library_path();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open: MPI is not to be unloaded */
    if (!library) {
        error_set(err, NANOCHAT_EXIT_DEVICE, "the MPI back end cannot be opened: %s", dlerror());
        error_hint(err,
                   "build it where mpicc is found (tools/install-deps mpi, then make MPI=1), or "
                   "give its path in NANOCHAT_MPI_LIB");
        return NULL;
    }
    mpi_transport_fn *transport = (mpi_transport_fn *)dlsym(library, MPI_TRANSPORT_SYMBOL);
    if (!transport)
        error_set(err, NANOCHAT_EXIT_DEVICE, "%s is no MPI back end of this program", path);
    return transport ? transport() : NULL;
}

/* ---- the thread ------------------------------------------------------------------------------ */
static void set_state(struct mpi_keeper *k, enum keeper_state state, const char *why)
{
    pthread_mutex_lock(&k->mutex);
    k->state = state;
    snprintf(k->why, sizeof k->why, "%s", why ? why : "");
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->mutex);
}

static void *keep(void *arg)
{
    struct mpi_keeper *k = arg;
    const char *why = k->transport->init(k->slots, &k->rank, &k->world);
    set_state(k, why ? KEEPER_GONE : KEEPER_UP, why);
    if (why)
        return NULL;
    pthread_mutex_lock(&k->mutex);
    while (k->state != KEEPER_LEAVES)
        pthread_cond_wait(&k->changed, &k->mutex);
    pthread_mutex_unlock(&k->mutex);
    set_state(k, KEEPER_GONE, k->transport->finalize());
    return NULL;
}

/* Signals are for the program's own threads; those that MPI starts inherit this. */
static int start_thread(struct mpi_keeper *k)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&k->thread, NULL, keep, k);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* Until the thread has left that state; false: the deadline has passed. */
static bool await(struct mpi_keeper *k, enum keeper_state state, double timeout_s)
{
    struct timespec end;
    double end_s = clock_mono_s() + timeout_s;
    end.tv_sec = (time_t)end_s;
    end.tv_nsec = (long)((end_s - (double)end.tv_sec) * 1e9);
    int rc = 0;
    pthread_mutex_lock(&k->mutex);
    while (k->state == state && rc == 0)
        rc = pthread_cond_timedwait(&k->changed, &k->mutex, &end);
    bool left = k->state != state;
    pthread_mutex_unlock(&k->mutex);
    return left;
}

static struct mpi_keeper *keeper_new(const struct mpi_transport *transport, int slots)
{
    struct mpi_keeper *k = mem_zalloc(1, sizeof *k);
    pthread_condattr_t monotonic;
    k->transport = transport;
    k->slots = slots;
    pthread_mutex_init(&k->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&k->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return k;
}

static void keeper_free(struct mpi_keeper *k)
{
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->mutex);
    free(k);
}

/* A program that MPI's launcher does not know is rank 0 of 1. */
static int compare(const struct mpi_keeper *k, const struct comm_config *config, struct error *err)
{
    if (k->rank == config->rank && k->world == config->world)
        return 0;
    error_set(err, NANOCHAT_EXIT_USAGE,
              "to MPI this is rank %d of %d, to its environment rank %d of %d", k->rank, k->world,
              config->rank, config->world);
    return error_hint(err, "--comm=mpi needs ranks that are started by mpirun, or by srun with the "
                           "--mpi that this MPI was built for, and not by nanochat launch");
}

void mpi_keeper_close(struct mpi_keeper *k, bool all_leave, double timeout_s)
{
    if (!all_leave) {
        pthread_detach(k->thread);
        return;
    }
    set_state(k, KEEPER_LEAVES, NULL);
    if (!await(k, KEEPER_LEAVES, timeout_s)) {
        log_warn("MPI_Finalize did not end within %.3g s; left without it", timeout_s);
        pthread_detach(k->thread);
        return;
    }
    if (*k->why)
        log_warn("%s", k->why);
    pthread_join(k->thread, NULL);
    keeper_free(k);
}

int mpi_keeper_open(struct mpi_keeper **out, const struct mpi_transport *transport,
                    const struct comm_config *config, struct error *err)
{
    struct mpi_keeper *k = keeper_new(transport, MPI_SLOTS * config->world);
    if (start_thread(k)) {
        keeper_free(k);
        return error_set(err, NANOCHAT_EXIT_DEVICE, "no thread can be started for MPI");
    }
    if (!await(k, KEEPER_STARTS, config->timeout_s)) {
        pthread_detach(k->thread); /* it may still be using k */
        return error_set(err, NANOCHAT_EXIT_PEER,
                         "MPI_Init of rank %d did not end within %.3g s: not all of the %d ranks "
                         "have come, or they cannot reach each other",
                         config->rank, config->timeout_s, config->world);
    }
    if (k->state == KEEPER_GONE) {
        error_set(err, NANOCHAT_EXIT_DEVICE, "MPI does not start: %s", k->why);
        pthread_join(k->thread, NULL);
        keeper_free(k);
        return -err->code;
    }
    if (compare(k, config, err)) {
        mpi_keeper_close(k, false, 0);
        return -err->code;
    }
    *out = k;
    return 0;
}
