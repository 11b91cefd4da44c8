/* The reference numbers of upstream's tiny models (tests/fixtures/golden/README.md). Every tensor's
 * relative L2 error is held against its bound; the worst of each kind is printed. */
#include "workload/model.h"
#include "workload/optimizer.h"
#include "workload/safetensors.h"
#include "workload/sample.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind { KIND_EMBEDDING, KIND_ATTENTION, KIND_MLP, KIND_HEAD, KIND_OUTPUT, KIND_COUNT };
static const char *const kind_names[] = {"embedding", "attention", "mlp", "head", "output"};

struct golden {
    struct st_file *file;
    json_t *json;
    struct device *device;
    struct model *model;
    struct optimizer *optimizer;
    int64_t B, T, steps;
    double bound_after;
    double worst[3][KIND_COUNT]; /* before the update, after one step, after three */
    struct error err;
};

static enum kind kind_of(const char *name)
{
    if (strstr(name, "wte"))
        return KIND_EMBEDDING;
    if (strstr(name, ".attn."))
        return KIND_ATTENTION;
    return strstr(name, ".mlp.") ? KIND_MLP : KIND_HEAD;
}

static const struct st_tensor *tensor(const struct golden *g, const char *prefix, const char *name)
{
    auto_free char *key = mem_printf("%s%s", prefix, name);
    const struct st_tensor *t = st_find(g->file, key);
    if (!t)
        printf("no tensor %s\n", key);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    return t;
}

static void compare(struct golden *g, int when, enum kind kind, const char *what, const float *ours,
                    const struct st_tensor *reference)
{
    const float *theirs = reference->data;
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < reference->n; i++) {
        double e = (double)ours[i] - (double)theirs[i];
        diff += e * e;
        norm += (double)theirs[i] * (double)theirs[i];
    }
    double error = sqrt(diff / norm), bound = when ? g->bound_after : 1e-4;
    if (!(error <= bound))
        printf("%s: relative error %.3g\n", what, error);
    CU_ASSERT(error <= bound);
    if (error > g->worst[when][kind])
        g->worst[when][kind] = error;
}

/* To the host, which on the CPU is where it lies. Freed by the caller. */
static float *download(const struct golden *g, const float *data, int64_t n)
{
    float *host = mem_alloc((size_t)n * sizeof *host);
    struct error err = ERROR_INIT;
    int64_t bytes = n * (int64_t)sizeof *host;
    CU_ASSERT_EQUAL_FATAL(g->device->ops->to_host(g->device, host, data, bytes, &err), 0);
    return host;
}

static void compare_params(struct golden *g, int when, const char *prefix, bool grad)
{
    for (size_t i = 0; i < model_n_params(g->model); i++) {
        const struct param *p = model_param(g->model, i);
        const struct st_tensor *t = tensor(g, prefix, p->name);
        CU_ASSERT_EQUAL_FATAL(t->n, p->rows * p->cols);
        auto_free float *host = download(g, grad ? p->grad : p->weight, t->n);
        compare(g, when, kind_of(p->name), t->name, host, t);
    }
}

static double number(const struct golden *g, const char *path)
{
    double v = NAN;
    CU_ASSERT(json_read_f64(g->json, path, &v));
    return v;
}

static double item(const struct golden *g, const char *path, size_t i)
{
    return json_number_value(json_array_get(json_at(g->json, path), i));
}

static struct golden *open_golden(const char *name, double bound_after)
{
    struct golden *g = mem_zalloc(1, sizeof *g);
    g->bound_after = bound_after;
    auto_free char *path = mem_printf("golden/%s.safetensors", name);
    auto_free char *json = mem_printf("golden/%s.json", name);
    int rc = st_open(unit_fixture(path), &g->file, NANOCHAT_EXIT_CHECKPOINT, &g->err);
    rc = rc ? rc : json_read_file(unit_fixture(json), NANOCHAT_EXIT_DATA, &g->json, &g->err);
    CU_ASSERT_EQUAL_FATAL(rc, 0);
    g->B = (int64_t)number(g, "B");
    g->T = (int64_t)number(g, "T");
    g->steps = (int64_t)number(g, "steps");
    struct model_config config;
    CU_ASSERT_EQUAL_FATAL(model_config_from_json(json_at(g->json, "config"), &config, &g->err), 0);
    CU_ASSERT_EQUAL(model_config_params(&config), (int64_t)number(g, "params"));
    CU_ASSERT_EQUAL(model_config_flops_per_token(&config), number(g, "flops_per_token"));
    /* tests/gpu/run sets it to hold a GPU against the same numbers */
    const char *type = getenv("NANOCHAT_TEST_DEVICE");
    struct device_config device = {.type = type ? type : "cpu", .dtype = "float32"};
    CU_ASSERT_EQUAL_FATAL(device_open(&g->device, &device, &g->err), 0);
    CU_ASSERT_EQUAL_FATAL(model_create(&g->model, g->device, &config, g->B, g->T, &g->err), 0);
    struct optimizer_config optimizer = {
        .embedding_lr = 0.2,
        .unembedding_lr = 0.004,
        .matrix_lr = 0.02,
        .grad_clip = number(g, "grad_clip"),
        .ns_bf16 = !strcmp(json_read_str(g->json, "muon_ns"), "bfloat16"),
    };
    CU_ASSERT_EQUAL_FATAL(optimizer_create(&g->optimizer, g->model, NULL, &optimizer, &g->err), 0);
    for (size_t i = 0; i < model_n_params(g->model); i++) {
        struct param *p = model_param(g->model, i);
        const struct st_tensor *t = tensor(g, "param.", p->name);
        CU_ASSERT_EQUAL(
            g->device->ops->to_device(g->device, p->weight, t->data, (int64_t)t->bytes, &g->err),
            0);
    }
    CU_ASSERT_EQUAL(model_weights_changed(g->model, &g->err), 0);
    return g;
}

