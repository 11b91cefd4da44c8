/* What the shared object lib/nanochat-mpi.so gives to the program that opens it: bytes between
 * ranks. Nothing but init and finalize blocks; deadlines, sums and who is to blame are the
 * program's (comm_mpi.c).
 *
 * Functions that can fail return NULL or what MPI says, a text that lives until the next call. All
 * calls come from one thread at a time (MPI_THREAD_SERIALIZED), init and finalize from the same. */
#ifndef WORKLOAD_MPI_TRANSPORT_H
#define WORKLOAD_MPI_TRANSPORT_H

/* The number changes with the struct: an object of an earlier build may lie where this build's
 * would. */
#define MPI_TRANSPORT_SYMBOL "nanochat_mpi_transport_1"

/* A transfer that has ended. */
struct mpi_done {
    int slot;
    int bytes;       /* that came */
    const char *why; /* it failed; NULL: it did not */
};

struct mpi_transport {
    /* Until all ranks of the run have called it. At most `slots` transfers are under way at once,
     * each with a number below that. */
    const char *(*init)(int slots, int *rank, int *world);
    /* Until all ranks have called it; releases what init took. */
    const char *(*finalize)(void);
    const char *(*version)(void); /* name and version, one line */
    /* Begin a transfer in a slot that has none; the buffer must stay until it has ended. Between
     * two ranks those with the same tag match in order. */
    const char *(*send)(int slot, int rank, int tag, const void *from, int bytes);
    const char *(*receive)(int slot, int rank, int tag, void *to, int bytes);
    /* Those that have ended since the last call: *n of them, into done[slots]. */
    const char *(*poll)(struct mpi_done *done, int *n);
};

typedef const struct mpi_transport *mpi_transport_fn(void);

#endif
