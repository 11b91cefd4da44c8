/* The device: one GPU, one stream, memory, events; and the op tables. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/cuda_priv.h"
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/linear.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/optimizer.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/cuda/stream.h"

extern "C" {
#include "common/log.h"
#include "kernels/cuda/backend.h"
#include "kernels/peaks.h"
}

#include <cstdio>
#include <cstdlib>
#include <cstring>

static constexpr size_t LT_WORKSPACE_BYTES = (size_t)64 << 20;

int cuda_failed(struct error *err, cudaError_t rc, const char *what)
{
    const int code = rc == cudaErrorMemoryAllocation ? CUDA_EXIT_OOM : CUDA_EXIT_DEVICE;
    return error_set(err, code, "CUDA: %s: %s", what, cudaGetErrorString(rc));
}

void cuda_count_bytes(struct cuda_state *s, int64_t bytes)
{
    s->used_bytes += bytes;
    if (s->used_bytes > s->peak_bytes)
        s->peak_bytes = s->used_bytes;
}

int cuda_must_not_capture(const struct cuda_state *s, const char *what, struct error *err)
{
    return s->graph_mode == GRAPH_NONE
               ? 0
               : error_set(err, CUDA_EXIT_DEVICE, "%s is no work of a graph", what);
}

int cuda_scratch(struct cuda_state *s, void **out, size_t bytes, struct error *err)
{
    if (bytes > s->scratch_bytes) {
        if (cuda_must_not_capture(s, "growing the scratch", err))
            return -err->code;
        /* kernels in flight may still use the old one */
        CUDA_TRY(cudaStreamSynchronize(s->stream), err);
        cudaFree(s->scratch);
        cuda_count_bytes(s, -(int64_t)s->scratch_bytes);
        s->scratch_moves++;
        s->scratch = nullptr;
        s->scratch_bytes = 0;
        CUDA_TRY(cudaMalloc(&s->scratch, bytes), err);
        s->scratch_bytes = bytes;
        cuda_count_bytes(s, (int64_t)bytes);
    }
    *out = s->scratch;
    return 0;
}

cudaStream_t cuda_device_stream(struct device *d)
{
    return cuda_state_of(d)->stream;
}

/* ---- life ---------------------------------------------------------------------------------- */
static void close_state(struct cuda_state *s)
{
    if (s->stream)
        cudaStreamSynchronize(s->stream);
    gemm_cache_free(s);
    fp8_close(s);
#ifdef HAVE_CUDNN
    cudnn_caches_free(s);
    if (s->dnn)
        cudnnDestroy(s->dnn);
#endif
    if (s->lt)
        cublasLtDestroy(s->lt);
    cudaFree(s->lt_workspace);
    cudaFree(s->scratch);
    cudaFreeHost(s->host_scalar);
    cudaFree(s->arguments);
    cudaFreeHost(s->host_arguments);
    for (int i = 0; i < STAGING_SLOTS; i++) {
        cudaFreeHost(s->staging[i]);
        if (s->slot_free[i])
            cudaEventDestroy(s->slot_free[i]);
    }
    if (s->stream)
        cudaStreamDestroy(s->stream);
    plan_store_close(&s->plans);
    delete s;
}

static int open_libraries(struct cuda_state *s, struct error *err)
{
    if (cublasLtCreate(&s->lt) != CUBLAS_STATUS_SUCCESS)
        return error_set(err, CUDA_EXIT_DEVICE, "cublasLt cannot be opened");
    CUDA_TRY(cudaMalloc(&s->lt_workspace, LT_WORKSPACE_BYTES), err);
    cuda_count_bytes(s, (int64_t)LT_WORKSPACE_BYTES);
#ifdef HAVE_CUDNN
    if (cudnnCreate(&s->dnn) != CUDNN_STATUS_SUCCESS)
        return error_set(err, CUDA_EXIT_DEVICE, "cuDNN cannot be opened");
    if (cudnnSetStream(s->dnn, s->stream) != CUDNN_STATUS_SUCCESS)
        return error_set(err, CUDA_EXIT_DEVICE, "cuDNN takes no stream");
#endif
    return 0;
}

