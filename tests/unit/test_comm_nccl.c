/* The logic of comm_nccl over a make-believe interconnect between forked ranks: results, order,
 * records, and every way of losing a peer. */
#include "workload/comm.h"

#include "common/clock.h"
#include "common/protocol.h"
#include "kernels/collectives.h"
#include "kernels/kernels.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORLD 4
#define ROOM 4096 /* bytes of a collective's buffer */
/* Collectives whose inputs are kept. A rank that has not yet taken number k's cannot launch
 * k + SLOTS; without that the others cannot complete it, nor launch k + 2·SLOTS. */
#define LAPS (2 * COLLECTIVE_SLOTS)

/* ---- the interconnect: a collective is done once every rank has launched it ------------------ */
struct wire {
    _Atomic int launched[MAX_WORLD];
    _Atomic bool ended[MAX_WORLD];
    _Atomic bool stuck, broken; /* nothing completes any more; poll fails */
    _Alignas(64) char data[MAX_WORLD][LAPS][ROOM];
};
struct outcome_of_rank {
    int code; /* exit code, or -signal */
    double seconds;
    char message[512];
    int records;
    struct comm_record last;
};
static struct shared {
    struct wire wire;
    struct outcome_of_rank rank[MAX_WORLD];
} * shared;

struct collectives {
    int rank, world, launched;
    bool finished;
    struct {
        struct collective what;
        int64_t counts[MAX_WORLD];
        int number;
        bool done, joined;
    } slots[COLLECTIVE_SLOTS];
};

static const char *fake_identify(struct error *err)
{
    (void)err;
    return "make-believe 1.0";
}

static int fake_id(unsigned char id[COLLECTIVE_ID_BYTES], struct error *err)
{
    (void)err;
    memset(id, 7, COLLECTIVE_ID_BYTES);
    return 0;
}

static int fake_open(struct collectives **out, struct device *d, const unsigned char *id, int rank,
                     int world, struct error *err)
{
    (void)d;
    if (id[0] != 7 || id[COLLECTIVE_ID_BYTES - 1] != 7)
        return error_set(err, NANOCHAT_EXIT_DEVICE, "the id did not arrive");
    *out = calloc(1, sizeof **out);
    (*out)->rank = rank;
    (*out)->world = world;
    return 0;
}

static int fake_poll(struct collectives *c, struct error *err)
{
    (void)c;
    return atomic_load(&shared->wire.broken)
               ? error_set(err, NANOCHAT_EXIT_PEER, "make-believe: the cable is cut")
               : 0;
}

static int fake_launch(struct collectives *c, const struct collective *what, int slot,
                       struct error *err)
{
    size_t bytes = (size_t)what->n * sizeof(float);
    if (bytes > ROOM)
        return error_set(err, NANOCHAT_EXIT_DEVICE, "too long for make-believe");
    c->slots[slot].what = *what;
    if (what->counts)
        memcpy(c->slots[slot].counts, what->counts, sizeof(int64_t) * (size_t)c->world);
    c->slots[slot].number = ++c->launched;
    c->slots[slot].done = c->slots[slot].joined = false;
    memcpy(shared->wire.data[c->rank][c->launched % LAPS], what->buf, bytes);
    atomic_store(&shared->wire.launched[c->rank], c->launched);
    return 0;
}

static int fake_launched(struct collectives *c, int slot, struct error *err)
{
    (void)err;
    return c->slots[slot].number == c->launched ? 0 : -1;
}

static int fake_join(struct collectives *c, int slot, struct error *err)
{
    (void)err;
    c->slots[slot].joined = true;
    return 0;
}

static int owner_of(const struct collectives *c, int slot, int64_t i)
{
    int r = 0;
    for (int64_t end = c->slots[slot].counts[0]; i >= end; end += c->slots[slot].counts[r])
        r++;
    return r;
}

