/* The ops of the fp8 table: those of bfloat16 with their products in 8 bits where the shape allows,
 * and copies written by whoever has the numbers at hand. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/optimizer.cuh"
#include "kernels/cuda/rope.cuh"

#include <cmath>

typedef __nv_bfloat16 half_t;
typedef linear_ops<half_t> plain;

/* ---- products -------------------------------------------------------------------------------
 * y [rows, n] (+)= x·wᵀ, w as [n, k]. */
static int product(struct cuda_state *s, void *y, const struct fp8_matrix *x,
                   const struct fp8_matrix *w, bool accumulate, int64_t rows, int64_t n, int64_t k,
                   struct error *err)
{
    struct gemm g = {};
    g.m = rows;
    g.n = n;
    g.k = k;
    g.tb = true;
    g.type_ab = x->kind == FP8_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
    g.type_y = CUDA_R_16BF;
    g.alpha = 1.0f;
    g.beta = accumulate ? 1.0f : 0.0f;
    g.batch = 1;
    g.scale_a = &x->scale->dequantise;
    g.scale_b = &w->scale->dequantise;
    g.fast_accumulation = x->kind == FP8_E4M3; /* forward; gradients take full sums */
    return gemm_run(s, &g, y, x->data, w->data, err);
}

static int product_fwd(struct cuda_state *s, void *y, const void *x, const void *w, bool accumulate,
                       int64_t rows, int64_t in, int64_t out, struct error *err)
{
    struct fp8_matrix x8, w8;
    if (fp8_operand(s, &x8, x, rows * in, FP8_E4M3, w, FP8_INPUT, err) ||
        fp8_weight(s, &w8, w, in, out, false, err))
        return -err->code;
    return product(s, y, &x8, &w8, accumulate, rows, out, in, err);
}

static int product_bwd(struct cuda_state *s, void *dx, const void *dy, const void *w, int64_t rows,
                       int64_t in, int64_t out, struct error *err)
{
    struct fp8_matrix dy8, w8;
    if (fp8_operand(s, &dy8, dy, rows * out, FP8_E5M2, w, FP8_OUTPUT_GRADIENT, err) ||
        fp8_weight(s, &w8, w, in, out, true, err))
        return -err->code;
    return product(s, dx, &dy8, &w8, false, rows, in, out, err);
}

static int linear_fwd(struct device *d, void *y, const void *x, const void *w, bool accumulate,
                      int64_t rows, int64_t in, int64_t out, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    fp8_written(s, y, 2 * rows * out);
    return fp8_fits(rows, in, out) ? product_fwd(s, y, x, w, accumulate, rows, in, out, err)
                                   : plain::fwd(d, y, x, w, accumulate, rows, in, out, err);
}

static int linear_bwd_input(struct device *d, void *dx, const void *dy, const void *w, int64_t rows,
                            int64_t in, int64_t out, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    fp8_written(s, dx, 2 * rows * in);
    return fp8_fits(rows, in, out) ? product_bwd(s, dx, dy, w, rows, in, out, err)
                                   : plain::bwd_input(d, dx, dy, w, rows, in, out, err);
}

static int linear_bwd_weight(struct device *d, float *dw, const void *dy, const void *x,
                             int64_t rows, int64_t in, int64_t out, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    struct fp8_matrix dy8;
    if (!fp8_weight_gradients(s) || !fp8_fits(rows, in, out))
        return plain::bwd_weight(d, dw, dy, x, rows, in, out, err);
    if (fp8_operand(s, &dy8, dy, rows * out, FP8_E5M2, dw, FP8_OUTPUT_GRADIENT, err))
        return -err->code;
    return fp8_weight_gradient(s, dw, &dy8, x, rows, in, out, err);
}

/* ---- products with relu² behind them ---------------------------------------------------------
 * y [rows, n] = relu(x·wᵀ)², or with a: (x·wᵀ) ∘ 2·sqrt(a); and its copy. */
