#include "kernels/kernels.h"

#include "common/mem.h"
#include "common/protocol.h"
#include "kernels/cpu/cpu_priv.h"
#include "kernels/device_cuda.h"

#include <stdlib.h>
#include <string.h>

typedef int tables_fn(const char *dtype, const struct device_ops **device,
                      const struct kernel_ops **kernels, struct error *err);

static int cpu_tables(const char *dtype, const struct device_ops **device,
                      const struct kernel_ops **kernels, struct error *err)
{
    if (strcmp(dtype, "float32") != 0)
        return error_set(err, NANOCHAT_EXIT_USAGE, "dtype \"%s\" on cpu, expected float32", dtype);
    *device = &cpu_device_ops;
    *kernels = &cpu_kernel_ops;
    return 0;
}

static const struct collective_ops *no_collectives(void)
{
    return NULL;
}

static bool always(void)
{
    return true;
}

static const struct {
    const char *type;
    const char *dtype; /* the default */
    bool (*present)(void);
    tables_fn *tables;
    const struct collective_ops *(*collectives)(void);
} backends[] = {
    {"cpu", "float32", always, cpu_tables, no_collectives},
    {"cuda", "bfloat16", device_cuda_present, device_cuda_tables, device_cuda_collectives},
};
#define N_BACKENDS (sizeof backends / sizeof *backends)

const char *const *device_types(void)
{
    static const char *names[N_BACKENDS + 1];
    size_t n = 0;
    for (size_t i = 0; i < N_BACKENDS; i++)
        if (backends[i].present())
            names[n++] = backends[i].type;
    names[n] = NULL;
    return names;
}

static int open_backend(struct device *d, size_t i, const struct device_config *config,
                        struct error *err)
{
    const char *dtype = config->dtype ? config->dtype : backends[i].dtype;
    if (backends[i].tables(dtype, &d->ops, &d->kernels, err))
        return -err->code;
    d->collectives = backends[i].collectives();
    return d->ops->open(d, config, err);
}

int device_open(struct device **out, const struct device_config *config, struct error *err)
{
    const char *type = config->type ? config->type : "cpu";
    for (size_t i = 0; i < N_BACKENDS; i++) {
        if (strcmp(backends[i].type, type) != 0)
            continue;
        struct device *d = mem_zalloc(1, sizeof *d);
        if (open_backend(d, i, config, err)) {
            free(d);
            return -err->code;
        }
        *out = d;
        return 0;
    }
    return error_set(err, NANOCHAT_EXIT_USAGE, "unknown device type \"%s\", expected cpu or cuda",
                     type);
}

void device_close(struct device *d)
{
    if (!d)
        return;
    d->ops->close(d);
    free(d);
}
