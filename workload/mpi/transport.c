/* lib/nanochat-mpi.so: struct mpi_transport on any MPI of version 3. Its own object, so that the
 * programs never link MPI; it takes nothing from them. */
#include "workload/mpi/transport.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static struct {
    MPI_Comm comm; /* a duplicate of the world: nobody else's messages */
    int slots;
    MPI_Request *requests; /* [slots] */
    int *indices;          /* [slots] */
    MPI_Status *statuses;  /* [slots] */
} mpi;

static const char *text_of(int code)
{
    static char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        return "an error that MPI has no words for";
    return text;
}

static const char *failed(int code)
{
    return code == MPI_SUCCESS ? NULL : text_of(code);
}

static const char *reserve(int slots)
{
    mpi.slots = slots;
    mpi.requests = calloc((size_t)slots, sizeof *mpi.requests);
    mpi.indices = calloc((size_t)slots, sizeof *mpi.indices);
    mpi.statuses = calloc((size_t)slots, sizeof *mpi.statuses);
    if (!mpi.requests || !mpi.indices || !mpi.statuses)
        return "out of memory";
    for (int i = 0; i < slots; i++)
        mpi.requests[i] = MPI_REQUEST_NULL;
    return NULL;
}

/* Errors return from now on, on the duplicate too, which inherits this. */
static const char *open_world(int *rank, int *world)
{
    int rc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    rc = rc ? rc : MPI_Comm_dup(MPI_COMM_WORLD, &mpi.comm);
    rc = rc ? rc : MPI_Comm_rank(mpi.comm, rank);
    rc = rc ? rc : MPI_Comm_size(mpi.comm, world);
    return failed(rc);
}

static const char *mpi_init(int slots, int *rank, int *world)
{
    int provided = 0;
    const char *why = reserve(slots);
    if (why)
        return why;
    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (rc != MPI_SUCCESS)
        return failed(rc);
    if (provided < MPI_THREAD_SERIALIZED)
        return "this MPI cannot be called by two threads, not even in turn";
    return open_world(rank, world);
}

static const char *mpi_finalize(void)
{
    int rc = MPI_Comm_free(&mpi.comm);
    int rc_finalize = MPI_Finalize();
    free(mpi.requests);
    free(mpi.indices);
    free(mpi.statuses);
    return rc || rc_finalize ? "MPI_Finalize failed" : NULL;
}

/* Open MPI's is one line, MPICH's goes on with how it was configured. */
static const char *mpi_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
        return "unknown";
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static const char *mpi_send(int slot, int rank, int tag, const void *from, int bytes)
{
    return failed(MPI_Isend(from, bytes, MPI_BYTE, rank, tag, mpi.comm, &mpi.requests[slot]));
}

static const char *mpi_receive(int slot, int rank, int tag, void *to, int bytes)
{
    return failed(MPI_Irecv(to, bytes, MPI_BYTE, rank, tag, mpi.comm, &mpi.requests[slot]));
}

static const char *mpi_poll(struct mpi_done *done, int *n)
{
    int rc = MPI_Testsome(mpi.slots, mpi.requests, n, mpi.indices, mpi.statuses);
    if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS)
        return text_of(rc);
    if (*n == MPI_UNDEFINED) /* nothing is under way */
        *n = 0;
    for (int i = 0; i < *n; i++) {
        done[i] = (struct mpi_done){.slot = mpi.indices[i]};
        if (rc == MPI_ERR_IN_STATUS && mpi.statuses[i].MPI_ERROR != MPI_SUCCESS)
            done[i].why = text_of(mpi.statuses[i].MPI_ERROR);
        else
            MPI_Get_count(&mpi.statuses[i], MPI_BYTE, &done[i].bytes);
    }
    return NULL;
}

static const struct mpi_transport transport = {
    .init = mpi_init,
    .finalize = mpi_finalize,
    .version = mpi_version,
    .send = mpi_send,
    .receive = mpi_receive,
    .poll = mpi_poll,
};

__attribute__((visibility("default"))) mpi_transport_fn nanochat_mpi_transport_1;
const struct mpi_transport *nanochat_mpi_transport_1(void)
{
    return &transport;
}
