/* Every op of the CUDA back end against its CPU twin, in float32, bfloat16 and fp8, on odd and on
 * real shapes. Prints one line an op and shape, then "N passed, N failed".
 *
 *   build/release/gpu/ops [float32|bfloat16|fp8|fp8-wgrad]
 *
 * Bounds of fp8: rounding to e4m3 has a relative error of 2.6e-2 (RMS), to e5m2 of 5.1e-2; a
 * product of random matrices has the root of the sum of its operands' squares: 3.6e-2 forward,
 * 5.8e-2 for gradients. Shapes that are too small for 8 bits meet the bounds of bfloat16.
 *
 * An error also has a lower bound, so that products silently made in a finer format fail: whatever
 * is stored in bfloat16 is off by 1.7e-3 (RMS) for its rounding alone, so 1e-4 is too exact; the
 * product of 8-bit operands is off by 2.6e-2 at least, so 1e-2 is. */
#include "common/cleanup.h"
#include "common/error.h"
#include "common/mem.h"
#include "kernels/device_cuda.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    const char *name;
    struct kernel_dims d;
};

static const struct shape shapes[] = {
    {"tiny", {2, 24, 32, 2, 2, 16, 131}},      {"grouped", {2, 40, 64, 4, 2, 16, 136}},
    {"odd width", {3, 33, 36, 2, 1, 18, 77}},  {"middle", {4, 256, 256, 2, 2, 128, 8192}},
    {"d12", {2, 1024, 768, 6, 6, 128, 16384}}, {"wide vocabulary", {1, 256, 128, 1, 1, 128, 65536}},
};

static struct device *cpu, *gpu;
static bool bf16; /* activations, also beside fp8 products */
static bool fp8, wgrad8;
static int passed, failed;
static struct error err = ERROR_INIT;

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if (call) {                                                                                \
            error_print(&err, "gpu/ops");                                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* ---- buffers: the same numbers on both sides --------------------------------------------------
 */
struct both {
    void *c, *g;
    int64_t n;
    bool act; /* in the format of activations, else float32 */
};

static float round_bf16(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {x};
    v.u += 0x7FFF + (v.u >> 16 & 1);
    v.u &= 0xFFFF0000u;
    return v.f;
}

static uint64_t random_state = 1;
static float gauss(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(random_state >> 11) * 0x1p-53;
    }
    return (float)(sum - 6);
}

static void upload(struct both *b, const float *host)
{
    memcpy(b->c, host, (size_t)b->n * sizeof(float));
    if (!b->act) {
        MUST(gpu->ops->to_device(gpu, b->g, host, b->n * 4, &err));
        return;
    }
    void *staging;
    MUST(gpu->ops->alloc(gpu, &staging, b->n * 4, "staging", &err));
    MUST(gpu->ops->to_device(gpu, staging, host, b->n * 4, &err));
    MUST(gpu->kernels->act_from_f32(gpu, b->g, staging, b->n, &err));
    MUST(gpu->ops->sync(gpu, &err));
    gpu->ops->free(gpu, staging, b->n * 4);
}

