#include "workload/optimizer.h"

#include "common/mem.h"
#include "common/protocol.h"
#include "workload/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADAM_BETA1 0.8
#define ADAM_BETA2 0.95
#define ADAM_EPS 1e-10
#define ADAM_REFERENCE_WIDTH 768.0 /* upstream scales AdamW's rates by (C/768)^-0.5 */
#define CLIP_EPS 1e-6              /* of PyTorch's clip_grad_norm_ */
#define MUON_SHAPES 4              /* C x C, KV·D x C, 4C x C, C x 4C */

/* A tensor under AdamW: this rank's rows of it. */
struct adam {
    struct param *param;
    int64_t *counts;  /* [world], elements */
    int64_t first, n; /* own elements */
    float *m, *v;
};

/* Own matrices of one shape. */
struct muon_group {
    int64_t rows, cols, n;
    struct muon_item *items;
};

struct optimizer {
    struct model *model;
    struct comm *comm;
    struct optimizer_config config;
    int rank, world;
    int64_t step;
    double lr_multiplier, muon_momentum, grad_scale; /* of the update that is being queued */
    struct replay update;

    float *state; /* device memory: momentum of the own matrices, then m and v of each adam */
    int64_t state_floats;
    struct adam adam[2];

    float *matrix_weights, *matrix_grads; /* all block matrices, contiguous */
    int64_t matrix_floats, own_first, own_floats;
    int64_t *matrix_counts; /* [world] */
    int64_t *part_counts;   /* [world], scratch: of a part of the matrices */
    bool early;             /* gradients are reduced during backward */
    struct muon_group groups[MUON_SHAPES];
    struct optimizer_tensor *tensors;
    size_t n_tensors;
};

/* ---- who owns what -------------------------------------------------------------------------- */

/* FLOPs of a Newton-Schulz iteration, up to a factor. */
static double matrix_cost(int64_t rows, int64_t cols)
{
    double small = (double)(rows < cols ? rows : cols), large = (double)(rows < cols ? cols : rows);
    return small * small * (3.0 * large + small);
}

/* Owners in the order of the matrices, so that a rank's are one piece of memory and nothing is
 * packed or padded: a matrix goes where the middle of its cost falls on the whole. */
static int owner_of(double before, double cost, double total, int world)
{
    int rank = (int)((before + cost / 2) / total * world);
    return rank < world ? rank : world - 1;
}

static int64_t matrix_size(const struct param *p)
{
    return p->kind == PARAM_MATRIX ? p->rows * p->cols : 0;
}

static double total_cost(struct model *model)
{
    double total = 0;
    for (size_t i = 0; i < model_n_params(model); i++) {
        const struct param *p = model_param(model, i);
        if (p->kind == PARAM_MATRIX)
            total += matrix_cost(p->rows, p->cols);
    }
    return total;
}

/* Rows of a tensor as evenly as they go: the first rows % world ranks have one more. */
static int64_t row_share(int64_t rows, int rank, int world)
{
    return rows / world + (rank < rows % world);
}

int64_t optimizer_bytes(const struct model_config *c, int world)
{
    int64_t C = c->n_embd, matrices = model_config_params(c) - 2 * c->vocab_size * C;
    /* Owned matrices: at most an even share and one matrix more. */
    int64_t own = world == 1 ? matrices : matrices / world + 4 * C * C;
    own = own < matrices ? own : matrices;
    int64_t adam = 2 * 2 * row_share(c->vocab_size, 0, world) * C;
    return (own + adam) * (int64_t)sizeof(float);
}

/* ---- creation ------------------------------------------------------------------------------- */

static struct muon_group *group_of(struct optimizer *o, const struct param *p)
{
    for (int i = 0; i < MUON_SHAPES; i++) {
        struct muon_group *g = &o->groups[i];
        if (!g->rows) {
            g->rows = p->rows;
            g->cols = p->cols;
        }
        if (g->rows == p->rows && g->cols == p->cols)
            return g;
    }
    BUG("more than %d shapes of matrices", MUON_SHAPES);
}

/* Calls visit for each matrix with its owner. */
static void for_each_matrix(struct optimizer *o,
                            void (*visit)(struct optimizer *o, struct param *p, int owner))
{
    double total = total_cost(o->model), before = 0;
    for (size_t i = 0; i < model_n_params(o->model); i++) {
        struct param *p = model_param(o->model, i);
        if (p->kind != PARAM_MATRIX)
            continue;
        double cost = matrix_cost(p->rows, p->cols);
        visit(o, p, owner_of(before, cost, total, o->world));
        before += cost;
    }
}

