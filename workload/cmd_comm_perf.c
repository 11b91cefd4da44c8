/* nanochat comm-perf: how fast the collectives are, alone. */
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/agree.h"
#include "workload/comm_perf.h"
#include "workload/verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct comm_perf_options {
    char *device_type, *op, *comm;
    int64_t min_bytes, max_bytes, factor, iterations, warmup, threads;
    bool check, json, nccl_profile;
    double comm_timeout_s, least_busbw, most_busbw; /* GB/s; 0: no bound */
};

#define OPTION(name, letter, type, field, ...)                                                     \
    {                                                                                              \
        name, letter, type, offsetof(struct comm_perf_options, field), __VA_ARGS__                 \
    }
const struct option_spec comm_perf_option_specs[] = {
    OPTION("op", 0, OPT_CHOICE, op, "all", 0, 0,
           "all|all_reduce|reduce_scatter|all_gather|broadcast", "which collective"),
    OPTION("min-bytes", 'b', OPT_SIZE, min_bytes, "1KiB", 0, 0, NULL, "smallest size"),
    OPTION("max-bytes", 'e', OPT_SIZE, max_bytes, "16MiB", 0, 0, NULL, "largest size"),
    OPTION("factor", 'f', OPT_INT, factor, "2", 2, 1 << 20, "N", "from one size to the next"),
    OPTION("iterations", 'n', OPT_INT, iterations, "20", 1, 100000, "N", "timed calls of a size"),
    OPTION("warmup", 'w', OPT_INT, warmup, "5", 0, 100000, "N", "calls before them"),
    OPTION("check", 'c', OPT_BOOL, check, "true", 0, 0, NULL,
           "compare all elements before and after the timed calls"),
    OPTION("json", 'J', OPT_BOOL, json, "false", 0, 0, NULL,
           "one JSON document instead of a table"),
    OPTION("device-type", 0, OPT_STRING, device_type, "", 0, 0, "TYPE", "cpu or cuda; empty: cpu"),
    OPTION("threads", 0, OPT_INT, threads, "0", 0, 1 << 16, "N",
           "threads of a rank; 0: OMP_NUM_THREADS, else a rank's share of the usable CPUs"),
    OPTION("comm", 0, OPT_CHOICE, comm, "auto", 0, 0, "auto|shm|tcp|mpi",
           "how ranks talk on the CPU: shared memory of one node, TCP, or MPI"),
    OPTION("nccl-profile", 0, OPT_BOOL, nccl_profile, "false", 0, 0, NULL,
           "NCCL (2.27.3 or newer) is profiled; it slows the run: not for comparisons"),
    OPTION("comm-timeout", 0, OPT_DURATION, comm_timeout_s, "60s", 0, 0, "DUR",
           "how long a rank waits for another one in a collective"),
    OPTION("least-busbw", 0, OPT_FLOAT, least_busbw, "0", 0, 1e9, "GB/S",
           "end with 4 where the largest size has less on the bus, in GB/s: a gate before timing; "
           "0: no bound"),
    OPTION("most-busbw", 0, OPT_FLOAT, most_busbw, "0", 0, 1e9, "GB/S",
           "end with 4 where it has more: then it did not cross the network that was meant"),
    {0},
};

static int check_options(const struct comm_perf_options *o, struct error *err)
{
    if (o->min_bytes < 4 || o->min_bytes % 4)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "option --min-bytes: %" PRId64 " bytes, expected a positive multiple of 4 "
                         "(float32)",
                         o->min_bytes);
    if (o->max_bytes < o->min_bytes)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "option --max-bytes: %" PRId64 " bytes, expected at least --min-bytes "
                         "(%" PRId64 ")",
                         o->max_bytes, o->min_bytes);
    if (o->most_busbw > 0 && o->most_busbw < o->least_busbw)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "option --most-busbw: %g GB/s, expected at least --least-busbw (%g)",
                         o->most_busbw, o->least_busbw);
    return 0;
}

