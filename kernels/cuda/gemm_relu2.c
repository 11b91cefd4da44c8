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

int gemm_relu2_build(struct graph *g, bool backward, int64_t m, int64_t n, int64_t k,
                     struct error *err)
{
    const cudnnDataType_t f = CUDNN_DATA_FLOAT, h = CUDNN_DATA_BFLOAT16;
    graph_tensor x, w, y, product, v, u, a, two;
    TRY(add_matrix(g, &x, GEMM_X, h, m, k, false, err));
    TRY(add_matrix(g, &w, GEMM_W, h, k, n, !backward, err));
    TRY(add_matrix(g, &y, GEMM_Y, h, m, n, false, err));
    TRY(add_matrix(g, &product, 0, f, m, n, false, err));
    TRY(add_matrix(g, &v, 0, f, m, n, false, err));
    TRY(graph_matmul(g, x, w, product, err));
    if (!backward) {
        TRY(graph_pointwise(g, CUDNN_POINTWISE_RELU_FWD, product, NULL, NULL, v, err));
        return graph_pointwise(g, CUDNN_POINTWISE_MUL, v, v, NULL, y, err);
    }
    TRY(add_matrix(g, &a, GEMM_A, h, m, n, false, err));
    TRY(add_matrix(g, &u, 0, f, m, n, false, err));
    TRY(graph_add_scalar(g, &two, GEMM_TWO, 3, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_SQRT, a, NULL, NULL, v, err));
    TRY(graph_pointwise(g, CUDNN_POINTWISE_MUL, product, v, NULL, u, err));
    return graph_pointwise(g, CUDNN_POINTWISE_MUL, u, two, NULL, y, err);
}
