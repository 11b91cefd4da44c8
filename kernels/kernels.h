/* The ops tables between the model and a back end.
 *
 * struct device_ops moves memory, struct kernel_ops does the maths. workload/model.c and
 * workload/optimizer.c are written on these tables alone; a back end is a file that fills both and
 * a line in the table of kernels/device.c. kernels/cpu (float32, CBLAS, OpenMP) is the truth that
 * every other one is tested against, op by op, to the tolerance stated at the op.
 *
 * Conventions
 * - Outputs first, then inputs, then dimensions. Every buffer is device memory of the caller; ops
 *   own nothing, allocate nothing and keep nothing.
 * - Three kinds of buffers. `void *` activations are in the back end's own number format (float32
 *   on the CPU, bfloat16 on a GPU), n elements take act_bytes(n); offsets into them are made with
 *   act_bytes too. `void *` weights (w…) are in the format that the GEMMs take: the float32 masters
 *   themselves where weight_cast is NULL, else a copy of act_bytes(n), made by weight_cast. `float
 * *` is float32 everywhere: masters, gradients, optimizer state, statistics, losses.
 * - Ops are queued in order on the device's stream; device_ops.sync waits. An op returns 0 or
 *   -err->code; a failure found later is returned by sync.
 * - ws is scratch of at least workspace_bytes(dims), reused by every op.
 * - Matrices are row-major; a weight is [out, in]; rows = B*T tokens. Sizes are 64-bit throughout.
 * - Non-finite values are never hidden: a NaN that goes in comes out.
 *
 * Tolerance: relative L2 error of each output against a float64 evaluation of the formula. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "common/error.h"
#include "kernels/plan_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct device_event; /* a point in the stream */
struct device_graph; /* queued work, to be queued again at once */

struct device_config {
    const char *type; /* "cpu" | "cuda" */
    int index;        /* which one of its kind: the local rank; ignored by the CPU */
    int threads;      /* CPU threads; 0: what OMP_NUM_THREADS and the affinity mask say */
    /* Of activations; NULL: the back end's default (float32, cuda: bfloat16). "fp8": bfloat16
     * activations, 8-bit operands of products; "fp8-wgrad": of weight gradients too. */
    const char *dtype;
    bool deterministic; /* the same bits from run to run, at some cost; the CPU always is */
    bool own_attention; /* our own attention kernel instead of a library's; ignored by the CPU */
    /* How algorithms of products are chosen. Deterministic: auto is first, because what is stored
     * may change between two runs. */
    enum plan_mode plans;
};

struct device_info {
    char name[128];     /* "AMD EPYC …" */
    char gemm[128];     /* what does the GEMMs: "openblas 0.3.21 (Cooperlake)" */
    const char *dtype;  /* format of activations: "float32" */
    int threads;        /* 1 on a GPU */
    char peak_kind[96]; /* what measure_peak gives, or why it gives none */
    /* Of a GPU; "" on the CPU. */
    char uuid[48];   /* as NVIDIA's tools write it: "GPU-8-4-4-4-12 hex digits" */
    char pci[24];    /* "0000:18:00.0" */
    char driver[64]; /* "CUDA 12.8 (driver), 12.6 (runtime)" */
};

struct device_memory {
    int64_t total_bytes, available_bytes; /* -1: unknown */
    int64_t peak_bytes; /* most that this process had allocated on the device; -1: not counted */
    char limit[96];     /* what sets the bound: "MemAvailable", "cgroup memory.max of /a/b" */
    bool own; /* each rank of a node has such memory to itself (a GPU's); else they share it */
};

