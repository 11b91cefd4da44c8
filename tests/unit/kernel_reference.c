#include "tests/unit/kernel_reference.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <math.h>

#define EPS 1.1920928955078125e-07

void ref_norm(double *y, const double *x, int64_t rows, int64_t C)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < C; i++)
            sum += x[r * C + i] * x[r * C + i];
        double f = 1.0 / sqrt(sum / (double)C + EPS);
        for (int64_t i = 0; i < C; i++)
            y[r * C + i] = x[r * C + i] * f;
    }
}

void ref_linear(double *y, const double *x, const double *w, int64_t rows, int64_t in, int64_t out)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t i = 0; i < in; i++)
                sum += x[r * in + i] * w[o * in + i];
            y[r * out + o] = sum;
        }
}

void ref_relu2(double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = y[i] > 0 ? y[i] * y[i] : 0;
}

void ref_rope_norm(double *qkv, const float *cos, const float *sin, int64_t B, int64_t T, int64_t H,
                   int64_t KV, int64_t D)
{
    int64_t half = D / 2;
    for (int64_t r = 0; r < B * T; r++)
        for (int64_t h = 0; h < H + KV; h++) {
            double *x = qkv + (r * (H + 2 * KV) + h) * D;
            for (int64_t i = 0; i < half; i++) {
                double c = (double)cos[r % T * half + i], s = (double)sin[r % T * half + i];
                double x1 = x[i], x2 = x[i + half];
                x[i] = x1 * c + x2 * s;
                x[i + half] = -x1 * s + x2 * c;
            }
            ref_norm(x, x, 1, D);
        }
}

static void one_query(double *o, const double *q, const double *k, const double *v, int64_t stride,
                      int64_t n, int64_t D)
{
    auto_free double *p = mem_zalloc((size_t)n, sizeof *p);
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        double s = 0;
        for (int64_t i = 0; i < D; i++)
            s += q[i] * k[j * stride + i];
        p[j] = exp(s / sqrt((double)D));
        sum += p[j];
    }
    for (int64_t i = 0; i < D; i++) {
        o[i] = 0;
        for (int64_t j = 0; j < n; j++)
            o[i] += p[j] / sum * v[j * stride + i];
    }
}

void ref_attention(double *o, const double *qkv, int64_t B, int64_t T, int64_t H, int64_t KV,
                   int64_t D)
{
    int64_t stride = (H + 2 * KV) * D;
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < T; t++) {
                const double *rows = qkv + b * T * stride;
                const double *k = rows + (H + h / (H / KV)) * D;
                one_query(o + ((b * T + t) * H + h) * D, rows + t * stride + h * D, k, k + KV * D,
                          stride, t + 1, D);
            }
}

void ref_head(double *losses, const double *x, const double *w, const int32_t *targets,
              int64_t rows, int64_t C, int64_t V)
{
    auto_free double *z = mem_zalloc((size_t)V, sizeof *z);
    for (int64_t r = 0; r < rows; r++) {
        losses[r] = 0;
        if (targets[r] < 0)
            continue;
        ref_linear(z, x + r * C, w, 1, C, V);
        double sum = 0;
        for (int64_t j = 0; j < V; j++)
            sum += exp(15.0 * tanh(z[j] / 15.0));
        losses[r] = log(sum) - 15.0 * tanh(z[targets[r]] / 15.0);
    }
}

static void transpose(double *out, const double *in, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            out[c * rows + r] = in[r * cols + c];
}

/* x = a·x + (b·A + c·A·A)·x for a wide x. */
static void ns_step(double *x, int64_t n, int64_t m)
{
    auto_free double *a = mem_zalloc((size_t)(n * n), sizeof *a);
    auto_free double *b = mem_zalloc((size_t)(n * n), sizeof *b);
    auto_free double *y = mem_zalloc((size_t)(n * m), sizeof *y);
    auto_free double *xt = mem_zalloc((size_t)(n * m), sizeof *xt);
    ref_linear(a, x, x, n, m, n);
    ref_linear(b, a, a, n, n, n); /* A is symmetric */
    for (int64_t i = 0; i < n * n; i++)
        b[i] = -4.7750 * a[i] + 2.0315 * b[i];
    transpose(xt, x, n, m);
    ref_linear(y, b, xt, n, n, m);
    for (int64_t i = 0; i < n * m; i++)
        x[i] = 3.4445 * x[i] + y[i];
}

void ref_newton_schulz(double *u, int64_t rows, int64_t cols)
{
    bool tall = rows > cols;
    int64_t n = tall ? cols : rows, m = tall ? rows : cols;
    auto_free double *x = mem_zalloc((size_t)(n * m), sizeof *x);
    double sum = 0;
    for (int64_t i = 0; i < n * m; i++)
        sum += u[i] * u[i];
    if (tall)
        transpose(x, u, rows, cols);
    for (int64_t i = 0; i < n * m; i++)
        x[i] = (tall ? x[i] : u[i]) / (sqrt(sum) + 1e-7);
    for (int i = 0; i < 5; i++)
        ns_step(x, n, m);
    if (tall)
        transpose(u, x, n, m);
    for (int64_t i = 0; !tall && i < n * m; i++)
        u[i] = x[i];
}
