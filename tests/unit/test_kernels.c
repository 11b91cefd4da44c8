/* Every op of the CPU back end against its formula in float64, every backward op against finite
 * differences of that formula, to the tolerances of kernels/kernels.h. */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/peak.h"
#include "kernels/cpu/vmath.h"
#include "kernels/kernels.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/kernel_reference.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct device *device;
static const struct kernel_ops *k;
static void *ws;
static struct error err = ERROR_INIT;

static void open_device(int threads)
{
    struct device_config config = {.type = "cpu", .threads = threads};
    CU_ASSERT_EQUAL_FATAL(device_open(&device, &config, &err), 0);
    k = device->kernels;
    struct kernel_dims dims = {.B = 2, .T = 300, .C = 256, .H = 4, .KV = 4, .D = 64, .V = 40000};
    ws = mem_alloc((size_t)k->workspace_bytes(device, &dims));
}

static void close_device(void)
{
    free(ws);
    device_close(device);
}

/* ---- vectors: a float array beside its float64 copy ------------------------------------------ */

struct vec {
    float *f;
    double *d;
    int64_t n;
};

static uint64_t seed = 1;
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53 * 2 - 1;
}

static struct vec vec_new(int64_t n, double scale)
{
    struct vec v = {mem_zalloc((size_t)n, sizeof(float)), mem_zalloc((size_t)n, sizeof(double)), n};
    for (int64_t i = 0; i < n; i++) {
        v.f[i] = (float)(uniform() * scale);
        v.d[i] = (double)v.f[i];
    }
    return v;
}

static void vec_release(struct vec *v)
{
    free(v->f);
    free(v->d);
}
#define auto_vec __attribute__((cleanup(vec_release))) struct vec

static void check_close(const char *what, const float *ours, const double *expected, int64_t n,
                        double tolerance)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        diff += ((double)ours[i] - expected[i]) * ((double)ours[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    double error = sqrt(diff / norm);
    if (!(error <= tolerance))
        printf("%s: relative error %.3g, allowed %.3g\n", what, error, tolerance);
    CU_ASSERT(error <= tolerance);
}

/* A scalar function of x.d, taken as Σ g·op(x). */
typedef double objective(void *ctx);

/* grad against central differences: single elements and one random direction. */
static void check_gradient(const char *what, const float *grad, struct vec *x, objective *f,
                           void *ctx)
{
    const double h = 1e-5, tolerance = 2e-5;
    double largest = 0;
    for (int64_t i = 0; i < x->n; i++)
        largest = fmax(largest, fabs((double)grad[i]));
    CU_ASSERT(largest > 0);
    int64_t step = x->n / 24 + 1;
    for (int64_t i = 0; i < x->n; i += step) {
        double keep = x->d[i];
        x->d[i] = keep + h;
        double up = f(ctx);
        x->d[i] = keep - h;
        double numeric = (up - f(ctx)) / (2 * h);
        x->d[i] = keep;
        if (!(fabs(numeric - (double)grad[i]) <= tolerance * largest))
            printf("%s[%ld]: %.9g, numeric %.9g\n", what, (long)i, (double)grad[i], numeric);
        CU_ASSERT(fabs(numeric - (double)grad[i]) <= tolerance * largest);
    }
    auto_vec u = vec_new(x->n, 1), at = vec_new(x->n, 1);
    memcpy(at.d, x->d, (size_t)x->n * sizeof(double));
    double expected = 0, size = 0, value[2];
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < x->n; i++)
            x->d[i] = at.d[i] + (side ? h : -h) * u.d[i];
        value[side] = f(ctx);
    }
    for (int64_t i = 0; i < x->n; i++) {
        expected += u.d[i] * (double)grad[i];
        size += (double)grad[i] * (double)grad[i];
    }
    memcpy(x->d, at.d, (size_t)x->n * sizeof(double));
    CU_ASSERT_NEAR((value[1] - value[0]) / (2 * h), expected, 1e-4 * sqrt(size));
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- elementary functions ---------------------------------------------------------------------
 */

