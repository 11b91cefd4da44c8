/* The node's GPUs around a trial: power, energy, clocks and why they were held back, temperature,
 * memory errors, and processes that are not the trial's.
 *
 * Sampled where the scenario asks (measure.gpu) or the workload runs on a GPU. The record's
 * `gpu_telemetry` is
 *
 *   status     "ok"; "lost": the driver answered at first and then failed, `lost_s` seconds after
 *              the start; "unavailable" (with its reason); null: not asked for
 *   samples    of every device, `interval_s` apart at the least
 *   devices[]  name, uuid, power_w, sm_mhz, memory_mhz, temperature_c as {min, median, max},
 *              energy_j of the whole trial, power_limit_w, sm_max_mhz, held_back {reason: share of
 *              the samples}, ecc_uncorrected (new ones), foreign[] (pids before the first or after
 *              the last process of the trial)
 *
 * A number is of the samples that were taken: nothing is filled in after a loss. */
#include "common/clock.h"
#include "common/mem.h"
#include "harness/collectors/collector.h"
#include "harness/collectors/nvml_api.h"
#include "harness/stats.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES_MAX 64

struct series {
    double *items;
    size_t count, cap;
};

/* Why a clock is held back; hardware's own reasons decide about disturbance. */
static const struct {
    unsigned long long bit;
    const char *name;
} reasons[] = {
    {NVML_REASON_IDLE, "idle"},
    {NVML_REASON_APPLICATION_CLOCKS, "application_clocks"},
    {NVML_REASON_POWER_CAP, "power_cap"},
    {NVML_REASON_HW_SLOWDOWN, "hw_slowdown"},
    {NVML_REASON_SYNC_BOOST, "sync_boost"},
    {NVML_REASON_SW_THERMAL, "sw_thermal"},
    {NVML_REASON_HW_THERMAL, "hw_thermal"},
    {NVML_REASON_HW_POWER_BRAKE, "hw_power_brake"},
    {NVML_REASON_DISPLAY, "display"},
};
#define REASONS (sizeof reasons / sizeof *reasons)

struct gpu {
    nvml_device_t device;
    char name[96], uuid[96];
    struct series power_w, sm_mhz, memory_mhz, temperature_c;
    int64_t held_back[REASONS], looked_at_reasons;
    double power_limit_w, sm_max_mhz;       /* NaN: not told */
    double energy_before_j, energy_after_j; /* NaN: not counted */
    double ecc_before, ecc_after;           /* NaN: no ECC */
    unsigned foreign[PROCESSES_MAX];
    size_t n_foreign;
};

struct telemetry {
    bool wanted;
    double interval_s, started_s, next_s;
    struct nvml_api api;
    char *why;     /* unavailable or lost, because */
    double lost_s; /* NaN: not lost */
    int64_t samples;
    char driver[96];
    struct gpu *gpus;
    unsigned n_gpus;
};

/* ---- asking -----------------------------------------------------------------------------------
 */
/* What a device does not have is no failure; anything else is: the driver is gone, or the device.
 */
static bool is_answer(int code)
{
    return code == NVML_OK || code == NVML_NOT_SUPPORTED;
}

static void push(struct series *s, int code, double value)
{
    if (code == NVML_OK)
        vec_push(s, value);
}

static double optional(int code, double value)
{
    return code == NVML_OK ? value : NAN;
}

static double energy_of(const struct nvml_api *api, const struct gpu *g)
{
    unsigned long long mj = 0;
    int code = api->energy_mj ? api->energy_mj(g->device, &mj) : NVML_NOT_SUPPORTED;
    return optional(code, (double)mj * 1e-3);
}

static double ecc_of(const struct nvml_api *api, const struct gpu *g)
{
    unsigned long long n = 0;
    int code = api->ecc_errors
                   ? api->ecc_errors(g->device, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &n)
                   : NVML_NOT_SUPPORTED;
    return optional(code, (double)n);
}

static double power_limit_of(const struct nvml_api *api, const struct gpu *g)
{
    unsigned mw = 0;
    int code = api->power_limit_mw ? api->power_limit_mw(g->device, &mw) : NVML_NOT_SUPPORTED;
    return optional(code, mw * 1e-3);
}

static double sm_max_of(const struct nvml_api *api, const struct gpu *g)
{
    unsigned mhz = 0;
    int code = api->max_clock_mhz ? api->max_clock_mhz(g->device, NVML_CLOCK_SM, &mhz)
                                  : NVML_NOT_SUPPORTED;
    return optional(code, mhz);
}

