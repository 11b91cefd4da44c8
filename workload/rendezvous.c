#include "workload/rendezvous.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC "ncmeet/1"
#define TICK_S 0.02
#define HELLO_S 2.0 /* patience with one that has connected and says nothing */

struct hello {
    char magic[8];
    int32_t world, rank;
    char run[16];
};

static void describe_self(const struct comm_config *config, struct hello *h)
{
    const char *trial = getenv(ENV_TRIAL_ID);
    char digest[SHA256_HEX];
    trial = trial ? trial : "";
    sha256_hex(trial, strlen(trial), digest);
    memcpy(h->magic, MAGIC, sizeof h->magic);
    memcpy(h->run, digest, sizeof h->run);
    h->world = config->world;
    h->rank = config->rank;
}

/* ---- sockets with a deadline ----------------------------------------------------------------- */

/* True when the descriptor is ready before the deadline (clock_mono_s). */
static bool wait_ready(int fd, short events, double deadline)
{
    for (;;) {
        double left = deadline - clock_mono_s();
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left > 0 ? (int)(left * 1e3) + 1 : 0);
        if (n > 0)
            return true;
        if (left <= 0 || (n < 0 && errno != EINTR))
            return false;
    }
}

static bool send_all(int fd, const void *data, size_t bytes, double deadline)
{
    const char *p = data;
    while (bytes) {
        ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return false;
        } else if (!wait_ready(fd, POLLOUT, deadline)) {
            return false;
        }
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t bytes, double deadline)
{
    char *p = data;
    while (bytes) {
        if (!wait_ready(fd, POLLIN, deadline))
            return false;
        ssize_t n = recv(fd, p, bytes, MSG_DONTWAIT);
        if (n > 0) {
            p += n;
            bytes -= (size_t)n;
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            return false;
        }
    }
    return true;
}

static int resolve(const struct comm_config *config, struct addrinfo **out, struct error *err)
{
    char port[16];
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    snprintf(port, sizeof port, "%d", config->master_port);
    int rc = getaddrinfo(config->master_addr, port, &hints, out);
    if (rc)
        return error_set(err, NANOCHAT_EXIT_USAGE, ENV_MASTER_ADDR " \"%s\": %s",
                         config->master_addr, gai_strerror(rc));
    return 0;
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

/* On all addresses of the family that MASTER_ADDR has: a name may be a loopback here. */
static int listen_at(const struct comm_config *config, const struct addrinfo *master,
                     struct error *err)
{
    const struct sockaddr_in any4 = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)config->master_port)};
    const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6,
                                      .sin6_port = htons((uint16_t)config->master_port)};
    bool six = master->ai_family == AF_INET6;
    auto_close int fd = socket(master->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 ||
        bind(fd, six ? (const struct sockaddr *)&any6 : (const struct sockaddr *)&any4,
             six ? sizeof any6 : sizeof any4) ||
        listen(fd, config->world)) {
        error_errno(err, errno == EADDRINUSE ? NANOCHAT_EXIT_USAGE : NANOCHAT_EXIT_PEER, errno,
                    "rank 0 cannot listen at port %d", config->master_port);
        return error_hint(err, "give each run its own " ENV_MASTER_PORT);
    }
    return steal_fd(&fd);
}

/* One connection: a rank of ours, or hung up on. */
static int admit(struct rendezvous *r, const struct hello *own, int listener, double deadline,
                 struct error *err)
{
    struct hello h;
    auto_close int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    double patience = clock_mono_s() + HELLO_S;
    if (fd < 0 || !receive_all(fd, &h, sizeof h, patience < deadline ? patience : deadline) ||
        memcmp(h.magic, own->magic, sizeof h.magic) != 0 ||
        memcmp(h.run, own->run, sizeof h.run) != 0)
        return 0;
    if (h.world != r->world || h.rank < 1 || h.rank >= r->world)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "rank %d of %d came to a run of %d ranks; give each run its own "
                         "master port",
                         h.rank, h.world, r->world);
    if (r->fds[h.rank] >= 0)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "rank %d came twice; give each run its own master port", h.rank);
    r->fds[h.rank] = steal_fd(&fd);
    return 0;
}

static int first_absent(const struct rendezvous *r)
{
    int rank = 1;
    while (rank < r->world && r->fds[rank] >= 0)
        rank++;
    return rank < r->world ? rank : -1;
}

static void tell_lost(const struct rendezvous *r, int lost)
{
    const int32_t word = lost;
    for (int k = 1; k < r->world; k++)
        if (r->fds[k] >= 0)
            send_all(r->fds[k], &word, sizeof word, clock_mono_s() + HELLO_S);
}

static int absent_error(const struct comm_config *config, int rank, struct error *err)
{
    error_set(err, NANOCHAT_EXIT_PEER,
              "lost rank %d before the first step: it did not come to %s:%d within %.3g s", rank,
              config->master_addr, config->master_port, config->timeout_s);
    return error_hint(err, "start all %d ranks with the same MASTER_ADDR and MASTER_PORT",
                      config->world);
}

