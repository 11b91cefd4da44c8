#include "kernels/cuda/gemm_relu2.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (call)                                                                                  \
            return -err->code;                                                                     \
    } while (0)

static int add_matrix(struct graph *g, graph_tensor *out, int64_t id, cudnnDataType_t type,
                      int64_t rows, int64_t cols, bool transposed, struct error *err)
{
    const int64_t dims[3] = {1, rows, cols};
    const int64_t strides[3] = {rows * cols, transposed ? 1 : cols, transposed ? rows : 1};
    return graph_add_tensor(g, out, id, type, 3, dims, strides, err);
}

static int add_number(struct graph *g, graph_tensor *out, int64_t id, struct error *err)
{
    static const int64_t ones[3] = {1, 1, 1};
    return graph_add_tensor(g, out, id, CUDNN_DATA_FLOAT, 3, ones, ones, err);
}

/* A float [m, n] that lives inside the kernel alone. */
static int add_inner(struct graph *g, graph_tensor *out, const struct gemm_relu2 *s,
                     struct error *err)
{
    return add_matrix(g, out, 0, CUDNN_DATA_FLOAT, s->m, s->n, false, err);
}

static cudnnDataType_t operand_type(const struct gemm_relu2 *s)
{
    return !s->fp8 ? CUDNN_DATA_BFLOAT16 : s->backward ? CUDNN_DATA_FP8_E5M2 : CUDNN_DATA_FP8_E4M3;
}

/* *out: the numbers that the operands stand for. */
static int add_product(struct graph *g, graph_tensor *out, const struct gemm_relu2 *s,
                       struct error *err)
{
    const cudnnDataType_t weight = s->fp8 ? CUDNN_DATA_FP8_E4M3 : CUDNN_DATA_BFLOAT16;
    graph_tensor x, w, raw, half, x_scale, w_scale;
    TRY(add_matrix(g, &x, GEMM_X, operand_type(s), s->m, s->k, false, err));
    TRY(add_matrix(g, &w, GEMM_W, weight, s->k, s->n, s->fp8 || !s->backward, err));
    TRY(add_inner(g, &raw, s, err));
    TRY(graph_matmul(g, x, w, raw, err));
    *out = raw;
    if (!s->fp8)
        return 0;
    TRY(add_number(g, &x_scale, GEMM_X_SCALE, err));
    TRY(add_number(g, &w_scale, GEMM_W_SCALE, err));
    TRY(add_inner(g, &half, s, err));
    TRY(add_inner(g, out, s, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_MUL, raw, x_scale, NULL, half, err));
    return graph_pointwise(g, CUDNN_POINTWISE_MUL, half, w_scale, NULL, *out, err);
}

static int add_relu2(struct graph *g, graph_tensor product, graph_tensor y,
                     const struct gemm_relu2 *s, struct error *err)
{
    graph_tensor v, u, a, two;
    TRY(add_inner(g, &v, s, err));
    if (!s->backward) {
        TRY(graph_pointwise(g, CUDNN_POINTWISE_RELU_FWD, product, NULL, NULL, v, err));
        return graph_pointwise(g, CUDNN_POINTWISE_MUL, v, v, NULL, y, err);
    }
    TRY(add_matrix(g, &a, GEMM_A, CUDNN_DATA_BFLOAT16, s->m, s->n, false, err));
    TRY(add_inner(g, &u, s, err));
    TRY(graph_add_scalar(g, &two, GEMM_TWO, 3, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_SQRT, a, NULL, NULL, v, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_MUL, product, v, NULL, u, err));
    return graph_pointwise(g, CUDNN_POINTWISE_MUL, u, two, NULL, y, err);
}

/* The result in bfloat16, its 8-bit copy, and its largest magnitude. */
static int add_copies(struct graph *g, graph_tensor result, graph_tensor y,
                      const struct gemm_relu2 *s, struct error *err)
{
    graph_tensor copy, scale, amax;
    TRY(add_matrix(g, &copy, GEMM_COPY, operand_type(s), s->m, s->n, false, err));
    TRY(add_number(g, &scale, GEMM_COPY_SCALE, err));
    TRY(add_number(g, &amax, GEMM_COPY_AMAX, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_IDENTITY, result, NULL, NULL, y, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_MUL, result, scale, NULL, copy, err));
    return graph_reduce(g, CUDNN_REDUCE_TENSOR_AMAX, result, amax, err);
}

int gemm_relu2_build(struct graph *g, const struct gemm_relu2 *s, struct error *err)
{
    graph_tensor y, product, result;
    TRY(add_matrix(g, &y, GEMM_Y, CUDNN_DATA_BFLOAT16, s->m, s->n, false, err));
    TRY(add_product(g, &product, s, err));
    if (!s->fp8)
        return add_relu2(g, product, y, s, err);
    TRY(add_inner(g, &result, s, err));
    TRY(add_relu2(g, product, result, s, err));
    return add_copies(g, result, y, s, err);
}