static int open_state(struct cuda_state *s, const struct device_config *config, struct error *err)
{
    int count = 0;
    cudaError_t rc = cudaGetDeviceCount(&count);
    if (rc != cudaSuccess || count == 0)
        return error_set(err, CUDA_EXIT_DEVICE, "no CUDA device: %s",
                         rc != cudaSuccess ? cudaGetErrorString(rc) : "none is visible");
    if (config->index >= count)
        return error_set(err, CUDA_EXIT_DEVICE,
                         "local rank %d wants a GPU of its own, but only %d are visible",
                         config->index, count);
    s->index = config->index;
    CUDA_TRY(cudaSetDevice(s->index), err);
    CUDA_TRY(cudaGetDeviceProperties(&s->properties, s->index), err);
    if (s->properties.major < 8)
        return error_set(err, CUDA_EXIT_DEVICE,
                         "%s has compute capability %d.%d, expected 8.0 or newer (bfloat16)",
                         s->properties.name, s->properties.major, s->properties.minor);
    CUDA_TRY(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), err);
    CUDA_TRY(cudaMallocHost((void **)&s->host_scalar, 64), err);
    CUDA_TRY(cudaMalloc((void **)&s->arguments, ARGUMENT_SLOTS * ARGUMENT_BYTES), err);
    cuda_count_bytes(s, ARGUMENT_SLOTS * ARGUMENT_BYTES);
    CUDA_TRY(cudaMallocHost((void **)&s->host_arguments, ARGUMENT_SLOTS * ARGUMENT_BYTES), err);
    for (int i = 0; i < STAGING_SLOTS; i++) {
        CUDA_TRY(cudaMallocHost(&s->staging[i], STAGING_BYTES), err);
        CUDA_TRY(cudaEventCreateWithFlags(&s->slot_free[i], cudaEventDisableTiming), err);
    }
    return open_libraries(s, err);
}

/* What a stored plan depends on. The driver's compiler takes part in run-time compiled kernels. */
static void open_plans(struct cuda_state *s, const struct device_config *config)
{
    char identity[PLAN_KEY_MAX];
    int driver = 0;
    cudaDriverGetVersion(&driver);
    int n = snprintf(identity, sizeof identity, "%.64s-sm%d%d-%dx-cuda%d-cublaslt%zu",
                     s->properties.name, s->properties.major, s->properties.minor,
                     s->properties.multiProcessorCount, driver, cublasLtGetVersion());
#ifdef HAVE_CUDNN
    snprintf(identity + n, sizeof identity - (size_t)n, "-cudnn%zu", cudnnGetVersion());
#else
    (void)n;
#endif
    const bool repeat = config->deterministic && config->plans != PLANS_STORED;
    plan_store_open(&s->plans, identity, repeat ? PLANS_FIRST : config->plans);
}

static int cuda_open(struct device *d, const struct device_config *config, struct error *err)
{
    struct cuda_state *s = new cuda_state();
    s->own_attention = config->own_attention;
    s->deterministic = config->deterministic;
    log_init("nanochat", LOG_INFO);
    if (open_state(s, config, err)) {
        close_state(s);
        return -err->code;
    }
    open_plans(s, config);
    d->state = s;
    return 0;
}

static int open_fp8(struct device *d, const struct device_config *config, struct error *err)
{
    if (cuda_open(d, config, err))
        return -err->code;
    if (!fp8_open(cuda_state_of(d), !strcmp(config->dtype, "fp8-wgrad"), err))
        return 0;
    close_state(cuda_state_of(d));
    d->state = nullptr;
    return -err->code;
}

static void cuda_close(struct device *d)
{
    close_state(cuda_state_of(d));
    d->state = nullptr;
}

