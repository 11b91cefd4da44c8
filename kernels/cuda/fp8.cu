#include "kernels/cuda/fp8.cuh"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

static constexpr int THREADS = 256, EACH = 16; /* elements a thread takes at once */
static constexpr int SCALES = 16384, BUFFERS = 2;
static constexpr float E4M3_MAX = 448.0f, E5M2_MAX = 57344.0f;

struct fp8_copy {
    const char *from; /* NULL: none */
    int64_t n;
    fp8_kind kind;
    struct fp8_scale *scale;
    uint8_t *data;
    int64_t capacity;
    uint64_t touched;
};

struct fp8_cast {
    int64_t in, out;
    bool fresh;
    uint8_t *straight, *transposed;
    struct fp8_scale *scale;
};

typedef std::pair<const void *, int> scale_key;

struct fp8_state {
    struct fp8_scale *scales; /* device, SCALES of them */
    std::map<scale_key, struct fp8_scale *> owners;
    std::vector<struct fp8_scale *> unused;
    int taken;
    fp8_copy copies[BUFFERS];
    uint64_t clock;
    int64_t expected;
    bool weight_gradients;
    double logits_bound;
    std::map<const void *, fp8_cast> weights;
};

static float largest(fp8_kind kind)
{
    return kind == FP8_E4M3 ? E4M3_MAX : E5M2_MAX;
}

/* ---- scales -------------------------------------------------------------------------------- */
__global__ void roll_kernel(struct fp8_scale *scales, int n)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n || scales[i].max == 0.0f)
        return;
    if (fp8_is_known(scales[i].amax)) {
        scales[i].used = fp8_aim(scales[i].max, scales[i].amax);
        scales[i].dequantise = 1.0f / scales[i].used;
    }
    scales[i].amax = 0;
}

__global__ void set_scale_kernel(struct fp8_scale *scale, float used, float max)
{
    *scale = {1.0f / used, used, 0, max};
}

int fp8_roll(struct cuda_state *s, struct error *err)
{
    const int n = s->fp8->taken;
    if (n == 0)
        return 0;
    roll_kernel<<<blocks_for(n, THREADS), THREADS, 0, s->stream>>>(s->fp8->scales, n);
    CUDA_LAUNCHED("fp8 roll", err);
}

static void drop_copies_of(struct fp8_state *f, const struct fp8_scale *scale)
{
    for (fp8_copy &c : f->copies)
        if (c.scale == scale)
            c.from = nullptr;
}

/* *fresh: it was made now, with `used` 1. */
static int find_scale(struct cuda_state *s, struct fp8_scale **out, const void *key, int role,
                      fp8_kind kind, bool *fresh, struct error *err)
{
    struct fp8_state *f = s->fp8;
    const scale_key name(key, role * 2 + kind);
    const auto known = f->owners.find(name);
    *fresh = known == f->owners.end();
    if (!*fresh) {
        *out = known->second;
        return 0;
    }
    if (!f->unused.empty()) {
        *out = f->unused.back();
        f->unused.pop_back();
    } else if (f->taken < SCALES) {
        *out = f->scales + f->taken++;
    } else {
        return error_set(err, CUDA_EXIT_DEVICE, "more than %d tensors in 8 bits", SCALES);
    }
    f->owners[name] = *out;
    set_scale_kernel<<<1, 1, 0, s->stream>>>(*out, 1.0f, largest(kind));
    CUDA_LAUNCHED("fp8 scale", err);
}

int fp8_find_scale(struct cuda_state *s, struct fp8_scale **out, const void *key, fp8_role role,
                   fp8_kind kind, struct error *err)
{
    bool fresh;
    return find_scale(s, out, key, role, kind, &fresh, err);
}

/* A hair below, for the roundings on the way to the bound. */
static float factor_below(fp8_kind kind, double bound)
{
    return (float)(0.999 * (double)largest(kind) / bound);
}

static int fixed_scale(struct cuda_state *s, struct fp8_scale **out, fp8_kind kind, double bound,
                       fp8_role role, struct error *err)
{
    union {
        double number;
        uintptr_t key; /* no address of any memory: those start with zeros */
    } name = {bound};
    bool fresh;
    if (find_scale(s, out, (const void *)name.key, role, kind, &fresh, err))
        return -err->code;
    if (!fresh)
        return 0;
    set_scale_kernel<<<1, 1, 0, s->stream>>>(*out, factor_below(kind, bound), 0.0f);
    CUDA_LAUNCHED("fp8 scale", err);
}

