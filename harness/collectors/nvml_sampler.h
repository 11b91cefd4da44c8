/* A thread that asks NVML about the node's GPUs while a trial runs.
 *
 * A driver in trouble may answer with an error, late, or never. The thread alone waits for it: who
 * starts and stops the sampler waits for a stated time and no longer, so that limits and signals of
 * the trial are kept, and what came until then is kept too. A thread that never comes back is left
 * behind with its memory, and no other is started in this process. */
#ifndef HARNESS_COLLECTORS_NVML_SAMPLER_H
#define HARNESS_COLLECTORS_NVML_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest waits for the driver: until it is open, and at the end. */
#define NVML_START_S 10.0
#define NVML_STOP_S 3.0

struct series {
    double *items;
    size_t count, cap;
};

/* Why clocks are held back, as NVML says; the names are those of the record. */
enum { NVML_REASONS = 9 };
extern const char *const nvml_reason_names[NVML_REASONS];

struct gpu_telemetry {
    char name[96], uuid[96], pci[24]; /* "0000:18:00.0" */
    bool mig;                         /* cut into instances, of which others may have some */
    struct series power_w, sm_mhz, memory_mhz, temperature_c;
    int64_t held_back[NVML_REASONS], looked_at_reasons;
    double power_limit_w, sm_max_mhz; /* NaN: not told */
    double energy_j;                  /* since the start; NaN: not counted */
    double ecc_uncorrected;           /* since the start; NaN: no ECC */
    unsigned *foreign;                /* processes that were there before or after the trial */
    size_t n_foreign, cap_foreign;
};

struct nvml_telemetry {
    char *why;     /* owned; unavailable, or lost, because; NULL: all is well */
    double lost_s; /* after the start; NaN: not lost */
    int64_t samples;
    char driver[96];
    struct gpu_telemetry *gpus;
    size_t n_gpus;
};

struct nvml_sampler;

/* Opens NVML and looks at the GPUs once, before anything of the trial runs. Never NULL; what failed
 * is told by nvml_sampler_stop. */
struct nvml_sampler *nvml_sampler_start(double interval_s);
/* What was seen; nothing of the trial runs any more. The sampler is gone. */
struct nvml_telemetry nvml_sampler_stop(struct nvml_sampler *s);
void nvml_telemetry_release(struct nvml_telemetry *t);

#endif
