#include "kernels/cuda/cudnn_graph.h"

#include <string.h>

enum { EXIT_DEVICE = 4, MAX_CONFIGS = 24, FIRST_VIRTUAL_ID = 1000 };

static int failed(struct error *err, cudnnStatus_t rc, const char *what)
{
    char detail[400] = "";
    cudnnGetLastErrorString(detail, sizeof detail);
    return error_set(err, EXIT_DEVICE, "cuDNN: %s: %s%s%s", what, cudnnGetErrorString(rc),
                     *detail ? ": " : "", detail);
}
#define TRY(call)                                                                                  \
    do {                                                                                           \
        cudnnStatus_t rc_ = (call);                                                                \
        if (rc_ != CUDNN_STATUS_SUCCESS)                                                           \
            return failed(err, rc_, #call);                                                        \
    } while (0)

static int create(struct graph *g, cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out,
                  struct error *err)
{
    if (g->n_all == GRAPH_MAX_DESCRIPTORS)
        return error_set(err, EXIT_DEVICE, "cuDNN: graph of more than %d descriptors",
                         GRAPH_MAX_DESCRIPTORS);
    TRY(cudnnBackendCreateDescriptor(type, out));
    g->all[g->n_all++] = *out;
    return 0;
}
#define CREATE(type, out)                                                                          \
    do {                                                                                           \
        if (create(g, CUDNN_BACKEND_##type, out, err))                                             \
            return -err->code;                                                                     \
    } while (0)
#define SET(d, name, type, n, value)                                                               \
    TRY(cudnnBackendSetAttribute(d, CUDNN_ATTR_##name, CUDNN_TYPE_##type, n, value))

void graph_init(struct graph *g)
{
    memset(g, 0, sizeof *g);
    g->next_virtual_id = FIRST_VIRTUAL_ID;
    g->engine = -1;
}

void graph_release(struct graph *g)
{
    while (g->n_all > 0)
        cudnnBackendDestroyDescriptor(g->all[--g->n_all]);
}

static bool is_number(int ndim, const int64_t *dims)
{
    for (int i = 0; i < ndim; i++)
        if (dims[i] != 1)
            return false;
    return true;
}

static int add_tensor(struct graph *g, graph_tensor *out, int64_t id, cudnnDataType_t type,
                      int ndim, const int64_t *dims, const int64_t *strides, bool by_value,
                      struct error *err)
{
    const int64_t alignment = is_number(ndim, dims) ? sizeof(float) : 16;
    const bool yes = true;
    const int64_t given = id ? id : g->next_virtual_id++;
    CREATE(TENSOR_DESCRIPTOR, out);
    SET(*out, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
    SET(*out, TENSOR_DIMENSIONS, INT64, ndim, dims);
    SET(*out, TENSOR_STRIDES, INT64, ndim, strides);
    SET(*out, TENSOR_UNIQUE_ID, INT64, 1, &given);
    SET(*out, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
    if (!id)
        SET(*out, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &yes);
    if (by_value)
        SET(*out, TENSOR_IS_BY_VALUE, BOOLEAN, 1, &yes);
    TRY(cudnnBackendFinalize(*out));
    return 0;
}

int graph_add_tensor(struct graph *g, graph_tensor *out, int64_t id, cudnnDataType_t type, int ndim,
                     const int64_t *dims, const int64_t *strides, struct error *err)
{
    return add_tensor(g, out, id, type, ndim, dims, strides, false, err);
}

int graph_add_scalar(struct graph *g, graph_tensor *out, int64_t id, int ndim, struct error *err)
{
    static const int64_t ones[4] = {1, 1, 1, 1};
    return add_tensor(g, out, id, CUDNN_DATA_FLOAT, ndim, ones, ones, true, err);
}

static int finish_op(struct graph *g, cudnnBackendDescriptor_t op, struct error *err)
{
    TRY(cudnnBackendFinalize(op));
    if (g->n_ops == GRAPH_MAX_OPS)
        return error_set(err, EXIT_DEVICE, "cuDNN: graph of more than %d operations",
                         GRAPH_MAX_OPS);
    g->ops[g->n_ops++] = op;
    return 0;
}

int graph_matmul(struct graph *g, graph_tensor a, graph_tensor b, graph_tensor c, struct error *err)
{
    cudnnBackendDescriptor_t matmul, op;
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    CREATE(MATMUL_DESCRIPTOR, &matmul);
    SET(matmul, MATMUL_COMP_TYPE, DATA_TYPE, 1, &compute);
    TRY(cudnnBackendFinalize(matmul));
    CREATE(OPERATION_MATMUL_DESCRIPTOR, &op);
    SET(op, OPERATION_MATMUL_ADESC, BACKEND_DESCRIPTOR, 1, &a);
    SET(op, OPERATION_MATMUL_BDESC, BACKEND_DESCRIPTOR, 1, &b);
    SET(op, OPERATION_MATMUL_CDESC, BACKEND_DESCRIPTOR, 1, &c);
    SET(op, OPERATION_MATMUL_DESC, BACKEND_DESCRIPTOR, 1, &matmul);
    return finish_op(g, op, err);
}

static int pointwise(struct graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t precision,
                     int64_t axis, graph_tensor x, graph_tensor b, graph_tensor t, graph_tensor y,
                     struct error *err)
{
    cudnnBackendDescriptor_t pw, op;
    CREATE(POINTWISE_DESCRIPTOR, &pw);
    SET(pw, POINTWISE_MODE, POINTWISE_MODE, 1, &mode);
    SET(pw, POINTWISE_MATH_PREC, DATA_TYPE, 1, &precision);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        SET(pw, POINTWISE_AXIS, INT64, 1, &axis);
    TRY(cudnnBackendFinalize(pw));
    CREATE(OPERATION_POINTWISE_DESCRIPTOR, &op);
    SET(op, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &pw);
    SET(op, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, &x);
    if (b)
        SET(op, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 1, &b);
    if (t)
        SET(op, OPERATION_POINTWISE_TDESC, BACKEND_DESCRIPTOR, 1, &t);
    SET(op, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 1, &y);
    return finish_op(g, op, err);
}

int graph_pointwise(struct graph *g, cudnnPointwiseMode_t mode, graph_tensor x, graph_tensor b,
                    graph_tensor t, graph_tensor y, struct error *err)
{
    const bool compares = mode == CUDNN_POINTWISE_CMP_GE || mode == CUDNN_POINTWISE_CMP_GT;
    return pointwise(g, mode, compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT, 0, x, b, t, y, err);
}

int graph_index(struct graph *g, int64_t axis, graph_tensor x, graph_tensor y, struct error *err)
{
    return pointwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis, x, NULL, NULL, y, err);
}

int graph_reduce(struct graph *g, cudnnReduceTensorOp_t reduction, graph_tensor x, graph_tensor y,
                 struct error *err)
{
    cudnnBackendDescriptor_t d, op;
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    CREATE(REDUCTION_DESCRIPTOR, &d);
    SET(d, REDUCTION_COMP_TYPE, DATA_TYPE, 1, &compute);
    SET(d, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, &reduction);
    TRY(cudnnBackendFinalize(d));
    CREATE(OPERATION_REDUCTION_DESCRIPTOR, &op);
    SET(op, OPERATION_REDUCTION_XDESC, BACKEND_DESCRIPTOR, 1, &x);
    SET(op, OPERATION_REDUCTION_YDESC, BACKEND_DESCRIPTOR, 1, &y);
    SET(op, OPERATION_REDUCTION_DESC, BACKEND_DESCRIPTOR, 1, &d);
    return finish_op(g, op, err);
}

int graph_reshape(struct graph *g, graph_tensor x, graph_tensor y, struct error *err)
{
    cudnnBackendDescriptor_t op;
    CREATE(OPERATION_RESHAPE_DESCRIPTOR, &op);
    SET(op, OPERATION_RESHAPE_XDESC, BACKEND_DESCRIPTOR, 1, &x);
    SET(op, OPERATION_RESHAPE_YDESC, BACKEND_DESCRIPTOR, 1, &y);
    return finish_op(g, op, err);
}

/* The graph's heuristics, finalized; *configs is filled with up to MAX_CONFIGS answers. */
static int ask_heuristics(struct graph *g, cudnnHandle_t handle, cudnnBackendDescriptor_t device,
                          cudnnBackendDescriptor_t configs[MAX_CONFIGS], int64_t *count,
                          struct error *err)
{
    cudnnBackendDescriptor_t graph, heuristics;
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    CREATE(OPERATIONGRAPH_DESCRIPTOR, &graph);
    SET(graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, g->n_ops, g->ops);
    if (handle)
        SET(graph, OPERATIONGRAPH_HANDLE, HANDLE, 1, &handle);
    TRY(cudnnBackendFinalize(graph));
    CREATE(ENGINEHEUR_DESCRIPTOR, &heuristics);
    SET(heuristics, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &graph);
    SET(heuristics, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    if (device)
        SET(heuristics, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &device);
    TRY(cudnnBackendFinalize(heuristics));
    TRY(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &g->configs, NULL));
    const int64_t wanted = g->configs < MAX_CONFIGS ? g->configs : MAX_CONFIGS;
    if (wanted <= 0)
        return error_set(err, EXIT_DEVICE, "cuDNN: the heuristics offer no engine");
    for (int64_t i = 0; i < wanted; i++)
        CREATE(ENGINECFG_DESCRIPTOR, &configs[i]);
    TRY(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, wanted, count, configs));
    return 0;
}

static void note_engine(struct graph *g, cudnnBackendDescriptor_t config)
{
    cudnnBackendDescriptor_t engine;
    int64_t n = 0;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
        return;
    if (!cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine))
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n,
                                 &g->engine);
    cudnnBackendDestroyDescriptor(engine);
}

/* 0 with g->plan set, 1 if this configuration does not work here, negative on errors. */
static int try_config(struct graph *g, cudnnHandle_t handle, cudnnBackendDescriptor_t device,
                      cudnnBackendDescriptor_t config, cudnnBackendDescriptor_t *plan,
                      cudnnStatus_t *why, struct error *err)
{
    CREATE(EXECUTION_PLAN_DESCRIPTOR, plan);
    SET(*plan, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &config);
    if (handle)
        SET(*plan, EXECUTION_PLAN_HANDLE, HANDLE, 1, &handle);
    if (device)
        SET(*plan, EXECUTION_PLAN_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &device);
    *why = cudnnBackendFinalize(*plan);
    return *why == CUDNN_STATUS_SUCCESS ? 0 : 1;
}

static int describe_device(struct graph *g, const char *json, cudnnBackendDescriptor_t *out,
                           struct error *err)
{
    CREATE(DEVICEPROP_DESCRIPTOR, out);
    SET(*out, DEVICEPROP_JSON_REPRESENTATION, CHAR, (int64_t)strlen(json), json);
    TRY(cudnnBackendFinalize(*out));
    return 0;
}

int graph_plan(struct graph *g, cudnnHandle_t handle, const char *device_json, int want,
               struct error *err)
{
    cudnnBackendDescriptor_t device = NULL, configs[MAX_CONFIGS], plan;
    int64_t count = 0, n = 0;
    cudnnStatus_t why = CUDNN_STATUS_NOT_SUPPORTED;
    if (device_json && describe_device(g, device_json, &device, err))
        return -err->code;
    if (ask_heuristics(g, handle, device, configs, &count, err))
        return -err->code;
    for (int64_t i = 0; i < count && !g->plan; i++) {
        int rc = try_config(g, handle, device, configs[i], &plan, &why, err);
        if (rc < 0)
            return rc;
        if (rc == 0 && want-- == 0) {
            g->plan = plan;
            note_engine(g, configs[i]);
        } else if (!handle && i == 0) {
            note_engine(g, configs[i]);
        }
    }
    if (!g->plan) /* without a GPU, loading the kernels is the one thing that must fail */
        return handle ? failed(err, why, "no engine works") : 0;
    TRY(cudnnBackendGetAttribute(g->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &n, &g->workspace_bytes));
    return 0;
}

void graph_bind(struct graph *g, int64_t id, const void *pointer)
{
    if (g->n_bound == GRAPH_MAX_BINDINGS)
        BUG("more than %d bindings", GRAPH_MAX_BINDINGS);
    g->ids[g->n_bound] = id;
    g->pointers[g->n_bound++] = (void *)(uintptr_t)pointer;
}

int graph_run(struct graph *g, cudnnHandle_t handle, void *workspace, struct error *err)
{
    cudnnBackendDescriptor_t pack;
    const int n = g->n_bound;
    g->n_bound = 0;
    TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    cudnnStatus_t rc = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                                CUDNN_TYPE_INT64, n, g->ids);
    if (!rc)
        rc = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                      CUDNN_TYPE_VOID_PTR, n, g->pointers);
    if (!rc)
        rc = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                      1, &workspace);
    if (!rc)
        rc = cudnnBackendFinalize(pack);
    if (!rc)
        rc = cudnnBackendExecute(handle, g->plan, pack);
    cudnnBackendDestroyDescriptor(pack);
    return rc ? failed(err, rc, "running a plan") : 0;
}
