/* What the events say about time: phases, steps, collectives. */
#include "common/busbw.h"
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/nccl_log.h"
#include "harness/record.h"
#include "harness/stats.h"
#include "harness/trial_record_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- phases ------------------------------------------------------------------------------------
 */
/* The first instruction of the first rank: its own stamp at the entry of main. */
static double first_hello_s(const struct trial_facts *f)
{
    double first = NAN;
    for (size_t i = 0; i < f->events.count; i++) {
        double t = NAN;
        if (!json_read_f64(f->events.items[i].hello, "entry_s", &t))
            json_read_f64(f->events.items[i].hello, "t_s", &t);
        if (isfinite(t) && !(first <= t))
            first = t;
    }
    return first;
}

/* Sum of a phase's parts, of the rank that took longest; NaN: no rank ended one. */
static double phase_s(const struct trial_facts *f, const char *name)
{
    double longest = NAN;
    for (size_t i = 0; i < f->events.count; i++) {
        const struct phase_event *p = rank_events_phase(&f->events.items[i], name);
        if (p && (p->total_s > 0 || isfinite(p->end_s)) && !(longest >= p->total_s))
            longest = p->total_s;
    }
    return longest;
}

/* Where the last rank began to end: its teardown, else its last step's end. */
static double work_end_s(const struct trial_facts *f)
{
    double last = NAN;
    for (size_t i = 0; i < f->events.count; i++) {
        const struct rank_events *e = &f->events.items[i];
        const struct phase_event *p = rank_events_phase(e, PHASE_TEARDOWN);
        double t = p                ? p->begin_s
                   : e->steps.count ? e->steps.items[e->steps.count - 1].t_end_s
                                    : NAN;
        if (isfinite(t) && !(last >= t))
            last = t;
    }
    return last;
}

/* first_step as the workload tells it, else the first step of the slowest rank. */
static double first_step_s(const struct trial_facts *f)
{
    double longest = phase_s(f, PHASE_FIRST_STEP);
    for (size_t i = 0; i < f->events.count && !(longest >= 0); i++) {
        const struct rank_events *e = &f->events.items[i];
        if (e->steps.count && !(longest >= e->steps.items[0].t_end_s - e->steps.items[0].t_start_s))
            longest = e->steps.items[0].t_end_s - e->steps.items[0].t_start_s;
    }
    return longest;
}

void trial_record_phases(const struct trial_facts *f, json_t *record)
{
    static const char *const told[] = {PHASE_EXEC,     PHASE_DEVICE_INIT, PHASE_COMM_INIT,
                                       PHASE_EVIDENCE, PHASE_DATA_INIT,   PHASE_MODEL_INIT,
                                       PHASE_PEAK};
    const char *silent = f->events.count ? "did not happen" : "the workload wrote no events";
    json_t *p = json_object();
    json_put_null(p, "import", "images are imported outside of trials");
    put_number(p, "create", f->create_s, "this runtime has no create step of its own");
    put_number(p, "start", first_hello_s(f) - f->spawn_s,
               f->events.count ? "no rank said hello" : "the workload writes no events");
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        put_number(p, told[i], phase_s(f, told[i]), silent);
    put_number(p, "first_step", first_step_s(f), silent);
    json_put_null(p, "warmup", "no such steps");
    json_put_null(p, "steady", "no such steps");
    put_number(p, PHASE_EVAL, phase_s(f, PHASE_EVAL), silent);
    put_number(p, PHASE_CHECKPOINT, phase_s(f, PHASE_CHECKPOINT), silent);
    put_number(p, PHASE_TEARDOWN, f->reap_s - work_end_s(f), silent);
    put_number(p, "cleanup", f->end_s - (isfinite(f->reap_s) ? f->reap_s : f->end_s),
               "nothing was started");
    json_put(record, "phases_s", p);
}

