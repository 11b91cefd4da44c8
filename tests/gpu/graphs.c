/* Every graph that is given to cuDNN, planned for a described H200: no GPU is needed. The
 * heuristics answer and the kernels are compiled for sm_90; only loading them must fail, and it
 * does so in the driver. Needs a libcuda.so.1 to be there, for which the toolkit's stub will do:
 *
 *   LD_LIBRARY_PATH=DIRECTORY-OF-THE-STUB build/release/gpu/graphs
 *
 * Prints one line a graph, then "N passed, N failed". */
#include "common/error.h"
#include "kernels/cuda/gemm_relu2.h"
#include "kernels/cuda/sdpa.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char device[] =
    "{\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,\"deviceName\":\"NVIDIA H200\","
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"warpSize\":32,"
    "\"multiProcessorCount\":132,\"regsPerBlock\":65536,\"maxRegistersPerSM\":65536,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
    "\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,"
    "\"totalGlobalMem\":150754820096}";

static int passed, failed;

/* Does an H200 of that compute capability take the graph? *why: cuDNN's last words. */
static bool is_planned(struct graph *g, int capability, char why[256], struct error *err)
{
    char json[sizeof device + 8];
    snprintf(json, sizeof json, device, capability);
    cudnnGetLastErrorString(why, 256); /* of the graph before */
    if (graph_plan(g, NULL, json, 0, err))
        return false;
    cudnnGetLastErrorString(why, 256);
    return g->plan || strstr(why, "LoadData"); /* cuLibraryLoadData, cuModuleLoadData */
}

/* built: what building the graph returned. */
static void judge(const char *name, struct graph *g, int built, int capability, bool wanted,
                  struct error *err)
{
    char why[256] = "";
    const bool ok = (!built && is_planned(g, capability, why, err)) == wanted;
    printf("%s %s: engine %" PRId64 " of %" PRId64 "%s%s\n", ok ? "ok" : "not ok", name, g->engine,
           g->configs, ok ? "" : ": ",
           ok          ? ""
           : err->code ? err->message
                       : why);
    *(ok ? &passed : &failed) += 1;
    error_release(err);
    graph_release(g);
}

static void attention(int64_t B, int64_t T, int64_t H, int64_t D)
{
    for (int i = 0; i < 4; i++) {
        const bool backward = i & 1, deterministic = i & 2;
        const struct sdpa_shape shape = {B, T, H, H, D, deterministic};
        struct error err = ERROR_INIT;
        struct graph g;
        char name[96];
        snprintf(name, sizeof name, "attention %s%s, %" PRId64 " x %" PRId64 " x %" PRId64,
                 backward ? "backward" : "forward", deterministic ? ", deterministic" : "", T, H,
                 D);
        graph_init(&g);
        const int built =
            backward ? sdpa_build_backward(&g, &shape, &err) : sdpa_build_forward(&g, &shape, &err);
        judge(name, &g, built, 900, true, &err);
    }
}

static void relu2(bool fp8, bool backward, int depth, int capability)
{
    const struct gemm_relu2 shape = {backward, fp8, 65536, 256 * depth, 64 * depth};
    const bool wanted = !fp8 || capability >= 890;
    struct error err = ERROR_INIT;
    struct graph g;
    char name[96];
    snprintf(name, sizeof name, "relu2 %s in %s, d%d%s", backward ? "backward" : "forward",
             fp8 ? "8 bits" : "bfloat16", depth, wanted ? "" : ", not before Ada");
    graph_init(&g);
    judge(name, &g, gemm_relu2_build(&g, &shape, &err), capability, wanted, &err);
}

int main(void)
{
    attention(32, 2048, 10, 128);
    attention(8, 512, 4, 64);
    for (int backward = 0; backward < 2; backward++)
        for (int fp8 = 0; fp8 < 2; fp8++)
            for (int depth = 12; depth <= 20; depth += 8)
                relu2(fp8, backward, depth, 900);
    relu2(true, false, 12, 800);
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