static void complete(struct collectives *c, int slot)
{
    const struct collective *w = &c->slots[slot].what;
    char *parts[MAX_WORLD];
    for (int r = 0; r < c->world; r++)
        parts[r] = shared->wire.data[r][c->slots[slot].number % LAPS];
    for (int64_t i = 0; i < w->n; i++) {
        int owner = w->counts ? owner_of(c, slot, i) : -1;
        if (w->kind == COLLECTIVE_BROADCAST) {
            w->buf[i] = ((float *)parts[w->root])[i];
        } else if (w->kind == COLLECTIVE_ALL_GATHER) {
            w->buf[i] = ((float *)parts[owner])[i];
        } else if (w->kind == COLLECTIVE_ALL_REDUCE || owner == c->rank) {
            float acc = 0;
            for (int r = 0; r < c->world; r++)
                acc += ((float *)parts[r])[i];
            w->buf[i] = acc;
        }
    }
    c->slots[slot].done = true;
}

static int fake_state(struct collectives *c, int slot, struct error *err)
{
    (void)err;
    if (c->slots[slot].done)
        return COLLECTIVE_DONE;
    for (int r = 0; r < c->world; r++)
        if (atomic_load(&shared->wire.launched[r]) < c->slots[slot].number)
            return COLLECTIVE_RUNNING;
    if (atomic_load(&shared->wire.stuck))
        return COLLECTIVE_RUNNING;
    complete(c, slot);
    return COLLECTIVE_DONE;
}

static int fake_times(struct collectives *c, int slot, double *seconds, double *exposed_s,
                      struct error *err)
{
    (void)err;
    *seconds = 0.25 * c->slots[slot].number;
    *exposed_s = c->slots[slot].joined ? 0.125 : 0;
    return 0;
}

static int fake_finish(struct collectives *c, struct error *err)
{
    (void)err;
    c->finished = true;
    return 0;
}

static void fake_close(struct collectives *c)
{
    atomic_store(&shared->wire.ended[c->rank], !c->finished);
    free(c);
}

static const struct collective_ops fake_ops = {
    .name = "make-believe",
    .identify = fake_identify,
    .make_id = fake_id,
    .open = fake_open,
    .poll = fake_poll,
    .launch = fake_launch,
    .launched = fake_launched,
    .join = fake_join,
    .state = fake_state,
    .times = fake_times,
    .finish = fake_finish,
    .close = fake_close,
};

/* ---- ranks ----------------------------------------------------------------------------------- */

typedef int rank_function(struct comm *c, struct error *err);
static double timeout_s = 20;
static bool several_nodes;
static int port;

static void note(void *user, const struct comm_record *record)
{
    struct outcome_of_rank *o = user;
    o->records++;
    o->last = *record;
}

