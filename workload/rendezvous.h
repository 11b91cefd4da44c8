/* Meeting of the ranks of several nodes at MASTER_ADDR:MASTER_PORT over TCP.
 *
 * Rank 0 listens there; every other rank connects, again and again until the deadline, says who it
 * is and receives the same bytes from rank 0. When the deadline passes, all who have come are told
 * which rank did not. The connections stay open: a process that dies closes its own, so rank 0
 * sees who is gone, and passes the number on.
 *
 * On the wire: "ncmeet/1", world, rank, a number that names the run (of the trial's id); back comes
 * a 32-bit rank, -1 or the one that is lost, and after -1 the bytes. Later words are lost ranks.
 * Whoever says anything else is not one of us and is hung up on. */
#ifndef WORKLOAD_RENDEZVOUS_H
#define WORKLOAD_RENDEZVOUS_H

#include "workload/comm.h"

struct rendezvous {
    int rank, world;
    int *fds; /* rank 0: [world], others: [0] is that to rank 0; -1: none */
};

/* data: what rank 0 has and the others get. Who never came is told by *lost (else -1) and
 * NANOCHAT_EXIT_PEER; a port that is taken is NANOCHAT_EXIT_USAGE. To be closed also on failure. */
int rendezvous_open(struct rendezvous *r, const struct comm_config *config, void *data,
                    size_t bytes, int *lost, struct error *err);
/* A rank that is gone, or -1. Does not block. */
int rendezvous_lost(struct rendezvous *r);
void rendezvous_close(struct rendezvous *r);

#endif
