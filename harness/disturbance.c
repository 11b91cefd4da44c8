#include "harness/disturbance.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_CPU_S 0.05
#define STEAL_FACTOR 3
#define LEAST_STEP_S 0.1
#define LEAST_STEP_SHARE 0.001

static double number(const json_t *node, const char *key)
{
    double x = NAN;
    json_read_f64(node, key, &x);
    return x;
}

static const json_t *node_of(const json_t *record)
{
    return json_array_get(json_at(record, "host"), 0);
}

/* Of the machine's CPU time during the trial. */
static double steal_share(const json_t *record)
{
    const json_t *node = node_of(record);
    double share = number(node, "steal_s") / (number(node, "elapsed_s") * number(node, "cpus"));
    return share >= 0 ? share : NAN;
}

/* Over the trials so far and this one. */
static double median_steal(const struct records *earlier, double own)
{
    auto_free double *x = mem_alloc((earlier->count + 1) * sizeof *x);
    size_t n = 0;
    for (size_t i = 0; i < earlier->count; i++) {
        double share = steal_share(earlier->items[i].json);
        if (isfinite(share))
            x[n++] = share;
    }
    x[n++] = own;
    return stats_median(x, n);
}

static void add(json_t *reasons, char *text)
{
    json_array_append_new(reasons, json_string(text));
    free(text);
}

/* The PUs that the ranks of this node use. */
static double rank_pus(const json_t *record)
{
    double pus = number(record, "ranks_per_node") * number(record, "threads_per_rank");
    double cpus = number(node_of(record), "cpus");
    return pus < cpus || isnan(cpus) ? pus : cpus;
}

static void judge_cpu(const struct scenario *s, const json_t *record, json_t *out, json_t *reasons)
{
    const json_t *node = node_of(record);
    double others = number(node, "others_cpu_s"), pus = rank_pus(record);
    double share = others / (number(node, "elapsed_s") * pus);
    if (!isfinite(share)) {
        const char *why = json_read_str(node, "others_cpu_s_why");
        json_put_null(out, "foreign_cpu", why ? why : "/proc/stat cannot be read");
        return;
    }
    json_put_f64(out, "foreign_cpu", share);
    if (share > s->disturbance.foreign_cpu && others >= LEAST_CPU_S)
        add(reasons, mem_printf("other processes used %.3g s of CPU time, %.3g %% of the ranks' %g "
                                "PU%s; %.3g %% are allowed",
                                others, share * 100, pus, pus == 1 ? "" : "s",
                                s->disturbance.foreign_cpu * 100));
}

static void judge_steal(const struct scenario *s, const struct records *earlier,
                        const json_t *record, json_t *out, json_t *reasons)
{
    double share = steal_share(record);
    if (!isfinite(share)) {
        json_put_null(out, "steal", "/proc/stat cannot be read");
        return;
    }
    double median = median_steal(earlier, share);
    json_put_f64(out, "steal", share);
    if (share > s->disturbance.steal && share > STEAL_FACTOR * median)
        add(reasons, mem_printf("the hypervisor took %.2g %% of the CPU time, the session's median "
                                "is %.2g %%",
                                share * 100, median * 100));
}

static void judge_clock(const json_t *record, json_t *out, json_t *reasons)
{
    double step = number(node_of(record), "clock_step_s");
    double elapsed = number(node_of(record), "elapsed_s");
    if (!isfinite(step)) {
        json_put_null(out, "clock_step_s", "not recorded");
        return;
    }
    json_put_f64(out, "clock_step_s", step);
    if (fabs(step) > LEAST_STEP_S && fabs(step) > LEAST_STEP_SHARE * elapsed)
        add(reasons, mem_printf("the wall clock was set %s by %.3g s", step > 0 ? "on" : "back",
                                fabs(step)));
}

/* Heat and power brakes; a power cap is met by every busy GPU. */
static void judge_gpu_clocks(const struct scenario *s, const json_t *gpu, json_t *reasons)
{
    static const char *const held[] = {"hw_slowdown", "hw_thermal", "hw_power_brake", "sw_thermal"};
    double share;
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        auto_free char *path = mem_printf("held_back.%s", held[i]);
        if (json_read_f64(gpu, path, &share) && share > s->disturbance.gpu_clocks)
            add(reasons, mem_printf("clocks of GPU %s were held back (%s) in %.3g %% of the "
                                    "samples; %.3g %% are allowed",
                                    json_read_str(gpu, "uuid"), held[i], share * 100,
                                    s->disturbance.gpu_clocks * 100));
    }
}

static void judge_gpus(const struct scenario *s, const json_t *record, json_t *reasons)
{
    const json_t *devices = json_at(record, "gpu_telemetry.devices"), *gpu;
    size_t i;
    json_array_foreach(devices, i, gpu)
    {
        const json_t *foreign = json_object_get(gpu, "foreign");
        if (!record_uses_gpu(record, gpu))
            continue;
        judge_gpu_clocks(s, gpu, reasons);
        /* others may have instances of the same GPU */
        if (s->disturbance.gpu_processes && json_array_size(foreign) &&
            !json_is_true(json_object_get(gpu, "mig")))
            add(reasons, mem_printf("process %lld, not of the trial, computes on GPU %s",
                                    (long long)json_integer_value(json_array_get(foreign, 0)),
                                    json_read_str(gpu, "uuid")));
    }
}

static void take_outcome(json_t *record, const json_t *reasons)
{
    const char *outcome = json_read_str(record, "outcome");
    if (!json_array_size(reasons) || !outcome || strcmp(outcome, outcome_name(OUTCOME_OK)) != 0)
        return;
    json_object_set_new(record, "outcome", json_string(outcome_name(OUTCOME_DISTURBED)));
    json_t *list = json_object_get(record, "reasons");
    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(record, "reasons", list);
    }
    json_array_extend(list, (json_t *)reasons);
}

void disturbance_judge(const struct scenario *s, const struct records *earlier, json_t *record)
{
    const char *watch = getenv(ENV_WATCH);
    if (!node_of(record)) {
        json_put_null(record, "disturbance", "nothing was observed from outside");
        return;
    }
    if (watch && !strcmp(watch, "off")) {
        json_put_null(record, "disturbance", ENV_WATCH "=off: not judged");
        return;
    }
    json_t *out = json_object(), *reasons = json_array();
    judge_cpu(s, record, out, reasons);
    judge_steal(s, earlier, record, out, reasons);
    judge_clock(record, out, reasons);
    judge_gpus(s, record, reasons);
    json_put(out, "reasons", reasons);
    json_put(record, "disturbance", out);
    take_outcome(record, reasons);
}