static void exp_and_tanh(void)
{
    double worst_exp = 0, worst_tanh = 0;
    for (double x = -86.9; x < 87.9; x += 0.00317) {
        double e = exp((double)(float)x);
        worst_exp = fmax(worst_exp, fabs((double)vexp((float)x) / e - 1));
    }
    for (double x = 1e-6; x < 20; x *= 1.0003) {
        double t = tanh((double)(float)x);
        worst_tanh = fmax(worst_tanh, fabs((double)vtanh((float)x) / t - 1));
        CU_ASSERT_EQUAL(vtanh((float)-x), -vtanh((float)x));
    }
    printf("  worst relative error: exp %.2g, tanh %.2g\n", worst_exp, worst_tanh);
    CU_ASSERT(worst_exp < 2e-7 && worst_tanh < 4e-7);
    CU_ASSERT(isnan(vexp(NAN)) && isnan(vtanh(NAN)));
    CU_ASSERT_EQUAL(vtanh(0.0f), 0.0f);
    CU_ASSERT_EQUAL(vtanh(INFINITY), 1.0f);
    CU_ASSERT(vexp(-INFINITY) < 1e-37f && vexp(-1000.0f) >= 0);
}

/* ---- products -----------------------------------------------------------------------------------
 */

static void split_products(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 50, 7}, {129, 33, 65}, {5, 200, 1}};
    for (int threads = 1; threads <= 4; threads++) {
        open_device(threads);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int64_t m = sizes[s][0], n = sizes[s][1], kk = sizes[s][2];
            auto_vec a = vec_new(m * kk, 1), b = vec_new(n * kk, 1), c = vec_new(m * n, 1);
            for (int64_t i = 0; i < m * n; i++)
                c.f[i] = NAN; /* beta 0 must not read it */
            ref_linear(c.d, a.d, b.d, m, kk, n);
            gemm(c.f, n, OPERAND(a.f, kk), OPERAND_T(b.f, kk), 1.0f, 0.0f, m, n, kk);
            check_close("gemm", c.f, c.d, m * n, 1e-6);
            auto_vec g = vec_new(m * m, 1), t = vec_new(kk * kk, 1), at = vec_new(m * kk, 1);
            ref_linear(g.d, a.d, a.d, m, kk, m);
            gemm_gram(g.f, OPERAND(a.f, kk), m, kk);
            check_close("gram", g.f, g.d, m * m, 1e-6);
            for (int64_t i = 0; i < m * kk; i++)
                at.d[i % kk * m + i / kk] = a.d[i];
            ref_linear(t.d, at.d, at.d, kk, m, kk);
            gemm_gram(t.f, OPERAND_T(a.f, kk), kk, m);
            check_close("gram of the transpose", t.f, t.d, kk * kk, 1e-6);
        }
        close_device();
    }
}

/* ---- embedding and norm
 * -------------------------------------------------------------------------- */

#define ROWS 37
#define WIDTH 24

struct norm_case {
    struct vec x, g, y;
};

static double norm_objective(void *ctx)
{
    struct norm_case *c = ctx;
    ref_norm(c->y.d, c->x.d, ROWS, WIDTH);
    return dot(c->y.d, c->g.d, c->y.n);
}

static void norm(void)
{
    open_device(2);
    int64_t n = ROWS * WIDTH;
    struct norm_case c = {vec_new(n, 3), vec_new(n, 1), vec_new(n, 1)};
    auto_vec rstd = vec_new(ROWS, 1), dx = vec_new(n, 1);
    norm_objective(&c);
    CU_ASSERT_EQUAL(k->norm_fwd(device, c.y.f, rstd.f, c.x.f, ROWS, WIDTH, &err), 0);
    check_close("norm", c.y.f, c.y.d, n, 1e-6);
    CU_ASSERT_EQUAL(k->norm_bwd(device, dx.f, c.g.f, c.y.f, rstd.f, false, ROWS, WIDTH, &err), 0);
    check_gradient("dx", dx.f, &c.x, norm_objective, &c);
    auto_vec twice = vec_new(n, 1);
    for (int64_t i = 0; i < n; i++)
        twice.d[i] = twice.d[i] + (double)dx.f[i];
    k->norm_bwd(device, twice.f, c.g.f, c.y.f, rstd.f, true, ROWS, WIDTH, &err);
    check_close("accumulated", twice.f, twice.d, n, 1e-6);
    vec_release(&c.x), vec_release(&c.g), vec_release(&c.y);
    close_device();
}