struct relu2_product {
    struct cuda_state *s;
    void *y;
    const void *a; /* NULL: forward */
    struct fp8_matrix x, w;
    struct fp8_sink copy;
    int64_t rows, n, k;
};

static int relu2_apart(const void *arg, struct error *err)
{
    const struct relu2_product *p = (const struct relu2_product *)arg;
    const int64_t n = p->rows * p->n;
    if (product(p->s, p->y, &p->x, &p->w, false, p->rows, p->n, p->k, err))
        return -err->code;
    return p->a ? fp8_relu2_backward(p->s, p->y, p->a, n, &p->copy, err)
                : fp8_relu2(p->s, p->y, n, &p->copy, err);
}

/* 0 done, 1 not to be had. */
static int relu2_fused(const struct relu2_product *p, struct error *err)
{
#ifdef HAVE_CUDNN
    const struct fuse_fp8 fp8 = {&p->x.scale->dequantise,
                                 &p->w.scale->dequantise,
                                 &p->copy.scale->used,
                                 p->copy.out,
                                 &p->copy.scale->amax,
                                 relu2_apart,
                                 p};
    return p->a ? fuse_relu2_backward(p->s, p->y, p->x.data, p->w.data, p->a, p->rows, p->n, p->k,
                                      &fp8, err)
                : fuse_relu2_forward(p->s, p->y, p->x.data, p->w.data, p->rows, p->k, p->n, &fp8,
                                     err);
#else
    (void)p, (void)err;
    return 1;
#endif
}

static int run_relu2(const struct relu2_product *p, struct error *err)
{
    int rc = relu2_fused(p, err);
    if (rc > 0)
        rc = relu2_apart(p, err);
    return rc ? rc
              : fp8_check(p->s, &p->copy, p->y, p->rows * p->n, p->a ? FP8_E5M2 : FP8_E4M3, err);
}

static int linear_relu2_fwd(struct device *d, void *a, const void *x, const void *w, int64_t rows,
                            int64_t in, int64_t out, struct error *err)
{
    struct relu2_product p = {cuda_state_of(d), a, nullptr, {}, {}, {}, rows, out, in};
    fp8_written(p.s, a, 2 * rows * out);
    if (!fp8_fits(rows, in, out))
        return plain::relu2_fwd(d, a, x, w, rows, in, out, err);
    if (fp8_operand(p.s, &p.x, x, rows * in, FP8_E4M3, w, FP8_INPUT, err) ||
        fp8_weight(p.s, &p.w, w, in, out, false, err) ||
        fp8_begin(p.s, &p.copy, a, rows * out, FP8_E4M3, w, FP8_WRITTEN, err))
        return -err->code;
    return run_relu2(&p, err);
}

static int linear_relu2_bwd_input(struct device *d, void *dh, const void *dy, const void *w,
                                  const void *a, int64_t rows, int64_t in, int64_t out,
                                  struct error *err)
{
    struct relu2_product p = {cuda_state_of(d), dh, a, {}, {}, {}, rows, in, out};
    fp8_written(p.s, dh, 2 * rows * in);
    if (!fp8_fits(rows, in, out))
        return plain::relu2_bwd_input(d, dh, dy, w, a, rows, in, out, err);
    if (fp8_operand(p.s, &p.x, dy, rows * out, FP8_E5M2, w, FP8_OUTPUT_GRADIENT, err) ||
        fp8_weight(p.s, &p.w, w, in, out, true, err) ||
        fp8_begin(p.s, &p.copy, dh, rows * in, FP8_E5M2, w, FP8_WRITTEN, err))
        return -err->code;
    return run_relu2(&p, err);
}

/* Do the norms' kernels that write copies take such rows? */
static bool copies_rows(int64_t rows, int64_t C)
{
    return fp8_fits(rows, C, C) && C <= 4096;
}

/* ---- producers ------------------------------------------------------------------------------- */
static int embed_norm_fwd(struct device *d, void *x, float *rstd, const void *wte,
                          const int32_t *tokens, int64_t rows, int64_t C, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    fp8_written(s, x, 2 * rows * C);
    if (fp8_roll(s, err)) /* a micro-step starts */
        return -err->code;
    return norm_ops<half_t>::embed_norm_fwd(d, x, rstd, wte, tokens, rows, C, err);
}