static struct both make(int64_t n, bool act, double scale)
{
    struct both b = {.n = n, .act = act};
    float *host = mem_alloc((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        float x = (float)(scale * (double)gauss());
        host[i] = act && bf16 ? round_bf16(x) : x;
    }
    MUST(cpu->ops->alloc(cpu, &b.c, n * 4, "cpu buffer", &err));
    MUST(gpu->ops->alloc(gpu, &b.g, act ? gpu->kernels->act_bytes(n) : n * 4, "gpu buffer", &err));
    upload(&b, host);
    MUST(gpu->ops->sync(gpu, &err));
    free(host);
    return b;
}
#define ACT(n, scale) make(n, true, scale)
#define F32(n, scale) make(n, false, scale)

static void drop(struct both *b)
{
    cpu->ops->free(cpu, b->c, b->n * 4);
    gpu->ops->free(gpu, b->g, b->act ? gpu->kernels->act_bytes(b->n) : b->n * 4);
}

static float *download(const struct both *b)
{
    float *host = mem_alloc((size_t)b->n * sizeof(float));
    if (!b->act) {
        MUST(gpu->ops->to_host(gpu, host, b->g, b->n * 4, &err));
        return host;
    }
    void *staging;
    MUST(gpu->ops->alloc(gpu, &staging, b->n * 4, "staging", &err));
    MUST(gpu->kernels->act_to_f32(gpu, staging, b->g, b->n, &err));
    MUST(gpu->ops->to_host(gpu, host, staging, b->n * 4, &err));
    gpu->ops->free(gpu, staging, b->n * 4);
    return host;
}

/* What a relative error must lie between. */
struct bounds {
    double least, most;
};

static void judge(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void judge(bool ok, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs(ok ? "ok " : "not ok ", stdout);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    passed += ok;
    failed += !ok;
}

/* Relative L2 error of the GPU's against the CPU's; zeros have no lower bound. */
static void compare(const char *op, const char *what, const struct shape *s, const struct both *b,
                    struct bounds bounds)
{
    float *host = download(b);
    const float *truth = b->c;
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < b->n; i++) {
        double e = (double)host[i] - (double)truth[i];
        diff += e * e;
        norm += (double)truth[i] * (double)truth[i];
    }
    free(host);
    const double error = norm > 0 ? sqrt(diff / norm) : sqrt(diff);
    const double least = norm > 0 ? fmax(bounds.least, bf16 && b->act ? 1e-4 : 0) : 0;
    judge(error >= least && error <= bounds.most, /* a NaN is not */
          "%s %s, %s: %.2e (bounds %.0e … %.0e)", op, what, s->name, error, least, bounds.most);
}

static struct bounds upto(double most)
{
    return (struct bounds){0, most};
}

static struct bounds tol(double f32, double half)
{
    return upto(bf16 ? half : f32);
}

/* Of an op whose products may be in 8 bits, for layers of C inputs. */
static struct bounds tol8(const struct shape *s, double f32, double half, double eight)
{
    const int64_t rows = s->d.B * s->d.T;
    const bool fits = rows % 16 == 0 && s->d.C % 16 == 0 && s->d.C >= 128 && s->d.V % 16 == 0;
    return fp8 && fits ? (struct bounds){1e-2, eight} : tol(f32, half);
}

struct ints {
    int32_t *c;
    void *g;
    int64_t n;
};
static struct ints make_ints(int64_t n, int64_t below, bool ignore)
{
    struct ints t = {.n = n};
    t.c = mem_alloc((size_t)n * sizeof *t.c);
    for (int64_t i = 0; i < n; i++) {
        uint32_t r = (uint32_t)lrintf(fabsf(gauss()) * 1e6f);
        t.c[i] = i % 3 == 0 ? (int32_t)(r % 7) : (int32_t)(r % (uint32_t)below);
        if (ignore && i % 5 == 2)
            t.c[i] = -1;
    }
    MUST(gpu->ops->alloc(gpu, &t.g, n * 4, "ints", &err));
    MUST(gpu->ops->to_device(gpu, t.g, t.c, n * 4, &err));
    MUST(gpu->ops->sync(gpu, &err));
    return t;
}
static void drop_ints(struct ints *t)
{
    gpu->ops->free(gpu, t->g, t->n * 4);
    free(t->c);
}

/* ---- the ops ------------------------------------------------------------------------------- */
static void test_norm(const struct shape *s)
{
    int64_t C = s->d.C, rows = s->d.B * s->d.T;
    struct both x = ACT(rows * C, 1), xn = ACT(rows * C, 0), r = F32(rows, 0);
    struct both g = ACT(rows * C, 1), dx = ACT(rows * C, 1);
    MUST(cpu->kernels->norm_fwd(cpu, xn.c, r.c, x.c, rows, C, &err));
    MUST(gpu->kernels->norm_fwd(gpu, xn.g, r.g, x.g, rows, C, &err));
    compare("norm_fwd", "xn", s, &xn, tol(1e-6, 4e-3));
    compare("norm_fwd", "rstd", s, &r, upto(1e-6));
    MUST(cpu->kernels->norm_bwd(cpu, dx.c, g.c, xn.c, r.c, true, rows, C, &err));
    MUST(gpu->kernels->norm_bwd(gpu, dx.g, g.g, xn.g, r.g, true, rows, C, &err));
    compare("norm_bwd", "dx accumulated", s, &dx, tol(1e-5, 5e-3));
    MUST(cpu->kernels->norm_bwd(cpu, dx.c, g.c, xn.c, r.c, false, rows, C, &err));
    MUST(gpu->kernels->norm_bwd(gpu, dx.g, g.g, xn.g, r.g, false, rows, C, &err));
    compare("norm_bwd", "dx", s, &dx, tol(1e-5, 5e-3));
    drop(&x), drop(&xn), drop(&r), drop(&g), drop(&dx);
}

static void test_embed(const struct shape *s)
{
    int64_t C = s->d.C, V = s->d.V, rows = s->d.B * s->d.T;
    struct both wte = ACT(V * C, 1), x = ACT(rows * C, 0), r = F32(rows, 0);
    struct both dx = ACT(rows * C, 1), dw = F32(V * C, 1);
    struct ints tokens = make_ints(rows, V, false);
    MUST(cpu->kernels->embed_norm_fwd(cpu, x.c, r.c, wte.c, tokens.c, rows, C, &err));
    MUST(gpu->kernels->embed_norm_fwd(gpu, x.g, r.g, wte.g, tokens.g, rows, C, &err));
    compare("embed_norm_fwd", "x", s, &x, tol(1e-6, 4e-3));
    MUST(cpu->kernels->embed_norm_bwd(cpu, dw.c, dx.c, wte.c, r.c, tokens.c, rows, C, &err));
    MUST(gpu->kernels->embed_norm_bwd(gpu, dw.g, dx.g, wte.g, r.g, tokens.g, rows, C, &err));
    compare("embed_norm_bwd", "dwte", s, &dw, upto(1e-5));
    drop(&wte), drop(&x), drop(&r), drop(&dx), drop(&dw);
    drop_ints(&tokens);
}

static void test_linear(const struct shape *s)
{
    int64_t C = s->d.C, F = 4 * s->d.C, rows = s->d.B * s->d.T;
    struct both x = ACT(rows * C, 1), w = ACT(F * C, 0.05), y = ACT(rows * F, 1);
    struct both dy = ACT(rows * F, 1), dx = ACT(rows * C, 0), dw = F32(F * C, 1);
    struct both a = ACT(rows * F, 0), w2 = ACT(C * F, 0.05), dh = ACT(rows * F, 0);
    struct both d2 = ACT(rows * C, 1);
    MUST(cpu->kernels->linear_fwd(cpu, y.c, x.c, w.c, false, rows, C, F, &err));
    MUST(gpu->kernels->linear_fwd(gpu, y.g, x.g, w.g, false, rows, C, F, &err));
    compare("linear_fwd", "y", s, &y, tol8(s, 1e-5, 4e-3, 5e-2));
    MUST(cpu->kernels->linear_fwd(cpu, y.c, x.c, w.c, true, rows, C, F, &err));
    MUST(gpu->kernels->linear_fwd(gpu, y.g, x.g, w.g, true, rows, C, F, &err));
    compare("linear_fwd", "y accumulated", s, &y, tol8(s, 1e-5, 5e-3, 5e-2));
    MUST(cpu->kernels->linear_bwd_input(cpu, dx.c, dy.c, w.c, rows, C, F, &err));
    MUST(gpu->kernels->linear_bwd_input(gpu, dx.g, dy.g, w.g, rows, C, F, &err));
    compare("linear_bwd_input", "dx", s, &dx, tol8(s, 1e-5, 4e-3, 8e-2));
    MUST(cpu->kernels->linear_bwd_weight(cpu, dw.c, dy.c, x.c, rows, C, F, &err));
    MUST(gpu->kernels->linear_bwd_weight(gpu, dw.g, dy.g, x.g, rows, C, F, &err));
    compare("linear_bwd_weight", "dw", s, &dw, wgrad8 ? tol8(s, 1e-5, 1e-5, 8e-2) : upto(1e-5));
    MUST(cpu->kernels->linear_relu2_fwd(cpu, a.c, x.c, w.c, rows, C, F, &err));
    MUST(gpu->kernels->linear_relu2_fwd(gpu, a.g, x.g, w.g, rows, C, F, &err));
    compare("linear_relu2_fwd", "a", s, &a, tol8(s, 1e-5, 8e-3, 7e-2));
    MUST(cpu->kernels->linear_relu2_bwd_input(cpu, dh.c, d2.c, w2.c, a.c, rows, F, C, &err));
    MUST(gpu->kernels->linear_relu2_bwd_input(gpu, dh.g, d2.g, w2.g, a.g, rows, F, C, &err));
    compare("linear_relu2_bwd_input", "dh", s, &dh, tol8(s, 1e-5, 8e-3, 1.1e-1));
    drop(&x), drop(&w), drop(&y), drop(&dy), drop(&dx), drop(&dw), drop(&a), drop(&w2), drop(&dh);
    drop(&d2);
}

/* y = x·wᵀ and dx = dy·w against the CPU's, after something happened to the operands. */
static void check_products(const char *what, const struct shape *s, struct both *x, struct both *w,
                           struct both *dy, int64_t out)
{
    int64_t C = s->d.C, rows = s->d.B * s->d.T;
    char name[64];
    struct both y = ACT(rows * out, 0), dx = ACT(rows * C, 0);
    MUST(cpu->kernels->linear_fwd(cpu, y.c, x->c, w->c, false, rows, C, out, &err));
    MUST(gpu->kernels->linear_fwd(gpu, y.g, x->g, w->g, false, rows, C, out, &err));
    snprintf(name, sizeof name, "y, %s", what);
    compare("linear_fwd", name, s, &y, tol8(s, 1e-5, 6e-3, 5e-2));
    MUST(cpu->kernels->linear_bwd_input(cpu, dx.c, dy->c, w->c, rows, C, out, &err));
    MUST(gpu->kernels->linear_bwd_input(gpu, dx.g, dy->g, w->g, rows, C, out, &err));
    snprintf(name, sizeof name, "dx, %s", what);
    compare("linear_bwd_input", name, s, &dx, tol8(s, 1e-5, 8e-3, 8e-2));
    drop(&y), drop(&dx);
}

static void fill(struct both *b, double scale)
{
    float *host = mem_alloc((size_t)b->n * sizeof(float));
    for (int64_t i = 0; i < b->n; i++) {
        float x = (float)(scale * (double)gauss());
        host[i] = bf16 ? round_bf16(x) : x;
    }
    upload(b, host);
    MUST(gpu->ops->sync(gpu, &err));
    free(host);
}

/* Operands that the GPU keeps in another form: written by other ops, changed in size and place,
 * over the start of a next micro-step (embed_norm_fwd). */
static void test_operands(const struct shape *s)
{
    int64_t C = s->d.C, rows = s->d.B * s->d.T;
    struct both x = ACT(rows * C, 30), xn = ACT(rows * C, 0), r = F32(rows, 0);
    struct both w = ACT(C * C, 0.05), dx = ACT(rows * C, 1e-5), g = ACT(rows * C, 1e-5);
    struct both wte = ACT(s->d.V * C, 1);
    struct ints tokens = make_ints(rows, s->d.V, false);
    for (int step = 0; step < 3; step++) {
        const double size = step == 2 ? 300 : 1; /* a jump behind the scales' back */
        MUST(cpu->kernels->embed_norm_fwd(cpu, x.c, r.c, wte.c, tokens.c, rows, C, &err));
        MUST(gpu->kernels->embed_norm_fwd(gpu, x.g, r.g, wte.g, tokens.g, rows, C, &err));
        fill(&x, 30);
        fill(&g, 1e-5 * size);
        fill(&dx, 1e-5 * size);
        MUST(cpu->kernels->norm_fwd(cpu, xn.c, r.c, x.c, rows, C, &err));
        MUST(gpu->kernels->norm_fwd(gpu, xn.g, r.g, x.g, rows, C, &err));
        MUST(cpu->kernels->norm_bwd(cpu, dx.c, g.c, xn.c, r.c, true, rows, C, &err));
        MUST(gpu->kernels->norm_bwd(gpu, dx.g, g.g, xn.g, r.g, true, rows, C, &err));
        check_products(step == 0   ? "of norms, first"
                       : step == 1 ? "of norms, next"
                                   : "of norms, after a jump",
                       s, &xn, &w, &dx, C);
    }
    fill(&xn, 1e4);
    fill(&dx, 1e-9);
    check_products("inputs written anew", s, &xn, &w, &dx, C);
    fill(&w, 2e-4);
    check_products("weights written anew", s, &xn, &w, &dx, C);
    fill(&dx, 0);
    check_products("no gradient", s, &xn, &w, &dx, C);
    drop(&x), drop(&xn), drop(&r), drop(&w), drop(&dx), drop(&g), drop(&wte);
    drop_ints(&tokens);
}

/* Numbers whose squares overflow: not finite, rather than a row of zeros. */
static void test_norm_overflow(const struct shape *s)
{
    int64_t C = s->d.C, rows = s->d.B * s->d.T;
    struct both x = ACT(rows * C, 0), y = ACT(rows * C, 0), r = F32(rows, 0);
    float *host = mem_alloc((size_t)x.n * sizeof(float));
    for (int64_t i = 0; i < x.n; i++)
        host[i] = i / C == 1 ? 1e30f : 1.0f;
    upload(&x, host);
    MUST(gpu->ops->sync(gpu, &err));
    MUST(gpu->kernels->norm_fwd(gpu, y.g, r.g, x.g, rows, C, &err));
    float *out = download(&y);
    bool ok = true;
    for (int64_t i = 0; i < y.n; i++)
        ok = ok && !isfinite(out[i]) == (i / C == 1);
    judge(ok, "norm_fwd of squares that overflow, %s", s->name);
    free(out), free(host);
    drop(&x), drop(&y), drop(&r);
}

/* What is not finite must come out so, in its row and in no other. */
static void test_not_finite(const struct shape *s)
{
    int64_t C = s->d.C, rows = s->d.B * s->d.T;
    struct both x = ACT(rows * C, 0), w = ACT(C * C, 0.05), y = ACT(rows * C, 0);
    float *host = mem_alloc((size_t)x.n * sizeof(float));
    for (int64_t i = 0; i < x.n; i++)
        host[i] = 1.0f;
    host[1 * C + 3] = NAN;
    host[2 * C + 5] = INFINITY;
    upload(&x, host);
    MUST(gpu->ops->sync(gpu, &err));
    MUST(gpu->kernels->linear_fwd(gpu, y.g, x.g, w.g, false, rows, C, C, &err));
    float *out = download(&y);
    bool ok = true;
    for (int64_t i = 0; i < y.n; i++)
        ok = ok && !isfinite(out[i]) == (i / C == 1 || i / C == 2);
    judge(ok, "linear_fwd of what is not finite, %s", s->name);
    free(out), free(host);
    drop(&x), drop(&w), drop(&y);
}

static struct both make_table(int64_t n, bool sine)
{
    struct both b = F32(n, 0);
    float *host = mem_alloc((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        host[i] = sine ? sinf((float)i * 0.37f) : cosf((float)i * 0.37f);
    upload(&b, host);
    MUST(gpu->ops->sync(gpu, &err));
    free(host);
    return b;
}

static void test_attention(const struct shape *s)
{
    int64_t B = s->d.B, T = s->d.T, H = s->d.H, KV = s->d.KV, D = s->d.D, rows = B * T;
    int64_t width = (H + 2 * KV) * D;
    struct both qkv = ACT(rows * width, 1), r = F32(rows * (H + KV), 0);
    struct both cs = make_table(T * D / 2, false), sn = make_table(T * D / 2, true);
    struct both o = ACT(rows * H * D, 0), lse = F32(B * H * T, 0), go = ACT(rows * H * D, 1);
    struct both d = ACT(rows * width, 0);
    void *wc, *wg;
    int64_t nc = cpu->kernels->workspace_bytes(cpu, &s->d);
    int64_t ng = gpu->kernels->workspace_bytes(gpu, &s->d);
    MUST(cpu->ops->alloc(cpu, &wc, nc, "ws", &err));
    MUST(gpu->ops->alloc(gpu, &wg, ng, "ws", &err));
    MUST(cpu->kernels->rope_norm_fwd(cpu, qkv.c, r.c, cs.c, sn.c, B, T, H, KV, D, &err));
    MUST(gpu->kernels->rope_norm_fwd(gpu, qkv.g, r.g, cs.g, sn.g, B, T, H, KV, D, &err));
    compare("rope_norm_fwd", "qkv", s, &qkv, tol(1e-6, 4e-3));
    /* the same rounded inputs for what follows */
    float *host = download(&qkv);
    memcpy(qkv.c, host, (size_t)qkv.n * sizeof(float));
    free(host);
    MUST(cpu->kernels->attention_fwd(cpu, o.c, lse.c, qkv.c, wc, B, T, H, KV, D, &err));
    MUST(gpu->kernels->attention_fwd(gpu, o.g, lse.g, qkv.g, wg, B, T, H, KV, D, &err));
    compare("attention_fwd", "o", s, &o, tol(1e-5, 6e-3));
    compare("attention_fwd", "lse", s, &lse, tol(1e-5, 2e-3));
    MUST(cpu->kernels->attention_bwd(cpu, d.c, go.c, o.c, lse.c, qkv.c, wc, B, T, H, KV, D, &err));
    MUST(gpu->kernels->attention_bwd(gpu, d.g, go.g, o.g, lse.g, qkv.g, wg, B, T, H, KV, D, &err));
    compare("attention_bwd", "dqkv", s, &d, tol(2e-5, 1.2e-2));
    host = download(&d);
    memcpy(d.c, host, (size_t)d.n * sizeof(float));
    free(host);
    MUST(cpu->kernels->rope_norm_bwd(cpu, d.c, qkv.c, r.c, cs.c, sn.c, B, T, H, KV, D, &err));
    MUST(gpu->kernels->rope_norm_bwd(gpu, d.g, qkv.g, r.g, cs.g, sn.g, B, T, H, KV, D, &err));
    compare("rope_norm_bwd", "dqkv", s, &d, tol(1e-5, 6e-3));
    cpu->ops->free(cpu, wc, nc);
    gpu->ops->free(gpu, wg, ng);
    drop(&qkv), drop(&r), drop(&cs), drop(&sn), drop(&o), drop(&lse), drop(&go), drop(&d);
}

static void test_head(const struct shape *s)
{
    int64_t C = s->d.C, V = s->d.V, rows = s->d.B * s->d.T;
    struct both x = ACT(rows * C, 1), w = ACT(V * C, 0.1), dx = ACT(rows * C, 0);
    struct both dw = F32(V * C, 0), losses = F32(rows, 0), logits = F32(V, 0);
    struct ints targets = make_ints(rows, V, true);
    void *wc, *wg;
    int64_t nc = cpu->kernels->workspace_bytes(cpu, &s->d);
    int64_t ng = gpu->kernels->workspace_bytes(gpu, &s->d);
    MUST(cpu->ops->alloc(cpu, &wc, nc, "ws", &err));
    MUST(gpu->ops->alloc(gpu, &wg, ng, "ws", &err));
    MUST(cpu->kernels->head_loss(cpu, losses.c, dx.c, dw.c, x.c, w.c, targets.c, 0.5, wc, rows, C,
                                 V, &err));
    MUST(gpu->kernels->head_loss(gpu, losses.g, dx.g, dw.g, x.g, w.g, targets.g, 0.5, wg, rows, C,
                                 V, &err));
    compare("head_loss", "losses", s, &losses, upto(tol8(s, 1e-5, 4e-3, 3e-2).most));
    compare("head_loss", "dx", s, &dx, tol8(s, 2e-5, 1.5e-2, 1e-1));
    const struct bounds of_dw = tol8(s, 2e-5, 1.5e-2, wgrad8 ? 1e-1 : 5e-2);
    compare("head_loss", "dw", s, &dw, wgrad8 ? of_dw : upto(of_dw.most));
    MUST(cpu->kernels->head_logits(cpu, logits.c, x.c, w.c, 1, C, V, &err));
    MUST(gpu->kernels->head_logits(gpu, logits.g, x.g, w.g, 1, C, V, &err));
    compare("head_logits", "logits", s, &logits, tol(1e-5, 6e-3));
    cpu->ops->free(cpu, wc, nc);
    gpu->ops->free(gpu, wg, ng);
    drop(&x), drop(&w), drop(&dx), drop(&dw), drop(&losses), drop(&logits);
    drop_ints(&targets);
}

static void test_optimizer(const struct shape *s)
{
    int64_t n = s->d.V * s->d.C;
    struct both p = F32(n, 1), m = F32(n, 0.1), v = F32(n, 0), g = F32(n, 1);
    struct adamw_args a = {0.01, 0.8, 0.95, 1e-10, 0.1, 0.7, 3};
    for (int i = 0; i < 2; i++) {
        MUST(cpu->kernels->adamw(cpu, p.c, m.c, v.c, g.c, n, &a, &err));
        MUST(gpu->kernels->adamw(gpu, p.g, m.g, v.g, g.g, n, &a, &err));
    }
    compare("adamw", "weight", s, &p, upto(1e-6));
    compare("adamw", "m", s, &m, upto(1e-6));
    compare("adamw", "v", s, &v, upto(1e-6));
    double sc, sg;
    MUST(cpu->kernels->sum_squares(cpu, &sc, g.c, n, &err));
    MUST(gpu->kernels->sum_squares(gpu, &sg, g.g, n, &err));
    bool ok = fabs(sc - sg) <= 1e-9 * sc;
    judge(ok, "sum_squares, %s: %.17g against %.17g", s->name, sg, sc);
    drop(&p), drop(&m), drop(&v), drop(&g);
}

static void test_muon(const struct shape *s)
{
    int64_t C = s->d.C;
    int64_t sizes[3][2] = {{C, C}, {4 * C, C}, {C, 4 * C}};
    void *wc, *wg;
    int64_t nc = cpu->kernels->workspace_bytes(cpu, &s->d);
    int64_t ng = gpu->kernels->workspace_bytes(gpu, &s->d);
    MUST(cpu->ops->alloc(cpu, &wc, nc, "ws", &err));
    MUST(gpu->ops->alloc(gpu, &wg, ng, "ws", &err));
    for (int i = 0; i < 3; i++) {
        int64_t rows = sizes[i][0], cols = sizes[i][1], n = rows * cols;
        struct both w[2], b[2], g[2];
        struct muon_item ci[2], gi[2];
        for (int j = 0; j < 2; j++) {
            w[j] = F32(n, 0.0), b[j] = F32(n, 0.1), g[j] = F32(n, 1);
            ci[j] = (struct muon_item){w[j].c, b[j].c, g[j].c};
            gi[j] = (struct muon_item){w[j].g, b[j].g, g[j].g};
        }
        struct muon_args a = {0.02, 0.9, 0.5, bf16};
        MUST(cpu->kernels->muon(cpu, ci, 2, &a, wc, rows, cols, &err));
        MUST(gpu->kernels->muon(gpu, gi, 2, &a, wg, rows, cols, &err));
        for (int j = 0; j < 2; j++) {
            const char *form = rows > cols ? "tall" : rows < cols ? "wide" : "square";
            compare("muon", form, s, &w[j], tol(1e-4, 6e-2));
            compare("muon's momentum", form, s, &b[j], upto(1e-6));
            drop(&w[j]), drop(&b[j]), drop(&g[j]);
        }
    }
    cpu->ops->free(cpu, wc, nc);
    gpu->ops->free(gpu, wg, ng);
}

/* ---- graphs: bit for bit what the same ops give without ------------------------------------- */
struct update {
    struct both weight, momentum, m, v, grad, x, y;
    void *ws;
    const struct shape *s;
};

/* Starts from the same numbers whenever it is called after the same random_state. */
static struct update make_update(const struct shape *s)
{
    const int64_t C = s->d.C, n = C * C, rows = s->d.B * s->d.T;
    struct update u = {.s = s};
    u.weight = F32(n, 1), u.momentum = F32(n, 0.1), u.m = F32(n, 0.1), u.v = F32(n, 0);
    u.grad = F32(n, 1), u.x = ACT(rows * C, 1), u.y = ACT(rows * C, 0);
    MUST(gpu->ops->alloc(gpu, &u.ws, gpu->kernels->workspace_bytes(gpu, &s->d), "ws", &err));
    return u;
}

static void drop_update(struct update *u)
{
    drop(&u->weight), drop(&u->momentum), drop(&u->m), drop(&u->v);
    drop(&u->grad), drop(&u->x), drop(&u->y);
    gpu->ops->free(gpu, u->ws, gpu->kernels->workspace_bytes(gpu, &u->s->d));
}

static int queue_update(struct update *u, double lr, int64_t step, struct error *e)
{
    const int64_t C = u->s->d.C;
    const struct muon_item item = {u->weight.g, u->momentum.g, u->grad.g};
    const struct muon_args muon = {lr, 0.9 + 0.01 * (double)step, 0.5, bf16};
    const struct adamw_args adamw = {lr, 0.8, 0.95, 1e-10, 0.1, 0.7, step};
    if (gpu->kernels->muon(gpu, &item, 1, &muon, u->ws, C, C, e))
        return -e->code;
    return gpu->kernels->adamw(gpu, u->weight.g, u->m.g, u->v.g, u->grad.g, C * C, &adamw, e);
}

static int queue_products(struct update *u, struct error *e)
{
    const int64_t C = u->s->d.C, rows = u->s->d.B * u->s->d.T;
    void *square = u->x.g; /* its first C x C numbers as a weight */
    if (gpu->kernels->linear_fwd(gpu, u->y.g, u->x.g, square, false, rows, C, C, e))
        return -e->code;
    return gpu->kernels->linear_bwd_weight(gpu, u->grad.g, u->y.g, u->x.g, rows, C, C, e);
}

static struct device_graph *capture(struct update *u, bool products)
{
    struct device_graph *graph = NULL;
    MUST(gpu->ops->graph_begin(gpu, &err));
    const int rc = products ? queue_products(u, &err) : queue_update(u, 9, 9, &err);
    MUST(gpu->ops->graph_end(gpu, &graph, &err) || rc);
    return graph;
}

static void same_bits(const char *what, const struct shape *s, const struct both *a,
                      const struct both *b)
{
    float *x = download(a), *y = download(b);
    bool alive = false;
    for (int64_t i = 0; i < a->n; i++)
        alive |= x[i] != 0;
    judge(alive && !memcmp(x, y, (size_t)a->n * sizeof *x), "graph, %s, %s: the same bits", what,
          s->name);
    free(x), free(y);
}

/* Steps 3 and 4 op by op, then the same with step 4 (and its products) as graphs. */
static void test_graphs(const struct shape *s)
{
    if (gpu->ops->no_graphs || s->d.C > s->d.B * s->d.T)
        return;
    const uint64_t start = random_state;
    struct update plain = make_update(s);
    random_state = start;
    struct update replayed = make_update(s);
    for (int64_t step = 3; step < 5; step++) {
        MUST(queue_products(&plain, &err));
        MUST(queue_update(&plain, 0.1 / (double)step, step, &err));
    }
    MUST(queue_products(&replayed, &err));
    MUST(queue_update(&replayed, 0.1 / 3, 3, &err));
    struct device_graph *products = capture(&replayed, true), *update = capture(&replayed, false);
    MUST(gpu->ops->graph_launch(gpu, products, &err));
    MUST(gpu->ops->graph_renew(gpu, true, &err));
    MUST(queue_update(&replayed, 0.1 / 4, 4, &err));
    MUST(gpu->ops->graph_renew(gpu, false, &err));
    MUST(gpu->ops->graph_launch(gpu, update, &err));
    same_bits("product", s, &plain.y, &replayed.y);
    same_bits("weight gradient", s, &plain.grad, &replayed.grad);
    same_bits("weight", s, &plain.weight, &replayed.weight);
    same_bits("momentum", s, &plain.momentum, &replayed.momentum);
    same_bits("v", s, &plain.v, &replayed.v);
    gpu->ops->graph_free(gpu, products);
    gpu->ops->graph_free(gpu, update);
    drop_update(&plain), drop_update(&replayed);
}

/* What cannot be in a graph is refused, and afterwards the device works as before. */
static void test_broken_graph(const struct shape *s)
{
    if (gpu->ops->no_graphs)
        return;
    struct device_graph *graph = NULL;
    struct error refusal = ERROR_INIT, of_end = ERROR_INIT;
    struct both x = F32(1000, 1);
    double before, within, after;
    MUST(gpu->kernels->sum_squares(gpu, &before, x.g, x.n, &err));
    MUST(gpu->ops->graph_begin(gpu, &err));
    gpu->kernels->sum_squares(gpu, &within, x.g, x.n, &refusal);
    gpu->ops->graph_end(gpu, &graph, &of_end);
    judge(refusal.code && !graph, "graph, %s: an op that waits is refused (%s)", s->name,
          refusal.code ? refusal.message : "it was not");
    MUST(gpu->kernels->sum_squares(gpu, &after, x.g, x.n, &err));
    judge(before == after, "graph, %s: the device works after it", s->name);
    error_release(&refusal);
    error_release(&of_end);
    drop(&x);
}

static void run_all(const char *dtype)
{
    struct device_config c = {.type = "cpu"}, g = {.type = "cuda", .dtype = dtype};
    bf16 = strcmp(dtype, "float32") != 0;
    fp8 = !strncmp(dtype, "fp8", 3);
    wgrad8 = !strcmp(dtype, "fp8-wgrad");
    MUST(device_open(&cpu, &c, &err));
    MUST(device_open(&gpu, &g, &err));
    struct device_info info;
    gpu->ops->info(gpu, &info);
    printf("# %s, %s, %s\n", info.name, info.gemm, info.dtype);
    judge(!strcmp(info.dtype, dtype), "the device computes in %s: %s", dtype, info.dtype);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        test_norm(s);
        test_embed(s);
        test_linear(s);
        test_operands(s);
        test_not_finite(s);
        test_norm_overflow(s);
        test_attention(s);
        test_head(s);
        test_optimizer(s);
        test_muon(s);
        test_graphs(s);
        test_broken_graph(s);
        fflush(stdout);
    }
    device_close(gpu);
    device_close(cpu);
}

int main(int argc, char **argv)
{
    static const char *const dtypes[] = {"float32", "bfloat16", "fp8", "fp8-wgrad"};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (argc < 2 || !strcmp(argv[1], dtypes[i]))
            run_all(dtypes[i]);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