struct embed_case {
    struct vec wte, g, y;
    int32_t tokens[ROWS];
};

static double embed_objective(void *ctx)
{
    struct embed_case *c = ctx;
    for (int64_t r = 0; r < ROWS; r++)
        ref_norm(c->y.d + r * WIDTH, c->wte.d + c->tokens[r] * WIDTH, 1, WIDTH);
    return dot(c->y.d, c->g.d, c->y.n);
}

static void embedding(void)
{
    for (int threads = 1; threads <= 3; threads++) {
        open_device(threads);
        struct embed_case c = {
            vec_new(11 * WIDTH, 1), vec_new(ROWS * WIDTH, 1), vec_new(ROWS * WIDTH, 1), {0}};
        for (int i = 0; i < ROWS; i++)
            c.tokens[i] = i * i % 11; /* many equal ones */
        auto_vec rstd = vec_new(ROWS, 1), dw = vec_new(c.wte.n, 0);
        embed_objective(&c);
        k->embed_norm_fwd(device, c.y.f, rstd.f, c.wte.f, c.tokens, ROWS, WIDTH, &err);
        check_close("embedding", c.y.f, c.y.d, c.y.n, 1e-6);
        k->embed_norm_bwd(device, dw.f, c.g.f, c.wte.f, rstd.f, c.tokens, ROWS, WIDTH, &err);
        check_gradient("dwte", dw.f, &c.wte, embed_objective, &c);
        vec_release(&c.wte), vec_release(&c.g), vec_release(&c.y);
        close_device();
    }
}

/* ---- linear
 * --------------------------------------------------------------------------------------- */

#define IN 20
#define OUT 31

struct linear_case {
    struct vec x, w, g, y;
    bool relu2; /* of y: then y is the activation */
};

static double linear_objective(void *ctx)
{
    struct linear_case *c = ctx;
    ref_linear(c->y.d, c->x.d, c->w.d, ROWS, IN, OUT);
    if (c->relu2)
        ref_relu2(c->y.d, c->y.n);
    return dot(c->y.d, c->g.d, c->y.n);
}

static struct linear_case linear_case_new(bool relu2)
{
    return (struct linear_case){vec_new(ROWS * IN, 1), vec_new(OUT * IN, 1), vec_new(ROWS * OUT, 1),
                                vec_new(ROWS * OUT, 1), relu2};
}

static void linear_case_release(struct linear_case *c)
{
    vec_release(&c->x), vec_release(&c->w), vec_release(&c->g), vec_release(&c->y);
}

static void linear(void)
{
    open_device(2);
    struct linear_case c = linear_case_new(false);
    auto_vec dx = vec_new(c.x.n, 1), dw = vec_new(c.w.n, 0);
    linear_objective(&c);
    k->linear_fwd(device, c.y.f, c.x.f, c.w.f, false, ROWS, IN, OUT, &err);
    check_close("linear", c.y.f, c.y.d, c.y.n, 1e-5);
    k->linear_fwd(device, c.y.f, c.x.f, c.w.f, true, ROWS, IN, OUT, &err);
    for (int64_t i = 0; i < c.y.n; i++)
        c.y.d[i] *= 2;
    check_close("linear added", c.y.f, c.y.d, c.y.n, 1e-5);
    k->linear_bwd_input(device, dx.f, c.g.f, c.w.f, ROWS, IN, OUT, &err);
    check_gradient("dx", dx.f, &c.x, linear_objective, &c);
    k->linear_bwd_weight(device, dw.f, c.g.f, c.x.f, ROWS, IN, OUT, &err);
    check_gradient("dw", dw.f, &c.w, linear_objective, &c);
    linear_case_release(&c);
    close_device();
}

/* h = x·wᵀ, a = relu(h)²; then z = a·pᵀ, whose gradient goes back to h. */
struct mlp_case {
    struct vec h, p, g, a, z;
};

static double mlp_objective(void *ctx)
{
    struct mlp_case *c = ctx;
    memcpy(c->a.d, c->h.d, (size_t)c->h.n * sizeof(double));
    ref_relu2(c->a.d, c->a.n);
    ref_linear(c->z.d, c->a.d, c->p.d, ROWS, OUT, IN);
    return dot(c->z.d, c->g.d, c->z.n);
}

