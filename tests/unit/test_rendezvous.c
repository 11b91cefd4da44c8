/* Ranks that meet over TCP: all, not all, strangers, and one that dies afterwards. */
#include "workload/rendezvous.h"

#include "common/clock.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORLD 4
#define DATA_BYTES 128

struct outcome_of_rank {
    int code, lost;
    double seconds;
    char message[512], data[DATA_BYTES];
};
static struct outcome_of_rank *shared; /* [MAX_WORLD] */
static int port;
static double timeout_s = 10;

/* Called when all have met: returns the rank that is seen to be lost later. */
typedef int after_function(struct rendezvous *r);

static void rank_main(int rank, int world, double delay_s, after_function *after)
{
    struct outcome_of_rank *mine = &shared[rank];
    struct error err = ERROR_INIT;
    struct rendezvous r = {0};
    const struct comm_config config = {.rank = rank,
                                       .world = world,
                                       .local_world = 1,
                                       .master_addr = "127.0.0.1",
                                       .master_port = port,
                                       .timeout_s = timeout_s};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    clock_sleep_s(delay_s);
    double begin = clock_mono_s();
    if (rank == 0)
        snprintf(mine->data, DATA_BYTES, "what rank 0 has to say");
    if (!rendezvous_open(&r, &config, mine->data, DATA_BYTES, &mine->lost, &err) && after)
        mine->lost = after(&r);
    mine->seconds = clock_mono_s() - begin;
    rendezvous_close(&r);
    snprintf(mine->message, sizeof mine->message, "%s", err.message ? err.message : "");
    int code = err.code;
    error_release(&err);
    _exit(code);
}

static pid_t start(int rank, int world, double delay_s, after_function *after)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        rank_main(rank, world, delay_s, after);
    return pid;
}

static int reap(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* All ranks but `absent`; rank r starts r * step_s later (rank 0 last when step_s < 0). */
static void run_ranks(int world, int absent, double step_s, after_function *after)
{
    pid_t pids[MAX_WORLD] = {0};
    memset(shared, 0, MAX_WORLD * sizeof *shared);
    port++;
    for (int r = 0; r < world; r++)
        if (r != absent)
            pids[r] = start(r, world, step_s < 0 ? (r == 0) * -step_s : r * step_s, after);
    for (int r = 0; r < world; r++)
        if (r != absent)
            shared[r].code = reap(pids[r]);
}

static void all_meet_in_any_order(void)
{
    for (int world = 2; world <= 4; world++)
        for (int order = -1; order <= 1; order++) {
            run_ranks(world, -1, order * 0.1, NULL);
            for (int r = 0; r < world; r++) {
                CU_ASSERT_STR(shared[r].message, "");
                CU_ASSERT_EQUAL(shared[r].code, 0);
                CU_ASSERT_STR(shared[r].data, "what rank 0 has to say");
            }
        }
}

static void who_never_came_is_named_by_all(void)
{
    timeout_s = 0.5;
    run_ranks(4, 2, 0, NULL);
    for (int r = 0; r < 4; r++)
        if (r != 2) {
            CU_ASSERT_EQUAL(shared[r].code, NANOCHAT_EXIT_PEER);
            CU_ASSERT_EQUAL(shared[r].lost, 2);
            CU_ASSERT_PTR_NOT_NULL(strstr(shared[r].message, "lost rank 2 before the first step"));
            CU_ASSERT_TRUE(shared[r].seconds < 10);
        }
    run_ranks(2, 0, 0, NULL);
    CU_ASSERT_EQUAL(shared[1].code, NANOCHAT_EXIT_PEER);
    CU_ASSERT_EQUAL(shared[1].lost, 0);
    timeout_s = 10;
}

static int connect_to_port(void)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
            return fd;
        close(fd);
        clock_sleep_s(0.01);
    }
    return -1;
}