static void count_matrix(struct optimizer *o, struct param *p, int owner)
{
    if (!o->matrix_weights) {
        o->matrix_weights = p->weight;
        o->matrix_grads = p->grad;
    }
    if (p->weight != o->matrix_weights + o->matrix_floats)
        BUG("matrix %s is not behind its predecessor", p->name);
    o->matrix_counts[owner] += matrix_size(p);
    o->matrix_floats += matrix_size(p);
    if (owner < o->rank)
        o->own_first += matrix_size(p);
    if (owner == o->rank) {
        o->own_floats += matrix_size(p);
        group_of(o, p)->n++;
    }
}

static void add_tensor(struct optimizer *o, const char *kind, const struct param *p, float *data,
                       int64_t n)
{
    struct optimizer_tensor *t = &o->tensors[o->n_tensors++];
    snprintf(t->name, sizeof t->name, "%s.%s", kind, p->name);
    t->data = data;
    t->n = n;
}

static void own_matrix(struct optimizer *o, struct param *p, int owner)
{
    if (owner != o->rank)
        return;
    struct muon_group *g = group_of(o, p);
    float *momentum = o->state + (p->weight - o->matrix_weights - o->own_first);
    g->items[g->n++] = (struct muon_item){p->weight, momentum, p->grad};
    add_tensor(o, "momentum_buffer", p, momentum, matrix_size(p));
}

static void plan_adam(struct optimizer *o, struct adam *a, const char *name)
{
    a->param = model_find_param(o->model, name);
    a->counts = mem_zalloc((size_t)o->world, sizeof *a->counts);
    for (int r = 0; r < o->world; r++) {
        a->counts[r] = row_share(a->param->rows, r, o->world) * a->param->cols;
        if (r < o->rank)
            a->first += a->counts[r];
    }
    a->n = a->counts[o->rank];
}

/* The shares, then the memory, then the pointers into it. */
static int plan(struct optimizer *o, struct error *err)
{
    o->matrix_counts = mem_zalloc((size_t)o->world, sizeof *o->matrix_counts);
    o->part_counts = mem_zalloc((size_t)o->world, sizeof *o->part_counts);
    o->tensors = mem_zalloc(model_n_params(o->model) + 4, sizeof *o->tensors);
    for_each_matrix(o, count_matrix);
    plan_adam(o, &o->adam[0], "lm_head.weight");
    plan_adam(o, &o->adam[1], "transformer.wte.weight");
    o->state_floats = o->own_floats + 2 * (o->adam[0].n + o->adam[1].n);
    struct device *d = model_device(o->model);
    void *state;
    if (d->ops->alloc(d, &state, o->state_floats * (int64_t)sizeof(float), "the optimizer's state",
                      err))
        return -err->code;
    o->state = state;
    for (int i = 0; i < MUON_SHAPES; i++) {
        o->groups[i].items = mem_zalloc((size_t)o->groups[i].n + 1, sizeof(struct muon_item));
        o->groups[i].n = 0;
    }
    for_each_matrix(o, own_matrix);
    float *at = o->state + o->own_floats;
    for (int i = 0; i < 2; i++) {
        struct adam *a = &o->adam[i];
        a->m = at;
        a->v = at + a->n;
        at += 2 * a->n;
        add_tensor(o, "exp_avg", a->param, a->m, a->n);
        add_tensor(o, "exp_avg_sq", a->param, a->v, a->n);
    }
    return 0;
}

int optimizer_create(struct optimizer **out, struct model *model, struct comm *comm,
                     const struct optimizer_config *config, struct error *err)
{
    struct optimizer *o = mem_zalloc(1, sizeof *o);
    o->model = model;
    o->update = (struct replay){.device = model_device(model), .renews = true};
    o->comm = comm;
    o->config = *config;
    o->rank = comm ? comm_rank(comm) : 0;
    o->world = comm ? comm_world(comm) : 1;
    if (plan(o, err)) {
        optimizer_free(o);
        return -err->code;
    }
    *out = o;
    return 0;
}

/* After a failure between backward and step: memory must not be freed under a collective. */
static void end_early(struct optimizer *o)
{
    struct error ignored = ERROR_INIT;
    if (!o->early)
        return;
    comm_set_overlap(o->comm, false);
    comm_wait(o->comm, &ignored);
    error_release(&ignored);
}

