/* Weight gradients on 8-bit operands: dw += dyᵀ·x, where the sum runs over the rows, so that the
 * only layout that Hopper takes wants both operands transposed. dy's transpose is made of its e5m2
 * copy, x's of the bfloat16 tensor: both live in the scratch for the length of the op.
 *
 * A block transposes a tile of 128 x 128 bytes. A thread takes 16 bytes of four neighbouring rows
 * and turns them into sixteen words of a column each. The words of a column lie in shared memory in
 * an order (exclusive or with the column's sixteenth) in which neither side meets bank conflicts.
 */
#include "kernels/cuda/fp8.cuh"

static constexpr int TILE = 128, THREADS = 256, WORDS = TILE / 4;

/* Four words of four rows into four words of four columns. */
__device__ inline void turn(unsigned *column, unsigned a, unsigned b, unsigned c, unsigned d)
{
    const unsigned ab_low = __byte_perm(a, b, 0x5140), ab_high = __byte_perm(a, b, 0x7362);
    const unsigned cd_low = __byte_perm(c, d, 0x5140), cd_high = __byte_perm(c, d, 0x7362);
    column[0] = __byte_perm(ab_low, cd_low, 0x5410);
    column[1] = __byte_perm(ab_low, cd_low, 0x7632);
    column[2] = __byte_perm(ab_high, cd_high, 0x5410);
    column[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

/* 16 bytes of a matrix that is 8-bit already. */
struct bytes_as_they_are {
    const uint8_t *data;
    __device__ void start()
    {
    }
    __device__ uint4 operator()(int64_t at)
    {
        return *reinterpret_cast<const uint4 *>(data + at);
    }
    __device__ void finish()
    {
    }
};

/* 16 bytes of a bfloat16 matrix as e4m3. */
struct bytes_rounded {
    const __nv_bfloat16 *data;
    struct fp8_scale *scale;
    float factor; /* CHECK: the right one */
    unsigned most;
    __device__ void start()
    {
        factor = scale->used;
        most = 0;
    }
    __device__ uint4 operator()(int64_t at)
    {
        unsigned words[4];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            pack<__nv_bfloat16> p;
            p.load(data + at + h * 8);
#pragma unroll
            for (int j = 0; j < 8; j++)
                most = max(most, __float_as_uint(fabsf(p.v[j])));
#pragma unroll
            for (int j = 0; j < 8; j += 4)
                words[h * 2 + j / 4] = fp8_pair<FP8_E4M3>(p.v[j] * factor, p.v[j + 1] * factor) |
                                       fp8_pair<FP8_E4M3>(p.v[j + 2] * factor, p.v[j + 3] * factor)
                                           << 16;
        }
        return make_uint4(words[0], words[1], words[2], words[3]);
    }
    __device__ void finish()
    {
        most = __reduce_max_sync(0xFFFFFFFFu, most);
        if ((threadIdx.x & 31) == 0 && most > __ldca(&scale->amax))
            atomicMax(&scale->amax, most);
    }
};

template <typename F>
__device__ inline void transpose_tile(uint8_t *out, F &take, int64_t rows, int64_t cols)
{
    __shared__ __align__(16) unsigned tile[TILE * WORDS];
    const int part = (int)threadIdx.x % 8, group = (int)threadIdx.x / 8;
    {
        const int64_t r = (int64_t)blockIdx.y * TILE + group * 4;
        const int64_t c = (int64_t)blockIdx.x * TILE + part * 16;
        if (r < rows && c < cols) {
            uint4 row[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                row[i] = take((r + i) * cols + c);
#pragma unroll
            for (int w = 0; w < 4; w++) {
                unsigned column[4];
                turn(column, (&row[0].x)[w], (&row[1].x)[w], (&row[2].x)[w], (&row[3].x)[w]);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    tile[(part * 16 + w * 4 + j) * WORDS + (group ^ (part * 4))] = column[j];
            }
        }
    }
    __syncthreads();
    const int64_t r = (int64_t)blockIdx.y * TILE + part * 16;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int column = group + i * 32;
        const int64_t c = (int64_t)blockIdx.x * TILE + column;
        if (r < rows && c < cols)
            *reinterpret_cast<uint4 *>(out + c * rows + r) = *reinterpret_cast<const uint4 *>(
                &tile[column * WORDS + ((part ^ (column / 16)) * 4)]);
    }
}

template <typename F>
__global__ void __launch_bounds__(THREADS)
    transpose_kernel(uint8_t *out, F take, int64_t rows, int64_t cols)
{
    take.start();
    transpose_tile(out, take, rows, cols);
    take.finish();
}

/* Once more where the scale was wrong, as fp8_check. */
__global__ void __launch_bounds__(THREADS)
    check_transpose_kernel(uint8_t *out, bytes_rounded take, int64_t rows, int64_t cols)
{
    const float used = take.scale->used, right = fp8_right_factor(*take.scale);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        take.scale->dequantise = 1.0f / right;
    if (used == right)
        return;
    take.factor = right;
    take.most = 0;
    transpose_tile(out, take, rows, cols);
}

static int transpose_rounded(struct cuda_state *s, struct fp8_matrix *out, uint8_t *to,
                             const void *x, int64_t rows, int64_t cols, struct error *err)
{
    struct fp8_scale *scale;
    if (fp8_find_scale(s, &scale, x, FP8_TRANSPOSED, FP8_E4M3, err))
        return -err->code;
    const bytes_rounded take = {(const __nv_bfloat16 *)x, scale, 0, 0};
    const dim3 grid(blocks_for(cols, TILE), blocks_for(rows, TILE));
    transpose_kernel<<<grid, THREADS, 0, s->stream>>>(to, take, rows, cols);
    check_transpose_kernel<<<grid, THREADS, 0, s->stream>>>(to, take, rows, cols);
    *out = {to, scale, FP8_E4M3};
    CUDA_LAUNCHED("fp8 transpose", err);
}

int fp8_weight_gradient(struct cuda_state *s, float *dw, const struct fp8_matrix *dy, const void *x,
                        int64_t rows, int64_t in, int64_t out, struct error *err)
{
    void *scratch;
    struct fp8_matrix xt = {};
    if (cuda_scratch(s, &scratch, (size_t)(rows * (in + out)), err))
        return -err->code;
    uint8_t *dyt = (uint8_t *)scratch;
    if (transpose_rounded(s, &xt, dyt + rows * out, x, rows, in, err))
        return -err->code;
    const dim3 grid(blocks_for(out, TILE), blocks_for(rows, TILE));
    transpose_kernel<<<grid, THREADS, 0, s->stream>>>(dyt, bytes_as_they_are{dy->data}, rows, out);
    CUDA_TRY(cudaGetLastError(), err);
    struct gemm g = {};
    g.m = out;
    g.n = in;
    g.k = rows;
    g.tb = true;
    g.type_ab = CUDA_R_8F_E5M2;
    g.type_y = CUDA_R_32F;
    g.alpha = g.beta = 1.0f;
    g.batch = 1;
    g.scale_a = &dy->scale->dequantise;
    g.scale_b = &xt.scale->dequantise;
    return gemm_run(s, &g, dw, dyt, xt.data, err);
}