static void describe_identity(const struct cuda_state *s, struct device_info *out)
{
    const unsigned char *u = (const unsigned char *)s->properties.uuid.bytes;
    snprintf(out->uuid, sizeof out->uuid,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
    snprintf(out->pci, sizeof out->pci, "%04x:%02x:%02x.0", s->properties.pciDomainID & 0xffff,
             s->properties.pciBusID & 0xff, s->properties.pciDeviceID & 0xff);
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d (driver), %d.%d (runtime)", driver / 1000,
             driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

static void describe(struct device *d, struct device_info *out, const char *dtype)
{
    struct cuda_state *s = cuda_state_of(d);
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%.127s", s->properties.name);
    int n = snprintf(out->gemm, sizeof out->gemm, "cublasLt %zu", cublasLtGetVersion());
#ifdef HAVE_CUDNN
    snprintf(out->gemm + n, sizeof out->gemm - (size_t)n, ", cuDNN %zu", cudnnGetVersion());
#else
    snprintf(out->gemm + n, sizeof out->gemm - (size_t)n, ", no cuDNN");
#endif
    const char *row;
    if (!strcmp(dtype, "float32"))
        snprintf(out->peak_kind, sizeof out->peak_kind, "no peak is known for %s products", dtype);
    else if (peak_bf16_flops(s->properties.name, &row) > 0)
        snprintf(out->peak_kind, sizeof out->peak_kind,
                 "dense bfloat16 peak of \"%s\" from its data sheet%s", row,
                 strncmp(dtype, "fp8", 3) ? "" : ", though products are fp8");
    else
        snprintf(out->peak_kind, sizeof out->peak_kind,
                 "the table of peaks does not know this GPU");
    out->dtype = dtype;
    out->threads = 1;
    describe_identity(s, out);
}
static void info_bf16(struct device *d, struct device_info *out)
{
    describe(d, out, "bfloat16");
}
static void info_fp8(struct device *d, struct device_info *out)
{
    describe(d, out, "fp8");
}
static void info_fp8_wgrad(struct device *d, struct device_info *out)
{
    describe(d, out, "fp8-wgrad");
}
static void info_f32(struct device *d, struct device_info *out)
{
    describe(d, out, "float32");
}

static void cuda_memory(struct device *d, struct device_memory *out)
{
    size_t available = 0, total = 0;
    memset(out, 0, sizeof *out);
    out->total_bytes = out->available_bytes = -1;
    out->peak_bytes = cuda_state_of(d)->peak_bytes;
    if (cudaMemGetInfo(&available, &total) == cudaSuccess) {
        out->total_bytes = (int64_t)total;
        out->available_bytes = (int64_t)available;
    }
    snprintf(out->limit, sizeof out->limit, "the GPU's memory");
    out->own = true; /* a rank that finds none is refused in open_state */
}

/* ---- memory and events ----------------------------------------------------------------------- */
static int cuda_alloc(struct device *d, void **out, int64_t bytes, const char *what,
                      struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    cudaError_t rc = cudaMalloc(out, (size_t)bytes);
    if (rc != cudaSuccess) {
        cudaGetLastError();
        return error_set(err, CUDA_EXIT_OOM, "%s: cannot allocate %.1f MiB on the GPU", what,
                         (double)bytes / 1048576.0);
    }
    cuda_count_bytes(s, bytes);
    CUDA_TRY(cudaMemsetAsync(*out, 0, (size_t)bytes, s->stream), err);
    return 0;
}

static void cuda_free(struct device *d, void *p, int64_t bytes)
{
    cuda_count_bytes(cuda_state_of(d), -bytes);
    fp8_freed(cuda_state_of(d), p, bytes);
    cudaFree(p);
}

static int cuda_zero(struct device *d, void *p, int64_t bytes, struct error *err)
{
    fp8_written(cuda_state_of(d), p, bytes);
    CUDA_TRY(cudaMemsetAsync(p, 0, (size_t)bytes, cuda_state_of(d)->stream), err);
    return 0;
}

/* From pageable memory the driver would wait for the stream before it copies; a pinned slot lets
 * the host go on. A slot is free again when the copy out of it is done. */
static int cuda_to_device(struct device *d, void *dst, const void *src, int64_t bytes,
                          struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    fp8_written(s, dst, bytes);
    if (bytes > (int64_t)STAGING_BYTES) {
        CUDA_TRY(cudaMemcpyAsync(dst, src, (size_t)bytes, cudaMemcpyHostToDevice, s->stream), err);
        return 0;
    }
    const int slot = s->next_slot;
    s->next_slot = (slot + 1) % STAGING_SLOTS;
    CUDA_TRY(cudaEventSynchronize(s->slot_free[slot]), err);
    memcpy(s->staging[slot], src, (size_t)bytes);
    CUDA_TRY(
        cudaMemcpyAsync(dst, s->staging[slot], (size_t)bytes, cudaMemcpyHostToDevice, s->stream),
        err);
    CUDA_TRY(cudaEventRecord(s->slot_free[slot], s->stream), err);
    return 0;
}

static int cuda_to_host(struct device *d, void *dst, const void *src, int64_t bytes,
                        struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    CUDA_TRY(cudaMemcpyAsync(dst, src, (size_t)bytes, cudaMemcpyDeviceToHost, s->stream), err);
    CUDA_TRY(cudaStreamSynchronize(s->stream), err);
    return 0;
}

static int cuda_copy(struct device *d, void *dst, const void *src, int64_t bytes, struct error *err)
{
    fp8_written(cuda_state_of(d), dst, bytes);
    CUDA_TRY(cudaMemcpyAsync(dst, src, (size_t)bytes, cudaMemcpyDeviceToDevice,
                             cuda_state_of(d)->stream),
             err);
    return 0;
}

static int cuda_sync(struct device *d, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    CUDA_TRY(cudaStreamSynchronize(s->stream), err);
    s->other_arguments = 0; /* all have been copied */
    return 0;
}

/* ---- graphs -----------------------------------------------------------------------------------
 */
struct device_graph {
    cudaGraphExec_t exec;
    int64_t scratch_moves; /* at its making */
};

int cuda_arguments(struct cuda_state *s, const void **out, const void *values, size_t bytes,
                   struct error *err)
{
    const int half = ARGUMENT_SLOTS / 2;
    const bool graph = s->graph_mode != GRAPH_NONE;
    if (bytes > ARGUMENT_BYTES || (graph && s->graph_arguments == half))
        return error_set(err, CUDA_EXIT_DEVICE, "more than %d ops with numbers in a graph", half);
    if (!graph && s->other_arguments == half) {
        CUDA_TRY(cudaStreamSynchronize(s->stream), err);
        s->other_arguments = 0;
    }
    const int slot = graph ? s->graph_arguments++ : half + s->other_arguments++;
    char *host = s->host_arguments + slot * ARGUMENT_BYTES;
    char *device = s->arguments + slot * ARGUMENT_BYTES;
    memcpy(host, values, bytes);
    *out = device;
    if (s->graph_mode != GRAPH_RENEWS)
        CUDA_TRY(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, s->stream), err);
    return 0;
}

static int cuda_graph_begin(struct device *d, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    CUDA_TRY(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal), err);
    s->graph_mode = GRAPH_CAPTURES;
    s->graph_arguments = 0;
    return 0;
}