void optimizer_free(struct optimizer *o)
{
    if (!o)
        return;
    struct device *d = model_device(o->model);
    end_early(o);
    replay_close(&o->update);
    if (o->state)
        d->ops->free(d, o->state, o->state_floats * (int64_t)sizeof(float));
    for (int i = 0; i < MUON_SHAPES; i++)
        free(o->groups[i].items);
    for (int i = 0; i < 2; i++)
        free(o->adam[i].counts);
    free(o->matrix_counts);
    free(o->part_counts);
    free(o->tensors);
    free(o);
}

/* ---- a step --------------------------------------------------------------------------------- */

/* A part of the gradients to its owners: matrices, by where they lie in the whole, or a tensor of
 * AdamW. */
static int reduce_part(void *user, float *grad, int64_t n, struct error *err)
{
    struct optimizer *o = user;
    for (int i = 0; i < 2; i++)
        if (grad == o->adam[i].param->grad)
            return comm_reduce_scatter_sum(o->comm, grad, o->adam[i].counts, err);
    int64_t begin = grad - o->matrix_grads, end = begin + n, first = 0;
    for (int r = 0; r < o->world; first += o->matrix_counts[r++]) {
        int64_t last = first + o->matrix_counts[r];
        int64_t from = begin > first ? begin : first, to = end < last ? end : last;
        o->part_counts[r] = to > from ? to - from : 0;
    }
    return comm_reduce_scatter_sum(o->comm, grad, o->part_counts, err);
}

void optimizer_reduce_early(struct optimizer *o)
{
    if (o->world == 1)
        return;
    o->early = true;
    comm_set_overlap(o->comm, true);
    model_set_grad_ready(o->model, reduce_part, o);
}

static int reduce(struct optimizer *o, struct error *err)
{
    if (o->early) {
        o->early = false;
        comm_set_overlap(o->comm, false);
        model_set_grad_ready(o->model, NULL, NULL);
        return comm_wait(o->comm, err);
    }
    if (comm_reduce_scatter_sum(o->comm, o->matrix_grads, o->matrix_counts, err))
        return -err->code;
    for (int i = 0; i < 2; i++)
        if (comm_reduce_scatter_sum(o->comm, o->adam[i].param->grad, o->adam[i].counts, err))
            return -err->code;
    /* what follows may wait for the device, and must not do so for a peer */
    return comm_wait(o->comm, err);
}

static int gather(struct optimizer *o, struct error *err)
{
    if (comm_all_gather(o->comm, o->matrix_weights, o->matrix_counts, err))
        return -err->code;
    for (int i = 0; i < 2; i++)
        if (comm_all_gather(o->comm, o->adam[i].param->weight, o->adam[i].counts, err))
            return -err->code;
    return 0;
}

/* Σ g² of the reduced gradient: each rank has the sum over its own part. */
static int norm_squared(struct optimizer *o, double *sum, struct error *err)
{
    struct device *d = model_device(o->model);
    const struct kernel_ops *k = d->kernels;
    double part[3];
    if (k->sum_squares(d, &part[0], o->matrix_grads + o->own_first, o->own_floats, err))
        return -err->code;
    for (int i = 0; i < 2; i++)
        if (k->sum_squares(d, &part[1 + i], o->adam[i].param->grad + o->adam[i].first, o->adam[i].n,
                           err))
            return -err->code;
    *sum = part[0] + part[1] + part[2];
    return o->world == 1 ? 0 : comm_all_reduce_sum_f64(o->comm, sum, 1, err);
}

static int update_adam(struct optimizer *o, struct error *err)
{
    struct device *d = model_device(o->model);
    double width = (double)model_get_config(o->model)->n_embd;
    double by_width = pow(width / ADAM_REFERENCE_WIDTH, -0.5) * o->lr_multiplier;
    for (int i = 0; i < 2; i++) {
        struct adam *a = &o->adam[i];
        bool head = a->param->kind == PARAM_HEAD;
        struct adamw_args args = {
            .lr = by_width * (head ? o->config.unembedding_lr : o->config.embedding_lr),
            .beta1 = ADAM_BETA1,
            .beta2 = ADAM_BETA2,
            .eps = ADAM_EPS,
            .weight_decay = o->config.weight_decay,
            .grad_scale = o->grad_scale,
            .step = o->step + 1,
        };
        if (d->kernels->adamw(d, a->param->weight + a->first, a->m, a->v, a->param->grad + a->first,
                              a->n, &args, err))
            return -err->code;
    }
    return 0;
}

