#include "kernels/cuda/sdpa.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (call)                                                                                  \
            return -err->code;                                                                     \
    } while (0)

/* Dimensions and strides that both directions use. */
struct layout {
    int64_t query[4], key[4], key_t[4];     /* dims: [B,H,T,D], [B,KV,T,D], [B,KV,D,T] */
    int64_t packed[4], packed_t[4], out[4]; /* strides */
    int64_t score[4], score_stride[4], score_t[4];
    int64_t row[4], row_stride[4];
};

static void set4(int64_t out[4], int64_t a, int64_t b, int64_t c, int64_t d)
{
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

static struct layout make_layout(const struct sdpa_shape *s)
{
    struct layout l;
    const int64_t B = s->B, T = s->T, H = s->H, KV = s->KV, D = s->D;
    const int64_t width = (H + 2 * KV) * D; /* of a packed row */
    set4(l.query, B, H, T, D);
    set4(l.key, B, KV, T, D);
    set4(l.key_t, B, KV, D, T);
    set4(l.packed, T * width, D, width, 1);
    set4(l.packed_t, T * width, D, 1, width);
    set4(l.out, T * H * D, D, H * D, 1);
    set4(l.score, B, H, T, T);
    set4(l.score_stride, H * T * T, T * T, T, 1);
    set4(l.score_t, H * T * T, T * T, 1, T);
    set4(l.row, B, H, T, 1);
    set4(l.row_stride, H * T, T, 1, 1);
    return l;
}

static int virtual_tensor(struct graph *g, graph_tensor *out, cudnnDataType_t type,
                          const int64_t *dims, const int64_t *strides, struct error *err)
{
    return graph_add_tensor(g, out, 0, type, 4, dims, strides, err);
}

static int binary(struct graph *g, cudnnPointwiseMode_t mode, graph_tensor x, graph_tensor b,
                  graph_tensor y, struct error *err)
{
    return graph_pointwise(g, mode, x, b, NULL, y, err);
}

/* *score: where column <= row as it is, else -inf. */
static int add_causal_mask(struct graph *g, const struct layout *l, graph_tensor *score,
                           struct error *err)
{
    graph_tensor row, column, mask, minus_infinity, masked;
    TRY(virtual_tensor(g, &row, CUDNN_DATA_INT32, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &column, CUDNN_DATA_INT32, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &mask, CUDNN_DATA_BOOLEAN, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &masked, CUDNN_DATA_FLOAT, l->score, l->score_stride, err));
    TRY(graph_add_scalar(g, &minus_infinity, SDPA_NEG_INF, 4, err));
    TRY(graph_index(g, 2, *score, row, err));
    TRY(graph_index(g, 3, *score, column, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_CMP_GE, row, column, NULL, mask, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, *score, minus_infinity, mask, masked,
                        err));
    *score = masked;
    return 0;
}

int sdpa_build_forward(struct graph *g, const struct sdpa_shape *shape, struct error *err)
{
    const struct layout l = make_layout(shape);
    const cudnnDataType_t f = CUDNN_DATA_FLOAT, h = CUDNN_DATA_BFLOAT16;
    graph_tensor q, k_t, v, o, lse, scale, s0, score, maximum, shifted, e, sum, log_sum, p;
    TRY(graph_add_tensor(g, &q, SDPA_Q, h, 4, l.query, l.packed, err));
    TRY(graph_add_tensor(g, &k_t, SDPA_K, h, 4, l.key_t, l.packed_t, err));
    TRY(graph_add_tensor(g, &v, SDPA_V, h, 4, l.key, l.packed, err));
    TRY(graph_add_tensor(g, &o, SDPA_O, h, 4, l.query, l.out, err));
    TRY(graph_add_tensor(g, &lse, SDPA_LSE, f, 4, l.row, l.row_stride, err));
    TRY(graph_add_scalar(g, &scale, SDPA_SCALE, 4, err));

    TRY(virtual_tensor(g, &s0, f, l.score, l.score_stride, err));
    TRY(virtual_tensor(g, &score, f, l.score, l.score_stride, err));
    TRY(graph_matmul(g, q, k_t, s0, err));
    TRY(binary(g, CUDNN_POINTWISE_MUL, s0, scale, score, err));
    TRY(add_causal_mask(g, &l, &score, err));

    TRY(virtual_tensor(g, &maximum, f, l.row, l.row_stride, err));
    TRY(virtual_tensor(g, &shifted, f, l.score, l.score_stride, err));
    TRY(virtual_tensor(g, &e, f, l.score, l.score_stride, err));
    TRY(virtual_tensor(g, &sum, f, l.row, l.row_stride, err));
    TRY(virtual_tensor(g, &log_sum, f, l.row, l.row_stride, err));
    TRY(virtual_tensor(g, &p, h, l.score, l.score_stride, err));
    TRY(graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, score, maximum, err));
    TRY(binary(g, CUDNN_POINTWISE_SUB, score, maximum, shifted, err));
    TRY(binary(g, CUDNN_POINTWISE_EXP, shifted, NULL, e, err));
    TRY(graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, sum, err));
    TRY(binary(g, CUDNN_POINTWISE_LOG, sum, NULL, log_sum, err));
    TRY(binary(g, CUDNN_POINTWISE_ADD, maximum, log_sum, lse, err));
    TRY(binary(g, CUDNN_POINTWISE_DIV, e, sum, p, err));
    return graph_matmul(g, p, v, o, err);
}

