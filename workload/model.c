#include "workload/model.h"

#include "common/clock.h"
#include "common/protocol.h"
#include "workload/model_priv.h"

#include <inttypes.h>
#include <string.h>

const struct model_config *model_get_config(const struct model *m)
{
    return &m->config;
}

size_t model_n_params(const struct model *m)
{
    return m->n_params;
}

struct param *model_param(struct model *m, size_t i)
{
    if (i >= m->n_params)
        BUG("parameter %zu of %zu", i, m->n_params);
    return &m->params[i];
}

struct param *model_find_param(struct model *m, const char *name)
{
    for (size_t i = 0; i < m->n_params; i++)
        if (!strcmp(m->params[i].name, name))
            return &m->params[i];
    return NULL;
}

struct device *model_device(const struct model *m)
{
    return m->device;
}

int64_t model_max_sequence(const struct model *m)
{
    return m->T;
}

void *model_workspace(const struct model *m)
{
    return m->ws;
}

void model_set_grad_scale(struct model *m, double scale)
{
    m->grad_scale = scale;
}

int model_zero_grad(struct model *m, struct error *err)
{
    return m->device->ops->zero(m->device, m->grads, m->n_weights * (int64_t)sizeof(float), err);
}

int model_weights_changed(struct model *m, struct error *err)
{
    const struct kernel_ops *k = m->device->kernels;
    return k->weight_cast ? k->weight_cast(m->device, m->compute, m->weights, m->n_weights, err)
                          : 0;
}

/* ---- input ---------------------------------------------------------------------------------- */

static int check_ids(const struct model *m, const int32_t *ids, int64_t n, int32_t lowest,
                     const char *what, struct error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < lowest || ids[i] >= m->config.vocab_size)
            return error_set(err, NANOCHAT_EXIT_DATA,
                             "%s %" PRId32 " at position %" PRId64
                             " is outside the vocabulary of %" PRId64,
                             what, ids[i], i, m->config.vocab_size);
    return 0;
}

static int load(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b,
                int64_t t, struct error *err)
{
    const struct device_ops *ops = m->device->ops;
    if (b < 1 || t < 1 || t > m->T || b > m->max_tokens / t)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "a micro-batch of %" PRId64 " x %" PRId64
                         " tokens does not fit a model made for %" PRId64 " x %" PRId64,
                         b, t, m->B, m->T);
    int64_t n = b * t, bytes = n * (int64_t)sizeof(int32_t);
    m->has_forward = false;
    m->b = b;
    m->t = t;
    if (check_ids(m, inputs, n, 0, "token", err) ||
        ops->to_device(m->device, m->inputs, inputs, bytes, err))
        return -err->code;
    if (!targets)
        return 0;
    if (check_ids(m, targets, n, -1, "target", err) ||
        ops->to_device(m->device, m->targets, targets, bytes, err))
        return -err->code;
    return 0;
}

/* ---- forward -------------------------------------------------------------------------------- */

static int attention_fwd(struct model *m, struct layer *l, struct error *err)
{
    struct device *d = m->device;
    const struct kernel_ops *k = d->kernels;
    const struct model_config *g = &m->config;
    int64_t rows = m->b * m->t, C = g->n_embd, H = g->n_head, KV = g->n_kv_head, D = C / H;
    if (k->norm_fwd(d, l->xn1, l->rstd1, m->x, rows, C, err) ||
        k->linear_fwd(d, l->qkv, l->xn1, l->c_qkv->compute, false, rows, C, C + 2 * KV * D, err) ||
        k->rope_norm_fwd(d, l->qkv, l->rstd_qk, m->cos, m->sin, m->b, m->t, H, KV, D, err) ||
        k->attention_fwd(d, l->o, l->lse, l->qkv, m->ws, m->b, m->t, H, KV, D, err) ||
        k->linear_fwd(d, m->x, l->o, l->c_proj->compute, true, rows, C, C, err))
        return -err->code;
    return 0;
}

static int mlp_fwd(struct model *m, struct layer *l, struct error *err)
{
    struct device *d = m->device;
    const struct kernel_ops *k = d->kernels;
    int64_t rows = m->b * m->t, C = m->config.n_embd;
    if (k->norm_fwd(d, l->xn2, l->rstd2, m->x, rows, C, err) ||
        k->linear_relu2_fwd(d, l->a, l->xn2, l->c_fc->compute, rows, C, 4 * C, err) ||
        k->linear_fwd(d, m->x, l->a, l->mlp_proj->compute, true, rows, 4 * C, C, err))
        return -err->code;
    return 0;
}