static void rank_main(int rank, int world, rank_function *run)
{
    struct outcome_of_rank *mine = &shared->rank[rank];
    struct error err = ERROR_INIT;
    struct device *d = NULL;
    struct comm *c = NULL;
    const struct device_config cpu = {.type = "cpu", .threads = 1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    double begin = clock_mono_s();
    if (device_open(&d, &cpu, &err))
        _exit(99);
    d->collectives = &fake_ops;
    const struct comm_config config = {.rank = rank,
                                       .world = world,
                                       .local_rank = several_nodes ? 0 : rank,
                                       .local_world = several_nodes ? 1 : world,
                                       .master_port = port,
                                       .timeout_s = timeout_s,
                                       .device = d};
    if (!comm_open(&c, &config, &err)) {
        comm_set_observer(c, note, mine);
        comm_set_step(c, 3);
        run(c, &err);
    }
    comm_close(c);
    device_close(d);
    mine->seconds = clock_mono_s() - begin;
    snprintf(mine->message, sizeof mine->message, "%s", err.message ? err.message : "");
    int code = err.code;
    error_release(&err);
    _exit(code);
}

static void run_ranks(int world, rank_function *run)
{
    pid_t pids[MAX_WORLD];
    memset(shared, 0, sizeof *shared);
    port = unit_port();
    fflush(stdout);
    for (int r = 0; r < world; r++)
        if ((pids[r] = fork()) == 0)
            rank_main(r, world, run);
    for (int r = 0; r < world; r++) {
        int status = 0;
        while (waitpid(pids[r], &status, 0) < 0 && errno == EINTR)
            continue;
        shared->rank[r].code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
}

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return error_set(err, 77, "%s is false", #condition);                                  \
    } while (0)

/* Segments of 1, 2, 3 … elements. */
static int collectives_work(struct comm *c, struct error *err)
{
    int me = comm_rank(c), world = comm_world(c);
    int64_t counts[MAX_WORLD], own = 0, total = 0;
    float scatter[16], gather[16], all[5], root[2] = {(float)me, 1};
    for (int r = 0; r < world; r++) {
        counts[r] = r + 1;
        own += r < me ? counts[r] : 0;
        total += counts[r];
    }
    for (int i = 0; i < 16; i++) {
        scatter[i] = (float)(i + 10 * me);
        gather[i] = (float)(100 * me + i);
        all[i % 5] = 1;
    }
    comm_take_time_s(c);
    double begin = clock_mono_s();
    if (comm_reduce_scatter_sum(c, scatter, counts, err) ||
        comm_all_gather(c, gather, counts, err) || comm_broadcast_f32(c, root, 2, world - 1, err) ||
        comm_all_reduce_sum(c, all, 5, err))
        return -err->code;
    REQUIRE(shared->rank[me].records == 0);            /* queued, not done */
    REQUIRE(comm_time_s(c) <= clock_mono_s() - begin); /* the host's part alone */
    if (comm_wait(c, err))
        return -err->code;
    for (int64_t i = own; i < own + counts[me]; i++)
        REQUIRE(scatter[i] == (float)(i * world + 5 * world * (world - 1)));
    for (int64_t i = 0, r = 0, end = 1; i < total; i++) {
        if (i == end)
            end += counts[++r];
        REQUIRE(gather[i] == (float)(100 * r + i));
    }
    REQUIRE(all[0] == (float)world && all[4] == (float)world);
    REQUIRE(root[0] == (float)(world - 1) && root[1] == 1);
    REQUIRE(shared->rank[me].records == 4);
    REQUIRE(shared->rank[me].last.step == 3 && shared->rank[me].last.bytes == 20);
    REQUIRE(!strcmp(shared->rank[me].last.op, "all_reduce") &&
            shared->rank[me].last.lost_rank == -1);
    double waited = comm_take_time_s(c); /* what the device stood still, four times 0.125 */
    REQUIRE(waited >= 0.5 && waited <= 0.5 + clock_mono_s() - begin);
    double v[2] = {me + 1, -me};
    char word[6] = "";
    if (me == world - 1)
        memcpy(word, "hello", 6);
    if (comm_all_reduce_sum_f64(c, v, 1, err) || comm_all_reduce_max_f64(c, v + 1, 1, err) ||
        comm_broadcast(c, word, 6, world - 1, err) || comm_barrier(c, err))
        return -err->code;
    REQUIRE(v[0] == world * (world + 1) / 2.0 && v[1] == 0 && !strcmp(word, "hello"));
    REQUIRE(shared->rank[me].records == 8); /* each call once */
    return 0;
}

static void expect_all_fine(int world)
{
    for (int r = 0; r < world; r++) {
        CU_ASSERT_STR(shared->rank[r].message, "");
        CU_ASSERT_EQUAL(shared->rank[r].code, 0);
        CU_ASSERT_FALSE(shared->wire.ended[r]); /* an orderly end */
    }
}

static void results_on_one_node(void)
{
    for (int world = 2; world <= 4; world++) {
        run_ranks(world, collectives_work);
        expect_all_fine(world);
    }
}

static void results_on_several_nodes(void)
{
    several_nodes = true;
    for (int world = 2; world <= 3; world++) {
        run_ranks(world, collectives_work);
        expect_all_fine(world);
    }
    several_nodes = false;
}

static int expect_sums(const float *x, int n, struct error *err)
{
    for (int i = 0; i < n; i++)
        if (x[i] != (float)(2 * i + 1000))
            return error_set(err, 77, "sum %d is %g, not %d", i, (double)x[i], 2 * i + 1000);
    return 0;
}

/* More than there are slots: the queue waits by itself. The second time one rank stays behind with
 * all its slots taken, while the other goes on. */
static int many(struct comm *c, struct error *err)
{
    enum { N = 3 * COLLECTIVE_SLOTS };
    const int me = comm_rank(c);
    float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = y[i] = (float)(i + 1000 * me);
    for (int i = 0; i < N; i++)
        if (comm_all_reduce_sum(c, x + i, 1, err) || (i % 5 == 0 && comm_wait(c, err)))
            return -err->code;
    if (comm_wait(c, err) || expect_sums(x, N, err))
        return -err->code;
    REQUIRE(shared->rank[me].records == N);
    REQUIRE(shared->rank[me].last.seq == N - 1);
    for (int i = 0; i < N; i++) {
        if (comm_all_reduce_sum(c, y + i, 1, err))
            return -err->code;
        if (me == 0 && i == COLLECTIVE_SLOTS - 1)
            clock_sleep_s(0.1);
    }
    return comm_wait(c, err) ? -err->code : expect_sums(y, N, err);
}

static void more_than_the_slots(void)
{
    run_ranks(2, many);
    expect_all_fine(2);
}

/* Not joined one by one: only the last, when it is waited for. */
static int overlapped(struct comm *c, struct error *err)
{
    float x[3] = {1, 2, 3};
    REQUIRE(comm_can_overlap(c));
    comm_set_overlap(c, true);
    for (int i = 0; i < 3; i++)
        if (comm_all_reduce_sum(c, x + i, 1, err))
            return -err->code;
    comm_set_overlap(c, false);
    if (comm_wait(c, err))
        return -err->code;
    REQUIRE(x[0] == 2 && x[1] == 4 && x[2] == 6);
    REQUIRE(comm_take_time_s(c) == 0.125 && shared->rank[comm_rank(c)].records == 3);
    return 0;
}

static void beside_the_devices_own_work(void)
{
    run_ranks(2, overlapped);
    expect_all_fine(2);
}

/* ---- losses ---------------------------------------------------------------------------------- */

static int reduce_and_wait(struct comm *c, struct error *err)
{
    float x[4] = {1, 2, 3, 4};
    return comm_all_reduce_sum(c, x, 4, err) || comm_wait(c, err) ? -err->code : 0;
}

static int killed(struct comm *c, struct error *err)
{
    if (comm_rank(c) == 1)
        raise(SIGKILL);
    return reduce_and_wait(c, err);
}

static int ends_early(struct comm *c, struct error *err)
{
    return comm_rank(c) == 1 ? 0 : reduce_and_wait(c, err);
}

static int sleeps(struct comm *c, struct error *err)
{
    if (comm_rank(c) == 1)
        clock_sleep_s(2.5);
    return reduce_and_wait(c, err);
}

static int fails_again(struct comm *c, struct error *err)
{
    float x = 1;
    double y = 1;
    if (!killed(c, err))
        return 0;
    struct error again = ERROR_INIT;
    REQUIRE(comm_all_reduce_sum(c, &x, 1, &again) == -NANOCHAT_EXIT_PEER);
    error_release(&again);
    REQUIRE(comm_wait(c, &again) == -NANOCHAT_EXIT_PEER);
    error_release(&again);
    REQUIRE(comm_all_reduce_sum_f64(c, &y, 1, &again) == -NANOCHAT_EXIT_PEER);
    error_release(&again);
    return -err->code;
}

static void expect_lost(int world, int lost, const char *why)
{
    for (int r = 0; r < world; r++) {
        const struct outcome_of_rank *o = &shared->rank[r];
        if (r == lost)
            continue;
        CU_ASSERT_EQUAL(o->code, NANOCHAT_EXIT_PEER);
        CU_ASSERT_PTR_NOT_NULL(strstr(o->message, "lost rank 1 in all_reduce of step 3"));
        if (why && !strstr(o->message, why))
            unit_str(__FILE__, __LINE__, "message", o->message, why);
        CU_ASSERT_EQUAL(o->last.lost_rank, lost);
        CU_ASSERT_EQUAL(o->last.step, 3);
        CU_ASSERT_TRUE(shared->wire.ended[r]); /* what was in flight has been ended */
    }
}

static void a_killed_rank_is_seen_at_once(void)
{
    for (int world = 2; world <= 4; world += 2) {
        run_ranks(world, killed);
        CU_ASSERT_EQUAL(shared->rank[1].code, -SIGKILL);
        expect_lost(world, 1, "is dead");
    }
    run_ranks(2, fails_again);
    expect_lost(2, 1, "is dead");
}

static void a_rank_that_ends_early_is_seen_at_once(void)
{
    run_ranks(3, ends_early);
    CU_ASSERT_EQUAL(shared->rank[1].code, 0);
    expect_lost(3, 1, "ended early");
}

static void a_late_rank_is_named_at_the_deadline(void)
{
    timeout_s = 0.8;
    run_ranks(3, sleeps);
    timeout_s = 20;
    expect_lost(3, 1, "did not arrive within 0.8 s");
}

static void a_dead_rank_of_another_node_is_named(void)
{
    several_nodes = true;
    run_ranks(3, killed);
    several_nodes = false;
    expect_lost(3, 1, NULL);
}

static void a_late_rank_of_another_node_is_named(void)
{
    several_nodes = true;
    timeout_s = 0.8;
    run_ranks(3, sleeps);
    timeout_s = 20;
    several_nodes = false;
    expect_lost(3, 1, "did not arrive within 0.8 s");
}

static void a_rank_of_another_node_that_ends_early(void)
{
    several_nodes = true;
    run_ranks(3, ends_early);
    several_nodes = false;
    CU_ASSERT_EQUAL(shared->rank[1].code, 0);
    expect_lost(3, 1, "ended early");
}

static int gets_stuck(struct comm *c, struct error *err)
{
    atomic_store(&shared->wire.stuck, true);
    return reduce_and_wait(c, err);
}

static void a_collective_that_hangs_has_a_deadline(void)
{
    timeout_s = 0.5;
    run_ranks(2, gets_stuck);
    timeout_s = 20;
    for (int r = 0; r < 2; r++) {
        CU_ASSERT_EQUAL(shared->rank[r].code, NANOCHAT_EXIT_PEER);
        bool named = strstr(shared->rank[r].message, "all_reduce of step 3") != NULL;
        CU_ASSERT_TRUE(named);
        CU_ASSERT_TRUE(shared->wire.ended[r]);
    }
}

static int cable_cut(struct comm *c, struct error *err)
{
    if (comm_barrier(c, err))
        return -err->code;
    atomic_store(&shared->wire.broken, true);
    return reduce_and_wait(c, err);
}

static void an_error_of_the_library_is_told(void)
{
    run_ranks(2, cable_cut);
    bool told = false;
    for (int r = 0; r < 2; r++) {
        CU_ASSERT_EQUAL(shared->rank[r].code, NANOCHAT_EXIT_PEER);
        told |= strstr(shared->rank[r].message, "the cable is cut") != NULL;
    }
    CU_ASSERT_TRUE(told); /* the other may have seen that the first one left */
}

static void a_device_without_collectives_is_refused(void)
{
    struct error err = ERROR_INIT;
    struct comm *c = NULL;
    const struct device_ops ops = {.name = "gpu"};
    struct device gpu = {.ops = &ops};
    const struct comm_config config = {.world = 2, .local_world = 2, .device = &gpu};
    CU_ASSERT_EQUAL(comm_open(&c, &config, &err), -NANOCHAT_EXIT_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "2 ranks on gpu"));
    error_release(&err);
}

int main(int argc, char **argv)
{
    static const struct unit_test tests[] = {
        {"results on one node", results_on_one_node},
        {"results on several nodes", results_on_several_nodes},
        {"more than the slots", more_than_the_slots},
        {"beside the device's own work", beside_the_devices_own_work},
        {"a killed rank is seen at once", a_killed_rank_is_seen_at_once},
        {"a rank that ends early is seen at once", a_rank_that_ends_early_is_seen_at_once},
        {"a late rank is named at the deadline", a_late_rank_is_named_at_the_deadline},
        {"a dead rank of another node is named", a_dead_rank_of_another_node_is_named},
        {"a late rank of another node is named", a_late_rank_of_another_node_is_named},
        {"a rank of another node that ends early", a_rank_of_another_node_that_ends_early},
        {"a collective that hangs has a deadline", a_collective_that_hangs_has_a_deadline},
        {"an error of the library is told", an_error_of_the_library_is_told},
        {"a device without collectives is refused", a_device_without_collectives_is_refused},
        {NULL, NULL}};
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : unit_run(__FILE__, tests, argc, argv);
}