struct backward_tensors {
    graph_tensor q, k_t, v_t, o, d_o, lse, scale, one, dq, dk, dv, row_sum, probability;
};

static int add_inputs(struct graph *g, const struct layout *l, struct backward_tensors *t,
                      struct error *err)
{
    const cudnnDataType_t f = CUDNN_DATA_FLOAT, h = CUDNN_DATA_BFLOAT16;
    TRY(graph_add_tensor(g, &t->q, SDPA_Q, h, 4, l->query, l->packed, err));
    TRY(graph_add_tensor(g, &t->k_t, SDPA_K, h, 4, l->key_t, l->packed_t, err));
    TRY(graph_add_tensor(g, &t->v_t, SDPA_V, h, 4, l->key_t, l->packed_t, err));
    TRY(graph_add_tensor(g, &t->o, SDPA_O, h, 4, l->query, l->out, err));
    TRY(graph_add_tensor(g, &t->d_o, SDPA_DO, h, 4, l->query, l->out, err));
    TRY(graph_add_tensor(g, &t->lse, SDPA_LSE, f, 4, l->row, l->row_stride, err));
    TRY(graph_add_tensor(g, &t->dq, SDPA_DQ, h, 4, l->query, l->packed, err));
    TRY(graph_add_tensor(g, &t->dk, SDPA_DK, h, 4, l->key, l->packed, err));
    TRY(graph_add_tensor(g, &t->dv, SDPA_DV, h, 4, l->key, l->packed, err));
    TRY(graph_add_scalar(g, &t->scale, SDPA_SCALE, 4, err));
    return graph_add_scalar(g, &t->one, SDPA_ONE, 4, err);
}

/* Σ dO∘O of each row, in memory of the caller. */
static int add_row_sum(struct graph *g, const struct layout *l, struct backward_tensors *t,
                       struct error *err)
{
    graph_tensor product, sum;
    TRY(virtual_tensor(g, &product, CUDNN_DATA_FLOAT, l->query, l->out, err));
    TRY(virtual_tensor(g, &sum, CUDNN_DATA_FLOAT, l->row, l->row_stride, err));
    TRY(graph_add_tensor(g, &t->row_sum, SDPA_ROW_SUM, CUDNN_DATA_FLOAT, 4, l->row, l->row_stride,
                         err));
    TRY(binary(g, CUDNN_POINTWISE_MUL, t->d_o, t->o, product, err));
    TRY(graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, sum, err));
    return binary(g, CUDNN_POINTWISE_MUL, sum, t->one, t->row_sum, err);
}

