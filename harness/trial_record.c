/* Facts of a trial → its record. results/README.md describes every field; measurement units are
 * part of the names, and what is missing is null with a reason beside it. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/record.h"
#include "harness/trial_record_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void put_number(json_t *obj, const char *key, double value, const char *why)
{
    if (isfinite(value))
        json_put_f64(obj, key, value);
    else
        json_put_null(obj, key, why);
}

static void put_identity(const struct trial_facts *f, json_t *r)
{
    const struct trial_context *c = f->context;
    json_put_str(r, "schema", RECORD_SCHEMA);
    json_put_str(r, "session", c->session_id);
    json_put_str(r, "trial", f->id);
    json_put_int(r, "seq", f->seq);
    json_put_int(r, "attempt", f->attempt);
    json_put_int(r, "stratum", c->stratum);
    json_t *cell = json_object();
    json_put_str(cell, "id", f->cell->id);
    if (f->cell->values)
        json_object_update_missing(cell, f->cell->values);
    json_put(r, "cell", cell);
    json_put_int(r, "block", f->planned->block);
    json_put_int(r, "position", f->planned->position);
    json_put_str(r, "runtime", f->spec->name);
    json_put_str(r, "kind", f->spec->kind);
    json_put_bool(r, "baseline", f->planned->runtime == c->scenario->baseline);
    json_put_bool(r, "warmup_block", f->planned->warmup_block);
}

static void put_outcome(const struct trial_facts *f, json_t *r)
{
    json_put_str(r, "outcome", outcome_name(f->outcome));
    json_put(r, "reasons", json_strings(&f->reasons));
    json_put(r, "flags", json_strings(&f->flags));
    if (f->outcome == OUTCOME_OK)
        return;
    json_put_str(r, "hint", f->hint);
    json_put_str(r, "stderr_tail", f->stderr_tail.data);
}

/* "cuda", "cpu"; NULL: a foreign command that does not tell. */
static const char *device_of(const struct trial_facts *f)
{
    const json_t *config = f->events.count ? f->events.items[0].config : NULL;
    const char *told = json_read_str(config, "device");
    if (told)
        return told;
    if (trial_asks_for_cuda(f))
        return "cuda";
    return f->context->scenario->is_verb ? "cpu" : NULL;
}

/* How many devices a rank saw listed; 0: no list of them. */
static int64_t listed_gpus(const struct trial_facts *f)
{
    const json_t *env = f->events.count ? f->events.items[0].env : NULL;
    const char *list = json_read_str(env, "environment.CUDA_VISIBLE_DEVICES");
    int64_t n = list && *list ? 1 : 0;
    for (; n && *list; list++)
        n += *list == ',';
    return n;
}

static void put_gpus_per_node(const struct trial_facts *f, json_t *r)
{
    const char *device = device_of(f);
    const int64_t asked = trial_is_step(f) ? f->cell->slurm.gpus_per_node : 0;
    const int64_t n = asked > 0 ? asked : listed_gpus(f);
    if (asked > 0 || (n > 0 && device && !strcmp(device, "cuda")))
        json_put_int(r, "gpus_per_node", n);
    else if (!device)
        json_put_null(r, "gpus_per_node", "a foreign command that does not tell its device");
    else if (!strcmp(device, "cpu"))
        json_put_null(r, "gpus_per_node", "a workload on the CPU");
    else
        json_put_null(r, "gpus_per_node",
                      "neither launch.slurm.gpus_per_node nor CUDA_VISIBLE_DEVICES says it");
}

static void put_shape(const struct trial_facts *f, json_t *r)
{
    json_put_str(r, "started_utc", f->started_utc);
    json_put_f64(r, "mono_origin_s", f->origin_s);
    put_number(r, "spawn_s", f->spawn_s - f->origin_s, "nothing was started");
    put_number(r, "reap_s", f->reap_s - f->origin_s, "nothing was started");
    json_put_f64(r, "gone_s", f->end_s - f->origin_s);
    put_number(r, "wall_s", f->reap_s - f->spawn_s, "nothing was started");
    json_put_int(r, "ranks", f->ranks);
    json_put_int(r, "nodes", f->cell->nodes);
    json_put_int(r, "ranks_per_node", f->cell->ranks_per_node);
    json_put_int(r, "threads_per_rank", f->cell->threads_per_rank);
    put_gpus_per_node(f, r);
    json_t *hosts = json_array();
    for (int64_t i = 0; i < (trial_is_step(f) ? f->cell->nodes : 1); i++)
        if (trial_host(f, i))
            json_array_append_new(hosts, json_string(trial_host(f, i)));
    json_put(r, "hosts", hosts);
}

