#include "kernels/device_cuda.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "kernels/cuda/backend.h"

#include <dlfcn.h>

static char *library_path(void)
{
    const char *given = getenv("NANOCHAT_CUDA_LIB");
    if (given && *given)
        return mem_strdup(given);
    auto_free char *program = fs_realpath("/proc/self/exe");
    if (!program)
        return mem_strdup("nanochat-cuda.so");
    auto_free char *folder = fs_dirname(program);
    return mem_printf("%s/../lib/nanochat-cuda.so", folder);
}

bool device_cuda_present(void)
{
    auto_free char *path = library_path();
    return fs_exists(path);
}

const struct collective_ops *device_cuda_collectives(void)
{
    auto_free char *path = library_path();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* the one that is open */
    cuda_collectives_fn *collectives =
        library ? (cuda_collectives_fn *)dlsym(library, CUDA_COLLECTIVES_SYMBOL) : NULL;
    return collectives ? collectives() : NULL;
}

int device_cuda_tables(const char *dtype, const struct device_ops **device,
                       const struct kernel_ops **kernels, struct error *err)
{
    auto_free char *path = library_path();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open: its tables are in use */
    if (!library) {
        error_set(err, NANOCHAT_EXIT_DEVICE, "the CUDA back end cannot be opened: %s", dlerror());
        return error_hint(err,
                          "build it with `make CUDA=1`, or give its path in NANOCHAT_CUDA_LIB");
    }
    cuda_backend_fn *backend = (cuda_backend_fn *)dlsym(library, CUDA_BACKEND_SYMBOL);
    if (!backend)
        return error_set(err, NANOCHAT_EXIT_DEVICE, "%s is no CUDA back end of this program", path);
    if (!backend(dtype, device, kernels))
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "dtype \"%s\" on cuda, expected bfloat16, float32, fp8 or fp8-wgrad",
                         dtype);
    return 0;
}