struct device_ops {
    const char *name;
    bool host_memory; /* what alloc gives may be read and written by the host directly */
    int (*open)(struct device *d, const struct device_config *config, struct error *err);
    void (*close)(struct device *d);
    void (*info)(struct device *d, struct device_info *out);
    void (*memory)(struct device *d, struct device_memory *out);
    /* Zeroed, at least 64-byte-aligned, resident (touched) when this returns; `what` is for the
     * message of NANOCHAT_EXIT_OOM. */
    int (*alloc)(struct device *d, void **out, int64_t bytes, const char *what, struct error *err);
    void (*free)(struct device *d, void *p, int64_t bytes);
    int (*zero)(struct device *d, void *p, int64_t bytes, struct error *err);
    int (*to_device)(struct device *d, void *dst, const void *src, int64_t bytes,
                     struct error *err);
    int (*to_host)(struct device *d, void *dst, const void *src, int64_t bytes,
                   struct error *err); /* waits for the stream */
    int (*copy)(struct device *d, void *dst, const void *src, int64_t bytes, struct error *err);
    int (*sync)(struct device *d, struct error *err);
    int (*event_new)(struct device *d, struct device_event **out, struct error *err);
    int (*event_record)(struct device *d, struct device_event *event, struct error *err);
    /* Seconds between two recorded events; waits for `to`. */
    int (*event_elapsed)(struct device *d, double *seconds, const struct device_event *from,
                         const struct device_event *to, struct error *err);
    void (*event_free)(struct device *d, struct device_event *event);
    /* Float operations a second that MFU is relative to: on the CPU what an FMA loop on all threads
     * reaches when measured for `seconds` here and now, on a GPU the data sheet's; -1 where neither
     * is known. device_info.peak_kind says which. */
    double (*measure_peak)(struct device *d, double seconds);
    /* What it chose and will choose, empty at first (kernels/plan_files.h fills it); NULL: a back
     * end that chooses nothing. */
    struct plan_store *(*plans)(struct device *d);
    /* Graphs: what is queued between begin and end is not done but kept, and done by each launch,
     * in the same order with the same bits. All of it must have run before (plans chosen, scratch
     * grown); ops that wait or copy to or from the host fail there, and after any failure end is to
     * be called all the same (it gives none). launch: 1 when memory that the graph uses has moved
     * since: make it anew. Ops with numbers that change from step to step (adamw_args, muon_args)
     * may be in one graph of a device: while renew is on, after a wait for the stream, such ops
     * queue nothing and only hand the next launch their numbers, in the order in which they were
     * kept. no_graphs: why there are none (then these are NULL), else NULL. */
    const char *no_graphs;
    int (*graph_begin)(struct device *d, struct error *err);
    int (*graph_end)(struct device *d, struct device_graph **out, struct error *err);
    int (*graph_launch)(struct device *d, struct device_graph *graph, struct error *err);
    int (*graph_renew)(struct device *d, bool on, struct error *err);
    void (*graph_free)(struct device *d, struct device_graph *graph);
};

/* Sizes of a model, for workspace_bytes and the ops that need many of them. D = C/H; heads are
 * grouped: H/KV query heads share a key/value head. */
struct kernel_dims {
    int64_t B, T; /* at most B*T rows, none longer than T */
    int64_t C, H, KV, D, V;
};

/* One matrix of a batch of equal shapes for muon. */
struct muon_item {
    float *weight;
    float *momentum;
    const float *grad;
};

struct muon_args {
    double lr;         /* as given; the factor sqrt(max(1, rows/cols)) is applied by the op */
    double momentum;   /* mu */
    double grad_scale; /* gradients are multiplied by it first: averaging and clipping */
    bool bf16;         /* Newton-Schulz in bfloat16, rounding after every operation as PyTorch */
};

struct adamw_args {
    double lr, beta1, beta2, eps, weight_decay;
    double grad_scale;
    int64_t step; /* 1 for the first update */
};

struct kernel_ops {
    const char *name;

    int64_t (*act_bytes)(int64_t n);
    /* Scratch that any op below needs for micro-batches up to dims, muon on matrices up to C x 4C
     * included. */
    int64_t (*workspace_bytes)(const struct device *d, const struct kernel_dims *dims);