/* P = exp(mask(scale·QKᵀ − lse)), dV = Pᵀ·dO. */
static int add_dv(struct graph *g, const struct layout *l, struct backward_tensors *t,
                  struct error *err)
{
    graph_tensor s0, s1, s2, p_t;
    TRY(virtual_tensor(g, &s0, CUDNN_DATA_FLOAT, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &s1, CUDNN_DATA_FLOAT, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &s2, CUDNN_DATA_FLOAT, l->score, l->score_stride, err));
    TRY(graph_matmul(g, t->q, t->k_t, s0, err));
    TRY(binary(g, CUDNN_POINTWISE_MUL, s0, t->scale, s1, err));
    TRY(binary(g, CUDNN_POINTWISE_SUB, s1, t->lse, s2, err));
    TRY(add_causal_mask(g, l, &s2, err));
    TRY(virtual_tensor(g, &t->probability, CUDNN_DATA_FLOAT, l->score, l->score_stride, err));
    TRY(binary(g, CUDNN_POINTWISE_EXP, s2, NULL, t->probability, err));
    TRY(virtual_tensor(g, &p_t, CUDNN_DATA_BFLOAT16, l->score, l->score_t, err));
    TRY(graph_reshape(g, t->probability, p_t, err));
    return graph_matmul(g, p_t, t->d_o, t->dv, err);
}

/* dS = scale·P∘(dO·Vᵀ − rowsum), dK = dSᵀ·Q, dQ = dS·K. */
static int add_dk_dq(struct graph *g, const struct layout *l, const struct sdpa_shape *shape,
                     struct backward_tensors *t, struct error *err)
{
    const cudnnDataType_t f = CUDNN_DATA_FLOAT;
    graph_tensor dp, u1, u2, ds, ds_t, k, accumulator;
    TRY(virtual_tensor(g, &dp, f, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &u1, f, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &u2, f, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &ds, f, l->score, l->score_stride, err));
    TRY(virtual_tensor(g, &ds_t, CUDNN_DATA_BFLOAT16, l->score, l->score_t, err));
    TRY(graph_matmul(g, t->d_o, t->v_t, dp, err));
    TRY(binary(g, CUDNN_POINTWISE_SUB, dp, t->row_sum, u1, err));
    TRY(binary(g, CUDNN_POINTWISE_MUL, u1, t->probability, u2, err));
    TRY(binary(g, CUDNN_POINTWISE_MUL, u2, t->scale, ds, err));
    TRY(graph_reshape(g, ds, ds_t, err));
    TRY(graph_matmul(g, ds_t, t->q, t->dk, err));
    TRY(virtual_tensor(g, &k, CUDNN_DATA_BFLOAT16, l->key, l->packed, err));
    TRY(graph_reshape(g, t->k_t, k, err));
    if (shape->deterministic)
        return graph_matmul(g, ds, k, t->dq, err);
    int64_t strides[4];
    set4(strides, shape->H * shape->T * shape->D, shape->T * shape->D, shape->D, 1);
    TRY(graph_add_tensor(g, &accumulator, SDPA_DQ_ACC, f, 4, l->query, strides, err));
    TRY(graph_matmul(g, ds, k, accumulator, err));
    return binary(g, CUDNN_POINTWISE_IDENTITY, accumulator, NULL, t->dq, err);
}

int sdpa_build_backward(struct graph *g, const struct sdpa_shape *shape, struct error *err)
{
    const struct layout l = make_layout(shape);
    struct backward_tensors t;
    TRY(add_inputs(g, &l, &t, err));
    TRY(add_row_sum(g, &l, &t, err));
    TRY(add_dv(g, &l, &t, err));
    return add_dk_dq(g, &l, shape, &t, err);
}