static void strangers_are_hung_up_on(void)
{
    memset(shared, 0, MAX_WORLD * sizeof *shared);
    port++;
    pid_t first = start(0, 2, 0, NULL);
    int web = connect_to_port(), gone = connect_to_port();
    const char request[] = "GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n";
    CU_ASSERT_TRUE(web >= 0 && gone >= 0);
    CU_ASSERT_EQUAL(send(web, request, sizeof request, MSG_NOSIGNAL), (ssize_t)sizeof request);
    close(gone);
    pid_t second = start(1, 2, 0, NULL);
    CU_ASSERT_EQUAL(reap(first), 0);
    CU_ASSERT_EQUAL(reap(second), 0);
    char byte;
    CU_ASSERT_TRUE(recv(web, &byte, 1, 0) <= 0);
    close(web);
    CU_ASSERT_STR(shared[1].data, "what rank 0 has to say");
}

static void a_port_in_use_is_told(void)
{
    memset(shared, 0, MAX_WORLD * sizeof *shared);
    port++;
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (const struct sockaddr *)&at, sizeof at) || listen(fd, 1)) {
        close(fd);
        unit_skip("the port is taken");
        return;
    }
    CU_ASSERT_EQUAL(reap(start(0, 2, 0, NULL)), NANOCHAT_EXIT_USAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(shared[0].message, "cannot listen at port"));
    close(fd);
}

static void a_rank_that_comes_twice_is_refused(void)
{
    memset(shared, 0, MAX_WORLD * sizeof *shared);
    port++;
    timeout_s = 2;
    pid_t first = start(0, 3, 0, NULL), second = start(1, 3, 0, NULL), again = start(1, 3, 0, NULL);
    CU_ASSERT_EQUAL(reap(first), NANOCHAT_EXIT_USAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(shared[0].message, "rank 1 came twice"));
    CU_ASSERT_EQUAL(reap(second), NANOCHAT_EXIT_PEER);
    CU_ASSERT_EQUAL(reap(again), NANOCHAT_EXIT_PEER);
    timeout_s = 10;
}

static int watch(struct rendezvous *r)
{
    if (r->rank == 2)
        raise(SIGKILL);
    for (double begin = clock_mono_s(); clock_mono_s() - begin < 5; clock_sleep_s(0.01)) {
        int lost = rendezvous_lost(r);
        if (lost >= 0)
            return lost;
    }
    return -1;
}

static void a_rank_that_dies_later_is_named_by_all(void)
{
    run_ranks(4, -1, 0, watch);
    CU_ASSERT_EQUAL(shared[2].code, -SIGKILL);
    CU_ASSERT_EQUAL(shared[0].lost, 2);
    /* rank 0 has told them, or has itself gone by then */
    CU_ASSERT_EQUAL(shared[1].lost, 2);
    CU_ASSERT_EQUAL(shared[3].lost, 2);
}

static int none_lost(struct rendezvous *r)
{
    int lost = rendezvous_lost(r);
    clock_sleep_s(0.3);
    return lost;
}

static void nobody_is_lost_while_all_live(void)
{
    run_ranks(3, -1, 0, none_lost);
    for (int r = 0; r < 3; r++)
        CU_ASSERT_EQUAL(shared[r].lost, -1);
}

int main(int argc, char **argv)
{
    static const struct unit_test tests[] = {
        {"all meet in any order", all_meet_in_any_order},
        {"who never came is named by all", who_never_came_is_named_by_all},
        {"strangers are hung up on", strangers_are_hung_up_on},
        {"a port in use is told", a_port_in_use_is_told},
        {"a rank that comes twice is refused", a_rank_that_comes_twice_is_refused},
        {"a rank that dies later is named by all", a_rank_that_dies_later_is_named_by_all},
        {"nobody is lost while all live", nobody_is_lost_while_all_live},
        {NULL, NULL}};
    shared = mmap(NULL, MAX_WORLD * sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    port = 18000 + (int)(getpid() % 4000);
    return shared == MAP_FAILED ? 1 : unit_run(__FILE__, tests, argc, argv);
}
