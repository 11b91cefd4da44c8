/* Sharding: several ranks against one with accumulation, ownership without padding, schedules. What
 * the update itself computes is held against upstream in test_golden and test_kernels.
 *
 * All training happens in forked children: OpenMP does not survive a fork. */
#include "workload/optimizer.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 3
#define MAX_WORLD 5
#define MAX_WEIGHTS 40000
#define MICRO_BATCHES 12 /* of the whole batch, shared by the ranks */

/* 51 rows: no world size above 1 divides them. */
static const struct model_config config = {
    .sequence_len = 8, .vocab_size = 51, .n_layer = 3, .n_head = 2, .n_kv_head = 1, .n_embd = 16};

struct result {
    double loss[STEPS], norm[STEPS];
    int64_t owned_matrices, owned_floats, collectives, collective_bytes;
    float weights[MAX_WEIGHTS];
};
static struct result *results; /* [MAX_WORLD], shared with the children */

static void fill_batch(int64_t step, int64_t micro, int32_t *inputs, int32_t *targets)
{
    for (int64_t i = 0; i < 8; i++) {
        inputs[i] = (int32_t)((step * 131 + micro * 17 + i * 7) % 51);
        targets[i] = (int32_t)((step * 131 + micro * 17 + i * 7 + 7) % 51);
    }
}

static void count(void *user, const struct comm_record *record)
{
    struct result *r = user;
    r->collectives++;
    r->collective_bytes += record->bytes;
}

static void copy_weights(struct model *m, struct result *r)
{
    int64_t at = 0;
    for (size_t i = 0; i < model_n_params(m); i++) {
        const struct param *p = model_param(m, i);
        if (at + p->rows * p->cols > MAX_WEIGHTS)
            BUG("too many weights for the test");
        memcpy(r->weights + at, p->weight, (size_t)(p->rows * p->cols) * sizeof(float));
        at += p->rows * p->cols;
    }
}

static bool early; /* gradients are reduced during the last backward of a step */

static int train(struct comm *comm, int rank, int world, const struct optimizer_config *options,
                 struct error *err)
{
    struct result *r = &results[rank];
    struct device *d;
    struct model *m;
    struct optimizer *o;
    struct device_config device = {.type = "cpu", .threads = 1};
    if (device_open(&d, &device, err) || model_create(&m, d, &config, 1, 8, err) ||
        model_init_weights(m, 42, err) || optimizer_create(&o, m, comm, options, err))
        return -err->code;
    if (comm)
        comm_set_observer(comm, count, r);
    int64_t accumulation = MICRO_BATCHES / world;
    model_set_grad_scale(m, 1.0 / (double)accumulation);
    for (int64_t step = 0; step < STEPS; step++) {
        double loss, comm_s;
        int32_t inputs[8], targets[8];
        if (model_zero_grad(m, err))
            return -err->code;
        r->loss[step] = 0;
        for (int64_t i = 0; i < accumulation; i++) {
            fill_batch(step, i * world + rank, inputs, targets);
            if (early && i == accumulation - 1)
                optimizer_reduce_early(o);
            if (model_forward(m, inputs, targets, 1, 8, &loss, err) || model_backward(m, err))
                return -err->code;
            r->loss[step] += loss / (double)accumulation;
        }
        if (optimizer_step(o, 1.0, schedule_muon_momentum(step), &r->norm[step], &comm_s, err))
            return -err->code;
    }
    for (size_t i = 0; i < optimizer_n_tensors(o); i++) {
        struct optimizer_tensor t = optimizer_tensor(o, i);
        r->owned_matrices += !strncmp(t.name, "momentum_buffer.", 16);
        r->owned_floats += t.n;
    }
    copy_weights(m, r);
    optimizer_free(o);
    model_free(m);
    device_close(d);
    return 0;
}

static void child(int rank, int world, int port, const struct optimizer_config *options)
{
    struct error err = ERROR_INIT;
    struct comm *comm = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct comm_config c = {.rank = rank,
                            .world = world,
                            .local_rank = rank,
                            .local_world = world,
                            .master_port = port,
                            .timeout_s = 60,
                            .max_elements = model_config_max_collective(&config)};
    if (world == 1 || !comm_open(&comm, &c, &err))
        train(comm, rank, world, options, &err);
    comm_close(comm);
    error_print(&err, "test_optimizer");
    int code = err.code;
    error_release(&err);
    _exit(code);
}

