/* The mpi back end: exchanges (comm_ordered.h) of non-blocking messages between all ranks.
 *
 * MPI itself has no deadlines and, mostly, no words for a peer that is gone. So every rank also
 * waits for one last word of every other: BYE from a rank that leaves, LOST from one that gives up,
 * with the rank whose fault it is. MPI_Init and MPI_Finalize block; they run in a thread of their
 * own (the keeper), so that they have a deadline too. After a loss there is no MPI_Finalize, which
 * would wait for the dead: the process just ends. */
#ifndef WORKLOAD_COMM_MPI_PRIV_H
#define WORKLOAD_COMM_MPI_PRIV_H

#include "workload/comm_ordered.h"
#include "workload/mpi/transport.h"

enum mpi_reason { MPI_REASON_LATE, MPI_REASON_LEFT, MPI_REASON_BROKEN };
enum mpi_word_kind { MPI_WORD_NONE, MPI_WORD_BYE, MPI_WORD_LOST };

struct mpi_word {
    int32_t kind;
    int32_t rank, reason; /* LOST */
};

struct mpi_peer {
    /* of the exchange in progress */
    const void *from;
    void *to;
    int from_bytes, to_bytes;
    bool in_done, out_done;
    /* its last word, and ours to it */
    struct mpi_word heard;
    bool spoke, told;
    double bye_s; /* when BYE was heard */
};

struct mpi_keeper;
struct mpi {
    struct ordered ordered;
    const struct mpi_transport *transport;
    struct mpi_keeper *keeper; /* NULL: MPI is not up */
    struct mpi_peer *peers;    /* [world] */
    struct mpi_done *done;     /* [MPI_SLOTS * world] */
    struct mpi_word word;      /* what was told; kind NONE: nothing yet */
    int open;                  /* transfers of the exchange that are under way */
    double begun_s;
    enum mpi_reason reason; /* why c->lost_rank is lost */
    char why[160];          /* BROKEN: what MPI says */
};

/* Numbers of transfers: slot MPI_SLOTS * rank + one of these. */
enum { MPI_IN, MPI_OUT, MPI_WORD_IN, MPI_WORD_OUT, MPI_SLOTS };

/* comm_mpi_keeper.c: the library's functions, or NANOCHAT_EXIT_DEVICE. */
const struct mpi_transport *mpi_transport_open(struct error *err);
/* MPI_Init, by the deadline; MPI must agree with config about rank and world. */
int mpi_keeper_open(struct mpi_keeper **out, const struct mpi_transport *transport,
                    const struct comm_config *config, struct error *err);
/* With MPI_Finalize, by a deadline, when all ranks leave; else the thread is left behind. */
void mpi_keeper_close(struct mpi_keeper *k, bool all_leave, double timeout_s);

#endif