static void close_golden(struct golden *g)
{
    optimizer_free(g->optimizer);
    model_free(g->model);
    device_close(g->device);
    st_close(g->file);
    json_decref(g->json);
    error_release(&g->err);
    free(g);
}

/* Inputs and targets of a step; step 0's targets have ignored positions. */
static void batch(const struct golden *g, int64_t step, int32_t *inputs, int32_t *targets)
{
    const int32_t *tokens = tensor(g, "", "tokens")->data;
    for (int64_t b = 0; b < g->B; b++) {
        const int32_t *row = tokens + (step * g->B + b) * (g->T + 1);
        memcpy(inputs + b * g->T, row, (size_t)g->T * sizeof *row);
        memcpy(targets + b * g->T, row + 1, (size_t)g->T * sizeof *row);
    }
    if (step == 0)
        memcpy(targets, tensor(g, "", "targets0")->data, (size_t)(g->B * g->T) * sizeof *targets);
}

static void check_outputs(struct golden *g, const int32_t *inputs, const int32_t *targets)
{
    int64_t n = g->B * g->T, V = model_get_config(g->model)->vocab_size;
    auto_free float *logits = mem_zalloc((size_t)(n * V), sizeof *logits);
    auto_free float *losses = mem_zalloc((size_t)n, sizeof *losses);
    double loss;
    CU_ASSERT_EQUAL(model_logits(g->model, inputs, g->B, g->T, g->T, logits, &g->err), 0);
    compare(g, 0, KIND_OUTPUT, "logits", logits, tensor(g, "", "logits0"));
    CU_ASSERT_EQUAL(model_eval(g->model, inputs, targets, g->B, g->T, &loss, losses, &g->err), 0);
    compare(g, 0, KIND_OUTPUT, "losses", losses, tensor(g, "", "loss_per_token0"));
    CU_ASSERT_NEAR(loss, item(g, "losses", 0), 1e-5 * loss);
}

static void check_greedy(struct golden *g)
{
    const json_t *prompt = json_at(g->json, "greedy.prompt");
    size_t n = json_array_size(prompt), max = json_array_size(json_at(g->json, "greedy.tokens"));
    int32_t tokens[64], out[64];
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)item(g, "greedy.prompt", i);
    int64_t n_out = 0;
    CU_ASSERT_EQUAL_FATAL(
        sample_greedy(g->model, tokens, (int64_t)n, (int64_t)max, NULL, out, &n_out, &g->err), 0);
    CU_ASSERT_EQUAL((size_t)n_out, max);
    for (size_t i = 0; i < max; i++)
        CU_ASSERT_EQUAL(out[i], (int32_t)item(g, "greedy.tokens", i));
}

static void check_steps(struct golden *g)
{
    int32_t inputs[256], targets[256];
    for (int64_t step = 0; step < g->steps; step++) {
        double loss, norm, comm_s;
        batch(g, step, inputs, targets);
        if (step == 0)
            check_outputs(g, inputs, targets);
        CU_ASSERT_EQUAL(model_zero_grad(g->model, &g->err), 0);
        CU_ASSERT_EQUAL(model_forward(g->model, inputs, targets, g->B, g->T, &loss, &g->err), 0);
        CU_ASSERT_EQUAL(model_backward(g->model, &g->err), 0);
        double bound = step ? g->bound_after : 1e-5;
        CU_ASSERT_NEAR(loss, item(g, "losses", (size_t)step), bound * loss);
        if (step == 0)
            compare_params(g, 0, "grad0.", true);
        CU_ASSERT_EQUAL(optimizer_step(g->optimizer, 1.0, schedule_muon_momentum(step), &norm,
                                       &comm_s, &g->err),
                        0);
        CU_ASSERT_NEAR(norm, item(g, "grad_norms_before_clip", (size_t)step), bound * norm);
        if (step == 0)
            compare_params(g, 1, "after1.", false);
    }
    compare_params(g, 2, "after3.", false);
}

static void check_golden(const char *name, double bound_after)
{
    static const char *const when[] = {"before", "after 1", "after 3"};
    struct golden *g = open_golden(name, bound_after);
    check_steps(g);
    check_greedy(g); /* of the weights after the last step */
    for (int w = 0; w < 3; w++) {
        printf("  %-16s %-8s", name, when[w]);
        for (int k = 0; k < KIND_COUNT; k++)
            if (w == 0 || k != KIND_OUTPUT)
                printf("  %s %.1e", kind_names[k], g->worst[w][k]);
        printf("\n");
    }
    close_golden(g);
}

static void tiny_mha(void)
{
    check_golden("tiny_mha", 1e-4);
}

static void tiny_gqa(void)
{
    check_golden("tiny_gqa", 1e-4);
}

static void tiny_mha_bf16ns(void)
{
    check_golden("tiny_mha_bf16ns", 2e-2);
}

UNIT_MAIN({"tiny mha", tiny_mha}, {"tiny gqa", tiny_gqa}, {"tiny mha bf16ns", tiny_mha_bf16ns})
