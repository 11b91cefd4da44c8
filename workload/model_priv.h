/* The model's inside, shared by model.c, model_plan.c and model_init.c. */
#ifndef WORKLOAD_MODEL_PRIV_H
#define WORKLOAD_MODEL_PRIV_H

#include "workload/model.h"
#include "workload/replay.h"

/* What backward needs of a layer. The residual stream itself is not kept: norm_bwd works from the
 * normalised rows. */
struct layer {
    struct param *c_qkv; /* c_q; c_k and c_v follow it in memory: one product for all three */
    struct param *c_proj, *c_fc, *mlp_proj;
    void *xn1, *qkv, *o, *xn2, *a;
    float *rstd1, *rstd_qk, *lse, *rstd2;
};

struct model {
    struct device *device;
    struct model_config config;
    int64_t B, T, max_tokens;
    double grad_scale;

    void *arena; /* everything below lies in it */
    int64_t arena_bytes;
    struct param *params; /* order of the state dict */
    struct layer *layers;
    size_t n_params;
    struct param *wte, *lm_head;
    float *weights, *grads;        /* all masters and all gradients, each in one piece */
    void *compute;                 /* NULL: the masters */
    int64_t n_weights, n_matrices; /* floats: all; those of the block matrices, which come first */

    float *cos, *sin; /* [T, D/2], rounded to bfloat16 */
    int32_t *inputs, *targets;
    float *losses, *rstd0, *rstd_f;
    void *x, *xn_f;             /* residual stream; last norm */
    void *dx, *dxn, *dh, *dqkv; /* backward's; dqkv shares dh's place */
    void *ws;

    /* Host side. */
    float *host_losses;
    int64_t b, t;      /* of the last forward */
    bool has_forward;  /* backward may follow */
    double loss_scale; /* of the head's gradient in the forward that is being queued */
    int64_t valid;     /* targets of the last forward that count */
    double queue_s;    /* for which the host queued since model_take_queue_s */
    struct replay forward, backward; /* graphs, for micro-batches of one kind: */
    int64_t graph_b, graph_t;        /* 0: none was captured */
    double graph_scale;
    grad_ready *ready; /* NULL: nobody */
    void *ready_user;
};

/* Lay out everything from base (NULL: only count); returns the bytes. */
int64_t model_plan(struct model *m, char *base);
/* rotary tables */
int model_init_rope(struct model *m, struct error *err);

#endif
