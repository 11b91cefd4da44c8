/* The memory plan: one arena, laid out once. */
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "workload/model_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ALIGN 256 /* what GPUs want; more than a cache line */

struct cursor {
    char *base;
    int64_t used;
};

static void *take(struct cursor *c, int64_t bytes)
{
    void *p = c->base ? c->base + c->used : NULL;
    c->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static float *take_f32(struct cursor *c, int64_t n)
{
    return take(c, n * (int64_t)sizeof(float));
}

static void *take_act(struct cursor *c, const struct model *m, int64_t n)
{
    return take(c, m->device->kernels->act_bytes(n));
}

/* Place of a parameter: floats from the start of the weights and of the gradients. */
static int64_t place(struct model *m, struct param *p, int64_t at)
{
    if (m->weights) {
        p->weight = m->weights + at;
        p->grad = m->grads + at;
        p->compute =
            m->compute ? (char *)m->compute + m->device->kernels->act_bytes(at) : (void *)p->weight;
    }
    return at + p->rows * p->cols;
}

/* The block matrices first, in order, without a gap: so a range of them is one message, and c_q,
 * c_k, c_v of a layer are one matrix. The tables start at a whole number of cache lines. */
static void plan_params(struct model *m, struct cursor *c)
{
    int64_t floats = m->n_weights;
    m->weights = take_f32(c, floats);
    m->grads = take_f32(c, floats);
    m->compute = m->device->kernels->weight_cast ? take_act(c, m, floats) : NULL;
    int64_t at = 0;
    for (size_t i = 0; i < m->n_params; i++)
        if (m->params[i].kind == PARAM_MATRIX)
            at = place(m, &m->params[i], at);
    at = (at + 63) / 64 * 64;
    at = (place(m, m->wte, at) + 63) / 64 * 64;
    place(m, m->lm_head, at);
}

static void plan_layer(struct model *m, struct layer *l, struct cursor *c)
{
    const struct model_config *g = &m->config;
    int64_t rows = m->max_tokens, C = g->n_embd, D = C / g->n_head, kv = g->n_kv_head;
    l->xn1 = take_act(c, m, rows * C);
    l->rstd1 = take_f32(c, rows);
    l->qkv = take_act(c, m, rows * (C + 2 * kv * D));
    l->rstd_qk = take_f32(c, rows * (g->n_head + kv));
    l->o = take_act(c, m, rows * C);
    l->lse = take_f32(c, rows * g->n_head);
    l->xn2 = take_act(c, m, rows * C);
    l->rstd2 = take_f32(c, rows);
    l->a = take_act(c, m, rows * 4 * C);
}

int64_t model_plan(struct model *m, char *base)
{
    struct cursor c = {base, 0};
    const struct model_config *g = &m->config;
    int64_t rows = m->max_tokens, C = g->n_embd, D = C / g->n_head;
    plan_params(m, &c);
    for (int64_t i = 0; i < g->n_layer; i++)
        plan_layer(m, &m->layers[i], &c);
    m->cos = take_f32(&c, m->T * D / 2);
    m->sin = take_f32(&c, m->T * D / 2);
    m->inputs = take(&c, rows * (int64_t)sizeof(int32_t));
    m->targets = take(&c, rows * (int64_t)sizeof(int32_t));
    m->losses = take_f32(&c, rows);
    m->rstd0 = take_f32(&c, rows);
    m->rstd_f = take_f32(&c, rows);
    m->x = take_act(&c, m, rows * C);
    m->xn_f = take_act(&c, m, rows * C);
    m->dx = take_act(&c, m, rows * C);
    m->dxn = take_act(&c, m, rows * C);
    m->dh = take_act(&c, m, rows * 4 * C); /* C + 2·KV·D <= 3C */
    m->dqkv = m->dh;
    struct kernel_dims dims = {.B = m->B,
                               .T = m->T,
                               .C = C,
                               .H = g->n_head,
                               .KV = g->n_kv_head,
                               .D = D,
                               .V = g->vocab_size};
    m->ws = take(&c, m->device->kernels->workspace_bytes(m->device, &dims));
    return c.used;
}

static struct param *add_param(struct model *m, enum param_kind kind, int64_t rows, int64_t cols)
{
    struct param *p = &m->params[m->n_params++];
    p->kind = kind;
    p->rows = rows;
    p->cols = cols;
    return p;
}

static void add_table(struct model *m, enum param_kind kind, const char *name)
{
    struct param *p = add_param(m, kind, m->config.vocab_size, m->config.n_embd);
    snprintf(p->name, sizeof p->name, "%s", name);
}

static void add_matrix(struct model *m, int64_t layer, const char *name, int64_t rows, int64_t cols)
{
    struct param *p = add_param(m, PARAM_MATRIX, rows, cols);
    snprintf(p->name, sizeof p->name, "transformer.h.%" PRId64 ".%s.weight", layer, name);
}

static void list_params(struct model *m)
{
    const struct model_config *g = &m->config;
    int64_t C = g->n_embd, kv = g->n_kv_head * (C / g->n_head);
    add_table(m, PARAM_EMBEDDING, "transformer.wte.weight");
    for (int64_t i = 0; i < g->n_layer; i++) {
        struct param *first = &m->params[m->n_params];
        add_matrix(m, i, "attn.c_q", C, C);
        add_matrix(m, i, "attn.c_k", kv, C);
        add_matrix(m, i, "attn.c_v", kv, C);
        add_matrix(m, i, "attn.c_proj", C, C);
        add_matrix(m, i, "mlp.c_fc", 4 * C, C);
        add_matrix(m, i, "mlp.c_proj", C, 4 * C);
        m->layers[i].c_qkv = first;
        m->layers[i].c_proj = first + 3;
        m->layers[i].c_fc = first + 4;
        m->layers[i].mlp_proj = first + 5;
    }
    add_table(m, PARAM_HEAD, "lm_head.weight");
    m->wte = &m->params[0];
    m->lm_head = &m->params[m->n_params - 1];
}

/* Everything but the memory. */
static struct model *describe(struct device *device, const struct model_config *config, int64_t B,
                              int64_t T)
{
    struct model *m = mem_zalloc(1, sizeof *m);
    m->device = device;
    m->config = *config;
    m->B = B;
    m->T = T;
    m->max_tokens = B * T;
    m->grad_scale = 1.0;
    m->forward.device = m->backward.device = device;
    m->params = mem_zalloc((size_t)config->n_layer * 6 + 2, sizeof *m->params);
    m->layers = mem_zalloc((size_t)config->n_layer, sizeof *m->layers);
    list_params(m);
    int64_t V = config->vocab_size, C = config->n_embd, table = (V * C + 63) / 64 * 64;
    m->n_matrices = model_config_params(config) - 2 * V * C;
    m->n_weights = (m->n_matrices + 63) / 64 * 64 + table + V * C;
    return m;
}

int64_t model_bytes(struct device *device, const struct model_config *config, int64_t B, int64_t T)
{
    struct model *m = describe(device, config, B, T);
    int64_t bytes = model_plan(m, NULL);
    model_free(m);
    return bytes;
}

int model_check_memory(struct device *device, const struct model_config *config, int64_t B,
                       int64_t T, const struct device_memory *memory, int ranks, int64_t extra,
                       struct error *err)
{
    if (memory->own)
        ranks = 1;
    int64_t need = ranks * (model_bytes(device, config, B, T) + extra);
    if (memory->available_bytes < 0 || need <= memory->available_bytes)
        return 0;
    char who[48] = "a rank needs", needed[32], left[32];
    if (!memory->own)
        snprintf(who, sizeof who, "%d rank%s on this node need", ranks, ranks == 1 ? "" : "s");
    error_set(err, NANOCHAT_EXIT_OOM, "%s %s with device batch size %" PRId64 ", %s are left (%s)",
              who, num_format_size(needed, sizeof needed, (double)need), B,
              num_format_size(left, sizeof left, (double)memory->available_bytes), memory->limit);
    int64_t low = 0, high = B; /* low fits (or is 0), high does not */
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (ranks * (model_bytes(device, config, mid, T) + extra) <= memory->available_bytes)
            low = mid;
        else
            high = mid;
    }
    if (low > 0)
        return error_hint(err, "a device batch size of %" PRId64 " would fit", low);
    return error_hint(err,
                      "not even a device batch size of 1 fits; take a smaller model, vocabulary or "
                      "sequence length%s",
                      ranks > 1 ? ", or fewer ranks" : "");
}