    /* w = master in the format of the GEMMs. NULL: the GEMMs take the masters. */
    int (*weight_cast)(struct device *d, void *w, const float *master, int64_t n,
                       struct error *err);
    /* out[i] = act[i]: for tests and logits. Exact. */
    int (*act_to_f32)(struct device *d, float *out, const void *act, int64_t n, struct error *err);
    int (*act_from_f32)(struct device *d, void *act, const float *in, int64_t n, struct error *err);

    /* ---- embedding with its norm ------------------------------------------------------------
     * x[r] = e * rstd[r], e = wte[tokens[r]], rstd = 1/sqrt(mean(e²) + eps), eps = 1.19e-7.
     * Tolerance 1e-6. */
    int (*embed_norm_fwd)(struct device *d, void *x, float *rstd, const void *wte,
                          const int32_t *tokens, int64_t rows, int64_t C, struct error *err);
    /* dwte[tokens[r]] += rstd·(dx − x·mean(x·dx)), x = e·rstd; the sum over equal tokens is made in
     * the order of rows. Tolerance 1e-5. */
    int (*embed_norm_bwd)(struct device *d, float *dwte, const void *dx, const void *wte,
                          const float *rstd, const int32_t *tokens, int64_t rows, int64_t C,
                          struct error *err);

    /* ---- RMSNorm without gain ---------------------------------------------------------------
     * xn = x·rstd, rstd[r] = 1/sqrt(mean(x²) + eps). Tolerance 1e-6. */
    int (*norm_fwd)(struct device *d, void *xn, float *rstd, const void *x, int64_t rows, int64_t C,
                    struct error *err);
    /* dx (+)= rstd·(dxn − xn·mean(xn·dxn)); added when accumulate. Tolerance 1e-5. */
    int (*norm_bwd)(struct device *d, void *dx, const void *dxn, const void *xn, const float *rstd,
                    bool accumulate, int64_t rows, int64_t C, struct error *err);

    /* ---- linear: y = x·wᵀ, x [rows, in], w [out, in]. Tolerance 1e-5 each --------------------
     * y (+)= x·wᵀ; accumulate is the residual connection. */
    int (*linear_fwd)(struct device *d, void *y, const void *x, const void *w, bool accumulate,
                      int64_t rows, int64_t in, int64_t out, struct error *err);
    /* a = relu(x·wᵀ)². */
    int (*linear_relu2_fwd)(struct device *d, void *a, const void *x, const void *w, int64_t rows,
                            int64_t in, int64_t out, struct error *err);
    /* dx = dy·w. */
    int (*linear_bwd_input)(struct device *d, void *dx, const void *dy, const void *w, int64_t rows,
                            int64_t in, int64_t out, struct error *err);
    /* dh = (dy·w) ∘ 2·sqrt(a): through a linear whose input was a = relu(h)². */
    int (*linear_relu2_bwd_input)(struct device *d, void *dh, const void *dy, const void *w,
                                  const void *a, int64_t rows, int64_t in, int64_t out,
                                  struct error *err);
    /* dw += dyᵀ·x, float32. */
    int (*linear_bwd_weight)(struct device *d, float *dw, const void *dy, const void *x,
                             int64_t rows, int64_t in, int64_t out, struct error *err);

    /* ---- rotary embedding and QK-norm, in place on packed rows [q: H | k: KV | v: KV] x D -----
     * Half-split rotation of the q and k heads by the tables cos, sin [>= T, D/2] (row r has
     * position r % T): y1 = x1·cos + x2·sin, y2 = −x1·sin + x2·cos; then each head divided by its
     * RMS. rstd [rows, H + KV]. Tolerance 1e-6. */
    int (*rope_norm_fwd)(struct device *d, void *qkv, float *rstd, const float *cos,
                         const float *sin, int64_t B, int64_t T, int64_t H, int64_t KV, int64_t D,
                         struct error *err);
    /* dqkv in place, from the gradient of the op's output to that of its input; qkv is the op's
     * output. Tolerance 1e-5. */
    int (*rope_norm_bwd)(struct device *d, void *dqkv, const void *qkv, const float *rstd,
                         const float *cos, const float *sin, int64_t B, int64_t T, int64_t H,
                         int64_t KV, int64_t D, struct error *err);

