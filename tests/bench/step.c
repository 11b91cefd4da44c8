/* Speed of a whole training step against the matrix products that it consists of.
 *
 *     step [--depth=4] [--vocab=8192] [--seq=512] [--batch=8] [--threads=2] [--rounds=7]
 *          [--cpu-time=0] [--products=1]
 *
 * The step: forward, backward, Muon and AdamW on one micro-batch. Its rate is nanochat's FLOPs per
 * token times tokens over time (nothing is counted for Newton-Schulz, the softmax or the AdamW
 * pass, and the full square for causal attention). The yardstick: the rate of the linked BLAS at
 * the shapes whose FLOPs that formula counts, weighted by them (total FLOPs over total time); for
 * each shape the better of the library's own threads and our split. Steps and products alternate
 * within one run; medians. --cpu-time=1 with --threads=1 takes CPU time instead of time passed: for
 * a machine that others keep busy. */
#include "kernels/cpu/gemm.h"
#include "workload/model.h"
#include "workload/optimizer.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/num.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROUNDS 101

extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern void bli_thread_set_num_threads(long threads) __attribute__((weak));

/* One product of the step; each_alone: many independent ones, one thread each (attention). */
struct product {
    const char *name;
    int64_t m, n, k;
    bool ta, tb;
    int64_t count;
    bool each_alone;
    double own[MAX_ROUNDS], split[MAX_ROUNDS]; /* seconds for `count` of them */
};

struct bench {
    int64_t depth, V, T, B, threads, rounds, cpu_time, with_products;
    struct device *device;
    struct model *model;
    struct optimizer *optimizer;
    int32_t *inputs, *targets;
    struct product products[32];
    size_t n_products;
    float *a, *b, *c;
    double fwd[MAX_ROUNDS], bwd[MAX_ROUNDS], opt[MAX_ROUNDS], step[MAX_ROUNDS];
};

static double now_s(const struct bench *x)
{
    struct timespec t;
    if (!x->cpu_time)
        return clock_mono_s();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int64_t n)
{
    double sorted[MAX_ROUNDS];
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static void add(struct bench *x, const char *name, int64_t m, int64_t n, int64_t k, bool ta,
                bool tb, int64_t count)
{
    x->products[x->n_products++] =
        (struct product){.name = name, .m = m, .n = n, .k = k, .ta = ta, .tb = tb, .count = count};
}

/* Forward, gradient of the input, gradient of the weight. */
static void add_linear(struct bench *x, const char *name, int64_t in, int64_t out, int64_t count)
{
    int64_t rows = x->B * x->T;
    add(x, name, rows, out, in, false, true, count);
    add(x, name, rows, in, out, false, false, count);
    add(x, name, out, in, rows, true, false, count);
}

static void add_attention(struct bench *x, int64_t heads, int64_t D)
{
    int64_t count = x->depth * x->B * heads;
    add(x, "scores", x->T, x->T, D, false, true, 2 * count);  /* q·kᵀ, dO·vᵀ */
    add(x, "values", x->T, D, x->T, false, false, 2 * count); /* p·v, dS·k */
    add(x, "dk, dv", x->T, D, x->T, true, false, 2 * count);  /* dSᵀ·q, pᵀ·dO */
    for (size_t i = x->n_products - 3; i < x->n_products; i++)
        x->products[i].each_alone = true;
}

static double flops(const struct product *p)
{
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->count;
}

static void library_threads(int64_t n)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads((int)n);
    if (bli_thread_set_num_threads)
        bli_thread_set_num_threads((long)n);
}

/* Some of the count are enough to know the time of all. */
static double time_product(struct bench *x, const struct product *p, bool split)
{
    struct operand a = {x->a, p->ta ? p->m : p->k, p->ta}, b = {x->b, p->tb ? p->k : p->n, p->tb};
    int64_t some = p->each_alone ? 2 * x->threads : 1;
    double start = now_s(x);
    if (p->each_alone) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < some; i++)
            gemm_alone(x->c + i * p->m * p->n, p->n, a, b, 1.0f, 0.0f, p->m, p->n, p->k);
    } else if (split) {
        gemm(x->c, p->n, a, b, 1.0f, 0.0f, p->m, p->n, p->k);
    } else {
        gemm_alone(x->c, p->n, a, b, 1.0f, 0.0f, p->m, p->n, p->k);
    }
    return (now_s(x) - start) * (double)p->count / (double)some;
}