/* Is the largest size within the band? All ranks come to the same answer: times are agreed. */
static int check_band(const struct comm_perf_options *o, const struct comm_perf_result *r,
                      struct error *err)
{
    const bool asked = o->least_busbw > 0 || o->most_busbw > 0;
    const double got = r->busbw_gb_s;
    auto_str band = STR_INIT;
    if (o->least_busbw > 0)
        str_appendf(&band, "at least %g", o->least_busbw);
    if (o->most_busbw > 0)
        str_appendf(&band, "%sat most %g", band.len ? " and " : "", o->most_busbw);
    if (!asked || (got >= o->least_busbw && !(o->most_busbw > 0 && got > o->most_busbw)))
        return 0;
    if (!isfinite(got))
        return error_set(err, NANOCHAT_EXIT_PLAN, "one rank has no bus: start several");
    error_set(err, NANOCHAT_EXIT_DEVICE,
              "%s of %" PRId64 " bytes: %.2f GB/s on the bus, expected %s", comm_perf_names[r->op],
              r->bytes, got, band.data);
    return error_hint(err, got < o->least_busbw
                               ? "which network was used? NCCL_DEBUG=INFO tells; is a link down?"
                               : "are the ranks on the nodes that were meant?");
}

/* ---- output ---------------------------------------------------------------------------------- */

static void put_us(json_t *obj, const char *key, double value)
{
    json_put_f64(obj, key, round(value * 1e3) / 1e3); /* the grain of the clocks */
}

static json_t *result_json(const struct comm_perf_result *r)
{
    const char *redop = comm_perf_redop(r->op);
    json_t *o = json_object();
    json_put_str(o, "op", comm_perf_names[r->op]);
    json_put_int(o, "bytes", r->bytes);
    json_put_int(o, "count", r->count);
    json_put_str(o, "type", "float32");
    json_put(o, "redop", redop ? json_string(redop) : json_null());
    json_put(o, "root", r->op == PERF_BROADCAST ? json_integer(0) : json_null());
    json_put_bool(o, "in_place", true);
    put_us(o, "time_us", r->time_us);
    put_us(o, "min_us", r->min_us);
    put_us(o, "p50_us", r->p50_us);
    put_us(o, "p95_us", r->p95_us);
    put_us(o, "p99_us", r->p99_us);
    put_us(o, "max_us", r->max_us);
    put_us(o, "transfer_us", r->transfer_us);
    put_us(o, "skew_us", r->skew_us);
    if (isfinite(r->algbw_gb_s))
        json_put_f64(o, "algbw_gb_s", r->algbw_gb_s);
    else
        json_put_null(o, "algbw_gb_s", "no measurable time");
    if (isfinite(r->busbw_gb_s))
        json_put_f64(o, "busbw_gb_s", r->busbw_gb_s);
    else
        json_put_null(o, "busbw_gb_s",
                      isfinite(r->algbw_gb_s) ? "one rank has no bus" : "no measurable time");
    if (r->wrong >= 0)
        json_put_int(o, "wrong", r->wrong);
    else
        json_put_null(o, "wrong", "not checked (--check=false)");
    return o;
}

static int print_head(struct run *run, const struct comm_perf_options *o, struct error *err)
{
    if (o->json)
        return 0;
    return run_print(run, err,
                     "# %s, %d ranks, %" PRId64 " calls after %" PRId64 " of warm-up, in place; GB "
                     "= 10^9 bytes\n"
                     "# %-14s %12s %12s %8s %6s %5s %11s %9s %9s %7s\n"
                     "# %-14s %12s %12s %8s %6s %5s %11s %9s %9s %7s\n",
                     comm_backend(run->comm), comm_world(run->comm), o->iterations, o->warmup, "op",
                     "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
                     "", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "");
}

static void number(char out[static 16], double value)
{
    if (isfinite(value))
        snprintf(out, 16, "%.2f", value);
    else
        snprintf(out, 16, "n/a");
}

static int print_row(struct run *run, const struct comm_perf_result *r, struct error *err)
{
    char algbw[16], busbw[16], wrong[24] = "n/a";
    const char *redop = comm_perf_redop(r->op);
    number(algbw, r->algbw_gb_s);
    number(busbw, r->busbw_gb_s);
    if (r->wrong >= 0)
        snprintf(wrong, sizeof wrong, "%" PRId64, r->wrong);
    return run_print(run, err,
                     "  %-14s %12" PRId64 " %12" PRId64 " %8s %6s %5s %11.2f %9s %9s %7s\n",
                     comm_perf_names[r->op], r->bytes, r->count, "float32", redop ? redop : "none",
                     r->op == PERF_BROADCAST ? "0" : "-1", r->time_us, algbw, busbw, wrong);
}

