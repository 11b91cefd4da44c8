/* How the ranks of the tcp back end find each other. */
#include "workload/comm_tcp_priv.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC "ncTCP01"
#define TRY_AGAIN_S 0.05
#define ANSWER_GRACE_S 5.0 /* rank 0 waits as long as we do; its verdict comes a little later */
#define STRANGERS 64       /* connections that have not said who they are yet */

struct hello {
    char magic[8];
    uint64_t run; /* of the trial: an old one's ranks may still knock at this port */
    int32_t world, rank, port, unused;
    char id[COMM_ID_MAX]; /* empty at the rendezvous */
};

enum verdict { ANSWER_FINE, ANSWER_REFUSED, ANSWER_LOST };
struct answer {
    char magic[8];
    int32_t verdict, rank; /* LOST: which; the reason is that it never came */
    char id[COMM_ID_MAX];
    char why[128];
};

struct place { /* where a rank listens */
    char host[64];
    int32_t port, unused;
};

struct mesh {
    struct comm *c;
    struct tcp *t;
    int listener;
    int port;
    double deadline;
    struct place *places; /* [world] */
};

/* ---- sockets ---------------------------------------------------------------------------------
 */
/* Of what names the run beside its port. */
static uint64_t run_hash(const struct comm_config *config)
{
    return comm_hash(comm_hash(COMM_HASH, getenv(ENV_TRIAL_ID)), config->job);
}

static void set_options(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static bool wait_for(int fd, short events, double deadline)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        double left = deadline - clock_mono_s();
        if (left <= 0)
            return false;
        if (poll(&p, 1, left > 1e6 ? 1000000000 : (int)(left * 1e3) + 1) > 0)
            return true;
    }
}

/* All n bytes, by the deadline. */
static bool send_all(int fd, const void *data, size_t n, double deadline)
{
    for (const char *p = data; n;) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            p += sent;
            n -= (size_t)sent;
        } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(fd, POLLOUT, deadline)) {
            return false;
        }
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t n, double deadline)
{
    for (char *p = data; n;) {
        ssize_t got = recv(fd, p, n, MSG_DONTWAIT);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
                   !wait_for(fd, POLLIN, deadline)) {
            return false;
        }
    }
    return true;
}

/* On all addresses, IPv4 and IPv6: the name of a node may mean another of its addresses to others.
 * port 0: any that is free. */
static int open_listener(int family, int port)
{
    int off = 0, on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in six4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    bool v6 = family == AF_INET6;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (v6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, v6 ? (struct sockaddr *)&six : (struct sockaddr *)&six4,
             v6 ? sizeof six : sizeof six4) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int listen_at(struct mesh *m, int port, struct error *err)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    m->listener = open_listener(AF_INET6, port);
    if (m->listener < 0 && errno != EADDRINUSE)
        m->listener = open_listener(AF_INET, port);
    if (m->listener < 0 || getsockname(m->listener, (struct sockaddr *)&own, &size)) {
        error_errno(err, NANOCHAT_EXIT_PEER, errno, "cannot listen at port %d", port);
        return error_hint(err, "another run may use it; choose another with %s", ENV_MASTER_PORT);
    }
    /* the port is at the same place in both families */
    m->port = ntohs(((struct sockaddr_in *)(void *)&own)->sin_port);
    return 0;
}

/* One attempt; -1 with errno. */
static int connect_once(const struct addrinfo *a, double deadline)
{
    int failed = 0;
    socklen_t size = sizeof failed;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen)) {
        if (errno != EINPROGRESS)
            failed = errno;
        else if (!wait_for(fd, POLLOUT, deadline))
            failed = ETIMEDOUT;
        else
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size);
    }
    if (!failed)
        return fd;
    close(fd);
    errno = failed;
    return -1;
}

/* Until somebody answers there, or the deadline; -1. *why: what was wrong last. */
static int connect_to(const char *host, int port, double deadline, char *why, size_t size)
{
    char service[16];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    snprintf(service, sizeof service, "%d", port);
    while (clock_mono_s() < deadline) {
        struct addrinfo *list = NULL;
        int rc = getaddrinfo(host, service, &hints, &list);
        if (rc)
            snprintf(why, size, "%s", gai_strerror(rc));
        for (const struct addrinfo *a = list; !rc && a; a = a->ai_next) {
            double soon = clock_mono_s() + 2;
            int fd = connect_once(a, soon < deadline ? soon : deadline);
            if (fd >= 0) {
                freeaddrinfo(list);
                set_options(fd);
                return fd;
            }
            snprintf(why, size, "%s", strerror(errno));
        }
        if (list)
            freeaddrinfo(list);
        clock_sleep_s(TRY_AGAIN_S);
    }
    return -1;
}

/* The address of the other end, as text that others can connect to. */
static void peer_host(int fd, char *out, size_t size)
{
    struct sockaddr_storage a;
    socklen_t length = sizeof a;
    char text[INET6_ADDRSTRLEN + 20] = "";
    if (getpeername(fd, (struct sockaddr *)&a, &length) == 0)
        getnameinfo((struct sockaddr *)&a, length, text, sizeof text, NULL, 0, NI_NUMERICHOST);
    bool mapped = !strncmp(text, "::ffff:", 7) && strchr(text, '.');
    snprintf(out, size, "%.*s", (int)size - 1, mapped ? text + 7 : text);
}