static void relu_squared(void)
{
    open_device(2);
    struct linear_case f = linear_case_new(true);
    linear_objective(&f);
    k->linear_relu2_fwd(device, f.y.f, f.x.f, f.w.f, ROWS, IN, OUT, &err);
    check_close("relu2", f.y.f, f.y.d, f.y.n, 1e-5);
    f.x.f[0] = NAN;
    k->linear_relu2_fwd(device, f.y.f, f.x.f, f.w.f, ROWS, IN, OUT, &err);
    CU_ASSERT(isnan(f.y.f[0]));
    linear_case_release(&f);

    struct mlp_case c = {vec_new(ROWS * OUT, 1), vec_new(IN * OUT, 1), vec_new(ROWS * IN, 1),
                         vec_new(ROWS * OUT, 1), vec_new(ROWS * IN, 1)};
    auto_vec dh = vec_new(c.h.n, 1);
    for (int64_t i = 0; i < c.h.n; i++)
        c.a.f[i] = c.h.f[i] > 0 ? c.h.f[i] * c.h.f[i] : 0;
    k->linear_relu2_bwd_input(device, dh.f, c.g.f, c.p.f, c.a.f, ROWS, OUT, IN, &err);
    check_gradient("dh", dh.f, &c.h, mlp_objective, &c);
    vec_release(&c.h), vec_release(&c.p), vec_release(&c.g), vec_release(&c.a), vec_release(&c.z);
    close_device();
}

/* ---- rotary embedding and attention
 * --------------------------------------------------------------- */

struct heads {
    int64_t B, T, H, KV, D;
};

struct attention_case {
    struct heads s;
    struct vec qkv, y, g;
    float *cos, *sin;
};

static double rope_objective(void *ctx)
{
    struct attention_case *c = ctx;
    memcpy(c->y.d, c->qkv.d, (size_t)c->qkv.n * sizeof(double));
    ref_rope_norm(c->y.d, c->cos, c->sin, c->s.B, c->s.T, c->s.H, c->s.KV, c->s.D);
    return dot(c->y.d, c->g.d, c->y.n);
}

static void check_rope(struct heads s)
{
    int64_t n = s.B * s.T * (s.H + 2 * s.KV) * s.D, half = s.D / 2;
    struct attention_case c = {s, vec_new(n, 1), vec_new(n, 1), vec_new(n, 1), NULL, NULL};
    auto_vec cos_table = vec_new(s.T * half, 1), sin_table = vec_new(s.T * half, 1);
    auto_vec rstd = vec_new(s.B * s.T * (s.H + s.KV), 1);
    for (int64_t i = 0; i < s.T * half; i++) { /* not exactly a rotation, as bfloat16 tables are */
        cos_table.f[i] = (float)(cos(0.3 * (double)i) * 1.01);
        sin_table.f[i] = (float)sin(0.3 * (double)i);
    }
    c.cos = cos_table.f;
    c.sin = sin_table.f;
    rope_objective(&c);
    memcpy(c.y.f, c.qkv.f, (size_t)n * sizeof(float));
    k->rope_norm_fwd(device, c.y.f, rstd.f, c.cos, c.sin, s.B, s.T, s.H, s.KV, s.D, &err);
    check_close("rope and norm", c.y.f, c.y.d, n, 1e-6);
    auto_vec dqkv = vec_new(n, 1);
    memcpy(dqkv.f, c.g.f, (size_t)n * sizeof(float));
    k->rope_norm_bwd(device, dqkv.f, c.y.f, rstd.f, c.cos, c.sin, s.B, s.T, s.H, s.KV, s.D, &err);
    check_gradient("dqkv", dqkv.f, &c.qkv, rope_objective, &c);
    vec_release(&c.qkv), vec_release(&c.y), vec_release(&c.g);
}

static void rope(void)
{
    open_device(2);
    check_rope((struct heads){2, 5, 3, 3, 8});
    check_rope((struct heads){1, 7, 4, 1, 6});
    close_device();
}

static double attention_objective(void *ctx)
{
    struct attention_case *c = ctx;
    ref_attention(c->y.d, c->qkv.d, c->s.B, c->s.T, c->s.H, c->s.KV, c->s.D);
    return dot(c->y.d, c->g.d, c->y.n);
}