static json_t *document(struct run *run, const struct comm_perf_options *o, json_t *results)
{
    struct device_info info;
    run->device->ops->info(run->device, &info);
    json_t *doc = json_object();
    json_put_str(doc, "schema", "comm-perf/1.0");
    json_put_str(doc, "device", run->device->ops->name);
    json_put_str(doc, "device_name", info.name);
    json_put_int(doc, "world", comm_world(run->comm));
    json_put(doc, "comm", comm_describe(run->comm));
    json_put_int(doc, "iterations", o->iterations);
    json_put_int(doc, "warmup", o->warmup);
    json_put(doc, "results", results);
    return doc;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static bool wanted(const struct comm_perf_options *o, enum comm_perf_op op)
{
    return !strcmp(o->op, "all") || !strcmp(o->op, comm_perf_names[op]);
}

/* One op over all sizes; *wrong: elements that were; *last: of the largest size. */
static int sweep(struct run *run, struct comm_perf *p, const struct comm_perf_options *o,
                 enum comm_perf_op op, json_t *results, int64_t *wrong,
                 struct comm_perf_result *last, struct error *err)
{
    struct comm_perf_result r = {0};
    for (int64_t bytes = o->min_bytes; bytes <= o->max_bytes; bytes *= o->factor) {
        if (comm_perf_run(p, op, bytes, &r, err) || events_flush(run->events, err))
            return -err->code;
        *wrong += r.wrong > 0 ? r.wrong : 0;
        json_array_append_new(results, result_json(&r));
        if (!o->json && print_row(run, &r, err))
            return -err->code;
        if (bytes > INT64_MAX / o->factor)
            break;
    }
    *last = r;
    return 0;
}

static int measure(struct run *run, struct comm_perf *p, const struct comm_perf_options *o,
                   struct error *err)
{
    json_t *results = json_array();
    int64_t wrong = 0;
    struct comm_perf_result last[PERF_N] = {0};
    auto_json *doc = document(run, o, results);
    if (print_head(run, o, err))
        return -err->code;
    for (int op = 0; op < PERF_N; op++)
        if (wanted(o, (enum comm_perf_op)op) &&
            sweep(run, p, o, (enum comm_perf_op)op, results, &wrong, &last[op], err))
            return -err->code;
    auto_str text = STR_INIT;
    json_write(&text, doc, 2);
    if (o->json && run_print(run, err, "%s\n", text.data))
        return -err->code;
    if (wrong)
        return error_set(err, NANOCHAT_EXIT_NUMERIC, "%" PRId64 " elements came out wrong", wrong);
    for (int op = 0; op < PERF_N; op++)
        if (wanted(o, (enum comm_perf_op)op) && check_band(o, &last[op], err))
            return -err->code;
    return 0;
}

static int comm_perf_verb(struct run *run, const struct comm_perf_options *o, struct error *err)
{
    const struct run_config config = {.device_type = o->device_type,
                                      .threads = (int)o->threads,
                                      .comm = o->comm,
                                      .nccl_profile = o->nccl_profile,
                                      .comm_timeout_s = o->comm_timeout_s};
    struct comm_perf *p = NULL;
    if (check_options(o, err) || run_connect(run, &config, err))
        return -err->code;
    comm_perf_create(&p, run, o->max_bytes, o->iterations, o->warmup, o->check, err);
    if (!agree(run->comm, "making the buffers", err))
        measure(run, p, o, err);
    run_teardown(run);
    comm_perf_free(p);
    return -err->code;
}

int cmd_comm_perf(int argc, char **argv)
{
    struct run run;
    struct comm_perf_options options;
    struct error err = ERROR_INIT;
    options_defaults(comm_perf_option_specs, &options);
    if (!run_begin(&run, argc, argv, &err) &&
        !options_parse(comm_perf_option_specs, &options, argc, argv, NULL, &err))
        comm_perf_verb(&run, &options, &err);
    int code = run_end(&run, &err);
    options_release(comm_perf_option_specs, &options);
    error_release(&err);
    return code;
}