static int instantiate(struct cuda_state *s, cudaGraph_t captured, struct device_graph **out,
                       struct error *err)
{
    cudaGraphExec_t exec;
    CUDA_TRY(cudaGraphInstantiateWithFlags(&exec, captured, 0), err);
    *out = new device_graph{exec, s->scratch_moves};
    CUDA_TRY(cudaGraphUpload(exec, s->stream), err);
    return 0;
}

static void cuda_graph_free(struct device *d, struct device_graph *graph)
{
    if (!graph)
        return;
    cudaStreamSynchronize(cuda_state_of(d)->stream);
    cudaGraphExecDestroy(graph->exec);
    delete graph;
}

static int cuda_graph_end(struct device *d, struct device_graph **out, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    cudaGraph_t captured = nullptr;
    *out = nullptr;
    s->graph_mode = GRAPH_NONE;
    const cudaError_t rc = cudaStreamEndCapture(s->stream, &captured);
    if (rc != cudaSuccess || !captured) {
        cudaGetLastError(); /* a capture that broke is no error of the work to come */
        return cuda_failed(err, rc != cudaSuccess ? rc : cudaErrorUnknown, "capturing a graph");
    }
    if (instantiate(s, captured, out, err)) {
        cudaGetLastError();
        cuda_graph_free(d, *out);
        *out = nullptr;
    }
    cudaGraphDestroy(captured);
    return -err->code;
}