int fp8_logits_scale(struct cuda_state *s, struct fp8_scale **out, double bound, struct error *err)
{
    bool fresh;
    if (find_scale(s, out, nullptr, FP8_LOGITS, FP8_E5M2, &fresh, err))
        return -err->code;
    if (!fresh && s->fp8->logits_bound == bound)
        return 0;
    s->fp8->logits_bound = bound;
    set_scale_kernel<<<1, 1, 0, s->stream>>>(*out, factor_below(FP8_E5M2, bound), 0.0f);
    CUDA_LAUNCHED("fp8 scale", err);
}

/* ---- passes over bfloat16 tensors that write a copy -------------------------------------------
 */
struct as_it_is {
    const __nv_bfloat16 *x;
    __device__ void operator()(int64_t i, float *v) const
    {
        pack<__nv_bfloat16> p;
#pragma unroll
        for (int h = 0; h < EACH; h += pack<__nv_bfloat16>::n) {
            p.load(x + i + h);
#pragma unroll
            for (int j = 0; j < pack<__nv_bfloat16>::n; j++)
                v[h + j] = p.v[j];
        }
    }
};

__device__ inline void store_bf16(__nv_bfloat16 *to, const float *v)
{
    pack<__nv_bfloat16> p;
#pragma unroll
    for (int h = 0; h < EACH; h += pack<__nv_bfloat16>::n) {
#pragma unroll
        for (int j = 0; j < pack<__nv_bfloat16>::n; j++)
            p.v[j] = v[h + j];
        p.store(to + h);
    }
}

struct relu2_in_place {
    __nv_bfloat16 *h;
    __device__ void operator()(int64_t i, float *v) const
    {
        as_it_is{h}(i, v);
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const float r = v[j] > 0.0f ? v[j] : (v[j] != v[j] ? v[j] : 0.0f);
            v[j] = r * r;
        }
        store_bf16(h + i, v);
    }
};

struct relu2_backward_in_place {
    __nv_bfloat16 *dh;
    const __nv_bfloat16 *a;
    __device__ void operator()(int64_t i, float *v) const
    {
        float r[EACH];
        as_it_is{dh}(i, v);
        as_it_is{a}(i, r);
#pragma unroll
        for (int j = 0; j < EACH; j++)
            v[j] *= 2.0f * sqrtf(r[j]);
        store_bf16(dh + i, v);
    }
};

template <fp8_kind K, typename F>
__global__ void __launch_bounds__(THREADS)
    copy_kernel(F take, int64_t n, struct fp8_writer<K> writer)
{
    writer.start();
    const int64_t stride = (int64_t)gridDim.x * THREADS * EACH;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * EACH; i < n; i += stride) {
        float v[EACH];
        take(i, v);
        writer.template put<EACH>(i, v);
    }
    writer.finish();
}

/* The copy once more if its scale turned out wrong. No block reads what another one writes. */
template <fp8_kind K>
__global__ void __launch_bounds__(THREADS)
    check_kernel(const __nv_bfloat16 *x, int64_t n, struct fp8_sink sink)
{
    const float used = sink.scale->used, right = fp8_right_factor(*sink.scale);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        sink.scale->dequantise = 1.0f / right;
    /* an infinity too: who wrote the copy may have made it the largest number */
    if (used == right && sink.scale->amax < 0x7F800000u)
        return;
    struct fp8_writer<K> writer = {
        sink, right, 0
    };
    const int64_t stride = (int64_t)gridDim.x * THREADS * EACH;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * EACH; i < n; i += stride) {
        float v[EACH];
        as_it_is{x}(i, v);
        writer.template put<EACH>(i, v);
    }
}

static unsigned pass_blocks(const struct cuda_state *s, int64_t n)
{
    const unsigned most = (unsigned)s->properties.multiProcessorCount * 8;
    return std::min(blocks_for(n, THREADS * EACH), most);
}

template <fp8_kind K, typename F>
static int launch_copy(struct cuda_state *s, F take, int64_t n, const struct fp8_sink *sink,
                       struct error *err)
{
    const struct fp8_writer<K> writer = {
        *sink, 0, 0
    };
    copy_kernel<K, F><<<pass_blocks(s, n), THREADS, 0, s->stream>>>(take, n, writer);
    CUDA_LAUNCHED("fp8 copy", err);
}

