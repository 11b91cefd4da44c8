/* The model around the numbers of test_golden: dimensions, initialisation, input checks, memory. */
#include "workload/model.h"
#include "workload/sample.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct device *open_device(int threads)
{
    auto_error struct error err = ERROR_INIT;
    struct device *d = NULL;
    struct device_config config = {.type = "cpu", .threads = threads};
    CU_ASSERT_EQUAL_FATAL(device_open(&d, &config, &err), 0);
    return d;
}

static struct model *make(struct device *d, struct model_config config, int64_t B, int64_t T,
                          uint64_t seed)
{
    auto_error struct error err = ERROR_INIT;
    struct model *m = NULL;
    CU_ASSERT_EQUAL_FATAL(model_create(&m, d, &config, B, T, &err), 0);
    CU_ASSERT_EQUAL_FATAL(model_init_weights(m, seed, &err), 0);
    return m;
}

static const struct model_config tiny = {
    .sequence_len = 16, .vocab_size = 50, .n_layer = 2, .n_head = 2, .n_kv_head = 1, .n_embd = 16};

static void some_tokens(int32_t *tokens, int64_t n, int64_t first)
{
    for (int64_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((first + i) * 37 % 50);
}

/* Fill every weight, also the ones that start at zero. */
static void scramble(struct model *m)
{
    for (size_t i = 0; i < model_n_params(m); i++) {
        struct param *p = model_param(m, i);
        for (int64_t j = 0; j < p->rows * p->cols; j++)
            p->weight[j] = 0.3f * sinf((float)(j * 13 % 1009) + (float)i);
    }
}

/* ---- dimensions --------------------------------------------------------------------------------
 */

static void published_counts(void)
{
    static const struct {
        int64_t depth, params;
        double flops;
    } table[] = {
        {4, 36700160, 1.44703488e8},      {8, 92274688, 4.5298483e8},
        {12, 185597952, 1.03809024e9},    {16, 335544320, 2.01326592e9},
        {20, 560988160, 3.49175808e9},    {24, 880803840, 5.58681293e9},
        {26, 1081999360, 6.9009408e9},    {30, 1578762240, 1.013317632e10},
        {32, 1879048192, 1.207959552e10}, {34, 2217082880, 1.4265090e10},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct model_config c = model_config_for_depth(table[i].depth, 2048, 65536);
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(model_config_check(&c, &err), 0);
        CU_ASSERT_EQUAL(model_config_params(&c), table[i].params);
        CU_ASSERT_NEAR(model_config_flops_per_token(&c), table[i].flops, 1e-8 * table[i].flops);
    }
}

static void derived_dimensions(void)
{
    static const int64_t table[][3] = {{1, 64, 1},     {2, 128, 1},    {4, 256, 2},   {12, 768, 6},
                                       {20, 1280, 10}, {26, 1664, 13}, {34, 2176, 17}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct model_config c = model_config_for_depth(table[i][0], 64, 100);
        CU_ASSERT_EQUAL(c.n_embd, table[i][1]);
        CU_ASSERT_EQUAL(c.n_head, table[i][2]);
        CU_ASSERT_EQUAL(c.n_kv_head, c.n_head);
    }
}

static void refuse(struct model_config c, const char *fragment)
{
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(model_config_check(&c, &err), -NANOCHAT_EXIT_PLAN);
    if (!err.message || !strstr(err.message, fragment))
        printf("\"%s\" lacks \"%s\"\n", err.message ? err.message : "", fragment);
    CU_ASSERT(err.message && strstr(err.message, fragment));
}

static void impossible_shapes(void)
{
    refuse(model_config_for_depth(5, 64, 100), "320"); /* 3 heads */
    refuse(model_config_for_depth(0, 64, 100), "layers");
    refuse(model_config_for_depth(-1, 64, 100), "layers");
    refuse(model_config_for_depth(4, 0, 100), "sequence length");
    refuse(model_config_for_depth(4, 64, 0), "vocabulary");
    refuse(model_config_for_depth(4, 64, (int64_t)1 << 40), "vocabulary");
    refuse(model_config_for_depth((int64_t)1 << 60, 64, 100), "layers");
    struct model_config c = tiny;
    c.n_kv_head = 3;
    refuse(c, "key/value");
    c = tiny;
    c.n_head = 3;
    c.n_kv_head = 2;
    refuse(c, "3 heads");
    c.n_embd = 18;
    refuse(c, "share 2");
    c = tiny;
    c.n_embd = 6;
    refuse(c, "odd");
}

static void config_as_json(void)
{
    auto_error struct error err = ERROR_INIT;
    auto_json *obj = model_config_json(&tiny);
    struct model_config back;
    CU_ASSERT_EQUAL(model_config_from_json(obj, &back, &err), 0);
    CU_ASSERT_EQUAL(memcmp(&back, &tiny, sizeof back), 0);
    json_object_del(obj, "n_head");
    CU_ASSERT_EQUAL(model_config_from_json(obj, &back, &err), -NANOCHAT_EXIT_CHECKPOINT);
}

/* ---- initialisation
 * ------------------------------------------------------------------------------ */

static void first_loss_is_log_v(void)
{
    auto_error struct error err = ERROR_INIT;
    struct device *d = open_device(2);
    struct model *m = make(d, model_config_for_depth(2, 32, 1000), 2, 32, 42);
    int32_t inputs[64], targets[64];
    some_tokens(inputs, 64, 0);
    some_tokens(targets, 64, 1);
    double loss;
    CU_ASSERT_EQUAL(model_forward(m, inputs, targets, 2, 32, &loss, &err), 0);
    CU_ASSERT_NEAR(loss, log(1000), 5e-6);
    model_free(m);
    device_close(d);
}

static void moments(const struct param *p, double *mean, double *std)
{
    double sum = 0, squares = 0, n = (double)(p->rows * p->cols);
    for (int64_t i = 0; i < p->rows * p->cols; i++) {
        sum += (double)p->weight[i];
        squares += (double)p->weight[i] * (double)p->weight[i];
    }
    *mean = sum / n;
    *std = sqrt(squares / n - *mean * *mean);
}

static void initial_distribution(void)
{
    struct device *d = open_device(2);
    struct model_config c = {.sequence_len = 8,
                             .vocab_size = 500,
                             .n_layer = 2,
                             .n_head = 4,
                             .n_kv_head = 2,
                             .n_embd = 128};
    struct model *m = make(d, c, 1, 8, 42);
    for (size_t i = 0; i < model_n_params(m); i++) {
        const struct param *p = model_param(m, i);
        double mean, std, expected = 1 / sqrt(128);
        moments(p, &mean, &std);
        if (p->kind == PARAM_EMBEDDING)
            expected = 1;
        else if (p->kind == PARAM_HEAD || strstr(p->name, "c_proj"))
            expected = 0;
        else if (strstr(p->name, "c_k") || strstr(p->name, "c_v"))
            expected = sqrt(0.5) / sqrt(128); /* half as many rows as columns */
        CU_ASSERT_NEAR(std, expected, 0.03 * expected);
        CU_ASSERT_NEAR(mean, 0, 5 * expected / sqrt((double)(p->rows * p->cols)));
    }
    model_free(m);
    device_close(d);
}

/* The same bits from a seed whatever the threads; other bits from another seed. */
static void initialisation_is_reproducible(void)
{
    struct device *d1 = open_device(1);
    struct model *a = make(d1, tiny, 1, 8, 42);
    struct device *d3 = open_device(3);
    struct model *b = make(d3, tiny, 2, 16, 42), *c = make(d3, tiny, 2, 16, 43);
    int same = 0;
    for (size_t i = 0; i < model_n_params(a); i++) {
        const struct param *p = model_param(a, i);
        size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
        CU_ASSERT_EQUAL(memcmp(p->weight, model_param(b, i)->weight, bytes), 0);
        same += !memcmp(p->weight, model_param(c, i)->weight, bytes);
    }
    CU_ASSERT_EQUAL(same, 5); /* the zero ones: two projections a layer, lm_head */
    model_free(a), model_free(b), model_free(c);
    device_close(d1), device_close(d3);
}

static void parameter_names(void)
{
    struct device *d = open_device(1);
    struct model *m = make(d, tiny, 1, 8, 1);
    CU_ASSERT_EQUAL(model_n_params(m), 14);
    CU_ASSERT_STR(model_param(m, 0)->name, "transformer.wte.weight");
    CU_ASSERT_STR(model_param(m, 2)->name, "transformer.h.0.attn.c_k.weight");
    CU_ASSERT_STR(model_param(m, 13)->name, "lm_head.weight");
    CU_ASSERT_EQUAL(model_find_param(m, "transformer.h.1.mlp.c_fc.weight")->rows, 64);
    CU_ASSERT_PTR_NULL(model_find_param(m, "transformer.h.2.mlp.c_fc.weight"));
    model_free(m);
    device_close(d);
}

/* ---- steps
 * ------------------------------------------------------------------------------------------ */

/* Gradients of two micro-batches at half scale equal those of both at once. */
static void accumulation(void)
{
    auto_error struct error err = ERROR_INIT;
    struct device *d = open_device(2);
    struct model *one = make(d, tiny, 2, 16, 1), *two = make(d, tiny, 1, 16, 1);
    scramble(one), scramble(two);
    int32_t inputs[32], targets[32];
    some_tokens(inputs, 32, 0);
    some_tokens(targets, 32, 1);
    double whole, half, sum = 0;
    CU_ASSERT_EQUAL(model_forward(one, inputs, targets, 2, 16, &whole, &err), 0);
    CU_ASSERT_EQUAL(model_backward(one, &err), 0);
    model_set_grad_scale(two, 0.5);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(model_forward(two, inputs + 16 * i, targets + 16 * i, 1, 16, &half, &err),
                        0);
        CU_ASSERT_EQUAL(model_backward(two, &err), 0);
        sum += half;
    }
    CU_ASSERT_NEAR(sum / 2, whole, 1e-6);
    for (size_t i = 0; i < model_n_params(one); i++) {
        const struct param *p = model_param(one, i), *q = model_param(two, i);
        double diff = 0, norm = 0;
        for (int64_t j = 0; j < p->rows * p->cols; j++) {
            diff += pow((double)p->grad[j] - (double)q->grad[j], 2);
            norm += pow((double)p->grad[j], 2);
        }
        CU_ASSERT(norm > 0 && sqrt(diff / norm) < 1e-5);
    }
    CU_ASSERT_EQUAL(model_zero_grad(one, &err), 0);
    CU_ASSERT_EQUAL(model_param(one, 3)->grad[0], 0);
    model_free(one), model_free(two);
    device_close(d);
}