/* Idle threads of either pool, ours or the library's, spin for a while: each has to fall asleep
 * before the other is measured. */
static void time_products(struct bench *x, int64_t slot)
{
    for (size_t i = 0; i < x->n_products; i++)
        x->products[i].split[slot] = time_product(x, &x->products[i], true);
    clock_sleep_s(0.1);
    library_threads(x->threads);
    for (size_t i = 0; i < x->n_products; i++)
        x->products[i].own[slot] = x->products[i].each_alone
                                       ? x->products[i].split[slot]
                                       : time_product(x, &x->products[i], false);
    library_threads(1);
    clock_sleep_s(0.1);
}

static void one_step(struct bench *x, int64_t round, struct error *err)
{
    double t[4], loss, norm, comm_s;
    t[0] = now_s(x);
    int rc = model_zero_grad(x->model, err);
    rc = rc ? rc : model_forward(x->model, x->inputs, x->targets, x->B, x->T, &loss, err);
    t[1] = now_s(x);
    rc = rc ? rc : model_backward(x->model, err);
    t[2] = now_s(x);
    if (!rc)
        optimizer_step(x->optimizer, 1.0, 0.95, &norm, &comm_s, err);
    t[3] = now_s(x);
    x->fwd[round] = t[1] - t[0];
    x->bwd[round] = t[2] - t[1];
    x->opt[round] = t[3] - t[2];
    x->step[round] = t[3] - t[0];
}

static int prepare(struct bench *x, struct error *err)
{
    struct device_config device = {.type = "cpu", .threads = (int)x->threads};
    struct model_config c = model_config_for_depth(x->depth, x->T, x->V);
    struct optimizer_config o = {
        .embedding_lr = 0.2, .unembedding_lr = 0.004, .matrix_lr = 0.02, .grad_clip = 1.0};
    if (device_open(&x->device, &device, err) ||
        model_create(&x->model, x->device, &c, x->B, x->T, err) ||
        model_init_weights(x->model, 42, err) ||
        optimizer_create(&x->optimizer, x->model, NULL, &o, err))
        return -err->code;
    int64_t n = x->B * x->T;
    x->inputs = mem_zalloc((size_t)n, sizeof *x->inputs);
    x->targets = mem_zalloc((size_t)n, sizeof *x->targets);
    for (int64_t i = 0; i < n; i++) {
        x->inputs[i] = (int32_t)(i * 7919 % x->V);
        x->targets[i] = (int32_t)((i + 1) * 7919 % x->V);
    }
    add_linear(x, "qkv", c.n_embd, 3 * c.n_embd, x->depth);
    add_linear(x, "c_proj", c.n_embd, c.n_embd, x->depth);
    add_linear(x, "c_fc", c.n_embd, 4 * c.n_embd, x->depth);
    add_linear(x, "mlp proj", 4 * c.n_embd, c.n_embd, x->depth);
    add_linear(x, "lm_head", c.n_embd, x->V, 1);
    add_attention(x, c.n_head, c.n_embd / c.n_head);
    int64_t largest = 0;
    for (size_t i = 0; i < x->n_products; i++) {
        const struct product *p = &x->products[i];
        int64_t some = p->each_alone ? 2 * x->threads : 1;
        int64_t sizes[] = {p->m * p->k, p->k * p->n, some * p->m * p->n};
        for (int j = 0; j < 3; j++)
            largest = sizes[j] > largest ? sizes[j] : largest;
    }
    float **buffers[] = {&x->a, &x->b, &x->c};
    for (int j = 0; j < 3; j++) {
        void *p;
        if (x->device->ops->alloc(x->device, &p, largest * 4, "the bench", err))
            return -err->code;
        *buffers[j] = p;
        for (int64_t i = 0; i < largest; i++)
            (*buffers[j])[i] = (float)(i % 13) * 0.1f - 0.6f;
    }
    return 0;
}

