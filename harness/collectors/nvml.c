/* The node's GPUs around a trial: power, energy, clocks and why they were held back, temperature,
 * memory errors, and processes that are not the trial's.
 *
 * Sampled where the scenario asks (measure.gpu) or the workload runs on a GPU. The record's
 * `gpu_telemetry` is
 *
 *   status     "ok"; "lost": the driver answered at first and then failed, or no more, `lost_s`
 *              seconds after the start; "unavailable" (with its reason), also where the trial was
 *              over before the first sample; null: not asked for
 *   samples    of every device, `interval_s` apart at the least
 *   devices[]  name, uuid, pci, mig, power_w, sm_mhz, memory_mhz, temperature_c as {min, median,
 * max}, energy_j of the whole trial, power_limit_w, sm_max_mhz, held_back {reason: share of the
 * samples}, ecc_uncorrected (new ones), foreign[] (pids before the first or after the last process
 * of the trial)
 *
 * A number is of the samples that were taken: nothing is filled in after a loss. */
#include "common/mem.h"
#include "harness/collectors/collector.h"
#include "harness/collectors/nvml_sampler.h"
#include "harness/stats.h"

#include <math.h>
#include <stdlib.h>

struct state {
    double interval_s; /* 0: not wanted */
    struct nvml_sampler *sampler;
    struct nvml_telemetry seen; /* after stop */
};

static void *start(const struct collector_context *c)
{
    struct state *s = mem_zalloc(1, sizeof *s);
    s->interval_s = c->gpu_interval_s;
    s->seen.lost_s = NAN;
    if (s->interval_s > 0)
        s->sampler = nvml_sampler_start(s->interval_s);
    return s;
}

static void stop(void *state)
{
    struct state *s = state;
    if (!s->sampler)
        return;
    s->seen = nvml_sampler_stop(s->sampler);
    s->sampler = NULL;
    if (!s->seen.why && !s->seen.samples)
        s->seen.why = mem_strdup("the trial was over before the first sample");
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

static void put_series(json_t *obj, const char *key, struct series *s, const char *why)
{
    if (!s->count) {
        json_put_null(obj, key, why);
        return;
    }
    qsort(s->items, s->count, sizeof *s->items, rising);
    json_t *o = json_object();
    json_put_f64(o, "min", s->items[0]);
    json_put_f64(o, "median", stats_median(s->items, s->count));
    json_put_f64(o, "max", s->items[s->count - 1]);
    json_put(obj, key, o);
}

static void put_held_back(json_t *obj, const struct gpu_telemetry *g, const char *why)
{
    if (!g->looked_at_reasons) {
        json_put_null(obj, "held_back", why);
        return;
    }
    json_t *o = json_object();
    for (size_t i = 0; i < NVML_REASONS; i++)
        if (g->held_back[i])
            json_put_f64(o, nvml_reason_names[i],
                         (double)g->held_back[i] / (double)g->looked_at_reasons);
    json_put(obj, "held_back", o);
}

static json_t *gpu_json(const struct nvml_telemetry *t, struct gpu_telemetry *g)
{
    const char *untold = "the device does not tell";
    const char *no_sample = t->samples ? untold : "no sample was taken";
    const char *lost = isnan(t->lost_s) ? untold : "lost before the end";
    json_t *o = json_object();
    json_put_str(o, "name", g->name);
    json_put_str(o, "uuid", g->uuid);
    if (*g->pci)
        json_put_str(o, "pci", g->pci);
    else
        json_put_null(o, "pci", untold);
    json_put_bool(o, "mig", g->mig);
    put_series(o, "power_w", &g->power_w, no_sample);
    put(o, "power_limit_w", g->power_limit_w, untold);
    put(o, "energy_j", g->energy_j, lost);
    put_series(o, "sm_mhz", &g->sm_mhz, no_sample);
    put(o, "sm_max_mhz", g->sm_max_mhz, untold);
    put_series(o, "memory_mhz", &g->memory_mhz, no_sample);
    put_series(o, "temperature_c", &g->temperature_c, no_sample);
    put_held_back(o, g, no_sample);
    put(o, "ecc_uncorrected", g->ecc_uncorrected, lost);
    json_t *foreign = json_array();
    for (size_t i = 0; i < g->n_foreign; i++)
        json_array_append_new(foreign, json_integer(g->foreign[i]));
    json_put(o, "foreign", foreign);
    return o;
}

static void emit(void *state, json_t *into)
{
    struct state *s = state;
    struct nvml_telemetry *t = &s->seen;
    if (!(s->interval_s > 0)) {
        json_put_null(into, "gpu_telemetry",
                      "neither measure.gpu nor a workload on GPUs asks for it");
        return;
    }
    json_t *o = json_object();
    json_put_str(o, "status", !t->why ? "ok" : isnan(t->lost_s) ? "unavailable" : "lost");
    json_put_str(o, "reason", t->why);
    put(o, "lost_s", t->lost_s, "it was not lost");
    json_put_str(o, "driver", *t->driver ? t->driver : NULL);
    json_put_f64(o, "interval_s", s->interval_s);
    json_put_int(o, "samples", t->samples);
    json_t *devices = json_array();
    for (size_t i = 0; i < t->n_gpus; i++)
        json_array_append_new(devices, gpu_json(t, &t->gpus[i]));
    json_put(o, "devices", devices);
    json_put(into, "gpu_telemetry", o);
}

static void release(void *state)
{
    struct state *s = state;
    if (s->sampler)
        s->seen = nvml_sampler_stop(s->sampler);
    nvml_telemetry_release(&s->seen);
    free(s);
}

const struct collector_ops collector_nvml = {"nvml", start, NULL, stop, emit, release};
