/* A stand-in for NVIDIA's management library, for machines without a GPU. Scripted by environment:
 *
 *   FAKE_NVML_DEVICES=n      GPUs (2)
 *   FAKE_NVML_INIT=code      what init answers (0)
 *   FAKE_NVML_LOST_AFTER=n   power readings that succeed; later ones answer "Unknown Error"
 *   FAKE_NVML_REASONS=bits   why clocks are held back (0x4, the power cap)
 *   FAKE_NVML_PROCESS=pid    computes on GPU 1
 *   FAKE_NVML_PROCESSES=n    so many compute on GPU 1 (1, with FAKE_NVML_PROCESS)
 *   FAKE_NVML_BARE=1         no energy counter, no ECC: a small old card
 *   FAKE_NVML_HANG_AFTER=n   power readings that come back; the next one never does
 *   FAKE_NVML_LOST_END=1     the energy counter answers "Unknown Error" but for the first time
 *   FAKE_NVML_FORBIDDEN=1    clocks may not be read: "Insufficient Permissions"
 *
 * The k-th reading of the power of GPU i is 100 (i + 1) + k W; its energy is 5 J more each time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    OK = 0,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    UNKNOWN = 999
};
#define GPUS_MAX 8

struct nvml_device {
    unsigned index, readings, energies;
};
static struct nvml_device gpus[GPUS_MAX];
static long readings;

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 0) : otherwise;
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    readings = 0;
    memset(gpus, 0, sizeof gpus);
    for (unsigned i = 0; i < GPUS_MAX; i++)
        gpus[i].index = i;
    return (int)number("FAKE_NVML_INIT", OK);
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
    return OK;
}

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code)
{
    return code == 9 ? "Driver Not Loaded" : code == UNKNOWN ? "Unknown Error" : "Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    snprintf(text, size, "570.00");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = (unsigned)number("FAKE_NVML_DEVICES", 2);
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct nvml_device **out);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct nvml_device **out)
{
    if (i >= GPUS_MAX)
        return NOT_FOUND;
    *out = &gpus[i];
    return OK;
}

int nvmlDeviceGetName(struct nvml_device *d, char *text, unsigned size);
int nvmlDeviceGetName(struct nvml_device *d, char *text, unsigned size)
{
    (void)d;
    snprintf(text, size, "Fake GPU");
    return OK;
}

int nvmlDeviceGetUUID(struct nvml_device *d, char *text, unsigned size);
int nvmlDeviceGetUUID(struct nvml_device *d, char *text, unsigned size)
{
    snprintf(text, size, "GPU-0000000%u", d->index);
    return OK;
}

int nvmlDeviceGetPowerUsage(struct nvml_device *d, unsigned *milliwatts);
int nvmlDeviceGetPowerUsage(struct nvml_device *d, unsigned *milliwatts)
{
    if (readings++ >= number("FAKE_NVML_LOST_AFTER", 1L << 30))
        return UNKNOWN;
    while (readings > number("FAKE_NVML_HANG_AFTER", 1L << 30))
        pause();
    *milliwatts = 100000 * (d->index + 1) + 1000 * d->readings++;
    return OK;
}

int nvmlDeviceGetEnforcedPowerLimit(struct nvml_device *d, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(struct nvml_device *d, unsigned *milliwatts)
{
    (void)d;
    *milliwatts = 700000;
    return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(struct nvml_device *d, unsigned long long *millijoules);
int nvmlDeviceGetTotalEnergyConsumption(struct nvml_device *d, unsigned long long *millijoules)
{
    *millijoules = 5000ULL * d->energies++;
    if (d->energies > 1 && number("FAKE_NVML_LOST_END", 0))
        return UNKNOWN;
    return number("FAKE_NVML_BARE", 0) ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetClockInfo(struct nvml_device *d, int which, unsigned *mhz);
int nvmlDeviceGetClockInfo(struct nvml_device *d, int which, unsigned *mhz)
{
    (void)d;
    *mhz = which == 1 ? 1755 : 3201;
    return number("FAKE_NVML_FORBIDDEN", 0) ? NO_PERMISSION : OK;
}

int nvmlDeviceGetMaxClockInfo(struct nvml_device *d, int which, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(struct nvml_device *d, int which, unsigned *mhz)
{
    (void)d;
    *mhz = which == 1 ? 1980 : 3201;
    return OK;
}

int nvmlDeviceGetTemperature(struct nvml_device *d, int sensor, unsigned *celsius);
int nvmlDeviceGetTemperature(struct nvml_device *d, int sensor, unsigned *celsius)
{
    (void)d, (void)sensor;
    *celsius = 54;
    return OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *d, unsigned long long *bits);
int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *d, unsigned long long *bits)
{
    (void)d;
    *bits = (unsigned long long)number("FAKE_NVML_REASONS", 0x4);
    return OK;
}

int nvmlDeviceGetTotalEccErrors(struct nvml_device *d, int kind, int since,
                                unsigned long long *out);
int nvmlDeviceGetTotalEccErrors(struct nvml_device *d, int kind, int since, unsigned long long *out)
{
    (void)d, (void)kind, (void)since;
    *out = 0;
    return number("FAKE_NVML_BARE", 0) ? NOT_SUPPORTED : OK;
}

struct process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *d, unsigned *n,
                                            struct process *out);
int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *d, unsigned *n, struct process *out)
{
    unsigned room = *n;
    long pid = number("FAKE_NVML_PROCESS", 0);
    *n = pid && d->index == 1 ? (unsigned)number("FAKE_NVML_PROCESSES", 1) : 0;
    if (*n > room)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *n; i++)
        out[i] = (struct process){(unsigned)pid + i, 1 << 20, 0, 0};
    return OK;
}

struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(struct nvml_device *d, struct pci *out);
int nvmlDeviceGetPciInfo_v3(struct nvml_device *d, struct pci *out)
{
    *out = (struct pci){.bus = 0x18 + d->index};
    return OK;
}
