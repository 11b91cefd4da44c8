/* Time of every op at the shapes of one micro-step, and what a micro-step should cost by their sum.
 *
 *   gpu_ops [depth=20] [B=32] [T=2048] [V=65536] [dtype=bfloat16]
 *
 * Medians of single calls between events on random data, after two that are not counted. The floors
 * are those of bfloat16 at rates that a device sustains: GEMM_TFLOPS, ATTENTION_FWD_TFLOPS,
 * ATTENTION_BWD_TFLOPS and COPY_TBPS in the environment. Without them they are those that were
 * measured on an H200, and only there mean anything.
 */
#include "common/cleanup.h"
#include "common/error.h"
#include "common/mem.h"
#include "common/num.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct device *gpu;
static struct error err = ERROR_INIT;
#define MUST(call)                                                                                 \
    do {                                                                                           \
        if (call) {                                                                                \
            error_print(&err, "gpu_ops");                                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int64_t L, B, T, C, H, D, V, rows;

static void *alloc(int64_t bytes)
{
    void *p;
    MUST(gpu->ops->alloc(gpu, &p, bytes, "bench buffer", &err));
    return p;
}

/* n random normal numbers in the format of activations, repeating after a million. */
static void *act(int64_t n, float scale)
{
    const int64_t block = 1 << 20;
    static float *host;
    static void *staging;
    if (!host) {
        host = mem_alloc(block * sizeof *host);
        uint64_t s = 7;
        for (int64_t i = 0; i < block; i++) {
            double sum = 0;
            for (int k = 0; k < 4; k++) {
                s = s * 6364136223846793005u + 1442695040888963407u;
                sum += (double)(s >> 11) * 0x1p-53 - 0.5;
            }
            host[i] = (float)(sum * 1.732);
        }
        staging = alloc(block * 4);
    }
    float *scaled = mem_alloc(block * sizeof *scaled);
    for (int64_t i = 0; i < block; i++)
        scaled[i] = host[i] * scale;
    MUST(gpu->ops->to_device(gpu, staging, scaled, block * 4, &err));
    char *p = alloc(gpu->kernels->act_bytes(n));
    for (int64_t i = 0; i < n; i += block)
        MUST(gpu->kernels->act_from_f32(gpu, p + gpu->kernels->act_bytes(i), staging,
                                        n - i < block ? n - i : block, &err));
    MUST(gpu->ops->sync(gpu, &err));
    free(scaled);
    return p;
}

static float *f32(int64_t n)
{
    return alloc(n * 4);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double total_ms;
static struct device_event *from, *to;

#define TIME(name, count, floor_ms, call)                                                          \
    do {                                                                                           \
        double ms[5];                                                                              \
        for (int i_ = -2; i_ < 5; i_++) {                                                          \
            MUST(gpu->ops->event_record(gpu, from, &err));                                         \
            MUST(call);                                                                            \
            MUST(gpu->ops->event_record(gpu, to, &err));                                           \
            double s_;                                                                             \
            MUST(gpu->ops->event_elapsed(gpu, &s_, from, to, &err));                               \
            if (i_ >= 0)                                                                           \
                ms[i_] = s_ * 1e3;                                                                 \
        }                                                                                          \
        qsort(ms, 5, sizeof *ms, compare);                                                         \
        total_ms += ms[2] * (double)(count);                                                       \
        printf("%-28s x%-3d %8.4f ms = %8.2f ms, floor %8.2f ms, %5.1f %%\n", name, (int)(count),  \
               ms[2], ms[2] * (double)(count), (floor_ms) * (double)(count),                       \
               100.0 * (floor_ms) / ms[2]);                                                        \
    } while (0)

/* What the floors are made of; see the top of the file. */
static struct {
    double gemm_tflops, attention_fwd_tflops, attention_bwd_tflops, copy_tbps;
} rates = {660.6, 564.1, 405.3, 3.996};

static int read_rates(void)
{
    const struct {
        const char *name;
        double *value;
    } variables[] = {
        {"GEMM_TFLOPS", &rates.gemm_tflops},
        {"ATTENTION_FWD_TFLOPS", &rates.attention_fwd_tflops},
        {"ATTENTION_BWD_TFLOPS", &rates.attention_bwd_tflops},
        {"COPY_TBPS", &rates.copy_tbps},
    };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i].name);
        if (text && (!num_parse_f64(text, variables[i].value) || *variables[i].value <= 0)) {
            fprintf(stderr, "gpu_ops: %s: expected a rate above 0\n", variables[i].name);
            return -1;
        }
        printf("%s=%g%s\n", variables[i].name, *variables[i].value,
               text ? "" : " (of an H200, not of this device)");
    }
    return 0;
}