static void report(const struct bench *x)
{
    struct device_info info;
    x->device->ops->info(x->device, &info);
    double total = 0, seconds = 0;
    printf("%s, %s, %d threads\n", info.name, info.gemm, info.threads);
    if (x->with_products)
        printf("%-10s %6s %6s %6s %6s  %9s %9s\n", "product", "m", "n", "k", "count", "library",
               "split");
    for (size_t i = 0; i < x->n_products && x->with_products; i++) {
        const struct product *p = &x->products[i];
        double own = median(p->own, x->rounds), split = median(p->split, x->rounds);
        printf("%-10s %6" PRId64 " %6" PRId64 " %6" PRId64 " %6" PRId64 "  %9.1f %9.1f GFLOP/s\n",
               p->name, p->m, p->n, p->k, p->count, flops(p) / own * 1e-9, flops(p) / split * 1e-9);
        total += flops(p);
        seconds += own < split ? own : split;
    }
    double counted =
        model_config_flops_per_token(model_get_config(x->model)) * (double)(x->B * x->T);
    double step = median(x->step, x->rounds), rate = counted / step, yardstick = total / seconds;
    if (x->with_products)
        printf("FLOPs of the shapes %.3f G, of the formula %.3f G\n", total * 1e-9, counted * 1e-9);
    printf("depth %" PRId64 ", V %" PRId64 ", T %" PRId64 ", B %" PRId64
           ": step %.1f ms (forward %.1f, backward %.1f, optimizer %.1f), %.0f tok/s\n",
           x->depth, x->V, x->T, x->B, step * 1e3, median(x->fwd, x->rounds) * 1e3,
           median(x->bwd, x->rounds) * 1e3, median(x->opt, x->rounds) * 1e3,
           (double)(x->B * x->T) / step);
    if (!x->with_products)
        printf("step %.1f GFLOP/s\n", rate * 1e-9);
    else
        printf("step %.1f GFLOP/s, SGEMM %.1f GFLOP/s, ratio %.3f\n", rate * 1e-9, yardstick * 1e-9,
               rate / yardstick);
}

static bool option(const char *arg, const char *name, int64_t *value)
{
    size_t n = strlen(name);
    return !strncmp(arg, name, n) && num_parse_i64(arg + n, value);
}

int main(int argc, char **argv)
{
    static struct bench x = {
        .depth = 4, .V = 8192, .T = 512, .B = 8, .threads = 2, .rounds = 7, .with_products = 1};
    for (int i = 1; i < argc; i++) {
        if (!option(argv[i], "--depth=", &x.depth) && !option(argv[i], "--vocab=", &x.V) &&
            !option(argv[i], "--seq=", &x.T) && !option(argv[i], "--batch=", &x.B) &&
            !option(argv[i], "--threads=", &x.threads) &&
            !option(argv[i], "--rounds=", &x.rounds) &&
            !option(argv[i], "--cpu-time=", &x.cpu_time) &&
            !option(argv[i], "--products=", &x.with_products)) {
            fprintf(stderr, "bench: error: unknown option \"%s\"\n", argv[i]);
            return 2;
        }
    }
    x.rounds = x.rounds < 1 ? 1 : x.rounds > MAX_ROUNDS ? MAX_ROUNDS : x.rounds;
    struct error err = ERROR_INIT;
    if (!prepare(&x, &err)) {
        for (int64_t round = -1; round < x.rounds && !err.code; round++) {
            int64_t slot = round < 0 ? 0 : round; /* the first round warms up */
            one_step(&x, slot, &err);
            if (x.with_products)
                time_products(&x, slot);
        }
        if (!err.code)
            report(&x);
    }
    error_print(&err, "bench");
    return err.code;
}
