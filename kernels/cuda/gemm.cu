/* Matrix products by cuBLASLt. A plan (descriptors and algorithm) is made once for each shape and
 * kept; its algorithm is a stored one, or the fastest of the first sixteen that the heuristics
 * offer, timed on the real inputs, because their first answer costs up to a quarter more on the
 * shapes of this model.
 *
 * Row-major y = a·b is column-major yᵀ = bᵀ·aᵀ: the operands change places. */
#include "kernels/cuda/cuda_priv.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

static_assert(sizeof(cublasLtMatmulAlgo_t) <= PLAN_VALUE_MAX, "an algorithm is a plan's value");

struct gemm_plan {
    struct gemm key;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, y;
    cublasLtMatmulAlgo_t algo;
    int rank, tried;
    float ms;
};

struct gemm_cache {
    std::vector<gemm_plan> plans;
};

static constexpr size_t WORKSPACE_BYTES = (size_t)64 << 20;
static constexpr int CANDIDATES = 16;
/* in-place split-K adds with atomics: another order, other bits */
static constexpr uint32_t NO_INPLACE =
    CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_INPLACE;

static int lt_failed(struct error *err, cublasStatus_t rc, const char *what)
{
    return error_set(err, CUDA_EXIT_DEVICE, "cublasLt: %s: %s", what, cublasLtGetStatusString(rc));
}
#define LT_TRY(call, err)                                                                          \
    do {                                                                                           \
        cublasStatus_t rc_ = (call);                                                               \
        if (rc_ != CUBLAS_STATUS_SUCCESS)                                                          \
            return lt_failed(err, rc_, #call);                                                     \
    } while (0)

static bool same(const struct gemm *a, const struct gemm *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ta == b->ta && a->tb == b->tb &&
           a->type_ab == b->type_ab && a->type_y == b->type_y && (a->beta == 0) == (b->beta == 0) &&
           a->batch == b->batch && a->stride_a == b->stride_a && a->stride_b == b->stride_b &&
           a->stride_y == b->stride_y && a->fast_accumulation == b->fast_accumulation;
}

static cudaDataType_t type_b(const struct gemm *g)
{
    return g->type_ab == CUDA_R_8F_E5M2 ? CUDA_R_8F_E4M3 : g->type_ab;
}

static bool is_fp8(const struct gemm *g)
{
    return g->type_ab == CUDA_R_8F_E4M3 || g->type_ab == CUDA_R_8F_E5M2;
}

/* The first operand of the column-major product is b. */
static int set_scales(const gemm_plan *p, const struct gemm *g, struct error *err)
{
    if (!is_fp8(g))
        return 0;
    LT_TRY(cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &g->scale_b,
                                          sizeof g->scale_b),
           err);
    LT_TRY(cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &g->scale_a,
                                          sizeof g->scale_a),
           err);
    return 0;
}

static int make_layout(cublasLtMatrixLayout_t *out, cudaDataType_t type, int64_t rows, int64_t cols,
                       int batch, int64_t stride, struct error *err)
{
    /* row-major [rows, cols] is column-major [cols, rows] */
    LT_TRY(cublasLtMatrixLayoutCreate(out, type, (uint64_t)cols, (uint64_t)rows, cols), err);
    if (batch > 1) {
        int32_t count = batch;
        LT_TRY(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof count),
               err);
        LT_TRY(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &stride, sizeof stride),
               err);
    }
    return 0;
}

static int describe(gemm_plan *p, struct error *err)
{
    const struct gemm *g = &p->key;
    /* float32 operands: true float32 products, no TF32: this mode is held against the CPU */
    const cublasComputeType_t compute =
        g->type_ab == CUDA_R_32F ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
    LT_TRY(cublasLtMatmulDescCreate(&p->op, compute, CUDA_R_32F), err);
    const cublasOperation_t op_first = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_second = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    LT_TRY(cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSA, &op_first,
                                          sizeof op_first),
           err);
    LT_TRY(cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSB, &op_second,
                                          sizeof op_second),
           err);
    if (is_fp8(g)) {
        const int8_t fast = g->fast_accumulation;
        LT_TRY(cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
                                              sizeof fast),
               err);
        if (set_scales(p, g, err))
            return -err->code;
    }
    if (make_layout(&p->a, g->type_ab, g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->batch,
                    g->stride_a, err) ||
        make_layout(&p->b, type_b(g), g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->batch,
                    g->stride_b, err) ||
        make_layout(&p->y, g->type_y, g->m, g->n, g->batch, g->stride_y, err))
        return -err->code;
    return 0;
}

