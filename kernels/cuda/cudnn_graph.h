/* Operation graphs of cuDNN's backend API in plain C.
 *
 * A graph is tensors and operations on them; most tensors are virtual (they live inside the fused
 * kernel). graph_plan asks cuDNN's heuristics for engines and keeps the wanted usable plan.
 * graph_run executes it. With device_json, a described GPU takes the place of a real one: plans
 * are then built and checked without a GPU in the machine, but cannot run.
 *
 * Every function returns 0, or -err->code with cuDNN's own words in the message. */
#ifndef KERNELS_CUDA_CUDNN_GRAPH_H
#define KERNELS_CUDA_CUDNN_GRAPH_H

#include <cudnn.h>
#include <cudnn_backend.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "common/error.h"

typedef cudnnBackendDescriptor_t graph_tensor;

enum { GRAPH_MAX_DESCRIPTORS = 192, GRAPH_MAX_OPS = 48, GRAPH_MAX_BINDINGS = 20 };

struct graph {
    cudnnBackendDescriptor_t all[GRAPH_MAX_DESCRIPTORS]; /* to destroy, in order */
    int n_all;
    cudnnBackendDescriptor_t ops[GRAPH_MAX_OPS];
    int n_ops;
    cudnnBackendDescriptor_t plan; /* NULL until graph_plan; stays NULL without a GPU */
    int64_t next_virtual_id;
    int64_t workspace_bytes;
    int64_t engine, configs; /* which engine; how many configurations were offered */
    /* bindings of the next run */
    int64_t ids[GRAPH_MAX_BINDINGS];
    void *pointers[GRAPH_MAX_BINDINGS];
    int n_bound;
};

void graph_init(struct graph *g);
void graph_release(struct graph *g);

/* id 0: virtual. dims and strides of ndim (3 or 4) entries, in elements. */
int graph_add_tensor(struct graph *g, graph_tensor *out, int64_t id, cudnnDataType_t type, int ndim,
                     const int64_t *dims, const int64_t *strides, struct error *err);
/* A float in host memory, bound by address; it must outlive every run. */
int graph_add_scalar(struct graph *g, graph_tensor *out, int64_t id, int ndim, struct error *err);

int graph_matmul(struct graph *g, graph_tensor a, graph_tensor b, graph_tensor c,
                 struct error *err);
/* b and t may be NULL: unary, binary, select. */
int graph_pointwise(struct graph *g, cudnnPointwiseMode_t mode, graph_tensor x, graph_tensor b,
                    graph_tensor t, graph_tensor y, struct error *err);
int graph_index(struct graph *g, int64_t axis, graph_tensor x, graph_tensor y, struct error *err);
int graph_reduce(struct graph *g, cudnnReduceTensorOp_t op, graph_tensor x, graph_tensor y,
                 struct error *err);
int graph_reshape(struct graph *g, graph_tensor x, graph_tensor y, struct error *err);

/* want: 0 is the first configuration that works, 1 the second … An error if there is none. */
int graph_plan(struct graph *g, cudnnHandle_t handle, const char *device_json, int want,
               struct error *err);
void graph_bind(struct graph *g, int64_t id, const void *pointer);
int graph_run(struct graph *g, cudnnHandle_t handle, void *workspace, struct error *err);

#ifdef __cplusplus
}
#endif

#endif
