/* Frames between ranks, deadlines, and who is to blame. */
#include "workload/comm_tcp_priv.h"

#include "common/clock.h"
#include "common/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROLL_CALL_S 5.0 /* for who is late with a collective of another back end */
#define TELL_S 1.0      /* patience with peers that do not read while they are told of a loss */

/* ---- frames ----------------------------------------------------------------------------------
 */
void tcp_plan(struct comm *c, int rank, const void *from, int64_t from_bytes, void *to,
              int64_t to_bytes)
{
    struct tcp_peer *p = &((struct tcp *)c->priv)->peers[rank];
    p->from = from;
    p->from_left = (size_t)from_bytes;
    p->to = to;
    p->to_left = (size_t)to_bytes;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* As much of the outgoing frame as the socket takes. A connection that is broken is the receiving
 * side's to judge: what the peer said last may still be there to read. */
static void send_some(struct tcp_peer *p)
{
    while (!p->out_done) {
        struct iovec parts[2] = {
            {(char *)&p->out + p->out_sent, sizeof p->out - p->out_sent},
            {(void *)(uintptr_t)p->from, p->from_left},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t n = sendmsg(p->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && would_block())
            return;
        if (n < 0) {
            p->out_done = true;
            return;
        }
        size_t head = (size_t)n < parts[0].iov_len ? (size_t)n : parts[0].iov_len;
        p->out_sent += head;
        p->from += (size_t)n - head;
        p->from_left -= (size_t)n - head;
        p->out_done = p->out_sent == sizeof p->out && p->from_left == 0;
    }
}

/* Read up to n bytes; 0: nothing there now; -1: the connection has ended. */
static ssize_t receive(const struct tcp_peer *p, void *to, size_t n)
{
    ssize_t got = recv(p->fd, to, n, MSG_DONTWAIT);
    if (got > 0)
        return got;
    return got < 0 && would_block() ? 0 : -1;
}

/* 1: the header is whole; 0: not yet; -1: the connection has ended. */
static int receive_header(struct tcp_peer *p)
{
    while (p->in_have < sizeof p->in) {
        ssize_t n = receive(p, (char *)&p->in + p->in_have, sizeof p->in - p->in_have);
        if (n <= 0)
            return (int)n;
        p->in_have += (size_t)n;
    }
    return 1;
}

/* ---- losses ----------------------------------------------------------------------------------
 */
static int lost_error(const struct comm *c, struct error *err)
{
    const struct tcp *t = c->priv;
    const int rank = c->lost_rank;
    char where[COMM_WHERE_MAX], why[160];
    comm_where(c, where);
    switch (t->reason) {
    case TCP_DIED:
        snprintf(why, sizeof why, "its connection from %s ended, so its process or node is dead",
                 *t->peers[rank].host ? t->peers[rank].host : "its node");
        break;
    case TCP_LEFT: snprintf(why, sizeof why, "it ended early"); break;
    case TCP_ABSENT:
        snprintf(why, sizeof why, "it did not start within %.3g s", c->config.timeout_s);
        break;
    default: snprintf(why, sizeof why, "it did not arrive within %.3g s", c->config.timeout_s);
    }
    if (rank == c->config.rank)
        return error_set(err, NANOCHAT_EXIT_PEER,
                         "the other ranks gave this rank (%d) up in %s: it came too late", rank,
                         where);
    return error_set(err, NANOCHAT_EXIT_PEER, "lost rank %d in %s: %s", rank, where, why);
}

/* What comes in is of no use any more, but a peer that sends must not be stuck in it. */
static void drain(const struct tcp_peer *p)
{
    char nowhere[1 << 14];
    while (receive(p, nowhere, sizeof nowhere) > 0)
        continue;
}

/* Finish the frame that is half sent, put the last word behind it, and close that direction. */
static bool say_last_word(struct tcp_peer *p, const struct tcp_header *word)
{
    if (!p->ending && (p->out_done || p->out_sent == 0)) {
        p->out = *word;
        p->out_sent = 0;
        p->from_left = 0;
        p->out_done = false;
        p->ending = true;
    }
    send_some(p);
    if (!p->ending || !p->out_done)
        return false;
    shutdown(p->fd, SHUT_WR);
    return true;
}

static void tell_all(struct comm *c, const struct tcp_header *word)
{
    struct tcp *t = c->priv;
    double deadline = clock_mono_s() + TELL_S;
    for (;;) {
        int left = 0;
        for (int r = 0; r < c->config.world; r++) {
            struct tcp_peer *p = &t->peers[r];
            if (p->fd < 0 || p->quiet)
                continue;
            drain(p);
            p->quiet = say_last_word(p, word);
            left += !p->quiet;
        }
        if (!left || clock_mono_s() >= deadline)
            return;
        clock_sleep_s(0.005);
    }
}

int tcp_lose(struct comm *c, int rank, enum tcp_reason reason, struct error *err)
{
    struct tcp *t = c->priv;
    if (c->lost_rank < 0) {
        c->lost_rank = rank;
        t->reason = reason;
        for (int r = 0; r < c->config.world; r++)
            t->peers[r].quiet = false;
        const struct tcp_header word = {TCP_LOST, (uint32_t)reason, rank};
        tell_all(c, &word);
    }
    return lost_error(c, err);
}

void tcp_leave(struct comm *c)
{
    struct tcp *t = c->priv;
    const struct tcp_header bye = {.kind = TCP_BYE};
    for (int r = 0; r < c->config.world; r++) {
        struct tcp_peer *p = &t->peers[r];
        if (p->fd < 0)
            continue;
        if (c->lost_rank < 0) {
            drain(p); /* unread bytes would turn the end into a reset */
            say_last_word(p, &bye);
        }
        close(p->fd);
        p->fd = -1;
    }
}

/* ---- exchange --------------------------------------------------------------------------------
 */
static int take_header(struct comm *c, int rank, struct error *err)
{
    struct tcp *t = c->priv;
    const struct tcp_peer *p = &t->peers[rank];
    const struct tcp_header *h = &p->in;
    if (h->kind == TCP_LOST && h->value >= 0 && h->value < c->config.world)
        return tcp_lose(c, (int)h->value, (enum tcp_reason)h->seq, err);
    if (h->kind == TCP_BYE)
        return tcp_lose(c, rank, TCP_LEFT, err);
    if (h->kind == TCP_DATA && h->seq == t->seq && h->value == (int64_t)p->to_left)
        return 0;
    char where[COMM_WHERE_MAX];
    comm_where(c, where);
    c->lost_rank = rank;
    t->reason = TCP_LEFT;
    return error_set(err, NANOCHAT_EXIT_PEER,
                     "rank %d sent %lld bytes in %s, expected %zu: the ranks do not make the same "
                     "calls",
                     rank, (long long)h->value, where, p->to_left);
}

static int receive_some(struct comm *c, int rank, struct error *err)
{
    struct tcp_peer *p = &((struct tcp *)c->priv)->peers[rank];
    int rc = receive_header(p);
    if (rc < 0)
        return tcp_lose(c, rank, TCP_DIED, err);
    if (rc == 0)
        return 0;
    if (!p->known && take_header(c, rank, err))
        return -err->code;
    p->known = true;
    while (p->to_left) {
        ssize_t n = receive(p, p->to, p->to_left);
        if (n == 0)
            return 0;
        if (n < 0)
            return tcp_lose(c, rank, TCP_DIED, err);
        p->to += n;
        p->to_left -= (size_t)n;
    }
    p->in_done = true;
    p->in_have = 0;
    return 0;
}

/* Its part of this exchange is here, and its connection has closed: did it leave a word? */
static int look_ahead(struct comm *c, int rank, struct error *err)
{
    struct tcp_peer *p = &((struct tcp *)c->priv)->peers[rank];
    p->quiet = true;
    if (receive_header(p) == 1 && p->in.kind == TCP_LOST)
        return take_header(c, rank, err);
    return 0; /* a matter of the next exchange */
}

static void begin(struct comm *c)
{
    struct tcp *t = c->priv;
    t->seq++;
    for (int r = 0; r < c->config.world; r++) {
        struct tcp_peer *p = &t->peers[r];
        p->out = (struct tcp_header){TCP_DATA, t->seq, (int64_t)p->from_left};
        p->out_sent = 0;
        p->known = p->quiet = false;
        p->in_done = p->out_done = p->fd < 0;
    }
}

static int move_peer(struct comm *c, int rank, short events, struct error *err)
{
    struct tcp_peer *p = &((struct tcp *)c->priv)->peers[rank];
    if (p->fd < 0)
        return 0;
    send_some(p);
    if (!p->in_done)
        return receive_some(c, rank, err);
    return !p->quiet && (events & (POLLRDHUP | POLLHUP | POLLERR)) ? look_ahead(c, rank, err) : 0;
}

/* The rank that is waited for: the first whose frame is not here, else that does not take ours. */
static int waited_for(const struct comm *c)
{
    const struct tcp *t = c->priv;
    int r = 0;
    while (r < c->config.world && t->peers[r].in_done)
        r++;
    if (r < c->config.world)
        return r;
    for (r = 0; t->peers[r].out_done;)
        r++;
    return r;
}

/* What poll is to wait for; how many peers are not done. */
static int ask(struct comm *c)
{
    struct tcp *t = c->priv;
    int open = 0;
    for (int r = 0; r < c->config.world; r++) {
        const struct tcp_peer *p = &t->peers[r];
        bool silent = p->in_done && p->out_done && p->quiet;
        t->polls[r].fd = silent ? -1 : p->fd;
        int in = !p->in_done ? POLLIN : p->quiet ? 0 : POLLRDHUP;
        t->polls[r].events = (short)(in | (p->out_done ? 0 : POLLOUT));
        t->polls[r].revents = 0;
        open += !p->in_done || !p->out_done;
    }
    return open;
}

int tcp_exchange(struct comm *c, struct error *err)
{
    struct tcp *t = c->priv;
    if (c->lost_rank >= 0)
        return lost_error(c, err);
    double deadline = clock_mono_s() + c->config.timeout_s;
    begin(c);
    for (int r = 0; r < c->config.world; r++)
        if (move_peer(c, r, 0, err))
            return -err->code;
    while (ask(c)) {
        double left = deadline - clock_mono_s();
        if (left <= 0)
            return tcp_lose(c, waited_for(c), TCP_LATE, err);
        int ms = left > 1e6 ? 1000000000 : (int)(left * 1e3) + 1;
        if (poll(t->polls, (nfds_t)c->config.world, ms) <= 0)
            continue;
        for (int r = 0; r < c->config.world; r++)
            if (t->polls[r].revents && move_peer(c, r, t->polls[r].revents, err))
                return -err->code;
    }
    return 0;
}

/* ---- beside another back end ------------------------------------------------------------------
 */
/* What the peer has said since the last exchange. What belongs to the next one stays for it. */
static int hear(struct comm *c, int rank, bool *left, struct error *err)
{
    struct tcp_peer *p = &((struct tcp *)c->priv)->peers[rank];
    int rc = p->fd < 0 ? 0 : receive_header(p);
    *left = rc == 1 && p->in.kind == TCP_BYE;
    if (rc < 0)
        return tcp_lose(c, rank, TCP_DIED, err);
    return rc == 1 && p->in.kind == TCP_LOST ? take_header(c, rank, err) : 0;
}

/* Nobody tells how far he is. So one who has left is lost when the collective does not end soon
 * (he may have done his part and be through), and who is late shows in an exchange. */
int tcp_watch(struct comm *c, uint64_t n, bool late, struct error *err)
{
    struct tcp *t = c->priv;
    double now = clock_mono_s();
    bool left;
    (void)n;
    if (c->lost_rank >= 0)
        return lost_error(c, err);
    for (int r = 0; r < c->config.world; r++) {
        if (hear(c, r, &left, err))
            return -err->code;
        if (left && !(t->bye_s > 0))
            t->bye_s = now;
        if (left && (late || now - t->bye_s > TELL_S))
            return tcp_lose(c, r, TCP_LEFT, err);
    }
    if (!late)
        return 0;
    double timeout_s = c->config.timeout_s;
    c->config.timeout_s = timeout_s < ROLL_CALL_S ? timeout_s : ROLL_CALL_S;
    for (int r = 0; r < c->config.world; r++)
        tcp_plan(c, r, NULL, 0, NULL, 0);
    int rc = tcp_exchange(c, err);
    c->config.timeout_s = timeout_s;
    return rc;
}