/* What was really executed, by the rank's own word; else what lies on the host. */
static void put_provenance(const struct trial_facts *f, json_t *r)
{
    const struct trial_context *c = f->context;
    const json_t *hello = f->events.count ? f->events.items[0].hello : NULL;
    const char *sha = json_read_str(hello, "exe.sha256");
    sha = sha ? sha : c->workload_sha256;
    json_put_str(r, "scenario_sha256", c->scenario->sha256);
    json_put_str(r, "plan_sha256", c->plan_sha256);
    if (sha)
        json_put_str(r, "binary_sha256", sha);
    else
        json_put_null(r, "binary_sha256", "the program did not say, and is none of the host's");
    const json_t *argv = json_at(hello, "argv");
    json_put(r, "argv", argv ? json_incref((json_t *)argv) : json_strings(&f->workload));
    size_t place = f->planned->cell * c->scenario->n_runtimes + f->planned->runtime;
    const json_t *about = c->descriptions ? c->descriptions[place] : NULL;
    json_t *version = about ? json_copy((json_t *)about) : json_object();
    json_t *image = json_object_get(version, "image");
    if (image)
        json_put(r, "image", json_incref(image));
    else
        json_put_null(r, "image", "this runtime starts from no image");
    json_object_del(version, "image");
    json_put(r, "runtime_version", version);
}

/* An event without what belongs to the line itself. */
static json_t *fields_of(const json_t *event)
{
    json_t *copy = json_copy((json_t *)event);
    json_object_del(copy, "event");
    json_object_del(copy, "t_s");
    return copy;
}

/* Asked for, and read back by the rank. */
static json_t *bind_of(const struct trial_facts *f, const struct rank_events *e, json_t *flags)
{
    json_t *b = json_object();
    int64_t pus;
    bool held = true;
    const char *asked = json_read_str(e->env, "cpu.bind_requested");
    const char *is = json_read_str(e->env, "cpu.cpubind");
    json_put_int(b, "rank", e->rank);
    json_put_str(b, "policy", topo_bind_name(f->cell->bind));
    if (asked)
        json_put_str(b, "requested", asked);
    else
        json_put_null(b, "requested", "no binding was asked for, or the rank does not tell");
    json_put_str(b, "effective", is);
    json_put_str(b, "membind", json_read_str(e->env, "cpu.membind"));
    if (json_read_i64(e->env, "cpu.n_usable_pus", &pus))
        json_put_int(b, "pu", pus);
    if (json_read_str(e->env, "cpu.bind_note"))
        json_put_str(b, "note", json_read_str(e->env, "cpu.bind_note"));
    if (json_read_bool(e->env, "cpu.bind_held", &held))
        json_put_bool(b, "held", held);
    if (!held) {
        auto_free char *flag = mem_printf("bind_not_held: rank %d was to run on %s, runs on %s",
                                          e->rank, asked ? asked : "?", is ? is : "?");
        json_array_append_new(flags, json_string(flag));
    }
    return b;
}

/* How often the scheduler moved a rank's threads to another CPU, over its whole life. */
static void put_migrations(const struct trial_facts *f, json_t *r)
{
    auto_json *m = json_object();
    json_t *each = json_array();
    int64_t sum = 0, n = 0;
    const char *why = f->events.count ? NULL : "no rank wrote events";
    json_put(m, "per_rank", each);
    for (size_t i = 0; !why && i < f->events.count; i++) {
        const json_t *done = f->events.items[i].done;
        const char *told = json_read_str(done, "cpu_migrations_why");
        if (!json_read_i64(done, "cpu_migrations", &n))
            why = told ? told : "a rank did not tell at its end";
        json_array_append_new(each, json_integer(n));
        sum += n;
    }
    json_put_int(m, "total", sum);
    if (!why)
        json_put_str(m, "source", json_read_str(f->events.items[0].done, "cpu_migrations_source"));
    if (why)
        json_put_null(r, "cpu_migrations", why);
    else
        json_put(r, "cpu_migrations", steal(&m));
}