static int cuda_graph_launch(struct device *d, struct device_graph *graph, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    if (graph->scratch_moves != s->scratch_moves)
        return 1;
    CUDA_TRY(cudaGraphLaunch(graph->exec, s->stream), err);
    return 0;
}

static int cuda_graph_renew(struct device *d, bool on, struct error *err)
{
    struct cuda_state *s = cuda_state_of(d);
    s->graph_mode = on ? GRAPH_RENEWS : GRAPH_NONE;
    s->graph_arguments = 0;
    if (on) /* the last launch may still have to read the numbers */
        CUDA_TRY(cudaStreamSynchronize(s->stream), err);
    return 0;
}

struct device_event {
    cudaEvent_t event;
};

static int cuda_event_new(struct device *d, struct device_event **out, struct error *err)
{
    (void)d;
    cudaEvent_t event;
    CUDA_TRY(cudaEventCreate(&event), err);
    *out = new device_event{event};
    return 0;
}

static int cuda_event_record(struct device *d, struct device_event *event, struct error *err)
{
    CUDA_TRY(cudaEventRecord(event->event, cuda_state_of(d)->stream), err);
    return 0;
}

static int cuda_event_elapsed(struct device *d, double *seconds, const struct device_event *from,
                              const struct device_event *to, struct error *err)
{
    float ms = 0;
    (void)d;
    CUDA_TRY(cudaEventSynchronize(to->event), err);
    CUDA_TRY(cudaEventElapsedTime(&ms, from->event, to->event), err);
    *seconds = (double)ms * 1e-3;
    return 0;
}

static void cuda_event_free(struct device *d, struct device_event *event)
{
    (void)d;
    if (event)
        cudaEventDestroy(event->event);
    delete event;
}

static double measure_peak_bf16(struct device *d, double seconds)
{
    const char *row;
    (void)seconds;
    return peak_bf16_flops(cuda_state_of(d)->properties.name, &row);
}
static double measure_peak_f32(struct device *d, double seconds)
{
    (void)d;
    (void)seconds;
    return -1;
}

static struct plan_store *cuda_plans(struct device *d)
{
    return &cuda_state_of(d)->plans;
}

/* ---- activations ------------------------------------------------------------------------------
 */
template <typename T> static int64_t act_bytes(int64_t n)
{
    return n * (int64_t)sizeof(T);
}

template <typename Out, typename In>
__global__ void convert_kernel(Out *out, const In *in, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        out[i] = from_float<Out>(to_float(in[i]));
}
template <typename T>
static int act_to_f32(struct device *d, float *out, const void *act, int64_t n, struct error *err)
{
    convert_kernel<float, T>
        <<<blocks_for(n, 256), 256, 0, cuda_state_of(d)->stream>>>(out, (const T *)act, n);
    CUDA_LAUNCHED("act_to_f32", err);
}
template <typename T>
static int act_from_f32(struct device *d, void *act, const float *in, int64_t n, struct error *err)
{
    fp8_written(cuda_state_of(d), act, act_bytes<T>(n));
    convert_kernel<T, float>
        <<<blocks_for(n, 256), 256, 0, cuda_state_of(d)->stream>>>((T *)act, in, n);
    CUDA_LAUNCHED("act_from_f32", err);
}

template <typename T>
static int64_t workspace_bytes(const struct device *d, const struct kernel_dims *dims)
{
    const int64_t logits =
        head_chunk_rows(dims->B * dims->T, dims->V) * dims->V * (int64_t)sizeof(T);
    const int64_t one_row = dims->V * (int64_t)sizeof(float);
    const int64_t muon = cuda_muon_item_bytes(dims->C, 4 * dims->C, false);
    int64_t most = logits > muon ? logits : muon;
    most = most > one_row ? most : one_row;
    ((struct cuda_state *)d->state)->workspace_bytes = most;
    return most;
}