static cublasStatus_t multiply(struct cuda_state *s, const gemm_plan *p, float beta, void *y,
                               const void *c, const void *a, const void *b,
                               const cublasLtMatmulAlgo_t *algo)
{
    return cublasLtMatmul(s->lt, p->op, &p->key.alpha, b, p->b, a, p->a, &beta, c, p->y, y, p->y,
                          algo, s->lt_workspace, WORKSPACE_BYTES, s->stream);
}

/* Median of three runs after one that is not counted; negative if the algorithm refuses. */
static float time_algorithm(struct cuda_state *s, const gemm_plan *p, void *y, const void *a,
                            const void *b, const cublasLtMatmulAlgo_t *algo)
{
    cudaEvent_t from, to;
    float ms[3] = {-1, -1, -1};
    cudaEventCreate(&from);
    cudaEventCreate(&to);
    bool ok = multiply(s, p, p->key.beta, y, y, a, b, algo) == CUBLAS_STATUS_SUCCESS;
    for (int i = 0; ok && i < 3; i++) {
        cudaEventRecord(from, s->stream);
        ok = multiply(s, p, p->key.beta, y, y, a, b, algo) == CUBLAS_STATUS_SUCCESS;
        cudaEventRecord(to, s->stream);
        ok = ok && cudaEventSynchronize(to) == cudaSuccess;
        cudaEventElapsedTime(&ms[i], from, to);
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    std::sort(ms, ms + 3);
    return ok ? ms[1] : -1.0f;
}

static size_t output_bytes(const struct gemm *g)
{
    const size_t element = g->type_y == CUDA_R_32F ? 4 : 2;
    const int64_t last = g->batch > 1 ? (int64_t)(g->batch - 1) * g->stride_y : 0;
    return (size_t)(last + g->m * g->n) * element;
}

/* What the store knows the product by: all that `same` compares. */
static void plan_key(char key[PLAN_KEY_MAX], const struct gemm *g)
{
    snprintf(key, PLAN_KEY_MAX, "gemm %lld %lld %lld %d%d %d %d %d %d %lld %lld %lld %d",
             (long long)g->m, (long long)g->n, (long long)g->k, g->ta, g->tb, (int)g->type_ab,
             (int)g->type_y, g->beta != 0, g->batch, (long long)g->stride_a, (long long)g->stride_b,
             (long long)g->stride_y, g->fast_accumulation);
}

/* Is it an algorithm of this library for this product, within the workspace, without atomics? */
static bool usable(struct cuda_state *s, const gemm_plan *p, const cublasLtMatmulAlgo_t *algo)
{
    cublasLtMatmulHeuristicResult_t result = {};
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    size_t written = 0;
    /* kinds of algorithms without a reduction do not tell one */
    cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                         sizeof reduction, &written);
    return cublasLtMatmulAlgoCheck(s->lt, p->op, p->b, p->a, p->y, p->y, algo, &result) ==
               CUBLAS_STATUS_SUCCESS &&
           result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= WORKSPACE_BYTES &&
           !(reduction & CUBLASLT_REDUCTION_SCHEME_INPLACE);
}

static bool take_stored(struct cuda_state *s, gemm_plan *p)
{
    char key[PLAN_KEY_MAX];
    cublasLtMatmulAlgo_t algo;
    plan_key(key, &p->key);
    const struct plan *stored = plan_store_find(&s->plans, key, sizeof algo);
    if (!stored)
        return false;
    memcpy(&algo, stored->value, sizeof algo);
    if (!usable(s, p, &algo)) {
        plan_store_refuse(&s->plans, key);
        return false;
    }
    p->algo = algo;
    plan_store_take(&s->plans, key, &algo, sizeof algo, PLAN_STORED);
    return true;
}

