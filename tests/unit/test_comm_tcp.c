/* What only tcp has to face: several nodes, frames that end in the middle, strangers, taken ports.
 */
#include "workload/comm.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/comm_ranks.h"
#include "tests/unit/unit.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int is_tcp(struct comm *c, struct error *err)
{
    if (strcmp(comm_backend(c), "tcp") != 0)
        return error_set(err, 99, "backend %s", comm_backend(c));
    return ranks_all_reduce(c, err);
}

static void auto_takes_tcp_for_several_nodes(void)
{
    pid_t pids[4];
    ranks_prepare();
    for (int r = 0; r < 4; r++) {
        struct comm_config config = ranks_config(r, 4);
        config.backend = NULL;
        config.local_world = 2;
        config.local_rank = r % 2;
        pids[r] = ranks_start(&config, is_tcp);
    }
    for (int r = 0; r < 4; r++)
        ranks_reap(pids[r], &ranks[r]);
    ranks_expect_all_fine(4);
}

/* A rank that dies with a large frame half sent: its peers are in the middle of reading. */
static int die_in_large(struct comm *c, struct error *err)
{
    const int64_t n = 3 << 20;
    auto_free float *buf = ranks_values(c, n);
    if (comm_all_reduce_sum(c, buf, n, err))
        return -err->code;
    comm_set_step(c, 1);
    if (comm_rank(c) == 2) {
        struct itimerval soon = {.it_value.tv_usec = 3000};
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    for (;;)
        if (comm_all_reduce_sum(c, buf, n, err))
            return -err->code;
}

static void death_in_a_large_frame_is_blamed_on_the_dead(void)
{
    ranks_backend = "tcp";
    for (int i = 0; i < 3; i++) {
        ranks_run_timeout(4, die_in_large, 30, -1);
        CU_ASSERT_EQUAL(ranks[2].code, -SIGALRM);
        for (int r = 0; r < 4; r++)
            if (r != 2)
                ranks_expect_message(r, "lost rank 2 in all_reduce");
    }
    ranks_backend = "shm";
}

/* Who is no rank of ours, or of another run, must not disturb the rendezvous. */
static void strangers_are_ignored(void)
{
    pid_t pids[2];
    ranks_prepare();
    ranks_backend = "tcp";
    struct comm_config config = ranks_config(0, 2);
    pids[0] = ranks_start(&config, ranks_all_reduce);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)config.master_port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int silent = -1;
    for (int i = 0; i < 200 && silent < 0; i++) {
        silent = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(silent, (struct sockaddr *)&a, sizeof a)) {
            close(silent);
            silent = -1;
            clock_sleep_s(0.02);
        }
    }
    CU_ASSERT(silent >= 0);
    int noise = socket(AF_INET, SOCK_STREAM, 0);
    CU_ASSERT_EQUAL(connect(noise, (struct sockaddr *)&a, sizeof a), 0);
    char text[200];
    memset(text, 'x', sizeof text);
    CU_ASSERT_EQUAL(send(noise, text, sizeof text, MSG_NOSIGNAL), (ssize_t)sizeof text);
    setenv(ENV_TRIAL_ID, "another-run", 1);
    config = ranks_config(1, 2);
    config.timeout_s = 0.3;
    pid_t other = ranks_start(&config, ranks_nothing);
    unsetenv(ENV_TRIAL_ID);
    struct rank_outcome o;
    ranks_reap(other, &o);
    CU_ASSERT_EQUAL(o.code, NANOCHAT_EXIT_PEER);
    config = ranks_config(1, 2);
    pids[1] = ranks_start(&config, ranks_all_reduce);
    for (int r = 0; r < 2; r++)
        ranks_reap(pids[r], &ranks[r]);
    ranks_expect_all_fine(2);
    close(silent);
    close(noise);
    ranks_backend = "shm";
}

static void taken_port_is_an_error(void)
{
    ranks_backend = "tcp";
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6};
    socklen_t size = sizeof a;
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 1) ||
        getsockname(fd, (struct sockaddr *)&a, &size)) {
        unit_skip("no IPv6 here");
    } else {
        struct comm_config config = ranks_config(0, 2);
        struct comm *c = NULL;
        struct error err = ERROR_INIT;
        config.master_port = ntohs(a.sin6_port);
        comm_open(&c, &config, &err);
        CU_ASSERT_EQUAL(err.code, NANOCHAT_EXIT_PEER);
        CU_ASSERT(strstr(err.message, "cannot listen at port") != NULL);
        error_release(&err);
    }
    if (fd >= 0)
        close(fd);
    ranks_backend = "shm";
}

UNIT_MAIN({"tcp: taken for ranks on several nodes", auto_takes_tcp_for_several_nodes},
          {"tcp: death in a large frame", death_in_a_large_frame_is_blamed_on_the_dead},
          {"tcp: strangers are ignored", strangers_are_ignored},
          {"tcp: a port that is taken", taken_port_is_an_error})