template <typename T> static constexpr struct kernel_ops make_ops(const char *name, bool cast)
{
    struct kernel_ops k = {};
    k.name = name;
    k.act_bytes = act_bytes<T>;
    k.workspace_bytes = workspace_bytes<T>;
    k.weight_cast = cast ? cuda_weight_cast : nullptr;
    k.act_to_f32 = act_to_f32<T>;
    k.act_from_f32 = act_from_f32<T>;
    k.embed_norm_fwd = norm_ops<T>::embed_norm_fwd;
    k.embed_norm_bwd = norm_ops<T>::embed_norm_bwd;
    k.norm_fwd = norm_ops<T>::norm_fwd;
    k.norm_bwd = norm_ops<T>::norm_bwd;
    k.linear_fwd = linear_ops<T>::fwd;
    k.linear_relu2_fwd = linear_ops<T>::relu2_fwd;
    k.linear_bwd_input = linear_ops<T>::bwd_input;
    k.linear_relu2_bwd_input = linear_ops<T>::relu2_bwd_input;
    k.linear_bwd_weight = linear_ops<T>::bwd_weight;
    k.rope_norm_fwd = rope_ops<T>::rope_norm_fwd;
    k.rope_norm_bwd = rope_ops<T>::rope_norm_bwd;
    k.attention_fwd = attention_ops<T>::fwd;
    k.attention_bwd = attention_ops<T>::bwd;
    k.head_loss = head_ops<T>::loss;
    k.head_logits = head_ops<T>::logits;
    k.sum_squares = cuda_sum_squares;
    k.adamw = cuda_adamw;
    k.muon = cuda_muon;
    return k;
}

static struct kernel_ops make_fp8_ops()
{
    struct kernel_ops k = make_ops<__nv_bfloat16>("cuda fp8", true);
    fp8_fill_ops(&k);
    return k;
}

static constexpr struct device_ops
make_device(int (*open)(struct device *, const struct device_config *, struct error *),
            void (*info)(struct device *, struct device_info *),
            double (*peak)(struct device *, double), const char *no_graphs)
{
    struct device_ops o = {};
    o.name = "cuda";
    o.open = open;
    o.close = cuda_close;
    o.info = info;
    o.memory = cuda_memory;
    o.alloc = cuda_alloc;
    o.free = cuda_free;
    o.zero = cuda_zero;
    o.to_device = cuda_to_device;
    o.to_host = cuda_to_host;
    o.copy = cuda_copy;
    o.sync = cuda_sync;
    o.event_new = cuda_event_new;
    o.event_record = cuda_event_record;
    o.event_elapsed = cuda_event_elapsed;
    o.event_free = cuda_event_free;
    o.measure_peak = peak;
    o.plans = cuda_plans;
    o.no_graphs = no_graphs;
    if (no_graphs)
        return o;
    o.graph_begin = cuda_graph_begin;
    o.graph_end = cuda_graph_end;
    o.graph_launch = cuda_graph_launch;
    o.graph_renew = cuda_graph_renew;
    o.graph_free = cuda_graph_free;
    return o;
}

static const char FP8_NO_GRAPHS[] = "with products in 8 bits the host decides what is computed";

static const struct {
    const char *dtype;
    struct device_ops device;
    struct kernel_ops kernels;
} backends[] = {
    {"bfloat16", make_device(cuda_open, info_bf16, measure_peak_bf16, nullptr),
     make_ops<__nv_bfloat16>("cuda bfloat16", true)},
    {"float32", make_device(cuda_open, info_f32, measure_peak_f32, nullptr),
     make_ops<float>("cuda float32", false)},
    {"fp8", make_device(open_fp8, info_fp8, measure_peak_bf16, FP8_NO_GRAPHS), make_fp8_ops()},
    {"fp8-wgrad", make_device(open_fp8, info_fp8_wgrad, measure_peak_bf16, FP8_NO_GRAPHS),
     make_fp8_ops()},
};

extern "C" {
extern __attribute__((visibility("default"))) const char nanochat_cuda_interface[];
const char nanochat_cuda_interface[] = CUDA_INTERFACE;
}

extern "C" __attribute__((visibility("default"))) bool
nanochat_cuda_backend(const char *dtype, const struct device_ops **device,
                      const struct kernel_ops **kernels)
{
    for (const auto &b : backends) {
        if (strcmp(b.dtype, dtype) != 0)
            continue;
        *device = &b.device;
        *kernels = &b.kernels;
        return true;
    }
    return false;
}
