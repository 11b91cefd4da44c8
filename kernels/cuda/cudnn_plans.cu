/* cuDNN plans by shape: built at first use, kept, and run. A shape for which cuDNN has no plan is
 * remembered, said once, and left to our own kernels.
 *
 * For the fused products the configurations are timed against each other, because the heuristics'
 * order is not the order of speed. */
#ifdef HAVE_CUDNN
#include "kernels/cuda/cuda_priv.h"

#include "kernels/cuda/gemm_relu2.h"
#include "kernels/cuda/sdpa.h"

extern "C" {
#include "common/log.h"
}

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

struct sdpa_entry {
    sdpa_shape shape;
    bool backward, usable;
    graph g;
    float scale, minus_infinity, one; /* by-value scalars: cuDNN keeps their addresses */
    ~sdpa_entry()
    {
        graph_release(&g);
    }
};
struct sdpa_cache {
    std::vector<std::unique_ptr<sdpa_entry>> entries;
};

static constexpr int FUSED_CANDIDATES = 4, PASSES_APART = FUSED_CANDIDATES;

struct fuse_entry {
    gemm_relu2 shape;
    bool usable;
    graph g;
    float two;
    ~fuse_entry()
    {
        graph_release(&g);
    }
};
struct fuse_cache {
    std::vector<std::unique_ptr<fuse_entry>> entries;
};

static bool broken_version(void)
{
    const size_t v = cudnnGetVersion();
    return v < 90600 || v == 91000 || v == 91001; /* wrong results, or dq must be cleared first */
}