static double gemm_floor(double m, double n, double k)
{
    return 2.0 * m * n * k / (rates.gemm_tflops * 1e12) * 1e3;
}
static double byte_floor(double bytes)
{
    return bytes / (rates.copy_tbps * 1e12) * 1e3;
}
/* Newton–Schulz of `count` matrices: five times X·Xᵀ, its square and the product with X, all of
 * them whole products. */
static double muon_floor(double count, double longer, double shorter)
{
    return count * 5 *
           (2 * gemm_floor(shorter, shorter, longer) + gemm_floor(shorter, shorter, shorter));
}

int main(int argc, char **argv)
{
    int64_t arg[4] = {20, 32, 2048, 65536};
    for (int i = 1; i < argc && i <= 4; i++)
        if (!num_parse_i64(argv[i], &arg[i - 1]))
            return 2;
    if (read_rates())
        return 2;
    L = arg[0], B = arg[1], T = arg[2], V = arg[3];
    C = L * 64, H = (C + 127) / 128, D = C / H, rows = B * T;
    struct device_config config = {.type = "cuda", .dtype = argc > 5 ? argv[5] : NULL};
    MUST(device_open(&gpu, &config, &err));
    const struct kernel_ops *k = gpu->kernels;
    MUST(gpu->ops->event_new(gpu, &from, &err));
    MUST(gpu->ops->event_new(gpu, &to, &err));
    struct kernel_dims dims = {B, T, C, H, H, D, V};
    void *ws = alloc(k->workspace_bytes(gpu, &dims));
    double r = (double)rows, c = (double)C, n2 = r * c * 2;
    void *x = act(rows * C, 1), *y = act(rows * C, 1), *g = act(rows * C, 1);
    void *q = act(rows * 3 * C, 1), *dq = act(rows * 3 * C, 1);
    void *a = act(rows * 4 * C, 1), *da = act(rows * 4 * C, 1);
    void *w = act(4 * C * C, 0.03f), *head = act(V * C, 0.03f);
    float *dw = f32(4 * C * C), *dhead = f32(V * C), *rstd = f32(rows), *rqk = f32(rows * 2 * H);
    float *lse = f32(rows * H), *losses = f32(rows), *cs = f32(T * D / 2), *sn = f32(T * D / 2);
    float *ones = mem_alloc((size_t)(T * D / 2) * 4);
    for (int64_t i = 0; i < T * D / 2; i++)
        ones[i] = 0.7071f;
    MUST(gpu->ops->to_device(gpu, cs, ones, T * D / 2 * 4, &err));
    MUST(gpu->ops->to_device(gpu, sn, ones, T * D / 2 * 4, &err));
    int32_t *ids = mem_alloc((size_t)rows * 4);
    for (int64_t i = 0; i < rows; i++)
        ids[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)V);
    int32_t *tokens = alloc(rows * 4);
    MUST(gpu->ops->to_device(gpu, tokens, ids, rows * 4, &err));

    TIME("embed_norm_fwd", 1, byte_floor(2 * n2),
         k->embed_norm_fwd(gpu, x, rstd, head, tokens, rows, C, &err));
    TIME("norm_fwd", 2 * L + 1, byte_floor(2 * n2), k->norm_fwd(gpu, y, rstd, x, rows, C, &err));
    TIME("linear_fwd qkv", L, gemm_floor(r, 3 * c, c),
         k->linear_fwd(gpu, q, y, w, false, rows, C, 3 * C, &err));
    TIME("rope_norm_fwd", L, byte_floor(2 * 2 * n2),
         k->rope_norm_fwd(gpu, q, rqk, cs, sn, B, T, H, H, D, &err));
    double attention = 2.0 * r * (double)T * c; /* visible half of 4·T²·D·H·B */
    TIME("attention_fwd", L, attention / (rates.attention_fwd_tflops * 1e12) * 1e3,
         k->attention_fwd(gpu, g, lse, q, ws, B, T, H, H, D, &err));
    TIME("linear_fwd proj +", L, gemm_floor(r, c, c),
         k->linear_fwd(gpu, x, g, w, true, rows, C, C, &err));
    TIME("linear_relu2_fwd", L, gemm_floor(r, 4 * c, c),
         k->linear_relu2_fwd(gpu, a, y, w, rows, C, 4 * C, &err));
    TIME("linear_fwd mlp proj +", L, gemm_floor(r, 4 * c, c),
         k->linear_fwd(gpu, x, a, w, true, rows, 4 * C, C, &err));
    TIME("head_loss with gradients", 1,
         3 * gemm_floor(r, (double)V, c) + byte_floor(2.0 * r * (double)V * 2),
         k->head_loss(gpu, losses, g, dhead, y, head, tokens, 1e-5, ws, rows, C, V, &err));
    TIME("bwd_weight mlp proj", L, gemm_floor(r, 4 * c, c),
         k->linear_bwd_weight(gpu, dw, g, a, rows, 4 * C, C, &err));
    TIME("relu2_bwd_input", L, gemm_floor(r, 4 * c, c),
         k->linear_relu2_bwd_input(gpu, da, g, w, a, rows, 4 * C, C, &err));
    TIME("bwd_weight fc", L, gemm_floor(r, 4 * c, c),
         k->linear_bwd_weight(gpu, dw, da, y, rows, C, 4 * C, &err));
    TIME("bwd_input fc", L, gemm_floor(r, 4 * c, c),
         k->linear_bwd_input(gpu, g, da, w, rows, C, 4 * C, &err));
    TIME("norm_bwd +", 2 * L, byte_floor(4 * n2),
         k->norm_bwd(gpu, g, x, y, rstd, true, rows, C, &err));
    TIME("bwd_weight proj", L, gemm_floor(r, c, c),
         k->linear_bwd_weight(gpu, dw, g, y, rows, C, C, &err));
    TIME("bwd_input proj", L, gemm_floor(r, c, c),
         k->linear_bwd_input(gpu, x, g, w, rows, C, C, &err));
    TIME("attention_bwd", L, 2.5 * attention / (rates.attention_bwd_tflops * 1e12) * 1e3,
         k->attention_bwd(gpu, dq, g, x, lse, q, ws, B, T, H, H, D, &err));
    TIME("rope_norm_bwd", L, byte_floor(3 * 2 * n2),
         k->rope_norm_bwd(gpu, dq, q, rqk, cs, sn, B, T, H, H, D, &err));
    TIME("bwd_weight qkv", L, gemm_floor(r, 3 * c, c),
         k->linear_bwd_weight(gpu, dw, dq, y, rows, C, 3 * C, &err));
    TIME("bwd_input qkv", L, gemm_floor(r, 3 * c, c),
         k->linear_bwd_input(gpu, g, dq, w, rows, C, 3 * C, &err));
    TIME("embed_norm_bwd", 1, byte_floor(n2 + 2.0 * (double)V * c * 4),
         k->embed_norm_bwd(gpu, dhead, g, head, rstd, tokens, rows, C, &err));
    printf("micro-step by the sum: %.1f ms\n", total_ms);

    total_ms = 0;
    float *m = f32(4 * C * C), *weight = f32(4 * C * C);
    struct muon_item *items = mem_alloc((size_t)(4 * L) * sizeof *items);
    for (int64_t i = 0; i < 4 * L; i++)
        items[i] = (struct muon_item){weight, m, dw};
    struct muon_args muon = {0.0, 0.9, 1.0, true};
    TIME("muon C x C", 1, muon_floor(4.0 * (double)L, c, c),
         k->muon(gpu, items, 4 * L, &muon, ws, C, C, &err));
    TIME("muon 4C x C", 2, muon_floor((double)L, 4 * c, c),
         k->muon(gpu, items, L, &muon, ws, 4 * C, C, &err));
    float *hm = f32(V * C), *hv = f32(V * C);
    struct adamw_args adam = {0.0, 0.8, 0.95, 1e-10, 0, 1, 1};
    TIME("adamw V x C", 2, byte_floor(7.0 * 4 * (double)V * c),
         k->adamw(gpu, dhead, hm, hv, dhead, V * C, &adam, &err));
    double sum;
    TIME("sum_squares V x C", 2, byte_floor(4 * (double)V * c),
         k->sum_squares(gpu, &sum, dhead, V * C, &err));
    printf("optimizer by the sum, without the matrices' norm and the cast: %.1f ms\n", total_ms);
    free(items);
    device_close(gpu);
    return 0;
}
