/* The CPU as a device: host memory, OpenMP threads, events by the clock. */
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "kernels/cpu/cpu_priv.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/peak.h"

#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct device_event {
    double t_s;
};

static int cpu_open(struct device *d, const struct device_config *config, struct error *err)
{
    if (config->threads < 0)
        return error_set(err, NANOCHAT_EXIT_USAGE, "%d threads, expected at least 1",
                         config->threads);
    struct cpu_state *state = mem_zalloc(1, sizeof *state);
    if (config->threads)
        omp_set_num_threads(config->threads);
    state->threads = omp_get_max_threads();
    gemm_setup();
    d->state = state;
    return 0;
}

static void cpu_close(struct device *d)
{
    free(d->state);
}

static void cpu_name(char *out, size_t size)
{
    auto_str text = STR_INIT;
    snprintf(out, size, "CPU");
    if (!fs_sys_read("/proc/cpuinfo", &text))
        return;
    const char *line = strstr(text.data, "model name");
    const char *value = line ? strchr(line, ':') : NULL;
    if (value)
        snprintf(out, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
}

static void cpu_info(struct device *d, struct device_info *out)
{
    memset(out, 0, sizeof *out);
    cpu_name(out->name, sizeof out->name);
    gemm_library(out->gemm, sizeof out->gemm);
    snprintf(out->peak_kind, sizeof out->peak_kind, "measured FMA peak of all ranks at once");
    out->dtype = "float32";
    out->threads = ((struct cpu_state *)d->state)->threads;
}

static void cpu_device_memory(struct device *d, struct device_memory *out)
{
    (void)d;
    cpu_memory(out);
}

/* Pages are touched by the threads that will use them (first touch decides the NUMA node), and now
 * rather than in the first step; huge pages where the system gives them on request. */
static int cpu_alloc(struct device *d, void **out, int64_t bytes, const char *what,
                     struct error *err)
{
    struct device_memory memory;
    cpu_device_memory(d, &memory);
    const double mib = 1024.0 * 1024.0;
    if (memory.available_bytes >= 0 && bytes > memory.available_bytes)
        return error_set(err, NANOCHAT_EXIT_OOM, "%s: %.0f MiB needed, %.0f MiB left (%s)", what,
                         (double)bytes / mib, (double)memory.available_bytes / mib, memory.limit);
    size_t size = bytes > 0 ? (size_t)bytes : 1;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return error_errno(err, NANOCHAT_EXIT_OOM, errno, "%s: cannot allocate %.0f MiB", what,
                           (double)bytes / mib);
    madvise(p, size, MADV_HUGEPAGE);
    int64_t page = sysconf(_SC_PAGESIZE);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < bytes; i += page)
        ((volatile char *)p)[i] = 0;
    *out = p;
    return 0;
}

static void cpu_free(struct device *d, void *p, int64_t bytes)
{
    (void)d;
    if (p)
        munmap(p, bytes > 0 ? (size_t)bytes : 1);
}

static int cpu_zero(struct device *d, void *p, int64_t bytes, struct error *err)
{
    (void)d, (void)err;
#pragma omp parallel
    {
        int64_t from, to;
        thread_share(bytes, 4096, &from, &to);
        memset((char *)p + from, 0, (size_t)(to - from));
    }
    return 0;
}

static int cpu_copy(struct device *d, void *dst, const void *src, int64_t bytes, struct error *err)
{
    (void)d, (void)err;
    memcpy(dst, src, (size_t)bytes);
    return 0;
}

static int cpu_sync(struct device *d, struct error *err)
{
    (void)d, (void)err;
    return 0;
}

static int cpu_event_new(struct device *d, struct device_event **out, struct error *err)
{
    (void)d, (void)err;
    *out = mem_zalloc(1, sizeof **out);
    return 0;
}

static int cpu_event_record(struct device *d, struct device_event *event, struct error *err)
{
    (void)d, (void)err;
    event->t_s = clock_mono_s();
    return 0;
}

static int cpu_event_elapsed(struct device *d, double *seconds, const struct device_event *from,
                             const struct device_event *to, struct error *err)
{
    (void)d, (void)err;
    *seconds = to->t_s - from->t_s;
    return 0;
}

static void cpu_event_free(struct device *d, struct device_event *event)
{
    (void)d;
    free(event);
}

static double cpu_measure_peak(struct device *d, double seconds)
{
    return cpu_measure_peak_flops(((struct cpu_state *)d->state)->threads, seconds);
}

const struct device_ops cpu_device_ops = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .host_memory = true,
    .info = cpu_info,
    .memory = cpu_device_memory,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .zero = cpu_zero,
    .to_device = cpu_copy,
    .to_host = cpu_copy,
    .copy = cpu_copy,
    .sync = cpu_sync,
    .event_new = cpu_event_new,
    .event_record = cpu_event_record,
    .event_elapsed = cpu_event_elapsed,
    .event_free = cpu_event_free,
    .measure_peak = cpu_measure_peak,
    .no_graphs = "the CPU queues nothing",
};

static int64_t cpu_act_bytes(int64_t n)
{
    return n * (int64_t)sizeof(float);
}

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t cpu_workspace_bytes(const struct device *d, const struct kernel_dims *dims)
{
    int threads = ((const struct cpu_state *)d->state)->threads;
    int64_t floats = cpu_attention_scratch(threads, dims->T);
    floats = max_i64(floats, cpu_head_scratch(dims->B * dims->T, dims->V));
    floats = max_i64(floats, cpu_muon_scratch(threads, dims->C, dims->C));
    floats = max_i64(floats, cpu_muon_scratch(threads, dims->KV * dims->D, dims->C));
    floats = max_i64(floats, cpu_muon_scratch(threads, dims->C, 4 * dims->C));
    floats = max_i64(floats, cpu_muon_scratch(threads, 4 * dims->C, dims->C));
    return floats * (int64_t)sizeof(float);
}

static int cpu_act_to_f32(struct device *d, float *out, const void *act, int64_t n,
                          struct error *err)
{
    return cpu_copy(d, out, act, n * (int64_t)sizeof(float), err);
}

static int cpu_act_from_f32(struct device *d, void *act, const float *in, int64_t n,
                            struct error *err)
{
    return cpu_copy(d, act, in, n * (int64_t)sizeof(float), err);
}

const struct kernel_ops cpu_kernel_ops = {
    .name = "cpu",
    .act_bytes = cpu_act_bytes,
    .workspace_bytes = cpu_workspace_bytes,
    .weight_cast = NULL,
    .act_to_f32 = cpu_act_to_f32,
    .act_from_f32 = cpu_act_from_f32,
    .embed_norm_fwd = cpu_embed_norm_fwd,
    .embed_norm_bwd = cpu_embed_norm_bwd,
    .norm_fwd = cpu_norm_fwd,
    .norm_bwd = cpu_norm_bwd,
    .linear_fwd = cpu_linear_fwd,
    .linear_relu2_fwd = cpu_linear_relu2_fwd,
    .linear_bwd_input = cpu_linear_bwd_input,
    .linear_relu2_bwd_input = cpu_linear_relu2_bwd_input,
    .linear_bwd_weight = cpu_linear_bwd_weight,
    .rope_norm_fwd = cpu_rope_norm_fwd,
    .rope_norm_bwd = cpu_rope_norm_bwd,
    .attention_fwd = cpu_attention_fwd,
    .attention_bwd = cpu_attention_bwd,
    .head_loss = cpu_head_loss,
    .head_logits = cpu_head_logits,
    .sum_squares = cpu_sum_squares,
    .adamw = cpu_adamw,
    .muon = cpu_muon,
};