/* exec lies within start (spawn to main), so it is no part of the sum. */
void trial_record_unaccounted(const struct trial_facts *f, json_t *record)
{
    json_t *p = json_object_get(record, "phases_s");
    const char *key;
    json_t *value;
    double total = f->end_s - f->origin_s, known = 0;
    json_object_foreach(p, key, value) if (json_is_number(value) && strcmp(key, PHASE_EXEC) != 0)
        known += json_number_value(value);
    put_number(p, "total", total, "unknown");
    put_number(p, "unaccounted", total - known, "unknown");
}

/* ---- steps -------------------------------------------------------------------------------------
 */
struct series {
    double *max_s, *skew_s, *tokens, *loss;
    size_t count;
};

static const struct step_event *find_step(const struct rank_events *e, int64_t step, size_t *from)
{
    while (*from < e->steps.count && e->steps.items[*from].step < step)
        (*from)++;
    return *from < e->steps.count && e->steps.items[*from].step == step ? &e->steps.items[*from]
                                                                        : NULL;
}

/* Steps that every rank made, as durations: between ranks clocks are not subtracted. */
static void make_series(const struct trial_facts *f, struct series *s)
{
    const struct trial_events *t = &f->events;
    size_t n = t->count ? t->items[0].steps.count : 0;
    auto_free size_t *from = mem_zalloc(t->count + 1, sizeof *from);
    *s = (struct series){mem_zalloc(n + 1, sizeof(double)), mem_zalloc(n + 1, sizeof(double)),
                         mem_zalloc(n + 1, sizeof(double)), mem_zalloc(n + 1, sizeof(double)), 0};
    for (size_t i = 0; i < n; i++) {
        const struct step_event *first = &t->items[0].steps.items[i];
        double slowest = first->t_end_s - first->t_start_s, fastest = slowest;
        bool everywhere = true;
        for (size_t r = 1; r < t->count && everywhere; r++) {
            const struct step_event *e = find_step(&t->items[r], first->step, &from[r]);
            everywhere = e != NULL;
            double d = e ? e->t_end_s - e->t_start_s : slowest;
            slowest = d > slowest ? d : slowest;
            fastest = d < fastest ? d : fastest;
        }
        if (!everywhere)
            continue;
        s->max_s[s->count] = slowest;
        s->skew_s[s->count] = slowest - fastest;
        s->tokens[s->count] = first->tokens;
        s->loss[s->count++] = first->loss;
    }
}

static void series_release(struct series *s)
{
    free(s->max_s);
    free(s->skew_s);
    free(s->tokens);
    free(s->loss);
}

static json_t *array_of(const double *x, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, json_real(x[i]));
    return array;
}

static void put_warmup(const struct trial_facts *f, const struct series *s, json_t *train,
                       json_t *record)
{
    int64_t fixed = f->context->scenario->sampling.warmup_steps, own = fixed < 1 ? 1 : fixed;
    int64_t detected = -1;
    if (f->context->scenario->sampling.warmup_detect) {
        detected = warmup_detect(s->max_s, s->count);
        if (detected < 0 && s->count)
            json_array_append_new(json_object_get(record, "flags"), json_string("not_steady"));
    }
    json_put_int(train, "warmup_own", detected > own ? detected : own);
    json_put_str(train, "warmup_method", detected > own ? "detected" : "fixed");
}

/* A number of rank 0's config event, null with the workload's own reason where it has one. */
static void put_config(const struct trial_facts *f, json_t *train, const char *key)
{
    const json_t *config = f->events.count ? f->events.items[0].config : NULL;
    double value = NAN;
    char why_key[64];
    json_read_f64(config, key, &value);
    snprintf(why_key, sizeof why_key, "%s_why", key);
    const char *why = json_read_str(config, why_key);
    put_number(train, key, value, why ? why : "the workload did not say");
}