static size_t align256(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* ---- attention --------------------------------------------------------------------------- */
static sdpa_entry *find_sdpa(struct cuda_state *s, const sdpa_shape *shape, bool backward)
{
    if (!s->sdpas)
        s->sdpas = new sdpa_cache;
    for (auto &e : s->sdpas->entries)
        if (e->backward == backward && e->shape.B == shape->B && e->shape.T == shape->T &&
            e->shape.H == shape->H && e->shape.KV == shape->KV && e->shape.D == shape->D)
            return e.get();
    auto fresh = std::make_unique<sdpa_entry>();
    sdpa_entry *e = fresh.get();
    e->shape = *shape;
    e->backward = backward;
    e->scale = 1.0f / sqrtf((float)shape->D);
    e->minus_infinity = -INFINITY;
    e->one = 1.0f;
    graph_init(&e->g);
    struct error why = ERROR_INIT;
    /* grouped heads need a reduction of dk and dv over the group that these graphs do not have */
    e->usable = !broken_version() && shape->H == shape->KV && shape->D % 8 == 0 &&
                !(backward ? sdpa_build_backward(&e->g, shape, &why)
                           : sdpa_build_forward(&e->g, shape, &why)) &&
                !graph_plan(&e->g, s->dnn, nullptr, 0, &why);
    char version[64];
    snprintf(version, sizeof version, "cuDNN %zu computes it wrongly", cudnnGetVersion());
    if (!e->usable)
        log_info("attention %s of %lld heads x %lld: own kernel (%s)",
                 backward ? "backward" : "forward", (long long)shape->H, (long long)shape->D,
                 why.code           ? why.message
                 : broken_version() ? version
                                    : "cuDNN takes equal heads of a multiple of 8 elements");
    error_release(&why);
    s->sdpas->entries.push_back(std::move(fresh));
    return e;
}

static void bind_packed(graph *g, const sdpa_shape *shape, const void *qkv)
{
    const __nv_bfloat16 *base = (const __nv_bfloat16 *)qkv;
    graph_bind(g, SDPA_Q, base);
    graph_bind(g, SDPA_K, base + shape->H * shape->D);
    graph_bind(g, SDPA_V, base + (shape->H + shape->KV) * shape->D);
}

int sdpa_forward(struct cuda_state *s, void *o, float *lse, const void *qkv, int64_t B, int64_t T,
                 int64_t H, int64_t KV, int64_t D, struct error *err)
{
    const sdpa_shape shape = {B, T, H, KV, D, s->deterministic};
    sdpa_entry *e = find_sdpa(s, &shape, false);
    if (!e->usable)
        return 1;
    void *workspace;
    if (cuda_scratch(s, &workspace, (size_t)e->g.workspace_bytes, err))
        return -err->code;
    bind_packed(&e->g, &shape, qkv);
    graph_bind(&e->g, SDPA_O, o);
    graph_bind(&e->g, SDPA_LSE, lse);
    graph_bind(&e->g, SDPA_SCALE, &e->scale);
    graph_bind(&e->g, SDPA_NEG_INF, &e->minus_infinity);
    return graph_run(&e->g, s->dnn, workspace, err);
}

int sdpa_backward(struct cuda_state *s, void *dqkv, const void *dout, const void *o,
                  const float *lse, const void *qkv, int64_t B, int64_t T, int64_t H, int64_t KV,
                  int64_t D, struct error *err)
{
    const sdpa_shape shape = {B, T, H, KV, D, s->deterministic};
    sdpa_entry *e = find_sdpa(s, &shape, true);
    if (!e->usable)
        return 1;
    const size_t engine = align256((size_t)e->g.workspace_bytes);
    const size_t rows = align256((size_t)(B * H * T) * sizeof(float));
    const size_t accumulator = s->deterministic ? 0 : (size_t)(B * H * T * D) * sizeof(float);
    void *workspace;
    if (cuda_scratch(s, &workspace, engine + rows + accumulator, err))
        return -err->code;
    __nv_bfloat16 *d = (__nv_bfloat16 *)dqkv;
    bind_packed(&e->g, &shape, qkv);
    graph_bind(&e->g, SDPA_O, o);
    graph_bind(&e->g, SDPA_DO, dout);
    graph_bind(&e->g, SDPA_LSE, lse);
    graph_bind(&e->g, SDPA_DQ, d);
    graph_bind(&e->g, SDPA_DK, d + H * D);
    graph_bind(&e->g, SDPA_DV, d + (H + KV) * D);
    graph_bind(&e->g, SDPA_SCALE, &e->scale);
    graph_bind(&e->g, SDPA_ONE, &e->one);
    graph_bind(&e->g, SDPA_NEG_INF, &e->minus_infinity);
    graph_bind(&e->g, SDPA_ROW_SUM, (char *)workspace + engine);
    if (!s->deterministic)
        graph_bind(&e->g, SDPA_DQ_ACC, (char *)workspace + engine + rows);
    return graph_run(&e->g, s->dnn, workspace, err);
}

/* ---- fused products ------------------------------------------------------------------------ */
struct fuse_operands {
    void *y;
    const void *x, *w, *a;
    const struct fuse_fp8 *fp8;
};

static int run_fused(struct cuda_state *s, fuse_entry *e, const fuse_operands *o, struct error *err)
{
    void *workspace;
    if (cuda_scratch(s, &workspace, (size_t)e->g.workspace_bytes, err))
        return -err->code;
    graph_bind(&e->g, GEMM_X, o->x);
    graph_bind(&e->g, GEMM_W, o->w);
    graph_bind(&e->g, GEMM_Y, o->y);
    if (e->shape.backward) {
        graph_bind(&e->g, GEMM_A, o->a);
        graph_bind(&e->g, GEMM_TWO, &e->two);
    }
    if (o->fp8) {
        graph_bind(&e->g, GEMM_X_SCALE, o->fp8->x_scale);
        graph_bind(&e->g, GEMM_W_SCALE, o->fp8->w_scale);
        graph_bind(&e->g, GEMM_COPY, o->fp8->copy);
        graph_bind(&e->g, GEMM_COPY_SCALE, o->fp8->copy_scale);
        graph_bind(&e->g, GEMM_COPY_AMAX, o->fp8->copy_amax);
    }
    return graph_run(&e->g, s->dnn, workspace, err);
}

/* Least of three runs behind one that is not counted; negative if it fails. */
template <typename F> static float least_time(struct cuda_state *s, F run)
{
    struct error why = ERROR_INIT;
    cudaEvent_t from, to;
    float best = -1;
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    for (int i = 0; i < 4 && !why.code; i++) {
        cudaEventRecord(from, s->stream);
        run(&why);
        cudaEventRecord(to, s->stream);
        float ms = 0;
        if (cudaEventSynchronize(to) != cudaSuccess || cudaEventElapsedTime(&ms, from, to))
            error_set(&why, CUDA_EXIT_DEVICE, "timing failed");
        if (i > 0 && (best < 0 || ms < best))
            best = ms;
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    best = why.code ? -1 : best;
    error_release(&why);
    return best;
}

static bool build_fused(struct cuda_state *s, fuse_entry *e, int want)
{
    struct error why = ERROR_INIT;
    graph_release(&e->g);
    graph_init(&e->g);
    const bool ok = !gemm_relu2_build(&e->g, &e->shape, &why) &&
                    !graph_plan(&e->g, s->dnn, nullptr, want, &why) && e->g.plan;
    error_release(&why);
    return ok;
}

/* A plan is the place of a configuration in the order of cuDNN's heuristics, or PASSES_APART. */
static void fuse_key(char key[PLAN_KEY_MAX], const fuse_entry *e)
{
    const gemm_relu2 &p = e->shape;
    snprintf(key, PLAN_KEY_MAX, "relu2 %s%s %lld %lld %lld", p.backward ? "backward" : "forward",
             p.fp8 ? " fp8" : "", (long long)p.m, (long long)p.n, (long long)p.k);
}

static bool take_plan(struct cuda_state *s, fuse_entry *e, int at, enum plan_origin origin)
{
    char key[PLAN_KEY_MAX];
    const unsigned char value = (unsigned char)at;
    e->usable = at < FUSED_CANDIDATES && build_fused(s, e, at);
    if (!e->usable && at != PASSES_APART)
        return false;
    fuse_key(key, e);
    plan_store_take(&s->plans, key, &value, 1, origin);
    return true;
}

static bool take_stored(struct cuda_state *s, fuse_entry *e)
{
    char key[PLAN_KEY_MAX];
    fuse_key(key, e);
    const struct plan *stored = plan_store_find(&s->plans, key, 1);
    if (!stored)
        return false;
    if (take_plan(s, e, stored->value[0], PLAN_STORED))
        return true;
    plan_store_refuse(&s->plans, key);
    return false;
}

/* Running writes y, which the caller is about to write anyway: timing on it is harmless. */
static void choose_fused(struct cuda_state *s, fuse_entry *e, const fuse_operands *o)
{
    const bool timing = s->plans.mode == PLANS_AUTO || s->plans.mode == PLANS_TIME;
    const int candidates = timing ? FUSED_CANDIDATES : 1;
    int best = -1;
    float best_ms = 0;
    for (int i = 0; i < candidates && build_fused(s, e, i); i++) {
        const float ms = least_time(s, [&](struct error *err) { run_fused(s, e, o, err); });
        if (ms > 0 && (best < 0 || ms < best_ms)) {
            best = i;
            best_ms = ms;
        }
    }
    if (best >= 0 && o->fp8 && timing) {
        const float apart =
            least_time(s, [&](struct error *err) { o->fp8->apart(o->fp8->apart_arg, err); });
        if (apart > 0 && apart < best_ms)
            best = PASSES_APART;
    }
    if (best >= 0)
        take_plan(s, e, best, timing ? PLAN_TIMED : PLAN_FIRST);
}

static fuse_entry *find_fused(struct cuda_state *s, const gemm_relu2 *p, const fuse_operands *o)
{
    if (!s->fuses)
        s->fuses = new fuse_cache;
    for (auto &e : s->fuses->entries)
        if (e->shape.backward == p->backward && e->shape.fp8 == p->fp8 && e->shape.m == p->m &&
            e->shape.n == p->n && e->shape.k == p->k)
            return e.get();
    if (s->graph_mode != GRAPH_NONE) /* nothing runs that could be timed */
        return nullptr;
    auto fresh = std::make_unique<fuse_entry>();
    fuse_entry *e = fresh.get();
    e->shape = *p;
    e->two = 2.0f;
    graph_init(&e->g);
    /* small products: not worth a run-time compilation */
    const bool worth = !broken_version() && p->m % 64 == 0 && p->n % 64 == 0 && p->k % 64 == 0 &&
                       2.0 * (double)p->m * (double)p->n * (double)p->k > 1e9;
    if (worth && !take_stored(s, e))
        choose_fused(s, e, o);
    s->fuses->entries.push_back(std::move(fresh));
    return e;
}

int fuse_relu2_forward(struct cuda_state *s, void *a, const void *x, const void *w, int64_t rows,
                       int64_t in, int64_t out, const struct fuse_fp8 *fp8, struct error *err)
{
    const gemm_relu2 shape = {false, fp8 != nullptr, rows, out, in};
    const fuse_operands o = {a, x, w, nullptr, fp8};
    fuse_entry *e = find_fused(s, &shape, &o);
    if (!e)
        return cuda_must_not_capture(s, "choosing an engine", err);
    return e->usable ? run_fused(s, e, &o, err) : 1;
}

int fuse_relu2_backward(struct cuda_state *s, void *dh, const void *dy, const void *w,
                        const void *a, int64_t rows, int64_t in, int64_t out,
                        const struct fuse_fp8 *fp8, struct error *err)
{
    const gemm_relu2 shape = {true, fp8 != nullptr, rows, in, out};
    const fuse_operands o = {dh, dy, w, a, fp8};
    fuse_entry *e = find_fused(s, &shape, &o);
    if (!e)
        return cuda_must_not_capture(s, "choosing an engine", err);
    return e->usable ? run_fused(s, e, &o, err) : 1;
}

void cudnn_caches_free(struct cuda_state *s)
{
    delete s->sdpas;
    delete s->fuses;
    s->sdpas = nullptr;
    s->fuses = nullptr;
}
#endif
