#include "harness/collectors/nvml_api.h"

#include "common/mem.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct symbol {
    size_t at; /* in struct nvml_api */
    bool needed;
    const char *names[2]; /* the newer first */
};
#define AT(field) offsetof(struct nvml_api, field)

static const struct symbol symbols[] = {
    {AT(init), true, {"nvmlInit_v2", NULL}},
    {AT(shutdown), true, {"nvmlShutdown", NULL}},
    {AT(error), true, {"nvmlErrorString", NULL}},
    {AT(driver), true, {"nvmlSystemGetDriverVersion", NULL}},
    {AT(count), true, {"nvmlDeviceGetCount_v2", NULL}},
    {AT(by_index), true, {"nvmlDeviceGetHandleByIndex_v2", NULL}},
    {AT(name), true, {"nvmlDeviceGetName", NULL}},
    {AT(uuid), true, {"nvmlDeviceGetUUID", NULL}},
    {AT(pci), false, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"}},
    {AT(mig_mode), false, {"nvmlDeviceGetMigMode", NULL}},
    {AT(power_mw), false, {"nvmlDeviceGetPowerUsage", NULL}},
    {AT(power_limit_mw), false, {"nvmlDeviceGetEnforcedPowerLimit", NULL}},
    {AT(energy_mj), false, {"nvmlDeviceGetTotalEnergyConsumption", NULL}},
    {AT(clock_mhz), false, {"nvmlDeviceGetClockInfo", NULL}},
    {AT(max_clock_mhz), false, {"nvmlDeviceGetMaxClockInfo", NULL}},
    {AT(temperature_c), false, {"nvmlDeviceGetTemperature", NULL}},
    {AT(reasons),
     false,
     {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}},
    {AT(ecc_errors), false, {"nvmlDeviceGetTotalEccErrors", NULL}},
    /* _v2 has the same layout as _v3, _v1 has not */
    {AT(processes),
     false,
     {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}},
};

static void *find(void *library, const struct symbol *s)
{
    void *p = dlsym(library, s->names[0]);
    return p || !s->names[1] ? p : dlsym(library, s->names[1]);
}

static bool resolve(struct nvml_api *api, const char *path, char **why)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = find(api->library, &symbols[i]);
        if (!p && symbols[i].needed) {
            *why = mem_printf("%s has no %s", path, symbols[i].names[0]);
            return false;
        }
        /* POSIX promises that a pointer of dlsym holds a function's address */
        memcpy((char *)api + symbols[i].at, &p, sizeof p);
    }
    return true;
}

bool nvml_open(struct nvml_api *api, char **why)
{
    const char *set = getenv(ENV_NVML), *path = set && *set ? set : "libnvidia-ml.so.1";
    *api = (struct nvml_api){0};
    if (!strcmp(path, "off")) {
        *why = mem_strdup(ENV_NVML "=off");
        return false;
    }
    api->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!api->library) {
        *why = mem_printf("no NVIDIA driver: %s", dlerror());
        return false;
    }
    int code = 0;
    if (resolve(api, path, why)) {
        if (!(code = api->init()))
            return true;
        *why = mem_printf("nvmlInit: %s", api->error(code));
    }
    dlclose(api->library);
    *api = (struct nvml_api){0};
    return false;
}

void nvml_close(struct nvml_api *api)
{
    if (!api->library)
        return;
    api->shutdown();
    dlclose(api->library);
    *api = (struct nvml_api){0};
}