/* Of one component of the steps of rank 0: mean seconds over all steps but the first. */
static double mean_part(const struct trial_facts *f, size_t offset)
{
    const struct rank_events *e = &f->events.items[0];
    double total = 0;
    size_t n = 0;
    for (size_t i = 1; i < e->steps.count; i++) {
        double v = *(const double *)((const char *)&e->steps.items[i] + offset);
        total += isfinite(v) ? v : 0;
        n += isfinite(v);
    }
    return n ? total / (double)n : NAN;
}

/* Which algorithms computed the products, one hash over all ranks'. Where each run chooses anew, by
 * timing, that is the experiment's own noise and no hash is comparable. */
static void put_algorithms(const struct trial_facts *f, json_t *train)
{
    auto_str all = STR_INIT;
    for (size_t i = 0; i < f->events.count; i++) {
        const json_t *plans = json_at(f->events.items[i].summary, "gemm_plans");
        const char *mode = json_read_str(plans, "mode"), *sha = json_read_str(plans, "sha256");
        if (mode && !strcmp(mode, "time")) {
            json_put_null(train, "gemm_plans_sha256", "chosen by timing in each run");
            return;
        }
        if (sha)
            str_appendf(&all, "%s\n", sha);
    }
    char hex[SHA256_HEX];
    if (!all.len) {
        json_put_null(train, "gemm_plans_sha256", "the device chooses no algorithms");
        return;
    }
    sha256_hex(all.data, all.len, hex);
    json_put_str(train, "gemm_plans_sha256", hex);
}

static void put_graphs(const struct trial_facts *f, json_t *train)
{
    size_t told = 0, used = 0;
    for (size_t i = 0; i < f->events.count; i++) {
        const json_t *graphs = json_at(f->events.items[i].summary, "cuda_graphs");
        const json_t *yes = json_at(graphs, "used");
        told += json_is_boolean(yes);
        used += json_is_true(yes);
    }
    auto_free char *some = mem_printf("on %zu of %zu ranks", used, told);
    if (!told)
        json_put_null(train, "cuda_graphs", "no rank told of any");
    else
        json_put_str(train, "cuda_graphs", used == told ? "used" : !used ? "not used" : some);
}

static void put_parts(const struct trial_facts *f, json_t *train)
{
    static const struct {
        const char *name;
        size_t offset;
    } parts[] = {
        {"data_wait", offsetof(struct step_event, data_wait_s)},
        {"fwd", offsetof(struct step_event, fwd_s)},
        {"bwd", offsetof(struct step_event, bwd_s)},
        {"comm", offsetof(struct step_event, comm_s)},
        {"opt", offsetof(struct step_event, opt_s)},
    };
    json_t *p = json_object();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        put_number(p, parts[i].name, f->events.count ? mean_part(f, parts[i].offset) : NAN,
                   "no samples");
    json_put(train, "parts_mean_s", p);
}

static double first_finite(const double *x, size_t n, bool from_end)
{
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[from_end ? n - 1 - i : i]))
            return x[from_end ? n - 1 - i : i];
    return NAN;
}

void trial_record_train(const struct trial_facts *f, json_t *record)
{
    if (!f->events.count) {
        json_put_null(record, "train", "the workload wrote no events");
        return;
    }
    struct series s;
    make_series(f, &s);
    json_t *train = json_object();
    json_put_int(train, "steps", (int64_t)s.count);
    json_put_int(train, "warmup_steps", 0); /* set by record_apply_warmup */
    put_warmup(f, &s, train, record);
    json_put_int(train, "steady_steps", 0);
    put_number(train, "tokens_per_step", first_finite(s.tokens, s.count, true), "no samples");
    put_config(f, train, "flops_per_token");
    put_config(f, train, "peak_flops_per_rank");
    put_number(train, "loss_first", first_finite(s.loss, s.count, false), "no samples");
    /* the loss of the very last step: one that became NaN is missing, not the one before it */
    put_number(train, "loss_last", s.count ? s.loss[s.count - 1] : NAN,
               s.count ? "not finite" : "no samples");
    if (f->context->scenario->check.loss)
        json_put_f64(train, "loss_rel_tol", f->context->scenario->check.loss_rel_tol);
    else
        json_put_null(train, "loss_rel_tol", "workload.check.loss is not asked for");
    json_put_null(train, "loss_match", "compared when the block is read as a whole");
    put_parts(f, train);
    json_put(train, "step_max_s", array_of(s.max_s, s.count));
    json_put(train, "step_skew_s", array_of(s.skew_s, s.count));
    series_release(&s);
    put_algorithms(f, train);
    put_graphs(f, train);
    json_put(record, "train", train);
}

