#include "kernels/kernels.h"

#include "common/mem.h"
#include "common/protocol.h"
#include "kernels/cpu/cpu_priv.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const struct device_ops *device;
    const struct kernel_ops *kernels;
} backends[] = {
    {&cpu_device_ops, &cpu_kernel_ops},
};

const char *const *device_types(void)
{
    static const char *const names[] = {"cpu", NULL};
    return names;
}

int device_open(struct device **out, const struct device_config *config, struct error *err)
{
    const char *type = config->type ? config->type : "cpu";
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (strcmp(backends[i].device->name, type))
            continue;
        struct device *d = mem_zalloc(1, sizeof *d);
        d->ops = backends[i].device;
        d->kernels = backends[i].kernels;
        if (d->ops->open(d, config, err)) {
            free(d);
            return -err->code;
        }
        *out = d;
        return 0;
    }
    return error_set(err, NANOCHAT_EXIT_USAGE,
                     "device type \"%s\" is not in this build, expected cpu", type);
}

void device_close(struct device *d)
{
    if (!d)
        return;
    d->ops->close(d);
    free(d);
}
