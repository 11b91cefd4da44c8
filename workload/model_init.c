/* Initial weights and rotary tables. */
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/model_priv.h"

#include <math.h>
#include <string.h>

#define ROPE_BASE 10000.0
#define PI 3.14159265358979323846

static float round_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    u += 0x7FFF + (u >> 16 & 1); /* to nearest, ties to even */
    u &= 0xFFFF0000u;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The angles in float32 as upstream computes them, the tables rounded to bfloat16. */
int model_init_rope(struct model *m, struct error *err)
{
    int64_t half = m->config.n_embd / m->config.n_head / 2, n = m->T * half;
    void *host;
    if (mem_try_alloc(&host, (size_t)n * 2 * sizeof(float), "the rotary tables", err))
        return -err->code;
    float *cosines = host, *sines = cosines + n;
    for (int64_t i = 0; i < half; i++) {
        float exponent = (float)(2 * i) / (float)(2 * half);
        float frequency = 1.0f / (float)pow(ROPE_BASE, exponent);
        for (int64_t p = 0; p < m->T; p++) {
            float angle = (float)p * frequency;
            cosines[p * half + i] = round_bf16(cosf(angle));
            sines[p * half + i] = round_bf16(sinf(angle));
        }
    }
    const struct device_ops *ops = m->device->ops;
    int64_t bytes = n * (int64_t)sizeof(float);
    int rc = ops->to_device(m->device, m->cos, cosines, bytes, err);
    rc = rc ? rc : ops->to_device(m->device, m->sin, sines, bytes, err);
    rc = rc ? rc : ops->sync(m->device, err);
    free(host);
    return rc;
}

/* A well-mixed 64-bit value of a counter (the finaliser of SplitMix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Two normal deviates of (stream, pair) by Box and Muller. A function of its arguments alone: any
 * thread may make any part. */
static void normal_pair(uint64_t stream, uint64_t pair, float out[2])
{
    uint64_t bits = mix(stream ^ mix(pair));
    double u = ((double)(bits >> 32) + 0.5) * 0x1p-32; /* (0, 1) */
    double v = (double)(uint32_t)bits * 0x1p-32;
    double r = sqrt(-2.0 * log(u));
    out[0] = (float)(r * cos(2.0 * PI * v));
    out[1] = (float)(r * sin(2.0 * PI * v));
}

static void fill_normal(float *out, int64_t n, float std, uint64_t stream)
{
#pragma omp parallel for schedule(static)
    for (int64_t pair = 0; pair < (n + 1) / 2; pair++) {
        float value[2];
        normal_pair(stream, (uint64_t)pair, value);
        out[2 * pair] = value[0] * std;
        if (2 * pair + 1 < n)
            out[2 * pair + 1] = value[1] * std;
    }
}

/* wte: N(0, 1); lm_head and the projections back into the residual stream: zero; the other
 * matrices: N(0, s²), s = min(1, sqrt(out/in))/sqrt(in). */
static float initial_std(const struct param *p)
{
    if (p->kind == PARAM_EMBEDDING)
        return 1.0f;
    if (p->kind == PARAM_HEAD || strstr(p->name, "c_proj"))
        return 0.0f;
    double out = (double)p->rows, in = (double)p->cols;
    return (float)(fmin(1.0, sqrt(out / in)) / sqrt(in));
}

int model_init_weights(struct model *m, uint64_t seed, struct error *err)
{
    int64_t longest = 0;
    for (size_t i = 0; i < m->n_params; i++)
        if (m->params[i].rows * m->params[i].cols > longest)
            longest = m->params[i].rows * m->params[i].cols;
    void *host;
    if (mem_try_alloc(&host, (size_t)longest * sizeof(float), "the initial weights", err))
        return -err->code;
    int rc = 0;
    for (size_t i = 0; i < m->n_params && !rc; i++) {
        struct param *p = &m->params[i];
        int64_t n = p->rows * p->cols;
        float std = initial_std(p);
        if (std > 0)
            fill_normal(host, n, std, mix(seed ^ mix(i)));
        else
            memset(host, 0, (size_t)n * sizeof(float));
        rc = m->device->ops->to_device(m->device, p->weight, host, n * (int64_t)sizeof(float), err);
        rc = rc ? rc : m->device->ops->sync(m->device, err);
    }
    free(host);
    return rc ? rc : model_weights_changed(m, err);
}