static int host_ranks(struct rendezvous *r, const struct comm_config *config, const void *data,
                      size_t bytes, int *lost, struct error *err)
{
    struct addrinfo *master = NULL;
    struct hello own;
    double deadline = clock_mono_s() + config->timeout_s;
    const int32_t none = -1;
    describe_self(config, &own);
    if (resolve(config, &master, err))
        return -err->code;
    auto_close int listener = listen_at(config, master, err);
    freeaddrinfo(master);
    if (listener < 0)
        return -err->code;
    while ((*lost = first_absent(r)) >= 0) {
        if (!wait_ready(listener, POLLIN, deadline)) {
            tell_lost(r, *lost);
            return absent_error(config, *lost, err);
        }
        if (admit(r, &own, listener, deadline, err))
            return -err->code;
    }
    for (int k = 1; k < r->world; k++)
        if (!send_all(r->fds[k], &none, sizeof none, deadline) ||
            !send_all(r->fds[k], data, bytes, deadline)) {
            *lost = k;
            tell_lost(r, k);
            return error_set(err, NANOCHAT_EXIT_PEER,
                             "lost rank %d before the first step: it went away again", k);
        }
    return 0;
}

/* ---- the others ------------------------------------------------------------------------------ */

static int connect_once(const struct addrinfo *master, double deadline)
{
    for (const struct addrinfo *a = master; a; a = a->ai_next) {
        auto_close int fd =
            socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        int error = 0;
        socklen_t size = sizeof error;
        if (fd < 0)
            continue;
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0 ||
            (errno == EINPROGRESS && wait_ready(fd, POLLOUT, deadline) &&
             !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) && !error))
            return steal_fd(&fd);
    }
    return -1;
}

/* Rank 0 may not listen yet, or its port may still be another run's, which hangs up. */
static int join_once(struct rendezvous *r, const struct comm_config *config,
                     const struct addrinfo *master, double deadline, int32_t *word)
{
    struct hello own;
    auto_close int fd = connect_once(master, deadline);
    describe_self(config, &own);
    if (fd < 0 || !send_all(fd, &own, sizeof own, deadline) ||
        !receive_all(fd, word, sizeof *word, deadline))
        return -1;
    r->fds[0] = steal_fd(&fd);
    return 0;
}

static int join_ranks(struct rendezvous *r, const struct comm_config *config, void *data,
                      size_t bytes, int *lost, struct error *err)
{
    struct addrinfo *master = NULL;
    /* a little longer than rank 0, which then tells who is missing */
    double deadline = clock_mono_s() + config->timeout_s + HELLO_S;
    int32_t word = -1;
    if (resolve(config, &master, err))
        return -err->code;
    while (join_once(r, config, master, deadline, &word) && clock_mono_s() < deadline)
        clock_sleep_s(TICK_S);
    freeaddrinfo(master);
    if (r->fds[0] < 0)
        return *lost = 0, absent_error(config, 0, err);
    if (word >= 0)
        return *lost = word, absent_error(config, word, err);
    if (!receive_all(r->fds[0], data, bytes, deadline)) {
        *lost = 0;
        return error_set(err, NANOCHAT_EXIT_PEER,
                         "lost rank 0 before the first step: it went away again");
    }
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

int rendezvous_open(struct rendezvous *r, const struct comm_config *config, void *data,
                    size_t bytes, int *lost, struct error *err)
{
    r->rank = config->rank;
    r->world = config->world;
    r->fds = mem_zalloc((size_t)config->world, sizeof *r->fds);
    for (int k = 0; k < config->world; k++)
        r->fds[k] = -1;
    *lost = -1;
    if (r->rank == 0)
        return host_ranks(r, config, data, bytes, lost, err);
    return join_ranks(r, config, data, bytes, lost, err);
}

/* What lies in the socket: -1 nothing, else the lost rank (`peer` itself when it hung up). */
static int read_loss(int fd, int peer)
{
    int32_t word;
    ssize_t n = recv(fd, &word, sizeof word, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof word)
        return word;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? -1 : peer;
}

int rendezvous_lost(struct rendezvous *r)
{
    if (r->rank != 0)
        return r->fds[0] < 0 ? -1 : read_loss(r->fds[0], 0);
    for (int k = 1; k < r->world; k++) {
        int lost = r->fds[k] < 0 ? -1 : read_loss(r->fds[k], k);
        if (lost >= 0) {
            tell_lost(r, lost);
            return lost;
        }
    }
    return -1;
}

void rendezvous_close(struct rendezvous *r)
{
    for (int k = 0; r->fds && k < r->world; k++)
        if (r->fds[k] >= 0)
            close(r->fds[k]);
    free(r->fds);
    r->fds = NULL;
}