/* Nothing of a trial runs now: whoever is there is somebody else. */
static void look_for_others(const struct nvml_api *api, struct gpu *g)
{
    struct nvml_process found[PROCESSES_MAX];
    unsigned n = PROCESSES_MAX;
    int code = api->processes ? api->processes(g->device, &n, found) : NVML_NOT_SUPPORTED;
    if (code != NVML_OK && code != NVML_INSUFFICIENT_SIZE)
        return;
    for (unsigned i = 0; i < n && i < PROCESSES_MAX; i++) {
        bool known = false;
        for (size_t k = 0; k < g->n_foreign; k++)
            known = known || g->foreign[k] == found[i].pid;
        if (!known && g->n_foreign < PROCESSES_MAX)
            g->foreign[g->n_foreign++] = found[i].pid;
    }
}

static int sample_reasons(const struct nvml_api *api, struct gpu *g)
{
    unsigned long long bits = 0;
    int code = api->reasons ? api->reasons(g->device, &bits) : NVML_NOT_SUPPORTED;
    if (code != NVML_OK)
        return code;
    g->looked_at_reasons++;
    for (size_t i = 0; i < REASONS; i++)
        g->held_back[i] += (bits & reasons[i].bit) != 0;
    return NVML_OK;
}

/* NVML's code of the first question that got no answer. */
static int sample(const struct nvml_api *api, struct gpu *g)
{
    unsigned power = 0, sm = 0, memory = 0, temperature = 0;
    const int codes[] = {
        api->power_mw ? api->power_mw(g->device, &power) : NVML_NOT_SUPPORTED,
        api->clock_mhz ? api->clock_mhz(g->device, NVML_CLOCK_SM, &sm) : NVML_NOT_SUPPORTED,
        api->clock_mhz ? api->clock_mhz(g->device, NVML_CLOCK_MEM, &memory) : NVML_NOT_SUPPORTED,
        api->temperature_c ? api->temperature_c(g->device, NVML_TEMPERATURE_GPU, &temperature)
                           : NVML_NOT_SUPPORTED,
        sample_reasons(api, g),
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!is_answer(codes[i]))
            return codes[i];
    push(&g->power_w, codes[0], power * 1e-3);
    push(&g->sm_mhz, codes[1], sm);
    push(&g->memory_mhz, codes[2], memory);
    push(&g->temperature_c, codes[3], temperature);
    return NVML_OK;
}

static void sample_all(struct telemetry *t)
{
    const double now = clock_mono_s();
    for (unsigned i = 0; i < t->n_gpus; i++) {
        int code = sample(&t->api, &t->gpus[i]);
        if (is_answer(code))
            continue;
        t->lost_s = now - t->started_s;
        t->why = mem_printf("%s: %s", t->gpus[i].uuid, t->api.error(code));
        return;
    }
    t->samples++;
    t->next_s = now + t->interval_s;
}

/* ---- the hooks of a collector ------------------------------------------------------------------
 */
static int open_gpu(const struct nvml_api *api, unsigned i, struct gpu *g)
{
    int code = api->by_index(i, &g->device);
    if (!code)
        code = api->name(g->device, g->name, sizeof g->name);
    if (!code)
        code = api->uuid(g->device, g->uuid, sizeof g->uuid);
    if (code)
        return code;
    g->power_limit_w = power_limit_of(api, g);
    g->sm_max_mhz = sm_max_of(api, g);
    g->energy_before_j = energy_of(api, g);
    g->ecc_before = ecc_of(api, g);
    g->energy_after_j = g->ecc_after = NAN;
    look_for_others(api, g);
    return NVML_OK;
}

static void open_gpus(struct telemetry *t)
{
    int code = t->api.driver(t->driver, sizeof t->driver);
    unsigned n = 0;
    if (!code)
        code = t->api.count(&n);
    if (!code && n == 0) {
        t->why = mem_strdup("the driver sees no GPU");
        return;
    }
    t->gpus = mem_zalloc(n + 1, sizeof *t->gpus);
    for (unsigned i = 0; !code && i < n; i++)
        code = open_gpu(&t->api, i, &t->gpus[i]);
    if (code)
        t->why = mem_printf("NVML: %s", t->api.error(code));
    else
        t->n_gpus = n;
}

static void *start(const struct collector_context *c)
{
    struct telemetry *t = mem_zalloc(1, sizeof *t);
    t->wanted = c->gpu_interval_s > 0;
    t->interval_s = c->gpu_interval_s;
    t->lost_s = NAN;
    t->started_s = t->next_s = clock_mono_s();
    if (t->wanted && nvml_open(&t->api, &t->why))
        open_gpus(t);
    return t;
}