/* Everything up to the last norm. */
static int body_fwd(struct model *m, struct error *err)
{
    struct device *d = m->device;
    const struct kernel_ops *k = d->kernels;
    int64_t rows = m->b * m->t, C = m->config.n_embd;
    if (k->embed_norm_fwd(d, m->x, m->rstd0, m->wte->compute, m->inputs, rows, C, err))
        return -err->code;
    for (int64_t i = 0; i < m->config.n_layer; i++)
        if (attention_fwd(m, &m->layers[i], err) || mlp_fwd(m, &m->layers[i], err))
            return -err->code;
    return k->norm_fwd(d, m->xn_f, m->rstd_f, m->x, rows, C, err);
}

static int64_t count_targets(const int32_t *targets, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += targets[i] >= 0;
    return count;
}

static int head(struct model *m, bool grad, struct error *err)
{
    return m->device->kernels->head_loss(m->device, m->losses, grad ? m->dxn : NULL,
                                         grad ? m->lm_head->grad : NULL, m->xn_f,
                                         m->lm_head->compute, m->targets, m->loss_scale, m->ws,
                                         m->b * m->t, m->config.n_embd, m->config.vocab_size, err);
}

static int queue_eval(void *user, struct error *err)
{
    return body_fwd(user, err) || head(user, false, err) ? -err->code : 0;
}

static int queue_forward(void *user, struct error *err)
{
    return body_fwd(user, err) || head(user, true, err) ? -err->code : 0;
}

/* Is the micro-batch one of those whose graphs there are or are to be? */
static bool in_graph(struct model *m, const struct replay *graph)
{
    if (!graph->armed || (graph == &m->backward && m->ready))
        return false;
    if (!m->graph_b) {
        m->graph_b = m->b;
        m->graph_t = m->t;
        m->graph_scale = m->loss_scale;
    }
    return m->b == m->graph_b && m->t == m->graph_t && m->loss_scale == m->graph_scale;
}

static int queue(struct model *m, struct replay *graph, replay_work *work, struct error *err)
{
    const double before = clock_mono_s();
    int rc = in_graph(m, graph) ? replay_run(graph, work, m, err) : work(m, err);
    m->queue_s += clock_mono_s() - before;
    return rc;
}

static int read_losses(struct model *m, double *loss, float *per_token, struct error *err)
{
    struct device *d = m->device;
    const int64_t rows = m->b * m->t;
    float *losses = per_token ? per_token : m->host_losses;
    if (d->ops->to_host(d, losses, m->losses, rows * (int64_t)sizeof(float), err))
        return -err->code;
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        sum += (double)losses[i];
    *loss = sum / (double)m->valid;
    return 0;
}

/* What the ops work on; the mean of the losses is over the targets that count. */
static int prepare(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b,
                   int64_t t, struct error *err)
{
    if (load(m, inputs, targets, b, t, err))
        return -err->code;
    m->valid = count_targets(targets, b * t);
    m->loss_scale = m->valid ? m->grad_scale / (double)m->valid : 0.0;
    return 0;
}

int model_forward(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b,
                  int64_t t, double *loss, struct error *err)
{
    if (prepare(m, inputs, targets, b, t, err) || queue(m, &m->forward, queue_forward, err))
        return -err->code;
    m->has_forward = true;
    return loss ? read_losses(m, loss, NULL, err) : 0;
}

int model_loss(struct model *m, double *loss, struct error *err)
{
    return read_losses(m, loss, NULL, err);
}

int model_eval(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b, int64_t t,
               double *loss, float *per_token, struct error *err)
{
    if (prepare(m, inputs, targets, b, t, err) || queue_eval(m, err))
        return -err->code;
    return read_losses(m, loss, per_token, err);
}

int model_logits(struct model *m, const int32_t *inputs, int64_t b, int64_t t, int64_t last,
                 float *logits, struct error *err)
{
    struct device *d = m->device;
    const struct kernel_ops *k = d->kernels;
    int64_t C = m->config.n_embd, V = m->config.vocab_size;
    if (last < 1 || last > t)
        BUG("logits of the last %" PRId64 " of %" PRId64 " positions", last, t);
    if (load(m, inputs, NULL, b, t, err) || body_fwd(m, err))
        return -err->code;
    /* Row by row through the scratch: the host's buffer may be no device memory. */
    for (int64_t r = 0; r < b * last; r++) {
        int64_t row = r / last * t + t - last + r % last;
        const char *x = (const char *)m->xn_f + k->act_bytes(row * C);
        if (k->head_logits(d, m->ws, x, m->lm_head->compute, 1, C, V, err) ||
            d->ops->to_host(d, logits + r * V, m->ws, V * (int64_t)sizeof(float), err))
            return -err->code;
    }
    return 0;
}

