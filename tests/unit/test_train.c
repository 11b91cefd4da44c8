/* The timed step allocates nothing: the C library's allocation functions are wrapped here and
 * counted. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"
#include "workload/train_priv.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long allocations;

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define COUNTING 0 /* the sanitizer has its own allocator */
#else
#define COUNTING 1
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

#define WRAP __attribute__((visibility("default"), used))
WRAP void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}
WRAP void *calloc(size_t count, size_t size)
{
    allocations++;
    return __libc_calloc(count, size);
}
WRAP void *realloc(void *p, size_t bytes)
{
    allocations++;
    return __libc_realloc(p, bytes);
}
WRAP void *aligned_alloc(size_t alignment, size_t bytes)
{
    allocations++;
    return __libc_memalign(alignment, bytes);
}
WRAP int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    allocations++;
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}
#endif

struct fixture {
    struct run run;
    struct train_options options;
    struct train train;
};

#define ARGS(...)                                                                                  \
    (char *[])                                                                                     \
    {                                                                                              \
        "nanochat", "base-train", "--data-source=synthetic", "--vocab-size=256", "--depth=2",      \
            "--max-seq-len=32", "--device-batch-size=2", "--eval-tokens=128", "--peak-time=0s",    \
            __VA_ARGS__, NULL                                                                      \
    }

static void set_up(struct fixture *f, char **argv, struct error *err)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    char *dir = unit_tmpdir();
    setenv(ENV_TRIAL_DIR, dir, 1);
    free(dir);
    options_defaults(train_option_specs, &f->options);
    if (run_begin(&f->run, argc - 2, argv + 2, err) ||
        options_parse(train_option_specs, &f->options, argc - 2, argv + 2, NULL, err) ||
        train_open(&f->train, &f->run, &f->options, err))
        BUG("fixture: %s", err->message);
}

static void tear_down(struct fixture *f, struct error *err)
{
    train_close(&f->train);
    CU_ASSERT_EQUAL(run_end(&f->run, err), 0);
    options_release(train_option_specs, &f->options);
}

static void steps(struct fixture *f, int n, struct error *err)
{
    for (int i = 0; i < n; i++) {
        struct step_record record;
        int stop = 0;
        CU_ASSERT_EQUAL(train_step(&f->train, &record, &stop, err), 0);
        CU_ASSERT_TRUE(isfinite(record.loss));
        events_step(f->run.events, &record);
        f->train.step++;
    }
}

static void step_allocates_nothing(void)
{
    if (!COUNTING) {
        unit_skip("the sanitizer has its own allocator");
        return;
    }
    auto_error struct error err = ERROR_INIT;
    struct fixture f;
    set_up(&f, ARGS("--total-batch-size=256", "--num-iterations=50", "--threads=2"), &err);
    long before = allocations;
    free(mem_alloc(10));
    CU_ASSERT_EQUAL(allocations - before, 1); /* the counter counts */
    steps(&f, 3, &err); /* thread pools and the like are made in the first steps */
    before = allocations;
    steps(&f, 4, &err);
    CU_ASSERT_EQUAL(allocations - before, 0);
    tear_down(&f, &err);
}

static void parts_of_a_step(void)
{
    auto_error struct error err = ERROR_INIT;
    struct fixture f;
    set_up(&f, ARGS("--total-batch-size=256", "--num-iterations=4", "--threads=1"), &err);
    CU_ASSERT_EQUAL(f.train.accumulation, 4);
    CU_ASSERT_EQUAL(f.train.iterations, 4);
    struct step_record r;
    int stop = 0;
    CU_ASSERT_EQUAL(train_step(&f.train, &r, &stop, &err), 0);
    CU_ASSERT_NEAR(r.loss, log(256), 1e-5); /* the head starts at zero */
    CU_ASSERT_EQUAL(r.tokens, 256);
    CU_ASSERT_EQUAL(stop, 0);
    CU_ASSERT_TRUE(r.fwd_s > 0 && r.bwd_s > 0 && r.opt_s > 0 && r.data_wait_s >= 0);
    CU_ASSERT_TRUE(r.fwd_s + r.bwd_s + r.opt_s + r.comm_s + r.data_wait_s <=
                   r.t_end_s - r.t_start_s + 1e-9);
    CU_ASSERT_TRUE(r.grad_norm > 0);
    tear_down(&f, &err);
}