static int norm_fwd(struct device *d, void *xn, float *rstd, const void *x, int64_t rows, int64_t C,
                    struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    struct fp8_sink sink;
    if (!copies_rows(rows, C)) {
        fp8_written(s, xn, 2 * rows * C);
        return norm_ops<half_t>::norm_fwd(d, xn, rstd, x, rows, C, err);
    }
    /* Σ xn² <= C */
    if (fp8_begin_bounded(s, &sink, xn, rows * C, FP8_E4M3, sqrt((double)C), FP8_NORM, err))
        return -err->code;
    return norm_fwd_fp8(s, xn, rstd, x, &sink, rows, C, err);
}

static int norm_bwd(struct device *d, void *dx, const void *dxn, const void *xn, const float *rstd,
                    bool accumulate, int64_t rows, int64_t C, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    struct fp8_sink sink;
    if (!copies_rows(rows, C)) {
        fp8_written(s, dx, 2 * rows * C);
        return norm_ops<half_t>::norm_bwd(d, dx, dxn, xn, rstd, accumulate, rows, C, err);
    }
    /* dx has the same place in every layer, xn has not */
    if (fp8_begin(s, &sink, dx, rows * C, FP8_E5M2, xn, FP8_WRITTEN, err) ||
        norm_bwd_fp8(s, dx, dxn, xn, rstd, accumulate, &sink, rows, C, err))
        return -err->code;
    return fp8_check(s, &sink, dx, rows * C, FP8_E5M2, err);
}

static int rope_norm_fwd(struct device *d, void *qkv, float *rstd, const float *cos,
                         const float *sin, int64_t B, int64_t T, int64_t H, int64_t KV, int64_t D,
                         struct error *err)
{
    fp8_written(cuda_state_of(d), qkv, 2 * B * T * (H + 2 * KV) * D);
    return rope_ops<half_t>::rope_norm_fwd(d, qkv, rstd, cos, sin, B, T, H, KV, D, err);
}

/* Its copy is made by the product behind it: a pass of its own is faster here than one that writes
 * both, for which a warp holds too much. */
static int rope_norm_bwd(struct device *d, void *dqkv, const void *qkv, const float *rstd,
                         const float *cos, const float *sin, int64_t B, int64_t T, int64_t H,
                         int64_t KV, int64_t D, struct error *err)
{
    fp8_written(cuda_state_of(d), dqkv, 2 * B * T * (H + 2 * KV) * D);
    return rope_ops<half_t>::rope_norm_bwd(d, dqkv, qkv, rstd, cos, sin, B, T, H, KV, D, err);
}

static int attention_fwd(struct device *d, void *o, float *lse, const void *qkv, void *ws,
                         int64_t B, int64_t T, int64_t H, int64_t KV, int64_t D, struct error *err)
{
    fp8_written(cuda_state_of(d), o, 2 * B * T * H * D);
    return attention_ops<half_t>::fwd(d, o, lse, qkv, ws, B, T, H, KV, D, err);
}

static int attention_bwd(struct device *d, void *dqkv, const void *dout, const void *o,
                         const float *lse, const void *qkv, void *ws, int64_t B, int64_t T,
                         int64_t H, int64_t KV, int64_t D, struct error *err)
{
    fp8_written(cuda_state_of(d), dqkv, 2 * B * T * (H + 2 * KV) * D);
    return attention_ops<half_t>::bwd(d, dqkv, dout, o, lse, qkv, ws, B, T, H, KV, D, err);
}

/* ---- head -------------------------------------------------------------------------------------
 * The gradient of a logit is at most `scale`: |softmax − 1[target]| <= 1 and the tangent's
 * derivative <= 1. Its copy lies in the scratch behind the logits. */
