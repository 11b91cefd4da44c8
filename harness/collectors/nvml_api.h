/* NVIDIA's management library, opened at run time: nothing of it is needed to build, and a machine
 * without a driver says so in one line.
 *
 * Only what the collector asks. Signatures, units and constants are those of NVIDIA's NVML API
 * reference; calls that older drivers lack are NULL and their facts null. */
#ifndef HARNESS_COLLECTORS_NVML_API_H
#define HARNESS_COLLECTORS_NVML_API_H

#include <stdbool.h>

/* The library's path instead of libnvidia-ml.so.1, or "off". */
#define ENV_NVML "NCBENCH_NVML"

typedef struct nvml_device *nvml_device_t;

struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

enum {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_FUNCTION_NOT_FOUND = 13
};
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_ECC_UNCORRECTED = 1 };
enum { NVML_ECC_VOLATILE = 0 };
/* Bits of why a clock is lower than it could be. */
#define NVML_REASON_IDLE 0x1ULL
#define NVML_REASON_APPLICATION_CLOCKS 0x2ULL
#define NVML_REASON_POWER_CAP 0x4ULL
#define NVML_REASON_HW_SLOWDOWN 0x8ULL
#define NVML_REASON_SYNC_BOOST 0x10ULL
#define NVML_REASON_SW_THERMAL 0x20ULL
#define NVML_REASON_HW_THERMAL 0x40ULL
#define NVML_REASON_HW_POWER_BRAKE 0x80ULL
#define NVML_REASON_DISPLAY 0x100ULL

struct nvml_api {
    void *library;
    /* always there */
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int code);
    int (*driver)(char *text, unsigned size);
    int (*count)(unsigned *n);
    int (*by_index)(unsigned i, nvml_device_t *device);
    int (*name)(nvml_device_t, char *text, unsigned size);
    int (*uuid)(nvml_device_t, char *text, unsigned size);
    /* may be NULL */
    int (*pci)(nvml_device_t, struct nvml_pci *out);
    int (*mig_mode)(nvml_device_t, unsigned *current, unsigned *pending);
    int (*power_mw)(nvml_device_t, unsigned *out);
    int (*power_limit_mw)(nvml_device_t, unsigned *out);
    int (*energy_mj)(nvml_device_t, unsigned long long *out);
    int (*clock_mhz)(nvml_device_t, int which, unsigned *out);
    int (*max_clock_mhz)(nvml_device_t, int which, unsigned *out);
    int (*temperature_c)(nvml_device_t, int sensor, unsigned *out);
    int (*reasons)(nvml_device_t, unsigned long long *bits);
    int (*ecc_errors)(nvml_device_t, int kind, int since, unsigned long long *out);
    /* *n: room in, processes out */
    int (*processes)(nvml_device_t, unsigned *n, struct nvml_process *out);
};

/* False with the reason in *why (owned by the caller): no library, switched off, init refused. */
bool nvml_open(struct nvml_api *api, char **why);
void nvml_close(struct nvml_api *api);

#endif