/* The results of `world` ranks, copied by the caller if it wants to keep them. */
static void run_world(int world, const struct optimizer_config *options)
{
    const int port = unit_port();
    pid_t pids[MAX_WORLD];
    if (!results)
        results = mmap(NULL, MAX_WORLD * sizeof *results, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(results, 0, MAX_WORLD * sizeof *results);
    fflush(stdout);
    for (int rank = 0; rank < world; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0)
            child(rank, world, port, options);
    }
    for (int rank = 0; rank < world; rank++) {
        int status = 1;
        while (waitpid(pids[rank], &status, 0) < 0 && errno == EINTR)
            continue;
        CU_ASSERT_EQUAL(status, 0);
    }
}

static const struct optimizer_config usual = {
    .embedding_lr = 0.2, .unembedding_lr = 0.004, .matrix_lr = 0.02, .grad_clip = 1.0};

static double relative_error(const float *a, const float *b, int64_t n)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        diff += pow((double)a[i] - (double)b[i], 2);
        norm += pow((double)b[i], 2);
    }
    return sqrt(diff / norm);
}

static void ranks_equal_accumulation(void)
{
    static struct result one;
    int64_t n = model_config_params(&config);
    run_world(1, &usual);
    one = results[0];
    CU_ASSERT(one.loss[2] < one.loss[0]);
    for (int world = 2; world <= 4; world++) {
        if (MICRO_BATCHES % world)
            continue;
        run_world(world, &usual);
        double loss = 0;
        for (int step = 0; step < STEPS; step++) {
            loss = 0;
            for (int rank = 0; rank < world; rank++)
                loss += results[rank].loss[step] / world;
            CU_ASSERT_NEAR(loss, one.loss[step], 1e-5);
            CU_ASSERT_NEAR(results[0].norm[step], one.norm[step], 1e-4 * one.norm[step]);
        }
        double error = relative_error(results[0].weights, one.weights, n);
        printf("  %d ranks: weights differ by %.1e after %d steps\n", world, error, STEPS);
        CU_ASSERT(error < 1e-4);
        for (int rank = 1; rank < world; rank++) {
            CU_ASSERT_EQUAL(
                memcmp(results[rank].weights, results[0].weights, (size_t)n * sizeof(float)), 0);
            CU_ASSERT_EQUAL(results[rank].norm[1], results[0].norm[1]);
        }
    }
}

/* Reduced layer by layer in the midst of backward: the same bits, and the same bytes moved. */
static void early_reduction_changes_nothing(void)
{
    static struct result late;
    size_t bytes = (size_t)model_config_params(&config) * sizeof(float);
    for (int world = 2; world <= MAX_WORLD; world++) {
        if (MICRO_BATCHES % world)
            continue;
        run_world(world, &usual);
        late = results[world - 1];
        early = true;
        run_world(world, &usual);
        early = false;
        const struct result *r = &results[world - 1];
        CU_ASSERT_EQUAL(memcmp(r->weights, late.weights, bytes), 0);
        CU_ASSERT_EQUAL(r->norm[STEPS - 1], late.norm[STEPS - 1]);
        CU_ASSERT_EQUAL(r->collective_bytes, late.collective_bytes);
        /* a reduction for each layer instead of one for all matrices */
        CU_ASSERT_EQUAL(r->collectives - late.collectives, (config.n_layer - 1) * STEPS);
    }
}

/* Every float of state has one owner, and what is moved is what there is: no padding, whatever the
 * world size. */
static void nothing_is_padded(void)
{
    int64_t V = config.vocab_size, C = config.n_embd, params = model_config_params(&config);
    int64_t state = params - 2 * V * C + 4 * V * C; /* momentum; two moments of both tables */
    for (int world = 1; world <= MAX_WORLD; world += 2) {
        struct optimizer_config no_clip = usual;
        no_clip.grad_clip = 0;
        run_world(world, &no_clip);
        int64_t matrices = 0, floats = 0, most = 0;
        for (int rank = 0; rank < world; rank++) {
            matrices += results[rank].owned_matrices;
            floats += results[rank].owned_floats;
            most = results[rank].owned_floats > most ? results[rank].owned_floats : most;
            CU_ASSERT_EQUAL(results[rank].norm[0], -1); /* not computed */
            if (world > 1) {
                CU_ASSERT_EQUAL(results[rank].collectives, 6 * STEPS);
                CU_ASSERT_EQUAL(results[rank].collective_bytes, 2 * 4 * params * STEPS);
            }
        }
        CU_ASSERT_EQUAL(matrices, 18);
        CU_ASSERT_EQUAL(floats, state);
        CU_ASSERT(most * 4 <= optimizer_bytes(&config, world));
        CU_ASSERT(world == 1 || most < state / world * 2);
    }
}

static void norm_without_clipping(void)
{
    struct optimizer_config o = usual;
    o.grad_clip = 0;
    o.always_norm = true;
    run_world(2, &o);
    CU_ASSERT(results[0].norm[0] > 0);
    CU_ASSERT_EQUAL(results[0].norm[0], results[1].norm[0]);
}