static int update_muon(struct optimizer *o, struct error *err)
{
    struct device *d = model_device(o->model);
    struct muon_args args = {
        .lr = o->config.matrix_lr * o->lr_multiplier,
        .momentum = o->muon_momentum,
        .grad_scale = o->grad_scale,
        .bf16 = o->config.ns_bf16,
    };
    for (int i = 0; i < MUON_SHAPES; i++) {
        struct muon_group *g = &o->groups[i];
        if (g->n && d->kernels->muon(d, g->items, g->n, &args, model_workspace(o->model), g->rows,
                                     g->cols, err))
            return -err->code;
    }
    return 0;
}

/* *norm: of the averaged gradient, -1 where it is not wanted; *scale: average and clip. */
static int grad_factor(struct optimizer *o, double *norm, double *scale, struct error *err)
{
    *norm = -1;
    *scale = 1.0 / o->world;
    if (o->config.grad_clip <= 0 && !o->config.always_norm)
        return 0;
    double sum;
    if (norm_squared(o, &sum, err))
        return -err->code;
    *norm = sqrt(sum) / o->world;
    if (o->config.grad_clip > 0)
        *scale *= fmin(1.0, o->config.grad_clip / (*norm + CLIP_EPS));
    return 0;
}

/* What lies between two collectives: of one rank also the cast, of more it follows the gather. */
static int queue_update(void *user, struct error *err)
{
    struct optimizer *o = user;
    if (update_muon(o, err) || update_adam(o, err))
        return -err->code;
    return o->world == 1 ? model_weights_changed(o->model, err) : 0;
}

static int step(struct optimizer *o, double *grad_norm, struct error *err)
{
    if ((o->world > 1 && reduce(o, err)) || grad_factor(o, grad_norm, &o->grad_scale, err))
        return -err->code;
    if (!isfinite(*grad_norm))
        return 0; /* the same on all ranks: the weights stay as they were */
    if (replay_run(&o->update, queue_update, o, err))
        return -err->code;
    o->step++;
    if (o->world == 1)
        return 0;
    if (gather(o, err) || model_weights_changed(o->model, err))
        return -err->code;
    return comm_wait(o->comm, err);
}

int optimizer_step(struct optimizer *o, double lr_multiplier, double muon_momentum,
                   double *grad_norm, double *comm_s, struct error *err)
{
    double before = o->comm ? comm_time_s(o->comm) : 0;
    o->lr_multiplier = lr_multiplier;
    o->muon_momentum = muon_momentum;
    int rc = step(o, grad_norm, err);
    *comm_s = o->comm ? comm_time_s(o->comm) - before : 0;
    return rc;
}

void optimizer_use_graphs(struct optimizer *o)
{
    o->update.armed = true;
}

int64_t optimizer_graph_launches(const struct optimizer *o, const char **why)
{
    *why = *o->update.why ? o->update.why : NULL;
    return o->update.launches;
}

/* ---- state and schedules -------------------------------------------------------------------- */

size_t optimizer_n_tensors(const struct optimizer *o)
{
    return o->n_tensors;
}

struct optimizer_tensor optimizer_tensor(const struct optimizer *o, size_t i)
{
    if (i >= o->n_tensors)
        BUG("optimizer tensor %zu of %zu", i, o->n_tensors);
    return o->tensors[i];
}

struct device *optimizer_device(const struct optimizer *o)
{
    return model_device(o->model);
}

int64_t optimizer_get_step(const struct optimizer *o)
{
    return o->step;
}

void optimizer_set_step(struct optimizer *o, int64_t step)
{
    o->step = step;
}

double schedule_lr_multiplier(int64_t step, int64_t iterations, double warmup_ratio,
                              double warmdown_ratio, double final_lr_frac)
{
    int64_t warmup = llrint(warmup_ratio * (double)iterations);
    int64_t warmdown = llrint(warmdown_ratio * (double)iterations);
    if (step < warmup)
        return (double)(step + 1) / (double)warmup;
    if (step <= iterations - warmdown)
        return 1.0;
    double progress = (double)(iterations - step) / (double)warmdown;
    return progress + (1.0 - progress) * final_lr_frac;
}

double schedule_muon_momentum(int64_t step)
{
    double fraction = (double)step / 300.0;
    return 0.85 + 0.10 * (fraction < 1.0 ? fraction : 1.0);
}