static void check_attention(struct heads s)
{
    int64_t n = s.B * s.T * (s.H + 2 * s.KV) * s.D, no = s.B * s.T * s.H * s.D;
    struct attention_case c = {s, vec_new(n, 2), vec_new(no, 1), vec_new(no, 1), NULL, NULL};
    auto_vec lse = vec_new(s.B * s.H * s.T, 1), dqkv = vec_new(n, 1);
    attention_objective(&c);
    k->attention_fwd(device, c.y.f, lse.f, c.qkv.f, ws, s.B, s.T, s.H, s.KV, s.D, &err);
    check_close("attention", c.y.f, c.y.d, no, 1e-5);
    for (int64_t i = 0; i < n; i++)
        dqkv.f[i] = NAN; /* every element is written */
    k->attention_bwd(device, dqkv.f, c.g.f, c.y.f, lse.f, c.qkv.f, ws, s.B, s.T, s.H, s.KV, s.D,
                     &err);
    check_gradient("dqkv", dqkv.f, &c.qkv, attention_objective, &c);

    /* A NaN reaches every later position of its sequence, none of another. */
    c.qkv.f[(s.H + s.KV) * s.D] = NAN;
    k->attention_fwd(device, c.y.f, lse.f, c.qkv.f, ws, s.B, s.T, s.H, s.KV, s.D, &err);
    CU_ASSERT(isnan(c.y.f[0]) && isnan(c.y.f[(s.T - 1) * s.H * s.D]));
    CU_ASSERT(s.B == 1 || !isnan(c.y.f[s.T * s.H * s.D]));
    vec_release(&c.qkv), vec_release(&c.y), vec_release(&c.g);
}

static void attention(void)
{
    for (int threads = 1; threads <= 3; threads += 2) {
        open_device(threads);
        check_attention((struct heads){1, 1, 1, 1, 4});
        check_attention((struct heads){2, 9, 2, 2, 8});
        check_attention((struct heads){1, 20, 6, 2, 4});
        check_attention((struct heads){1, 131, 2, 1, 4}); /* beyond one block of query rows */
        close_device();
    }
}

/* Scores far beyond what normalised heads can give. */
static void attention_does_not_overflow(void)
{
    open_device(1);
    struct heads s = {1, 4, 1, 1, 4};
    auto_vec qkv = vec_new(4 * 12, 1), o = vec_new(16, 1), lse = vec_new(4, 1);
    for (int64_t i = 0; i < qkv.n; i++)
        qkv.f[i] *= 1e4f;
    k->attention_fwd(device, o.f, lse.f, qkv.f, ws, s.B, s.T, s.H, s.KV, s.D, &err);
    for (int i = 0; i < 16; i++)
        CU_ASSERT(isfinite(o.f[i]));
    close_device();
}

/* ---- head
 * ------------------------------------------------------------------------------------------ */

struct head_case {
    struct vec x, w, losses;
    int32_t *targets;
    int64_t rows, C, V;
};

static double head_objective(void *ctx)
{
    struct head_case *c = ctx;
    ref_head(c->losses.d, c->x.d, c->w.d, c->targets, c->rows, c->C, c->V);
    double sum = 0;
    for (int64_t r = 0; r < c->rows; r++)
        sum += c->losses.d[r];
    return 0.25 * sum;
}

static void check_head(int64_t rows, int64_t C, int64_t V, bool gradients)
{
    struct head_case c = {
        vec_new(rows * C, 4), vec_new(V * C, 4), vec_new(rows, 1), NULL, rows, C, V};
    auto_free int32_t *targets = mem_zalloc((size_t)rows, sizeof *targets);
    for (int64_t r = 0; r < rows; r++)
        targets[r] = r % 5 == 3 ? -1 : (int32_t)(r * 7919 % V);
    c.targets = targets;
    auto_vec dx = vec_new(rows * C, 1), dw = vec_new(V * C, 0);
    head_objective(&c);
    k->head_loss(device, c.losses.f, NULL, NULL, c.x.f, c.w.f, targets, 0, ws, rows, C, V, &err);
    check_close("losses without gradients", c.losses.f, c.losses.d, rows, 1e-5);
    k->head_loss(device, c.losses.f, dx.f, dw.f, c.x.f, c.w.f, targets, 0.25, ws, rows, C, V, &err);
    check_close("losses", c.losses.f, c.losses.d, rows, 1e-5);
    if (gradients) {
        check_gradient("dx", dx.f, &c.x, head_objective, &c);
        check_gradient("dw", dw.f, &c.w, head_objective, &c);
    }
    if (rows > 3)
        CU_ASSERT(c.losses.f[3] == 0 && dx.f[3 * C] == 0);
    vec_release(&c.x), vec_release(&c.w), vec_release(&c.losses);
}

