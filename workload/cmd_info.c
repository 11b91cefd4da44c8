/* info: what this build is and what it finds on this machine. */
#include "common/cleanup.h"
#include "common/json.h"
#include "common/num.h"
#include "common/options.h"
#include "common/protocol.h"
#include "common/pus.h"
#include "kernels/kernels.h"
#include "workload/build.h"
#include "workload/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct info_options {
    bool json;
    char *device_type;
    double peak_time_s;
};

const struct option_spec info_option_specs[] = {
    {"json", 0, OPT_BOOL, offsetof(struct info_options, json), NULL, 0, 0, NULL,
     "print one JSON object"},
    {"device-type", 0, OPT_STRING, offsetof(struct info_options, device_type), "", 0, 0, "TYPE",
     "cpu or cuda; empty: cpu"},
    {"peak-time", 0, OPT_DURATION, offsetof(struct info_options, peak_time_s), "500ms", 0, 0, "DUR",
     "how long to measure the peak; 0s: not at all"},
    {0},
};

static void put_usable_pus(json_t *info)
{
    auto_pus usable;
    int failed = pus_usable(&usable);
    if (failed)
        json_put_null(info, "usable_pus", strerror(failed));
    else
        json_put(info, "usable_pus", pus_json(&usable));
}

static json_t *build_info(void)
{
    json_t *build = build_json();
    json_put_str(build, "version", NCBENCH_VERSION);
    json_t *devices = json_array();
    for (const char *const *type = device_types(); *type; type++)
        json_array_append_new(devices, json_string(*type));
    json_put(build, "device_types", devices);
    return build;
}

static void put_bytes(json_t *obj, const char *key, int64_t bytes)
{
    if (bytes >= 0)
        json_put_int(obj, key, bytes);
    else
        json_put_null(obj, key, "unknown");
}

static json_t *device_json(struct device *d, double peak_time_s)
{
    struct device_info info;
    struct device_memory memory;
    d->ops->info(d, &info);
    d->ops->memory(d, &memory);
    json_t *obj = json_object();
    json_put_str(obj, "type", d->ops->name);
    json_put_str(obj, "name", info.name);
    json_put_str(obj, "library", info.gemm);
    json_put_str(obj, "dtype", info.dtype);
    json_put_int(obj, "threads", info.threads);
    put_bytes(obj, "memory_total_bytes", memory.total_bytes);
    put_bytes(obj, "memory_available_bytes", memory.available_bytes);
    json_put_str(obj, "memory_limit", memory.limit);
    double peak = peak_time_s > 0 ? d->ops->measure_peak(d, peak_time_s) : -1;
    if (peak > 0)
        json_put_f64(obj, "peak_flops", peak);
    else
        json_put_null(obj, "peak_flops", peak_time_s > 0 ? info.peak_kind : "not asked for");
    json_put_str(obj, "peak_kind", info.peak_kind);
    return obj;
}

static void append_size(struct str *out, const json_t *device, const char *key)
{
    char text[32] = "unknown";
    double bytes;
    if (json_read_f64(device, key, &bytes))
        num_format_size(text, sizeof text, bytes);
    str_append(out, text);
}

static void for_people(struct str *out, const json_t *info)
{
    const json_t *device = json_at(info, "device"), *id;
    double peak;
    int64_t threads = 0;
    json_read_i64(device, "threads", &threads);
    str_appendf(out, "nanochat   %s (%s build, %s)\n", json_read_str(info, "build.version"),
                json_read_str(info, "build.config"), json_read_str(info, "build.compiler"));
    str_appendf(out, "BLAS       %s\n", json_read_str(device, "library"));
    str_appendf(out, "device     %s: %s, %s, %d threads\n", json_read_str(device, "type"),
                json_read_str(device, "name"), json_read_str(device, "dtype"), (int)threads);
    str_appendf(out, "usable PUs %zu (", json_array_size(json_at(info, "usable_pus")));
    size_t i;
    json_array_foreach(json_at(info, "usable_pus"), i, id)
        str_appendf(out, "%s%d", i ? "," : "", (int)json_integer_value(id));
    str_append(out, ")\nmemory     ");
    append_size(out, device, "memory_available_bytes");
    str_append(out, " available of ");
    append_size(out, device, "memory_total_bytes");
    str_appendf(out, " (%s)\n", json_read_str(device, "memory_limit"));
    if (json_read_f64(device, "peak_flops", &peak))
        str_appendf(out, "peak       %.4g FLOP/s (%s)\n", peak, json_read_str(device, "peak_kind"));
    else
        str_appendf(out, "peak       unknown: %s\n", json_read_str(device, "peak_flops_why"));
}

static int print_info(const struct info_options *o, struct error *err)
{
    const struct device_config config = {.type =
                                             *o->device_type ? o->device_type : device_types()[0]};
    struct device *device;
    if (device_open(&device, &config, err))
        return -err->code;
    auto_json *info = json_object();
    json_put(info, "build", build_info());
    put_usable_pus(info);
    json_put(info, "device", device_json(device, o->peak_time_s));
    device_close(device);
    auto_str out = STR_INIT;
    if (o->json) {
        json_write(&out, info, 2);
        str_append_char(&out, '\n');
    } else {
        for_people(&out, info);
    }
    if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout))
        return error_set(err, NANOCHAT_EXIT_WRITE, "cannot write standard output");
    return 0;
}

int cmd_info(int argc, char **argv)
{
    struct info_options options;
    auto_error struct error err = ERROR_INIT;
    options_defaults(info_option_specs, &options);
    if (!options_parse(info_option_specs, &options, argc, argv, NULL, &err))
        print_info(&options, &err);
    error_print(&err, "nanochat");
    options_release(info_option_specs, &options);
    return err.code;
}