/* The same step twice gives the same bits: a resume can continue exactly. */
static void steps_are_reproducible(void)
{
    auto_error struct error err = ERROR_INIT;
    struct device *d = open_device(2);
    struct model_config c = tiny;
    c.sequence_len = 300; /* several blocks of attention, taken by whichever thread is free */
    struct model *m[2] = {make(d, c, 2, 300, 1), make(d, c, 2, 300, 1)};
    int32_t inputs[600], targets[600];
    some_tokens(inputs, 600, 0);
    some_tokens(targets, 600, 1);
    double loss[2];
    for (int i = 0; i < 2; i++) {
        scramble(m[i]);
        CU_ASSERT_EQUAL(model_forward(m[i], inputs, targets, 2, 300, &loss[i], &err), 0);
        CU_ASSERT_EQUAL(model_backward(m[i], &err), 0);
    }
    CU_ASSERT_EQUAL(loss[0], loss[1]);
    for (size_t i = 0; i < model_n_params(m[0]); i++) {
        const struct param *p = model_param(m[0], i);
        size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
        CU_ASSERT_EQUAL(memcmp(p->grad, model_param(m[1], i)->grad, bytes), 0);
    }
    model_free(m[0]), model_free(m[1]);
    device_close(d);
}

static void evaluation(void)
{
    auto_error struct error err = ERROR_INIT;
    struct device *d = open_device(2);
    struct model *m = make(d, tiny, 2, 16, 1);
    scramble(m);
    int32_t inputs[32], targets[32];
    some_tokens(inputs, 32, 0);
    some_tokens(targets, 32, 1);
    targets[5] = targets[31] = -1;
    double train, eval, sum = 0;
    float losses[32], logits[32 * 50], last[2 * 50];
    CU_ASSERT_EQUAL(model_forward(m, inputs, targets, 2, 16, &train, &err), 0);
    CU_ASSERT_EQUAL(model_eval(m, inputs, targets, 2, 16, &eval, losses, &err), 0);
    CU_ASSERT_EQUAL(train, eval);
    for (int i = 0; i < 32; i++)
        sum += (double)losses[i];
    CU_ASSERT_NEAR(sum / 30, eval, 1e-9);
    CU_ASSERT(losses[5] == 0 && losses[31] == 0 && losses[0] > 0);
    CU_ASSERT_EQUAL(model_eval(m, inputs, targets, 2, 16, &eval, NULL, &err), 0);
    CU_ASSERT_EQUAL(train, eval);
    CU_ASSERT_EQUAL(model_logits(m, inputs, 2, 16, 16, logits, &err), 0);
    CU_ASSERT_EQUAL(model_logits(m, inputs, 2, 16, 1, last, &err), 0);
    CU_ASSERT_EQUAL(memcmp(last, logits + 15 * 50, 50 * sizeof *last), 0);
    CU_ASSERT_EQUAL(memcmp(last + 50, logits + 31 * 50, 50 * sizeof *last), 0);
    /* A smaller batch, and more but shorter rows. */
    CU_ASSERT_EQUAL(model_eval(m, inputs, targets, 1, 7, &eval, NULL, &err), 0);
    CU_ASSERT_EQUAL(model_eval(m, inputs, targets, 8, 4, &eval, NULL, &err), 0);
    for (int i = 0; i < 32; i++)
        targets[i] = -1;
    CU_ASSERT_EQUAL(model_forward(m, inputs, targets, 2, 16, &eval, &err), 0);
    CU_ASSERT(isnan(eval)); /* as upstream: a mean over nothing */
    model_free(m);
    device_close(d);
}