int fp8_relu2(struct cuda_state *s, void *h, int64_t n, const struct fp8_sink *sink,
              struct error *err)
{
    return launch_copy<FP8_E4M3>(s, relu2_in_place{(__nv_bfloat16 *)h}, n, sink, err);
}

int fp8_relu2_backward(struct cuda_state *s, void *dh, const void *a, int64_t n,
                       const struct fp8_sink *sink, struct error *err)
{
    const relu2_backward_in_place take = {(__nv_bfloat16 *)dh, (const __nv_bfloat16 *)a};
    return launch_copy<FP8_E5M2>(s, take, n, sink, err);
}

int fp8_check(struct cuda_state *s, const struct fp8_sink *sink, const void *y, int64_t n,
              fp8_kind kind, struct error *err)
{
    const __nv_bfloat16 *x = (const __nv_bfloat16 *)y;
    const unsigned blocks = pass_blocks(s, n);
    if (kind == FP8_E4M3)
        check_kernel<FP8_E4M3><<<blocks, THREADS, 0, s->stream>>>(x, n, *sink);
    else
        check_kernel<FP8_E5M2><<<blocks, THREADS, 0, s->stream>>>(x, n, *sink);
    CUDA_LAUNCHED("fp8 check", err);
}

/* ---- copies -------------------------------------------------------------------------------- */
static bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes)
{
    const uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    return p < q + (uintptr_t)b_bytes && q < p + (uintptr_t)a_bytes;
}

void fp8_written(struct cuda_state *s, const void *p, int64_t bytes)
{
    if (!s->fp8)
        return;
    for (fp8_copy &c : s->fp8->copies)
        if (c.from && overlap(c.from, 2 * c.n, p, bytes))
            c.from = nullptr;
    for (auto &w : s->fp8->weights)
        if (overlap(w.first, 2 * w.second.in * w.second.out, p, bytes))
            w.second.fresh = false;
}

static void free_weight(struct cuda_state *s, fp8_cast *c)
{
    if (!c->straight)
        return;
    cudaFree(c->straight);
    cuda_count_bytes(s, -2 * c->in * c->out);
}

void fp8_freed(struct cuda_state *s, const void *p, int64_t bytes)
{
    struct fp8_state *f = s->fp8;
    if (!f)
        return;
    fp8_written(s, p, bytes);
    for (auto w = f->weights.begin(); w != f->weights.end();) {
        if (overlap(w->first, 1, p, bytes)) {
            free_weight(s, &w->second);
            w = f->weights.erase(w);
        } else {
            ++w;
        }
    }
    for (auto o = f->owners.begin(); o != f->owners.end();) {
        if (overlap(o->first.first, 1, p, bytes)) {
            drop_copies_of(f, o->second);
            f->unused.push_back(o->second);
            o = f->owners.erase(o);
        } else {
            ++o;
        }
    }
}

void fp8_expect(struct cuda_state *s, int64_t elements)
{
    s->fp8->expected = std::max(s->fp8->expected, elements);
}

/* The buffer that was touched longest ago, for a copy of y. */
static int take_buffer(struct cuda_state *s, fp8_copy **out, const void *y, int64_t n,
                       fp8_kind kind, struct fp8_scale *scale, struct error *err)
{
    struct fp8_state *f = s->fp8;
    fp8_copy *c = &f->copies[0];
    for (fp8_copy &other : f->copies)
        if (other.touched < c->touched)
            c = &other;
    c->from = nullptr;
    if (c->capacity < n) {
        CUDA_TRY(cudaStreamSynchronize(s->stream), err); /* the old one may be in use */
        cudaFree(c->data);
        cuda_count_bytes(s, -c->capacity);
        c->data = nullptr;
        c->capacity = 0;
        const int64_t bytes = std::max(n, f->expected);
        CUDA_TRY(cudaMalloc((void **)&c->data, (size_t)bytes), err);
        c->capacity = bytes;
        cuda_count_bytes(s, bytes);
    }
    c->from = (const char *)y;
    c->n = n;
    c->kind = kind;
    c->scale = scale;
    c->touched = ++f->clock;
    *out = c;
    return 0;
}