static void tick(void *state, const struct processes *processes)
{
    struct telemetry *t = state;
    (void)processes;
    if (t->n_gpus && !t->why && clock_mono_s() >= t->next_s)
        sample_all(t);
}

static void stop(void *state)
{
    struct telemetry *t = state;
    for (unsigned i = 0; i < t->n_gpus && !t->why; i++) {
        struct gpu *g = &t->gpus[i];
        g->energy_after_j = energy_of(&t->api, g);
        g->ecc_after = ecc_of(&t->api, g);
        look_for_others(&t->api, g);
    }
}

/* ---- the record ---------------------------------------------------------------------------------
 */
static void put(json_t *obj, const char *key, double value, const char *why)
{
    if (isfinite(value))
        json_put_f64(obj, key, value);
    else
        json_put_null(obj, key, why);
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void put_series(json_t *obj, const char *key, struct series *s)
{
    if (!s->count) {
        json_put_null(obj, key, "the device does not tell");
        return;
    }
    qsort(s->items, s->count, sizeof *s->items, rising);
    json_t *o = json_object();
    json_put_f64(o, "min", s->items[0]);
    json_put_f64(o, "median", stats_median(s->items, s->count));
    json_put_f64(o, "max", s->items[s->count - 1]);
    json_put(obj, key, o);
}

static void put_held_back(json_t *obj, const struct gpu *g)
{
    if (!g->looked_at_reasons) {
        json_put_null(obj, "held_back", "the device does not tell");
        return;
    }
    json_t *o = json_object();
    for (size_t i = 0; i < REASONS; i++)
        if (g->held_back[i])
            json_put_f64(o, reasons[i].name,
                         (double)g->held_back[i] / (double)g->looked_at_reasons);
    json_put(obj, "held_back", o);
}

static json_t *gpu_json(const struct telemetry *t, struct gpu *g)
{
    json_t *o = json_object();
    json_put_str(o, "name", g->name);
    json_put_str(o, "uuid", g->uuid);
    put_series(o, "power_w", &g->power_w);
    put(o, "power_limit_w", g->power_limit_w, "the device does not tell");
    put(o, "energy_j", g->energy_after_j - g->energy_before_j,
        isnan(t->lost_s) ? "the device does not count it" : "lost before the end");
    put_series(o, "sm_mhz", &g->sm_mhz);
    put(o, "sm_max_mhz", g->sm_max_mhz, "the device does not tell");
    put_series(o, "memory_mhz", &g->memory_mhz);
    put_series(o, "temperature_c", &g->temperature_c);
    put_held_back(o, g);
    put(o, "ecc_uncorrected", g->ecc_after - g->ecc_before,
        isnan(t->lost_s) ? "ECC is off or not told" : "lost before the end");
    json_t *foreign = json_array();
    for (size_t i = 0; i < g->n_foreign; i++)
        json_array_append_new(foreign, json_integer(g->foreign[i]));
    json_put(o, "foreign", foreign);
    return o;
}

static void emit(void *state, json_t *into)
{
    struct telemetry *t = state;
    if (!t->wanted) {
        json_put_null(into, "gpu_telemetry",
                      "neither measure.gpu nor a workload on GPUs asks for it");
        return;
    }
    json_t *o = json_object();
    json_put_str(o, "status", !t->why ? "ok" : isnan(t->lost_s) ? "unavailable" : "lost");
    json_put_str(o, "reason", t->why);
    put(o, "lost_s", t->lost_s, "it was not lost");
    json_put_str(o, "driver", *t->driver ? t->driver : NULL);
    json_put_f64(o, "interval_s", t->interval_s);
    json_put_int(o, "samples", t->samples);
    json_t *devices = json_array();
    for (unsigned i = 0; i < t->n_gpus; i++)
        json_array_append_new(devices, gpu_json(t, &t->gpus[i]));
    json_put(o, "devices", devices);
    json_put(into, "gpu_telemetry", o);
}

static void release(void *state)
{
    struct telemetry *t = state;
    for (unsigned i = 0; i < t->n_gpus; i++) {
        struct gpu *g = &t->gpus[i];
        free(g->power_w.items);
        free(g->sm_mhz.items);
        free(g->memory_mhz.items);
        free(g->temperature_c.items);
    }
    nvml_close(&t->api);
    free(t->gpus);
    free(t->why);
    free(t);
}

const struct collector_ops collector_nvml = {"nvml", start, tick, stop, emit, release};