static int head_chunk(struct device *d, float *losses, void *dx, float *dw, const void *x,
                      const void *w, const int32_t *targets, double scale, void *ws, int64_t rows,
                      int64_t C, int64_t V, const struct fp8_sink *sink, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    struct fp8_matrix w8;
    if (product_fwd(s, ws, x, w, false, rows, C, V, err) ||
        cross_entropy_fp8(s, losses, ws, targets, (float)scale, dx ? sink : nullptr, rows, V, err))
        return -err->code;
    if (!dx)
        return 0;
    const struct fp8_matrix dy8 = {sink->out, sink->scale, FP8_E5M2};
    if (fp8_weight(s, &w8, w, C, V, true, err) || product(s, dx, &dy8, &w8, false, rows, C, V, err))
        return -err->code;
    return sink->alone ? fp8_weight_gradient(s, dw, &dy8, x, rows, C, V, err)
                       : plain::bwd_weight(d, dw, ws, x, rows, C, V, err);
}

static int head_loss(struct device *d, float *losses, void *dx, float *dw, const void *x,
                     const void *w, const int32_t *targets, double scale, void *ws, int64_t rows,
                     int64_t C, int64_t V, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    const int64_t chunk = head_chunk_rows(rows, V);
    struct fp8_sink sink = {(uint8_t *)ws + chunk * V * 2, nullptr, fp8_weight_gradients(s)};
    struct fp8_matrix whole;
    if (dx)
        fp8_written(s, dx, 2 * rows * C);
    if (!fp8_fits(rows, C, V) || !(scale > 0)) /* no valid target: 0 */
        return head_ops<half_t>::loss(d, losses, dx, dw, x, w, targets, scale, ws, rows, C, V, err);
    /* all of x now, so that the chunks find it */
    if (fp8_logits_scale(s, &sink.scale, scale, err) ||
        fp8_operand(s, &whole, x, rows * C, FP8_E4M3, w, FP8_INPUT, err))
        return -err->code;
    for (int64_t r = 0; r < rows; r += chunk) {
        const int64_t n = rows - r < chunk ? rows - r : chunk;
        half_t *dxr = dx ? (half_t *)dx + r * C : nullptr;
        if (head_chunk(d, losses + r, dxr, dw, (const half_t *)x + r * C, w, targets + r, scale, ws,
                       n, C, V, &sink, err))
            return -err->code;
    }
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */
static int64_t workspace_bytes(const struct device *d, const struct kernel_dims *dims)
{
    struct cuda_state *s = cuda_state_of((struct device *)d);
    const int64_t rows = dims->B * dims->T;
    const int64_t logits = head_chunk_rows(rows, dims->V) * dims->V * 3; /* and their gradient */
    const int64_t muon = cuda_muon_item_bytes(dims->C, 4 * dims->C, false);
    int64_t most = logits > muon ? logits : muon;
    most = most > dims->V * 4 ? most : dims->V * 4;
    s->workspace_bytes = most;
    fp8_expect(s, rows * 4 * dims->C);
    return most;
}

static int weight_cast(struct device *d, void *w, const float *master, int64_t n, struct error *err)
{
    fp8_written(cuda_state_of(d), w, 2 * n);
    return cuda_weight_cast(d, w, master, n, err);
}

void fp8_fill_ops(struct kernel_ops *k)
{
    k->name = "cuda fp8";
    k->workspace_bytes = workspace_bytes;
    k->weight_cast = weight_cast;
    k->embed_norm_fwd = embed_norm_fwd;
    k->norm_fwd = norm_fwd;
    k->norm_bwd = norm_bwd;
    k->linear_fwd = linear_fwd;
    k->linear_relu2_fwd = linear_relu2_fwd;
    k->linear_bwd_input = linear_bwd_input;
    k->linear_bwd_weight = linear_bwd_weight;
    k->linear_relu2_bwd_input = linear_relu2_bwd_input;
    k->rope_norm_fwd = rope_norm_fwd;
    k->rope_norm_bwd = rope_norm_bwd;
    k->attention_fwd = attention_fwd;
    k->attention_bwd = attention_bwd;
    k->head_loss = head_loss;
}