/* An evaluation sees the same batches each time and changes nothing in the training. */
static void evaluation_disturbs_nothing(void)
{
    auto_error struct error err = ERROR_INIT;
    struct fixture f;
    double loss[2][4];
    for (int with = 0; with < 2; with++) {
        set_up(&f, ARGS("--total-batch-size=128", "--num-iterations=4", "--threads=1"), &err);
        for (int i = 0; i < 4; i++) {
            struct step_record r;
            int stop = 0;
            struct evaluation a, b;
            if (with) {
                CU_ASSERT_EQUAL(
                    evaluator_run(f.train.evaluator, f.train.model, f.run.comm, &a, &err), 0);
                CU_ASSERT_EQUAL(
                    evaluator_run(f.train.evaluator, f.train.model, f.run.comm, &b, &err), 0);
                CU_ASSERT_EQUAL(a.loss, b.loss);
                CU_ASSERT_EQUAL(a.tokens, 128);
                CU_ASSERT_TRUE(isnan(a.bpb)); /* synthetic tokens have no bytes */
            }
            CU_ASSERT_EQUAL(train_step(&f.train, &r, &stop, &err), 0);
            loss[with][i] = r.loss;
            f.train.step++;
        }
        tear_down(&f, &err);
    }
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(loss[0][i], loss[1][i]);
}

/* NaN in a weight that no loss has met yet. */
static void weights_that_are_not_finite_are_not_saved(void)
{
    auto_error struct error err = ERROR_INIT, refused = ERROR_INIT;
    struct fixture f;
    auto_free char *base = unit_tmpdir();
    auto_free char *dir = mem_printf("--checkpoint-dir=%s/ckpt", base);
    set_up(&f, ARGS("--total-batch-size=128", "--num-iterations=4", "--threads=1", dir), &err);
    CU_ASSERT_EQUAL(train_save(&f.train, &err), 0);
    struct param *p = model_find_param(f.train.model, "transformer.h.1.mlp.c_proj.weight");
    p->weight[17] = NAN;
    f.train.step = 1;
    CU_ASSERT_EQUAL(train_save(&f.train, &refused), -6);
    CU_ASSERT_STR(refused.message,
                  "transformer.h.1.mlp.c_proj.weight is not finite after 1 steps; not saved");
    auto_strv names = STRV_INIT;
    CU_ASSERT_EQUAL(fs_list_dir(f.train.checkpoint_dir, &names, 1, &err), 0);
    CU_ASSERT_EQUAL(names.count, 1);
    CU_ASSERT_STR(names.items[0], "step_000000");
    tear_down(&f, &err);
}

/* Ranks share a host's memory, but each has a GPU of its own. */
static void memory_is_foreseen(void)
{
    auto_error struct error err = ERROR_INIT, shared = ERROR_INIT, own = ERROR_INIT;
    struct fixture f;
    set_up(&f, ARGS("--total-batch-size=128", "--num-iterations=4", "--threads=1"), &err);
    int64_t rank = model_bytes(f.run.device, &f.train.config, f.train.B, f.train.T) +
                   optimizer_bytes(&f.train.config, 1);
    struct device_memory memory = {.available_bytes = rank, .limit = "a limit"};
    CU_ASSERT_EQUAL(train_check_memory(&f.train, &memory, &err), 0);
    f.run.comm_config.local_world = 2;
    CU_ASSERT_EQUAL(train_check_memory(&f.train, &memory, &shared), -NANOCHAT_EXIT_OOM);
    CU_ASSERT_PTR_NOT_NULL(strstr(shared.message, "2 ranks on this node need "));
    CU_ASSERT_PTR_NOT_NULL(strstr(shared.hint, "or fewer ranks"));
    memory.own = true;
    CU_ASSERT_EQUAL(train_check_memory(&f.train, &memory, &err), 0);
    memory.available_bytes = rank - 1;
    CU_ASSERT_EQUAL(train_check_memory(&f.train, &memory, &own), -NANOCHAT_EXIT_OOM);
    CU_ASSERT_EQUAL(strncmp(own.message, "a rank needs ", 13), 0);
    CU_ASSERT_STR(own.hint, "a device batch size of 1 would fit");
    memory.available_bytes = -1; /* unknown */
    CU_ASSERT_EQUAL(train_check_memory(&f.train, &memory, &err), 0);
    f.run.comm_config.local_world = 1;
    tear_down(&f, &err);
}

UNIT_MAIN({"a step allocates nothing", step_allocates_nothing},
          {"parts of a step", parts_of_a_step},
          {"evaluation disturbs nothing", evaluation_disturbs_nothing},
          {"memory is foreseen", memory_is_foreseen},
          {"weights that are not finite are not saved", weights_that_are_not_finite_are_not_saved})
