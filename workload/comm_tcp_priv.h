/* The tcp back end: ranks on any nodes, a connection between every two.
 *
 * In an exchange (comm_ordered.h) each rank sends one frame to every other rank and receives one
 * from each: a header and so many bytes, perhaps none.
 *
 * A rank that gives up tells all others whose fault it is (TCP_LOST) before it closes; one that
 * leaves says so (TCP_BYE). The end of a connection without either is a rank that died.
 *
 * Rendezvous: rank 0 listens at MASTER_PORT on all addresses, the others connect to
 * MASTER_ADDR:MASTER_PORT and say who they are and where they listen; when all are there rank 0
 * answers with the list, and each rank connects to those below it. Strangers, other runs on the
 * same port, and a rank that is there already are refused.
 *
 * Byte order and struct layout are those of the ranks: one kind of machine a run. */
#ifndef WORKLOAD_COMM_TCP_PRIV_H
#define WORKLOAD_COMM_TCP_PRIV_H

#include "workload/comm_ordered.h"

#include <poll.h>

enum tcp_kind { TCP_DATA = 0x4e430001, TCP_LOST, TCP_BYE };
enum tcp_reason { TCP_FINE, TCP_DIED, TCP_LEFT, TCP_LATE, TCP_ABSENT };

struct tcp_header {
    uint32_t kind;
    uint32_t seq;  /* DATA: number of the exchange; LOST: the reason */
    int64_t value; /* DATA: bytes that follow; LOST: the rank */
};

struct tcp_peer {
    int fd; /* -1: this rank itself */
    char host[64];
    /* the frame that comes in: header bytes there, then where the rest goes */
    struct tcp_header in;
    size_t in_have;
    char *to;
    size_t to_left;
    bool known; /* the header was judged */
    bool in_done;
    bool quiet; /* its connection has closed behind its part: nothing more to learn for now */
    /* the frame that goes out */
    struct tcp_header out;
    size_t out_sent; /* of the header */
    const char *from;
    size_t from_left;
    bool out_done;
    bool ending; /* that frame is the last word */
};

struct tcp {
    struct ordered ordered;
    struct tcp_peer *peers; /* [world] */
    struct pollfd *polls;   /* [world] */
    uint32_t seq;
    double bye_s;           /* tcp_watch: when it first saw a rank that has left; 0: not yet */
    enum tcp_reason reason; /* why c->lost_rank is lost */
};

/* comm_tcp_mesh.c: all connections, or NANOCHAT_EXIT_PEER with the rank that is missing. */
int tcp_connect_all(struct comm *c, struct tcp *t, struct error *err);
/* comm_tcp_exchange.c: of struct ordered. */
void tcp_plan(struct comm *c, int rank, const void *from, int64_t from_bytes, void *to,
              int64_t to_bytes);
int tcp_exchange(struct comm *c, struct error *err);
/* The rank is lost: tell the others, once, and say so. */
int tcp_lose(struct comm *c, int rank, enum tcp_reason reason, struct error *err);
void tcp_leave(struct comm *c);
/* comm_ops.watch. */
int tcp_watch(struct comm *c, uint64_t n, bool late, struct error *err);

#endif