/* ---- collectives -------------------------------------------------------------------------------
 */
/* The same collective of all ranks together. */
static double *gather_times(const struct trial_facts *f, const struct comm_event *like, size_t *n)
{
    double *all = NULL;
    size_t cap = 0;
    *n = 0;
    for (size_t r = 0; r < f->events.count; r++) {
        const struct rank_events *e = &f->events.items[r];
        for (size_t i = 0; i < e->comms.count; i++) {
            const struct comm_event *c = &e->comms.items[i];
            if (c->bytes != like->bytes || strcmp(c->op, like->op))
                continue;
            for (size_t k = 0; k < c->count; k++) {
                mem_grow((void **)&all, &cap, *n, sizeof *all);
                all[(*n)++] = c->time_us[k];
            }
        }
    }
    return all;
}

static json_t *collective(const struct trial_facts *f, const struct comm_event *c)
{
    size_t n;
    auto_free double *times = gather_times(f, c, &n);
    double median = stats_median(times, n), algbw = algbw_gb_s((double)c->bytes, median);
    json_t *o = json_object(), *t = json_object();
    json_put_str(o, "op", c->op);
    json_put_int(o, "bytes", c->bytes);
    json_put_int(o, "n", (int64_t)c->count);
    put_number(t, "median", median, "no samples");
    put_number(t, "p95", stats_quantile(times, n, 0.95), "no samples");
    json_put(o, "time_us", t);
    put_number(o, "algbw_gb_s", algbw, "no measurable time");
    put_number(o, "busbw_gb_s", algbw * busbw_factor(c->op, f->ranks),
               f->ranks < 2 ? "one rank has no bus" : "no factor is agreed for this operation");
    return o;
}

void trial_record_comm(const struct trial_facts *f, json_t *record)
{
    if (!f->events.count) {
        json_put_null(record, "comm", "the workload wrote no events");
        return;
    }
    json_t *comm = json_object(), *all = json_array();
    const struct rank_events *first = &f->events.items[0];
    const char *backend = json_read_str(first->env, "rank.comm_backend");
    backend = backend ? backend : json_read_str(first->config, "comm_backend");
    auto_strv ids = STRV_INIT;
    for (size_t i = 0; i < f->events.count; i++) {
        const char *id = json_read_str(f->events.items[i].env, "rank.comm_id");
        if (id && !strv_contains(&ids, id))
            strv_push(&ids, id);
    }
    if (backend)
        json_put_str(comm, "backend", backend);
    else
        json_put_null(comm, "backend", "the workload did not say");
    json_put_int(comm, "world", f->ranks);
    if (ids.count)
        json_put_int(comm, "comm_ids_distinct", (int64_t)ids.count);
    else
        json_put_null(comm, "comm_ids_distinct", "the workload did not say");
    for (size_t i = 0; i < first->comms.count; i++)
        json_array_append_new(all, collective(f, &first->comms.items[i]));
    json_put(comm, "collectives", all);
    json_t *nccl = f->dir ? nccl_log_read(f->dir) : NULL;
    if (nccl)
        json_put(comm, "nccl", nccl);
    else
        json_put_null(comm, "nccl", "the ranks left no log of NCCL");
    json_put(record, "comm", comm);
}