/* ---- who knocks ------------------------------------------------------------------------------
 */
struct stranger {
    int fd;
    size_t have;
    struct hello hello;
};

struct door {
    struct mesh *m;
    const char *id; /* that the hello must bear; "" at the rendezvous */
    int first;      /* ranks from here on are expected */
    int missing;
    struct stranger strangers[STRANGERS];
};

/* why: told to a rank that came to the rendezvous; NULL: somebody that is none of ours. */
static void refuse(struct door *d, struct stranger *s, const char *why)
{
    if (why && !*d->id) {
        struct answer a = {.magic = MAGIC, .verdict = ANSWER_REFUSED};
        snprintf(a.why, sizeof a.why, "%s", why);
        send_all(s->fd, &a, sizeof a, clock_mono_s() + 1);
    }
    close(s->fd);
    s->fd = -1;
}

static void admit(struct door *d, struct stranger *s)
{
    const struct hello *h = &s->hello;
    const struct comm_config *config = &d->m->c->config;
    char why[128];
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0 || h->run != run_hash(config) ||
        strncmp(h->id, d->id, sizeof h->id) != 0 || h->port < 1 || h->port > 65535) {
        refuse(d, s, NULL);
        return;
    }
    if (h->world != config->world || h->rank < d->first || h->rank >= config->world) {
        snprintf(why, sizeof why, "rank %" PRId32 " of %" PRId32 " does not belong to %d ranks",
                 h->rank, h->world, config->world);
        refuse(d, s, why);
        return;
    }
    struct tcp_peer *p = &d->m->t->peers[h->rank];
    if (p->fd >= 0) {
        snprintf(why, sizeof why, "there is a rank %" PRId32 " already", h->rank);
        refuse(d, s, why);
        return;
    }
    p->fd = s->fd;
    s->fd = -1;
    peer_host(p->fd, p->host, sizeof p->host);
    struct place *place = &d->m->places[h->rank];
    snprintf(place->host, sizeof place->host, "%s", p->host);
    place->port = h->port;
    d->missing--;
}

static void listen_to(struct door *d, struct stranger *s)
{
    ssize_t n = recv(s->fd, (char *)&s->hello + s->have, sizeof s->hello - s->have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(s->fd);
        s->fd = -1;
        return;
    }
    s->have += (size_t)n;
    if (s->have == sizeof s->hello)
        admit(d, s);
}