    /* ---- causal attention with grouped heads -------------------------------------------------
     * o [rows, H·D] = softmax(q·kᵀ/sqrt(D), j <= i)·v for each head; lse [B, H, T] = log of the
     * softmax's denominator. Tolerance 1e-5. */
    int (*attention_fwd)(struct device *d, void *o, float *lse, const void *qkv, void *ws,
                         int64_t B, int64_t T, int64_t H, int64_t KV, int64_t D, struct error *err);
    /* dqkv (all of it is written). Tolerance 1e-5. */
    int (*attention_bwd)(struct device *d, void *dqkv, const void *dout, const void *o,
                         const float *lse, const void *qkv, void *ws, int64_t B, int64_t T,
                         int64_t H, int64_t KV, int64_t D, struct error *err);

    /* ---- head: z = cap·tanh(x·wᵀ/cap), cap = 15, and cross entropy ---------------------------
     * losses[r] = log(Σ exp z) − z[target]; 0 where the target is -1. With dx and dw (both or
     * neither NULL): dx = scale·∂Σlosses/∂x, dw += scale·∂Σlosses/∂w; rows with target -1 give
     * nothing. The logits exist only a bounded number of rows at a time. Tolerance 1e-5. */
    int (*head_loss)(struct device *d, float *losses, void *dx, float *dw, const void *x,
                     const void *w, const int32_t *targets, double scale, void *ws, int64_t rows,
                     int64_t C, int64_t V, struct error *err);
    /* logits [rows, V] = z. Tolerance 1e-5. */
    int (*head_logits)(struct device *d, float *logits, const void *x, const void *w, int64_t rows,
                       int64_t C, int64_t V, struct error *err);

    /* ---- optimizer ---------------------------------------------------------------------------
     * *sum (host) = Σ x², in float64, in an order that does not depend on the thread count. */
    int (*sum_squares)(struct device *d, double *sum, const float *x, int64_t n, struct error *err);
    /* PyTorch's AdamW: p *= 1 − lr·wd; m = β1·m + (1−β1)·g; v = β2·v + (1−β2)·g²;
     * p −= lr/(1−β1^t) · m / (sqrt(v)/sqrt(1−β2^t) + eps); g is multiplied by grad_scale first.
     * Tolerance 1e-6. */
    int (*adamw)(struct device *d, float *weight, float *m, float *v, const float *grad, int64_t n,
                 const struct adamw_args *args, struct error *err);
    /* Muon on n matrices [rows, cols]: buf += (1−μ)(g − buf); u = g + μ(buf − g);
     * weight −= lr·sqrt(max(1, rows/cols))·NS(u), NS the quintic Newton-Schulz iteration (five
     * times, coefficients 3.4445, −4.7750, 2.0315, on u/(|u| + 1e-7), on the transpose where
     * rows > cols). Tolerance 2e-5 of the update (float32), 5e-2 (bfloat16: that of
     * the format itself). */
    int (*muon)(struct device *d, const struct muon_item *items, int64_t n,
                const struct muon_args *args, void *ws, int64_t rows, int64_t cols,
                struct error *err);
};

struct collective_ops;

struct device {
    const struct device_ops *ops;
    const struct kernel_ops *kernels;
    /* Between devices of this kind (kernels/collectives.h). NULL: its memory is the host's, or this
     * build has none. */
    const struct collective_ops *collectives;
    void *state; /* the back end's */
};

/* An unknown type is NANOCHAT_EXIT_USAGE, one that cannot be opened NANOCHAT_EXIT_DEVICE. */
int device_open(struct device **out, const struct device_config *config, struct error *err);
void device_close(struct device *d); /* NULL is fine */
/* Names of the back ends of this build, NULL-terminated. */
const char *const *device_types(void);

#endif