static int begin(struct cuda_state *s, struct fp8_sink *sink, const void *y, int64_t n,
                 fp8_kind kind, struct fp8_scale *scale, struct error *err)
{
    fp8_copy *c = nullptr;
    fp8_written(s, y, 2 * n);
    if (take_buffer(s, &c, y, n, kind, scale, err))
        return -err->code;
    *sink = {c->data, scale, false};
    return 0;
}

int fp8_begin(struct cuda_state *s, struct fp8_sink *sink, const void *y, int64_t n, fp8_kind kind,
              const void *key, fp8_role role, struct error *err)
{
    struct fp8_scale *scale;
    bool fresh;
    if (find_scale(s, &scale, key, role, kind, &fresh, err))
        return -err->code;
    return begin(s, sink, y, n, kind, scale, err);
}

int fp8_begin_bounded(struct cuda_state *s, struct fp8_sink *sink, const void *y, int64_t n,
                      fp8_kind kind, double bound, fp8_role role, struct error *err)
{
    struct fp8_scale *scale;
    if (fixed_scale(s, &scale, kind, bound, role, err))
        return -err->code;
    return begin(s, sink, y, n, kind, scale, err);
}

int fp8_operand(struct cuda_state *s, struct fp8_matrix *out, const void *x, int64_t n,
                fp8_kind kind, const void *key, fp8_role role, struct error *err)
{
    for (fp8_copy &c : s->fp8->copies) {
        if (!c.from || c.kind != kind || (const char *)x < c.from)
            continue;
        const int64_t at = ((const char *)x - c.from) / 2;
        if (at + n <= c.n && at % EACH == 0) {
            c.touched = ++s->fp8->clock;
            *out = {c.data + at, c.scale, kind};
            return 0;
        }
    }
    struct fp8_sink sink;
    const as_it_is take = {(const __nv_bfloat16 *)x};
    if (fp8_begin(s, &sink, x, n, kind, key, role, err) ||
        (kind == FP8_E4M3 ? launch_copy<FP8_E4M3>(s, take, n, &sink, err)
                          : launch_copy<FP8_E5M2>(s, take, n, &sink, err)) ||
        fp8_check(s, &sink, x, n, kind, err))
        return -err->code;
    *out = {sink.out, sink.scale, kind};
    return 0;
}

/* ---- weights ------------------------------------------------------------------------------- */
static constexpr int TILE = 64;

__global__ void weight_amax_kernel(struct fp8_scale *scale, const __nv_bfloat16 *w, int64_t n)
{
    unsigned most = 0;
    const int64_t stride = (int64_t)gridDim.x * THREADS * EACH;
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * EACH; i < n; i += stride) {
        float v[EACH];
        as_it_is{w}(i, v);
#pragma unroll
        for (int j = 0; j < EACH; j++)
            most = max(most, __float_as_uint(fabsf(v[j])));
    }
    most = __reduce_max_sync(0xFFFFFFFFu, most);
    if ((threadIdx.x & 31) == 0)
        atomicMax(&scale->amax, most);
}

/* The largest weight becomes the largest number of the format. */
__global__ void weight_scale_kernel(struct fp8_scale *scale)
{
    if (fp8_is_known(scale->amax))
        scale->used = fminf(E4M3_MAX / __uint_as_float(scale->amax), 1e30f);
    scale->dequantise = 1.0f / scale->used;
    scale->amax = 0;
}

/* A tile of w [out, in], as it is and transposed; 4 threads of 16 elements a row. */
__global__ void __launch_bounds__(THREADS)
    weight_cast_kernel(uint8_t *straight, uint8_t *transposed, const __nv_bfloat16 *w,
                       const struct fp8_scale *scale, int64_t in, int64_t out)
{
    __shared__ uint8_t tile[TILE][TILE + 4];
    const int row = (int)threadIdx.x / 4, part = (int)threadIdx.x % 4 * EACH;
    const int64_t r = (int64_t)blockIdx.y * TILE + row, c = (int64_t)blockIdx.x * TILE + part;
    if (r < out && c < in) {
        float v[EACH];
        const float factor = scale->used;
        as_it_is{w}(r * in + c, v);
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < EACH; j += 4) {
            words[j / 4] = fp8_pair<FP8_E4M3>(v[j] * factor, v[j + 1] * factor) |
                           fp8_pair<FP8_E4M3>(v[j + 2] * factor, v[j + 3] * factor) << 16;
            *reinterpret_cast<unsigned *>(&tile[row][part + j]) = words[j / 4];
        }
        *reinterpret_cast<uint4 *>(straight + r * in + c) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
    __syncthreads();
    const int64_t tr = (int64_t)blockIdx.x * TILE + row, tc = (int64_t)blockIdx.y * TILE + part;
    if (tr < in && tc < out) {
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < EACH; j += 4)
            words[j / 4] = (unsigned)tile[part + j][row] | (unsigned)tile[part + j + 1][row] << 8 |
                           (unsigned)tile[part + j + 2][row] << 16 |
                           (unsigned)tile[part + j + 3][row] << 24;
        *reinterpret_cast<uint4 *>(transposed + tr * out + tc) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
}