/* The place of a stranger; the one that has been silent is sent away when all are taken. */
static void let_in(struct door *d)
{
    int fd = accept4(d->m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    set_options(fd);
    int at = 0;
    while (at < STRANGERS && d->strangers[at].fd >= 0)
        at++;
    if (at == STRANGERS)
        close(d->strangers[at = 0].fd);
    d->strangers[at] = (struct stranger){.fd = fd};
}

/* Until all expected ranks have come, or the deadline. */
static bool keep_door(struct door *d)
{
    struct pollfd polls[STRANGERS + 1];
    for (int i = 0; i < STRANGERS; i++)
        d->strangers[i].fd = -1;
    while (d->missing > 0) {
        double left = d->m->deadline - clock_mono_s();
        if (left <= 0)
            break;
        polls[STRANGERS] = (struct pollfd){.fd = d->m->listener, .events = POLLIN};
        for (int i = 0; i < STRANGERS; i++)
            polls[i] = (struct pollfd){.fd = d->strangers[i].fd, .events = POLLIN};
        if (poll(polls, STRANGERS + 1, left > 1e6 ? 1000000000 : (int)(left * 1e3) + 1) <= 0)
            continue;
        for (int i = 0; i < STRANGERS; i++)
            if (polls[i].revents)
                listen_to(d, &d->strangers[i]);
        if (polls[STRANGERS].revents)
            let_in(d);
    }
    for (int i = 0; i < STRANGERS; i++)
        if (d->strangers[i].fd >= 0)
            close(d->strangers[i].fd);
    return d->missing == 0;
}

/* ---- rendezvous ------------------------------------------------------------------------------
 */
static int first_absent(const struct mesh *m, int from)
{
    int r = from;
    while (r < m->c->config.world && m->t->peers[r].fd >= 0)
        r++;
    return r;
}

/* Nobody was let into exchanges yet: no frames, answers. */
static int give_up(struct mesh *m, int rank, enum tcp_reason reason, struct error *err)
{
    for (int r = 0; r < m->c->config.world; r++) {
        if (m->t->peers[r].fd >= 0)
            close(m->t->peers[r].fd);
        m->t->peers[r].fd = -1;
    }
    return tcp_lose(m->c, rank, reason, err);
}

static int receive_ranks(struct mesh *m, struct error *err)
{
    const int world = m->c->config.world;
    struct door *d = mem_zalloc(1, sizeof *d);
    *d = (struct door){.m = m, .id = "", .first = 1, .missing = world - 1};
    bool all = keep_door(d);
    free(d);
    struct answer a = {.magic = MAGIC, .verdict = all ? ANSWER_FINE : ANSWER_LOST};
    a.rank = all ? 0 : first_absent(m, 1);
    comm_make_id(m->c->id);
    memcpy(a.id, m->c->id, sizeof a.id);
    double soon = clock_mono_s() + ANSWER_GRACE_S;
    for (int r = 1; r < world; r++) {
        int fd = m->t->peers[r].fd;
        if (fd < 0)
            continue;
        send_all(fd, &a, sizeof a, soon);
        if (all)
            send_all(fd, m->places, (size_t)world * sizeof *m->places, soon);
    }
    return all ? 0 : give_up(m, a.rank, TCP_ABSENT, err);
}

static int read_answer(struct mesh *m, int fd, struct error *err)
{
    struct answer a;
    const int world = m->c->config.world;
    double deadline = m->deadline + ANSWER_GRACE_S;
    if (!receive_all(fd, &a, sizeof a, deadline) || memcmp(a.magic, MAGIC, sizeof a.magic) != 0)
        return give_up(m, 0, TCP_DIED, err);
    a.id[COMM_ID_MAX - 1] = a.why[sizeof a.why - 1] = '\0';
    if (a.verdict == ANSWER_REFUSED)
        return error_set(err, NANOCHAT_EXIT_USAGE, "rank 0 refuses this rank: %s", a.why);
    if (a.verdict == ANSWER_LOST && a.rank >= 0 && a.rank < world)
        return give_up(m, a.rank, TCP_ABSENT, err);
    memcpy(m->c->id, a.id, sizeof a.id);
    if (!receive_all(fd, m->places, (size_t)world * sizeof *m->places, deadline))
        return give_up(m, 0, TCP_DIED, err);
    return 0;
}

static struct hello own_hello(const struct mesh *m, const char *id)
{
    struct hello h = {.magic = MAGIC,
                      .run = run_hash(&m->c->config),
                      .world = m->c->config.world,
                      .rank = m->c->config.rank,
                      .port = m->port};
    snprintf(h.id, sizeof h.id, "%s", id);
    return h;
}

static int call_on_rank_0(struct mesh *m, struct error *err)
{
    const struct comm_config *config = &m->c->config;
    char why[128] = "";
    struct hello h = own_hello(m, "");
    int fd = connect_to(config->master_addr, config->master_port, m->deadline, why, sizeof why);
    if (fd < 0) {
        give_up(m, 0, TCP_ABSENT, err);
        return error_hint(err, "rank 0 is looked for at %s:%d (%s): %s", config->master_addr,
                          config->master_port, ENV_MASTER_ADDR, why);
    }
    struct tcp_peer *p = &m->t->peers[0];
    p->fd = fd;
    snprintf(p->host, sizeof p->host, "%s", config->master_addr);
    if (!send_all(fd, &h, sizeof h, m->deadline))
        return give_up(m, 0, TCP_DIED, err);
    return read_answer(m, fd, err);
}

/* Connect to those below, wait for those above. */
static int call_on_the_others(struct mesh *m, struct error *err)
{
    const int me = m->c->config.rank;
    char why[128] = "";
    struct hello h = own_hello(m, m->c->id);
    m->deadline = clock_mono_s() + m->c->config.timeout_s;
    for (int r = 1; r < me; r++) {
        struct tcp_peer *p = &m->t->peers[r];
        m->places[r].host[sizeof m->places[r].host - 1] = '\0';
        snprintf(p->host, sizeof p->host, "%s", m->places[r].host);
        p->fd = connect_to(p->host, m->places[r].port, m->deadline, why, sizeof why);
        if (p->fd < 0 || !send_all(p->fd, &h, sizeof h, m->deadline)) {
            give_up(m, r, TCP_LATE, err);
            return error_hint(err, "%s:%d: %s", m->places[r].host, (int)m->places[r].port, why);
        }
    }
    struct door *d = mem_zalloc(1, sizeof *d);
    *d = (struct door){
        .m = m, .id = m->c->id, .first = me + 1, .missing = m->c->config.world - 1 - me};
    bool all = keep_door(d);
    free(d);
    return all ? 0 : give_up(m, first_absent(m, me + 1), TCP_LATE, err);
}

int tcp_connect_all(struct comm *c, struct tcp *t, struct error *err)
{
    struct mesh m = {.c = c,
                     .t = t,
                     .listener = -1,
                     .deadline = clock_mono_s() + c->config.timeout_s,
                     .places = mem_zalloc((size_t)c->config.world, sizeof *m.places)};
    bool first = c->config.rank == 0;
    if (listen_at(&m, first ? c->config.master_port : 0, err) == 0) {
        if (first)
            receive_ranks(&m, err);
        else if (call_on_rank_0(&m, err) == 0)
            call_on_the_others(&m, err);
    }
    if (m.listener >= 0)
        close(m.listener);
    free(m.places);
    return err->code ? -err->code : 0;
}