int model_create(struct model **out, struct device *device, const struct model_config *config,
                 int64_t B, int64_t T, struct error *err)
{
    if (model_config_check(config, err))
        return -err->code;
    if (B < 1 || T < 1 || B > INT32_MAX / T)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "a micro-batch of %" PRId64 " x %" PRId64 " tokens is out of range", B, T);
    struct device_memory memory;
    device->ops->memory(device, &memory);
    if (model_check_memory(device, config, B, T, &memory, 1, 0, err))
        return -err->code;
    struct model *m = describe(device, config, B, T);
    int64_t bytes = model_plan(m, NULL);
    if (device->ops->alloc(device, &m->arena, bytes, "the model", err)) {
        model_free(m);
        return -err->code;
    }
    m->arena_bytes = bytes;
    model_plan(m, m->arena);
    m->host_losses = mem_zalloc((size_t)m->max_tokens, sizeof *m->host_losses);
    if (model_init_rope(m, err)) {
        model_free(m);
        return -err->code;
    }
    *out = m;
    return 0;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    replay_close(&m->forward);
    replay_close(&m->backward);
    if (m->arena)
        m->device->ops->free(m->device, m->arena, m->arena_bytes);
    free(m->host_losses);
    free(m->params);
    free(m->layers);
    free(m);
}