/* The norm is of the averaged gradient, and a clip of nearly nothing leaves nothing to Muon's scale
 * but all to the norm. */
static void clipping_is_global(void)
{
    static struct result one;
    struct optimizer_config o = usual;
    o.grad_clip = 1e-3;
    run_world(1, &o);
    one = results[0];
    run_world(3, &o);
    double error = relative_error(results[2].weights, one.weights, model_config_params(&config));
    CU_ASSERT(error < 1e-4);
    CU_ASSERT_NEAR(results[1].norm[0], one.norm[0], 1e-4 * one.norm[0]);
}

static void not_finite_updates_nothing(void)
{
    auto_error struct error err = ERROR_INIT;
    struct device *d;
    struct model *m;
    struct optimizer *o;
    struct device_config device = {.type = "cpu", .threads = 1};
    CU_ASSERT_EQUAL_FATAL(device_open(&d, &device, &err), 0);
    CU_ASSERT_EQUAL_FATAL(model_create(&m, d, &config, 1, 8, &err), 0);
    CU_ASSERT_EQUAL_FATAL(model_init_weights(m, 1, &err), 0);
    CU_ASSERT_EQUAL_FATAL(optimizer_create(&o, m, NULL, &usual, &err), 0);
    struct param *p = model_param(m, 3);
    float before = p->weight[5];
    double norm, comm_s;
    p->grad[7] = NAN;
    CU_ASSERT_EQUAL(optimizer_step(o, 1, 0.9, &norm, &comm_s, &err), 0);
    CU_ASSERT(isnan(norm) && p->weight[5] == before);
    CU_ASSERT_EQUAL(optimizer_get_step(o), 0);
    p->grad[7] = 0.5f;
    CU_ASSERT_EQUAL(optimizer_step(o, 1, 0.9, &norm, &comm_s, &err), 0);
    CU_ASSERT_NEAR(norm, 0.5, 1e-6);
    CU_ASSERT_EQUAL(optimizer_get_step(o), 1);
    optimizer_set_step(o, 41);
    CU_ASSERT_EQUAL(optimizer_get_step(o), 41);
    CU_ASSERT_STR(optimizer_tensor(o, 0).name, "momentum_buffer.transformer.h.0.attn.c_q.weight");
    optimizer_free(o);
    model_free(m);
    device_close(d);
}

static void schedules(void)
{
    /* 1400 steps, no warm-up, 20 % warm-down to 0: upstream's defaults at depth 4. */
    CU_ASSERT_EQUAL(schedule_lr_multiplier(0, 1400, 0, 0.2, 0), 1);
    CU_ASSERT_EQUAL(schedule_lr_multiplier(1120, 1400, 0, 0.2, 0), 1);
    CU_ASSERT_NEAR(schedule_lr_multiplier(1121, 1400, 0, 0.2, 0), 279.0 / 280, 1e-12);
    CU_ASSERT_NEAR(schedule_lr_multiplier(1260, 1400, 0, 0.2, 0), 0.5, 1e-12);
    CU_ASSERT_EQUAL(schedule_lr_multiplier(1400, 1400, 0, 0.2, 0), 0);
    CU_ASSERT_NEAR(schedule_lr_multiplier(1260, 1400, 0, 0.2, 0.1), 0.55, 1e-12);
    CU_ASSERT_NEAR(schedule_lr_multiplier(0, 100, 0.1, 0.2, 0), 0.1, 1e-12);
    CU_ASSERT_NEAR(schedule_lr_multiplier(8, 100, 0.1, 0.2, 0), 0.9, 1e-12);
    CU_ASSERT_EQUAL(schedule_lr_multiplier(9, 100, 0.1, 0.2, 0), 1);
    CU_ASSERT_EQUAL(schedule_lr_multiplier(5, 5, 0, 0, 0), 1); /* nothing to divide by */
    CU_ASSERT_NEAR(schedule_muon_momentum(0), 0.85, 1e-12);
    CU_ASSERT_NEAR(schedule_muon_momentum(150), 0.90, 1e-12);
    CU_ASSERT_NEAR(schedule_muon_momentum(300), 0.95, 1e-12);
    CU_ASSERT_NEAR(schedule_muon_momentum(100000), 0.95, 1e-12);
}

UNIT_MAIN({"ranks equal accumulation", ranks_equal_accumulation},
          {"early reduction changes nothing", early_reduction_changes_nothing},
          {"nothing is padded", nothing_is_padded},
          {"norm without clipping", norm_without_clipping},
          {"clipping is global", clipping_is_global},
          {"not finite updates nothing", not_finite_updates_nothing}, {"schedules", schedules})