static void head(void)
{
    open_device(2);
    check_head(1, 8, 3, true);
    check_head(17, 8, 57, true);
    check_head(131, 4, 33000, false); /* more rows than a chunk has */
    close_device();
}

static void head_logits_and_nan(void)
{
    open_device(2);
    auto_vec x = vec_new(3 * 8, 9), w = vec_new(50 * 8, 9), z = vec_new(150, 1);
    auto_vec losses = vec_new(3, 1), dx = vec_new(24, 1), dw = vec_new(400, 0);
    int32_t targets[3] = {1, 2, 3};
    ref_linear(z.d, x.d, w.d, 3, 8, 50);
    for (int i = 0; i < 150; i++)
        z.d[i] = 15 * tanh(z.d[i] / 15);
    k->head_logits(device, z.f, x.f, w.f, 3, 8, 50, &err);
    check_close("logits", z.f, z.d, 150, 1e-5);
    x.f[8] = NAN;
    k->head_loss(device, losses.f, dx.f, dw.f, x.f, w.f, targets, 1, ws, 3, 8, 50, &err);
    CU_ASSERT(isfinite(losses.f[0]) && isnan(losses.f[1]) && isfinite(losses.f[2]));
    CU_ASSERT(isnan(dx.f[8]) && isnan(dw.f[0]));
    close_device();
}

/* ---- optimizer
 * -------------------------------------------------------------------------------------- */

static void sum_of_squares(void)
{
    double first = 0;
    seed = 7;
    auto_vec x = vec_new(100003, 3);
    double expected = dot(x.d, x.d, x.n);
    for (int threads = 1; threads <= 4; threads++) {
        open_device(threads);
        double sum = 0;
        k->sum_squares(device, &sum, x.f, x.n, &err);
        CU_ASSERT_NEAR(sum, expected, 1e-12 * expected);
        CU_ASSERT(threads == 1 || sum == first); /* to the last bit */
        first = sum;
        k->sum_squares(device, &sum, x.f, 0, &err);
        CU_ASSERT_EQUAL(sum, 0);
        close_device();
    }
}

static void adamw(void)
{
    open_device(2);
    auto_vec p = vec_new(101, 1), m = vec_new(101, 0), v = vec_new(101, 0);
    struct adamw_args args = {.lr = 0.02,
                              .beta1 = 0.8,
                              .beta2 = 0.95,
                              .eps = 1e-10,
                              .weight_decay = 0.1,
                              .grad_scale = 0.5};
    for (args.step = 1; args.step <= 4; args.step++) {
        auto_vec g = vec_new(101, 1);
        k->adamw(device, p.f, m.f, v.f, g.f, 101, &args, &err);
        for (int i = 0; i < 101; i++) {
            double t = (double)args.step, grad = 0.5 * g.d[i];
            p.d[i] *= 1 - 0.02 * 0.1;
            m.d[i] = 0.8 * m.d[i] + 0.2 * grad;
            v.d[i] = 0.95 * v.d[i] + 0.05 * grad * grad;
            double root = sqrt(v.d[i]) / sqrt(1 - pow(0.95, t));
            p.d[i] -= 0.02 / (1 - pow(0.8, t)) * m.d[i] / (root + 1e-10);
        }
        check_close("weights", p.f, p.d, 101, 1e-6);
    }
    close_device();
}