static int cast_weight(struct cuda_state *s, fp8_cast *c, const void *w, struct error *err)
{
    const __nv_bfloat16 *x = (const __nv_bfloat16 *)w;
    const int64_t n = c->in * c->out;
    weight_amax_kernel<<<pass_blocks(s, n), THREADS, 0, s->stream>>>(c->scale, x, n);
    weight_scale_kernel<<<1, 1, 0, s->stream>>>(c->scale);
    const dim3 grid(blocks_for(c->in, TILE), blocks_for(c->out, TILE));
    weight_cast_kernel<<<grid, THREADS, 0, s->stream>>>(c->straight, c->transposed, x, c->scale,
                                                        c->in, c->out);
    c->fresh = true;
    CUDA_LAUNCHED("fp8 weight", err);
}

/* The same memory seen with another shape starts anew. */
static int add_weight(struct cuda_state *s, fp8_cast *c, const void *w, int64_t in, int64_t out,
                      struct error *err)
{
    bool fresh;
    free_weight(s, c);
    *c = {};
    CUDA_TRY(cudaMalloc((void **)&c->straight, (size_t)(2 * in * out)), err);
    cuda_count_bytes(s, 2 * in * out);
    c->transposed = c->straight + in * out;
    c->in = in;
    c->out = out;
    if (find_scale(s, &c->scale, w, FP8_WEIGHT, FP8_E4M3, &fresh, err))
        return -err->code;
    set_scale_kernel<<<1, 1, 0, s->stream>>>(c->scale, 1.0f, 0.0f); /* not rolled */
    CUDA_LAUNCHED("fp8 weight", err);
}

int fp8_weight(struct cuda_state *s, struct fp8_matrix *out_matrix, const void *w, int64_t in,
               int64_t out, bool transposed, struct error *err)
{
    fp8_cast *c = &s->fp8->weights[w];
    if ((c->in != in || c->out != out) && add_weight(s, c, w, in, out, err))
        return -err->code;
    if (!c->fresh && cast_weight(s, c, w, err))
        return -err->code;
    *out_matrix = {transposed ? c->transposed : c->straight, c->scale, FP8_E4M3};
    return 0;
}

/* ---- life ---------------------------------------------------------------------------------- */
bool fp8_fits(int64_t rows, int64_t in, int64_t out)
{
    return rows % 16 == 0 && in % 16 == 0 && out % 16 == 0 && in >= 128 && out >= 128;
}

int fp8_open(struct cuda_state *s, bool weight_gradients, struct error *err)
{
    if (s->properties.major * 10 + s->properties.minor < 89)
        return error_set(err, CUDA_EXIT_DEVICE,
                         "%s has compute capability %d.%d, fp8 needs 8.9 or newer",
                         s->properties.name, s->properties.major, s->properties.minor);
    s->fp8 = new fp8_state();
    s->fp8->weight_gradients = weight_gradients;
    CUDA_TRY(cudaMalloc((void **)&s->fp8->scales, SCALES * sizeof(struct fp8_scale)), err);
    return 0;
}

bool fp8_weight_gradients(const struct cuda_state *s)
{
    return s->fp8->weight_gradients;
}

void fp8_close(struct cuda_state *s)
{
    struct fp8_state *f = s->fp8;
    if (!f)
        return;
    for (fp8_copy &c : f->copies)
        cudaFree(c.data);
    for (auto &w : f->weights)
        free_weight(s, &w.second);
    cudaFree(f->scales);
    delete f;
    s->fp8 = nullptr;
}