/* Timing writes to memory of its own: the real output may be accumulated into. */
static int choose_algorithm(struct cuda_state *s, gemm_plan *p, const void *a, const void *b,
                            struct error *err)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int count = 0;
    const size_t workspace = WORKSPACE_BYTES;
    LT_TRY(cublasLtMatmulPreferenceCreate(&preference), err);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace, sizeof workspace);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                         &NO_INPLACE, sizeof NO_INPLACE);
    cublasStatus_t rc = cublasLtMatmulAlgoGetHeuristic(s->lt, p->op, p->b, p->a, p->y, p->y,
                                                       preference, CANDIDATES, found, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (rc != CUBLAS_STATUS_SUCCESS || count == 0)
        return error_set(err, CUDA_EXIT_DEVICE,
                         "cublasLt: no algorithm for a product of %lld x %lld x %lld",
                         (long long)p->key.m, (long long)p->key.n, (long long)p->key.k);
    p->algo = found[0].algo;
    void *scratch = nullptr;
    /* timing may choose otherwise next time, and another algorithm adds in another order */
    if (s->plans.mode == PLANS_FIRST || s->plans.mode == PLANS_STORED)
        return 0;
    if (2.0 * (double)p->key.m * (double)p->key.n * (double)p->key.k * p->key.batch < 1e8 ||
        cudaMalloc(&scratch, output_bytes(&p->key)) != cudaSuccess) {
        cudaGetLastError(); /* too small to matter, or no room: the first answer will do */
        return 0;
    }
    cudaMemsetAsync(scratch, 0, output_bytes(&p->key), s->stream);
    for (int i = 0; i < count; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        const float ms = time_algorithm(s, p, scratch, a, b, &found[i].algo);
        if (ms < 0)
            continue;
        p->tried++;
        if (p->tried == 1 || ms < p->ms) {
            p->ms = ms;
            p->algo = found[i].algo;
            p->rank = i;
        }
    }
    cudaFree(scratch);
    return 0;
}

static int choose(struct cuda_state *s, gemm_plan *p, const void *a, const void *b,
                  struct error *err)
{
    char key[PLAN_KEY_MAX];
    if (cuda_must_not_capture(s, "choosing an algorithm", err))
        return -err->code;
    if (take_stored(s, p))
        return 0;
    if (choose_algorithm(s, p, a, b, err))
        return -err->code;
    plan_key(key, &p->key);
    plan_store_take(&s->plans, key, &p->algo, sizeof p->algo, p->tried ? PLAN_TIMED : PLAN_FIRST);
    return 0;
}

static void destroy(gemm_plan *p)
{
    if (p->op)
        cublasLtMatmulDescDestroy(p->op);
    for (cublasLtMatrixLayout_t layout : {p->a, p->b, p->y})
        if (layout)
            cublasLtMatrixLayoutDestroy(layout);
}

static int find_plan(struct cuda_state *s, const struct gemm *g, const void *a, const void *b,
                     gemm_plan **out, struct error *err)
{
    if (!s->gemms)
        s->gemms = new gemm_cache;
    for (gemm_plan &p : s->gemms->plans)
        if (same(&p.key, g)) {
            *out = &p;
            return 0;
        }
    gemm_plan fresh = {};
    fresh.key = *g;
    if (describe(&fresh, err) || choose(s, &fresh, a, b, err)) {
        destroy(&fresh);
        return -err->code;
    }
    s->gemms->plans.push_back(fresh);
    *out = &s->gemms->plans.back();
    return 0;
}

int gemm_run(struct cuda_state *s, const struct gemm *g, void *y, const void *a, const void *b,
             struct error *err)
{
    return gemm_run_onto(s, g, y, y, a, b, err);
}

int gemm_run_onto(struct cuda_state *s, const struct gemm *g, void *y, const void *c, const void *a,
                  const void *b, struct error *err)
{
    gemm_plan *p = nullptr;
    if (find_plan(s, g, a, b, &p, err))
        return -err->code;
    if (set_scales(p, g, err))
        return -err->code;
    gemm_plan call = *p;
    call.key.alpha = g->alpha;
    LT_TRY(multiply(s, &call, g->beta, y, c, a, b, &p->algo), err);
    return 0;
}

void gemm_cache_free(struct cuda_state *s)
{
    if (!s->gemms)
        return;
    for (gemm_plan &p : s->gemms->plans)
        destroy(&p);
    delete s->gemms;
    s->gemms = nullptr;
}