/* ---- backward ------------------------------------------------------------------------------- */

/* m->dx: gradient of the residual stream behind the layer, then before it. */
static int mlp_bwd(struct model *m, struct layer *l, struct error *err)
{
    struct device *d = m->device;
    const struct kernel_ops *k = d->kernels;
    int64_t rows = m->b * m->t, C = m->config.n_embd;
    if (k->linear_bwd_weight(d, l->mlp_proj->grad, m->dx, l->a, rows, 4 * C, C, err) ||
        k->linear_relu2_bwd_input(d, m->dh, m->dx, l->mlp_proj->compute, l->a, rows, 4 * C, C,
                                  err) ||
        k->linear_bwd_weight(d, l->c_fc->grad, m->dh, l->xn2, rows, C, 4 * C, err) ||
        k->linear_bwd_input(d, m->dxn, m->dh, l->c_fc->compute, rows, C, 4 * C, err) ||
        k->norm_bwd(d, m->dx, m->dxn, l->xn2, l->rstd2, true, rows, C, err))
        return -err->code;
    return 0;
}

static int attention_bwd(struct model *m, struct layer *l, struct error *err)
{
    struct device *d = m->device;
    const struct kernel_ops *k = d->kernels;
    const struct model_config *g = &m->config;
    int64_t rows = m->b * m->t, C = g->n_embd, H = g->n_head, KV = g->n_kv_head, D = C / H;
    int64_t qkv = C + 2 * KV * D;
    if (k->linear_bwd_weight(d, l->c_proj->grad, m->dx, l->o, rows, C, C, err) ||
        k->linear_bwd_input(d, m->dxn, m->dx, l->c_proj->compute, rows, C, C, err) ||
        k->attention_bwd(d, m->dqkv, m->dxn, l->o, l->lse, l->qkv, m->ws, m->b, m->t, H, KV, D,
                         err) ||
        k->rope_norm_bwd(d, m->dqkv, l->qkv, l->rstd_qk, m->cos, m->sin, m->b, m->t, H, KV, D,
                         err) ||
        k->linear_bwd_weight(d, l->c_qkv->grad, m->dqkv, l->xn1, rows, C, qkv, err) ||
        k->linear_bwd_input(d, m->dxn, m->dqkv, l->c_qkv->compute, rows, C, qkv, err) ||
        k->norm_bwd(d, m->dx, m->dxn, l->xn1, l->rstd1, true, rows, C, err))
        return -err->code;
    return 0;
}

void model_set_grad_ready(struct model *m, grad_ready *callback, void *user)
{
    m->ready = callback;
    m->ready_user = user;
}

static int tell_ready(const struct model *m, const struct param *first, const struct param *last,
                      struct error *err)
{
    int64_t n = last->grad - first->grad + last->rows * last->cols;
    return m->ready ? m->ready(m->ready_user, first->grad, n, err) : 0;
}

static int queue_backward(void *user, struct error *err)
{
    struct model *m = user;
    struct device *d = m->device;
    int64_t rows = m->b * m->t, C = m->config.n_embd;
    if (tell_ready(m, m->lm_head, m->lm_head, err) ||
        d->kernels->norm_bwd(d, m->dx, m->dxn, m->xn_f, m->rstd_f, false, rows, C, err))
        return -err->code;
    for (struct layer *l = m->layers + m->config.n_layer - 1; l >= m->layers; l--)
        if (mlp_bwd(m, l, err) || attention_bwd(m, l, err) ||
            tell_ready(m, l->c_qkv, l->mlp_proj, err))
            return -err->code;
    if (d->kernels->embed_norm_bwd(d, m->wte->grad, m->dx, m->wte->compute, m->rstd0, m->inputs,
                                   rows, C, err))
        return -err->code;
    return tell_ready(m, m->wte, m->wte, err);
}

int model_backward(struct model *m, struct error *err)
{
    if (!m->has_forward)
        BUG("backward without a forward");
    m->has_forward = false;
    return queue(m, &m->backward, queue_backward, err);
}

/* ---- graphs --------------------------------------------------------------------------------- */

void model_use_graphs(struct model *m)
{
    m->forward.armed = m->backward.armed = true;
}

int64_t model_graph_launches(const struct model *m, const char **why)
{
    *why = *m->forward.why ? m->forward.why : *m->backward.why ? m->backward.why : NULL;
    return m->forward.launches + m->backward.launches;
}

double model_take_queue_s(struct model *m)
{
    const double s = m->queue_s;
    m->queue_s = 0;
    return s;
}
