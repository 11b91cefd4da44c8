/* The rank's own GPU, by its driver's word: which one it is decides with which it is compared. */
#include "kernels/kernels.h"
#include "workload/env_priv.h"

void env_gpu(json_t *group, const struct env_context *context)
{
    struct device_info info = {.uuid = ""};
    if (context->device)
        context->device->ops->info(context->device, &info);
    if (!*info.uuid) {
        json_put_null(group, "uuid", context->device ? "not on a GPU" : "no device is open");
        return;
    }
    json_put_str(group, "name", info.name);
    json_put_str(group, "uuid", info.uuid);
    json_put_str(group, "pci", info.pci);
    json_put_str(group, "driver", info.driver);
    json_put_str(group, "gemm", info.gemm);
}