/* What each rank saw from inside, and where it was bound. */
static void put_ranks(const struct trial_facts *f, json_t *r)
{
    json_t *env = json_array(), *bind = json_array();
    for (size_t i = 0; i < f->events.count; i++) {
        const struct rank_events *e = &f->events.items[i];
        if (!e->env)
            continue;
        json_array_append_new(env, fields_of(e->env));
        json_array_append_new(bind, bind_of(f, e, json_object_get(r, "flags")));
    }
    json_put(r, "env", env);
    json_put(r, "bind", bind);
    if (f->events.count && f->events.items[0].config)
        json_put(r, "config", fields_of(f->events.items[0].config));
    else
        json_put_null(r, "config", "the workload wrote no config event");
    if (f->topology)
        json_put(r, "topology", json_incref(f->topology));
    else
        json_put_null(r, "topology", f->no_topology ? f->no_topology : "nothing was started");
}

static void put_exit(const struct trial_facts *f, json_t *r)
{
    json_t *e = json_object(), *codes = json_array(), *started = json_array();
    int64_t code;
    for (size_t i = 0; i < f->events.count; i++)
        json_array_append_new(codes, json_read_i64(f->events.items[i].done, "exit_code", &code)
                                         ? json_integer(code)
                                         : json_null());
    for (size_t i = 0; i < f->n_processes; i++) {
        const struct reaper_child *c = &f->children[i];
        json_array_append_new(started, c->reaped && WIFEXITED(c->status)
                                           ? json_integer(WEXITSTATUS(c->status))
                                           : json_null());
    }
    json_put(e, "codes", codes); /* of the ranks, by their own word; null: it never came */
    json_put(e, "processes", started);
    if (f->failed_signal)
        json_put_int(e, "signal", f->failed_signal);
    else
        json_put(e, "signal", json_null());
    json_put_bool(e, "core_dumped", f->core_dumped);
    if (f->failed_rank >= 0)
        json_put_int(e, "failed_rank", f->failed_rank);
    else
        json_put(e, "failed_rank", json_null());
    json_put_bool(e, "timed_out", f->end == END_TIMEOUT || f->end == END_NO_OUTPUT);
    json_put_bool(e, "killed", f->killed);
    json_put(r, "exit", e);
}

static void put_event_health(const struct trial_facts *f, json_t *r)
{
    int64_t lines = 0, bad = 0;
    for (size_t i = 0; i < f->events.count; i++) {
        lines += f->events.items[i].lines;
        bad += f->events.items[i].bad_lines;
    }
    json_t *e = json_object();
    json_put_int(e, "files", f->events.files);
    json_put_int(e, "lines", lines + f->events.nobodys_lines);
    json_put_int(e, "bad_lines", bad + f->events.nobodys_lines);
    json_put_int(e, "torn_files", f->events.torn_files);
    json_put(r, "events", e);
}

json_t *trial_record_make(const struct trial_facts *f)
{
    json_t *r = json_object();
    put_identity(f, r);
    put_outcome(f, r);
    put_shape(f, r);
    put_provenance(f, r);
    trial_record_phases(f, r);
    trial_record_train(f, r);
    trial_record_counters(f, r);
    int64_t own;
    if (json_read_i64(r, "train.warmup_own", &own))
        record_apply_warmup(r, own);
    trial_record_unaccounted(f, r);
    trial_record_comm(f, r);
    put_ranks(f, r);
    if (f->collected)
        json_object_update_missing(r, f->collected);
    put_migrations(f, r);
    put_event_health(f, r);
    put_exit(f, r);
    if (trial_is_step(f))
        trial_step_record(f, r);
    auto_free char *logs = f->dir ? mem_printf("trials/%s/", f->id) : NULL;
    json_put_str(r, "logs", logs);
    return r;
}
