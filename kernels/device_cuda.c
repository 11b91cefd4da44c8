#include "kernels/device_cuda.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "kernels/cuda/backend.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char *library_path(void)
{
    return fs_own_library("NANOCHAT_CUDA_LIB", "nanochat-cuda.so");
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

/* What the driver compiles at run time it keeps in the user's home, which a container may not have:
 * kept with the rest of nanochat's files, every run finds it. A choice of the user's own stays. */
static void keep_compiled_kernels(void)
{
    auto_free char *base = fs_base_dir();
    auto_free char *cache = base ? mem_printf("%s/cuda-cache", base) : NULL;
    if (cache)
        setenv("CUDA_CACHE_PATH", cache, 0);
}

static bool is_of_this_build(void *library)
{
    const char *interface = (const char *)dlsym(library, CUDA_INTERFACE_SYMBOL);
    return interface && !strcmp(interface, CUDA_INTERFACE);
}

int device_cuda_tables(const char *dtype, const struct device_ops **device,
                       const struct kernel_ops **kernels, struct error *err)
{
    auto_free char *path = library_path();
    keep_compiled_kernels();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays open: its tables are in use */
    if (!library) {
        error_set(err, NANOCHAT_EXIT_DEVICE, "the CUDA back end cannot be opened: %s", dlerror());
        return error_hint(err,
                          "build it with `make CUDA=1`, or give its path in NANOCHAT_CUDA_LIB");
    }
    cuda_backend_fn *backend = (cuda_backend_fn *)dlsym(library, CUDA_BACKEND_SYMBOL);
    if (!backend)
        return error_set(err, NANOCHAT_EXIT_DEVICE, "%s is no CUDA back end of this program", path);
    if (!is_of_this_build(library)) {
        error_set(err, NANOCHAT_EXIT_DEVICE, "%s is the CUDA back end of another build", path);
        return error_hint(err, "make builds both from one source where nvcc is on PATH");
    }
    if (!backend(dtype, device, kernels))
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "dtype \"%s\" on cuda, expected bfloat16, float32, fp8 or fp8-wgrad",
                         dtype);
    return 0;
}