static void bad_input(void)
{
    struct device *d = open_device(1);
    struct model *m = make(d, tiny, 2, 16, 1);
    int32_t inputs[64] = {0}, targets[64] = {0};
    double loss;
    static const struct {
        int32_t input, target;
        int64_t b, t;
        int code;
        const char *fragment;
    } cases[] = {
        {50, 0, 2, 16, NANOCHAT_EXIT_DATA, "token 50"},
        {-1, 0, 2, 16, NANOCHAT_EXIT_DATA, "token -1"},
        {0, 50, 2, 16, NANOCHAT_EXIT_DATA, "target 50"},
        {0, -2, 2, 16, NANOCHAT_EXIT_DATA, "target -2"},
        {0, 0, 3, 16, NANOCHAT_EXIT_PLAN, "3 x 16"},
        {0, 0, 1, 17, NANOCHAT_EXIT_PLAN, "1 x 17"},
        {0, 0, 11, 3, NANOCHAT_EXIT_PLAN, "11 x 3"},
        {0, 0, 0, 16, NANOCHAT_EXIT_PLAN, "0 x 16"},
        {0, 0, (int64_t)1 << 62, 4, NANOCHAT_EXIT_PLAN, "does not fit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_error struct error err = ERROR_INIT;
        inputs[3] = cases[i].input;
        targets[3] = cases[i].target;
        int rc = model_forward(m, inputs, targets, cases[i].b, cases[i].t, &loss, &err);
        CU_ASSERT_EQUAL(rc, -cases[i].code);
        CU_ASSERT(err.message && strstr(err.message, cases[i].fragment));
    }
    model_free(m);
    device_close(d);
}

/* A NaN in any parameter reaches the loss. */
static void nan_is_seen(void)
{
    auto_error struct error err = ERROR_INIT;
    struct device *d = open_device(2);
    struct model *m = make(d, tiny, 1, 16, 1);
    int32_t inputs[16], targets[16];
    some_tokens(inputs, 16, 0);
    some_tokens(targets, 16, 1);
    for (size_t i = 0; i < model_n_params(m); i++) {
        double loss = 0;
        scramble(m);
        model_param(m, i)->weight[i == 0 ? inputs[0] * 16 : 0] = NAN;
        CU_ASSERT_EQUAL(model_forward(m, inputs, targets, 1, 16, &loss, &err), 0);
        CU_ASSERT(isnan(loss));
    }
    int32_t out[4];
    int64_t n;
    CU_ASSERT_EQUAL(sample_greedy(m, inputs, 3, 4, NULL, out, &n, &err), -NANOCHAT_EXIT_NUMERIC);
    model_free(m);
    device_close(d);
}

static void greedy(void)
{
    auto_error struct error err = ERROR_INIT;
    struct device *d = open_device(2);
    struct model *m = make(d, tiny, 1, 8, 1);
    scramble(m);
    int32_t prompt[3] = {3, 1, 4}, all[8], out[8];
    int64_t n = 0, n_all = 0;
    CU_ASSERT_EQUAL_FATAL(sample_greedy(m, prompt, 3, 5, NULL, all, &n_all, &err), 0);
    CU_ASSERT_EQUAL(n_all, 5);
    struct sample_stop stop = {&all[2], 1};
    CU_ASSERT_EQUAL(sample_greedy(m, prompt, 3, 5, &stop, out, &n, &err), 0);
    CU_ASSERT(n <= 2); /* ends before the first token that equals all[2] */
    CU_ASSERT_EQUAL(memcmp(out, all, (size_t)n * sizeof *out), 0);
    int32_t longer[20];
    CU_ASSERT_EQUAL(sample_greedy(m, prompt, 3, 20, NULL, longer, &n, &err), 0);
    CU_ASSERT_EQUAL(n, 6); /* the eighth token is the last that fits */
    CU_ASSERT_EQUAL(sample_greedy(m, prompt, 0, 5, NULL, out, &n, &err), -NANOCHAT_EXIT_DATA);
    model_free(m);
    device_close(d);
}

/* ---- memory
 * ------------------------------------------------------------------------------------------- */

static void put_file(const char *root, const char *path, const char *text)
{
    auto_error struct error err = ERROR_INIT;
    auto_free char *full = mem_printf("%s%s", root, path);
    auto_free char *dir = fs_dirname(full);
    CU_ASSERT_EQUAL(fs_mkdir_p(dir, 1, &err), 0);
    CU_ASSERT_EQUAL(fs_write_atomic(full, text, strlen(text), 1, &err), 0);
}

static int64_t available(char limit[96])
{
    struct device *d = open_device(1);
    struct device_memory memory;
    d->ops->memory(d, &memory);
    snprintf(limit, 96, "%s", memory.limit);
    device_close(d);
    return memory.available_bytes;
}

#define MEMINFO "MemTotal:  4000000 kB\nMemFree: 5 kB\nMemAvailable:  2000000 kB\n"

static void memory_limits(void)
{
    char limit[96];
    auto_free char *v2 = unit_tmpdir(), *v1 = unit_tmpdir(), *none = unit_tmpdir();
    setenv("NCBENCH_FSROOT", v2, 1);
    put_file(v2, "/proc/meminfo", MEMINFO);
    CU_ASSERT_EQUAL(available(limit), (int64_t)2000000 * 1024);
    CU_ASSERT_STR(limit, "MemAvailable");
    put_file(v2, "/proc/self/cgroup", "0::/a/b\n");
    put_file(v2, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    put_file(v2, "/sys/fs/cgroup/a/b/memory.current", "900\n");
    CU_ASSERT_EQUAL(available(limit), (int64_t)2000000 * 1024);
    put_file(v2, "/sys/fs/cgroup/a/memory.max", "1000000\n"); /* of the parent */
    put_file(v2, "/sys/fs/cgroup/a/memory.current", "400000\n");
    CU_ASSERT_EQUAL(available(limit), 600000);
    CU_ASSERT_STR(limit, "memory.max");
    put_file(v2, "/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 50000\n");
    CU_ASSERT_EQUAL(available(limit), 650000);
    put_file(v2, "/sys/fs/cgroup/memory.max", "500\n"); /* the root a container sees */
    put_file(v2, "/sys/fs/cgroup/memory.current", "600\n");
    CU_ASSERT_EQUAL(available(limit), 0);

    setenv("NCBENCH_FSROOT", v1, 1);
    put_file(v1, "/proc/meminfo", MEMINFO);
    put_file(v1, "/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n1:name=systemd:/\n");
    put_file(v1, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put_file(v1, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
    CU_ASSERT_EQUAL(available(limit), (int64_t)2000000 * 1024);
    put_file(v1, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3000000\n");
    put_file(v1, "/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000000\n");
    CU_ASSERT_EQUAL(available(limit), 2000000);
    CU_ASSERT_STR(limit, "memory.limit_in_bytes");

    setenv("NCBENCH_FSROOT", none, 1);
    CU_ASSERT_EQUAL(available(limit), -1);
    unsetenv("NCBENCH_FSROOT");
}

static void too_big_for_memory(void)
{
    auto_free char *root = unit_tmpdir();
    struct device *d = open_device(1);
    struct model_config c = model_config_for_depth(2, 128, 1000);
    int64_t fits = model_bytes(d, &c, 5, 128), kib = fits / 1024 + 1;
    auto_free char *meminfo = mem_printf("MemAvailable: %" PRId64 " kB\n", kib);
    put_file(root, "/proc/meminfo", meminfo);
    setenv("NCBENCH_FSROOT", root, 1);
    auto_error struct error err = ERROR_INIT, none = ERROR_INIT;
    struct model *m = NULL;
    CU_ASSERT_EQUAL(model_create(&m, d, &c, 64, 128, &err), -NANOCHAT_EXIT_OOM);
    CU_ASSERT(err.message && strstr(err.message, "MemAvailable") && strstr(err.message, "64"));
    CU_ASSERT(err.hint && strstr(err.hint, "batch size of 5 "));
    struct device_memory memory;
    d->ops->memory(d, &memory);
    CU_ASSERT_EQUAL(model_check_memory(d, &c, 1, 128, &memory, 1, fits, &none), -NANOCHAT_EXIT_OOM);
    CU_ASSERT(none.hint && strstr(none.hint, "not even"));
    auto_error struct error fine = ERROR_INIT;
    CU_ASSERT_EQUAL(model_check_memory(d, &c, 5, 128, &memory, 1, 0, &fine), 0);
    unsetenv("NCBENCH_FSROOT");
    auto_error struct error huge = ERROR_INIT;
    CU_ASSERT_EQUAL(model_create(&m, d, &c, (int64_t)1 << 40, 128, &huge), -NANOCHAT_EXIT_PLAN);
    device_close(d);
}

UNIT_MAIN({"published counts", published_counts}, {"derived dimensions", derived_dimensions},
          {"impossible shapes", impossible_shapes}, {"config as JSON", config_as_json},
          {"first loss is log V", first_loss_is_log_v},
          {"initial distribution", initial_distribution},
          {"initialisation is reproducible", initialisation_is_reproducible},
          {"parameter names", parameter_names}, {"accumulation", accumulation},
          {"steps are reproducible", steps_are_reproducible}, {"evaluation", evaluation},
          {"bad input", bad_input}, {"NaN is seen", nan_is_seen}, {"greedy", greedy},
          {"memory limits", memory_limits}, {"too big for memory", too_big_for_memory})