static void check_muon(int64_t rows, int64_t cols, int64_t count, bool bf16, double tolerance)
{
    enum { MAX = 5 };
    struct vec w[MAX], buf[MAX], g[MAX];
    struct muon_item items[MAX] = {{0}};
    int64_t n = rows * cols;
    struct muon_args args = {.lr = 0.02, .momentum = 0.9, .grad_scale = 0.5, .bf16 = bf16};
    for (int64_t i = 0; i < count; i++) {
        w[i] = vec_new(n, 0.1);
        buf[i] = vec_new(n, 1);
        g[i] = vec_new(n, 1);
        items[i] = (struct muon_item){w[i].f, buf[i].f, g[i].f};
    }
    k->muon(device, items, count, &args, ws, rows, cols, &err);
    for (int64_t i = 0; i < count; i++) {
        auto_vec u = vec_new(n, 1), moved = vec_new(n, 1);
        for (int64_t j = 0; j < n; j++) {
            double grad = 0.5 * g[i].d[j];
            buf[i].d[j] += 0.1 * (grad - buf[i].d[j]);
            u.d[j] = grad + 0.9 * (buf[i].d[j] - grad);
        }
        ref_newton_schulz(u.d, rows, cols);
        double lr = 0.02 * sqrt(fmax(1.0, (double)rows / (double)cols));
        for (int64_t j = 0; j < n; j++) {
            u.d[j] *= -lr;
            moved.f[j] = (float)((double)w[i].f[j] - w[i].d[j]);
        }
        check_close("momentum", buf[i].f, buf[i].d, n, 1e-6);
        check_close("update", moved.f, u.d, n, tolerance);
        vec_release(&w[i]), vec_release(&buf[i]), vec_release(&g[i]);
    }
}

static void muon(void)
{
    for (int threads = 1; threads <= 3; threads++) {
        open_device(threads);
        check_muon(24, 24, 5, false, 2e-5);
        check_muon(16, 64, 3, false, 2e-5);
        check_muon(64, 16, 2, false, 2e-5);
        check_muon(130, 40, 1, false, 2e-5);
        check_muon(24, 24, 3, true, 5e-2);
        check_muon(16, 64, 2, true, 5e-2);
        check_muon(64, 16, 2, true, 5e-2);
        close_device();
    }
}

/* ---- device
 * ------------------------------------------------------------------------------------------ */

static void device_basics(void)
{
    struct device_config wrong = {.type = "abacus"};
    struct device *none = NULL;
    auto_error struct error why = ERROR_INIT;
    CU_ASSERT_EQUAL(device_open(&none, &wrong, &why), -NANOCHAT_EXIT_USAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(why.message, "abacus"));
    open_device(2);
    struct device_info info;
    device->ops->info(device, &info);
    CU_ASSERT_EQUAL(info.threads, 2);
    printf("  %s, %s\n", info.name, info.gemm);
    void *p = NULL;
    CU_ASSERT_EQUAL_FATAL(device->ops->alloc(device, &p, 100000, "a test", &err), 0);
    CU_ASSERT_EQUAL((uintptr_t)p % 64, 0);
    for (int i = 0; i < 100000; i++)
        CU_ASSERT(((char *)p)[i] == 0);
    device->ops->free(device, p, 100000);
    void *huge = NULL;
    auto_error struct error oom = ERROR_INIT;
    CU_ASSERT_EQUAL(device->ops->alloc(device, &huge, (int64_t)1 << 50, "a whale", &oom),
                    -NANOCHAT_EXIT_OOM);
    CU_ASSERT_PTR_NOT_NULL(strstr(oom.message, "a whale"));
    close_device();
}

static void measured_peak(void)
{
    double peak = cpu_measure_peak_flops(1, 0.02);
    printf("  %.1f GFLOP/s on one thread (%s)\n", peak * 1e-9, cpu_peak_unit());
    CU_ASSERT(peak > 1e7 && peak < 1e13);
}

UNIT_MAIN({"exp and tanh", exp_and_tanh}, {"split products", split_products}, {"norm", norm},
          {"embedding", embedding}, {"linear", linear}, {"relu squared", relu_squared},
          {"rope", rope}, {"attention", attention},
          {"attention does not overflow", attention_does_not_overflow}, {"head", head},
          {"head logits and NaN", head_logits_and_nan}, {"sum of squares", sum_of_squares},
          {"adamw", adamw}, {"muon", muon}, {"device basics", device_basics},
          {"measured peak", measured_peak})
