#include "workload/events.h"

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "workload/env.h"
#include "workload/events_priv.h"
#include "workload/trial_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 1024
#define COMMS_MAX 32768
#define TEXT_BYTES 65536 /* formatted lines wait here for one write */
#define LINE_BYTES 1024  /* more than a step or comm line needs */

struct events {
    struct events_file file; /* fd -1: no trial directory, nothing is recorded */
    int rank;
    struct str text;
    struct step_record *steps;
    size_t n_steps;
    struct comm_record *comms;
    size_t n_comms;
    int64_t steps_total, comms_dropped;
    struct comm_record lost; /* op NULL: none */
    json_t *paths;           /* what: path */
    const struct counters *counters;
    struct counters *migrations; /* NULL: nothing is recorded */
};

static int write_failed(const struct events *e, struct error *err)
{
    return error_errno(err, NANOCHAT_EXIT_WRITE, e->file.write_errno, "cannot write %s",
                       e->file.path);
}

/* Keeps the text within its memory: no allocation while steps are formatted. */
static void begin_line(struct events *e, const char *event)
{
    if (e->text.len + LINE_BYTES > TEXT_BYTES)
        events_file_write(&e->file, &e->text);
    events_file_begin(&e->file, &e->text);
    str_appendf(&e->text, "{\"event\":\"%s\"", event);
    if (e->file.shared)
        str_appendf(&e->text, ",\"" EVENT_BY_RANK "\":%d", e->rank);
}

static void end_line(struct events *e)
{
    str_append(&e->text, "}\n");
}

static void put_int(struct events *e, const char *key, int64_t value)
{
    str_appendf(&e->text, ",\"%s\":%" PRId64, key, value);
}

static void put_f64(struct events *e, const char *key, double value, const char *why)
{
    char number[NUM_F64_MAX];
    if (isfinite(value))
        str_appendf(&e->text, ",\"%s\":%s", key, num_format_f64(number, value));
    else
        str_appendf(&e->text, ",\"%s\":null,\"%s_why\":\"%s\"", key, key, why);
}

/* A time or a duration, to the nanosecond that the clock has: twice a shortest double's speed. */
static void put_seconds(struct events *e, const char *key, double value)
{
    if (!(fabs(value) < 1e9)) {
        put_f64(e, key, value, "not measured");
        return;
    }
    const int64_t ns = llrint(value * 1e9), size = ns < 0 ? -ns : ns;
    str_appendf(&e->text, ",\"%s\":%s%" PRId64 ".%09" PRId64, key, ns < 0 ? "-" : "",
                size / 1000000000, size % 1000000000);
}

static void format_step(struct events *e, const struct step_record *s)
{
    begin_line(e, EVENT_STEP);
    put_int(e, "step", s->step);
    put_int(e, "epoch", s->epoch);
    put_seconds(e, "t_start_s", s->t_start_s);
    put_seconds(e, "t_end_s", s->t_end_s);
    put_seconds(e, "data_prepare_s", s->data_prepare_s);
    put_seconds(e, "data_wait_s", s->data_wait_s);
    put_seconds(e, "fwd_s", s->fwd_s);
    put_seconds(e, "bwd_s", s->bwd_s);
    put_seconds(e, "comm_s", s->comm_s);
    put_seconds(e, "opt_s", s->opt_s);
    put_f64(e, "loss", s->loss, isnan(s->loss) ? "nan" : s->loss > 0 ? "inf" : "-inf");
    bool computed = !(s->grad_norm < 0);
    put_f64(e, "grad_norm", computed ? s->grad_norm : NAN,
            !computed             ? "not computed"
            : isnan(s->grad_norm) ? "nan"
                                  : "inf");
    put_int(e, "tokens", s->tokens);
    end_line(e);
}

/* Many a step: in one piece. */
static void format_comm(struct events *e, const struct comm_record *r)
{
    begin_line(e, EVENT_COMM);
    str_appendf(&e->text,
                ",\"step\":%" PRId64 ",\"seq\":%" PRId64 ",\"op\":\"%s\",\"bytes\":%" PRId64,
                r->step, r->seq, r->op, r->bytes);
    put_f64(e, "time_us", r->time_us, "not measured");
    end_line(e);
}

static void format_lost(struct events *e)
{
    begin_line(e, EVENT_PEER_LOST);
    put_f64(e, "t_s", clock_mono_s(), "");
    put_int(e, "rank", e->lost.lost_rank);
    put_int(e, "step", e->lost.step);
    str_appendf(&e->text, ",\"op\":\"%s\"", e->lost.op);
    put_f64(e, "waited_s", e->lost.time_us * 1e-6, "not measured");
    end_line(e);
    e->lost.op = NULL;
}

static void format_all(struct events *e)
{
    for (size_t i = 0; i < e->n_comms; i++)
        format_comm(e, &e->comms[i]);
    for (size_t i = 0; i < e->n_steps; i++)
        format_step(e, &e->steps[i]);
    e->n_comms = e->n_steps = 0;
    if (e->lost.op)
        format_lost(e);
}

static void drain(struct events *e)
{
    format_all(e);
    events_file_write(&e->file, &e->text);
}

bool events_enabled(const struct events *e)
{
    return e && e->file.fd >= 0;
}

int events_flush(struct events *e, struct error *err)
{
    if (!events_enabled(e))
        return 0;
    drain(e);
    return e->file.write_errno ? write_failed(e, err) : 0;
}

void events_step(struct events *e, const struct step_record *record)
{
    if (!events_enabled(e))
        return;
    if (e->n_steps == STEPS_MAX)
        drain(e); /* a step is never dropped; the next flush reports what failed */
    e->steps[e->n_steps++] = *record;
    e->steps_total++;
}

void events_comm(void *events, const struct comm_record *record)
{
    struct events *e = events;
    if (!events_enabled(e))
        return;
    if (record->lost_rank >= 0)
        e->lost = *record;
    else if (e->n_comms == COMMS_MAX)
        e->comms_dropped++;
    else
        e->comms[e->n_comms++] = *record;
}

int events_put(struct events *e, const char *name, json_t *fields, struct error *err)
{
    if (!events_enabled(e)) {
        json_decref(fields);
        return 0;
    }
    format_all(e); /* one write for all */
    auto_json *event = json_object();
    json_put_str(event, "event", name);
    if (e->file.shared)
        json_put_int(event, EVENT_BY_RANK, e->rank);
    if (!json_object_get(fields, "t_s"))
        json_put_f64(event, "t_s", clock_mono_s());
    json_object_update(event, fields);
    json_decref(fields);
    events_file_begin(&e->file, &e->text);
    json_write(&e->text, event, 0);
    str_append_char(&e->text, '\n');
    return events_flush(e, err);
}

static int put_phase(struct events *e, const char *phase, const char *edge, double t_s,
                     struct error *err)
{
    if (!events_enabled(e))
        return 0;
    json_t *fields = json_object();
    json_put_f64(fields, "t_s", t_s);
    json_put_str(fields, "name", phase);
    json_put_str(fields, "edge", edge);
    return events_put(e, EVENT_PHASE, fields, err);
}

int events_phase_begin(struct events *e, const char *phase, struct error *err)
{
    return put_phase(e, phase, "begin", clock_mono_s(), err);
}

int events_phase_end(struct events *e, const char *phase, struct error *err)
{
    return put_phase(e, phase, "end", clock_mono_s(), err);
}

void events_path(struct events *e, const char *what, const char *path)
{
    if (events_enabled(e) && path)
        json_object_set_new(e->paths, what, json_string(path));
}

void events_set_counters(struct events *e, const struct counters *counters)
{
    e->counters = counters;
}

int events_env(struct events *e, const struct env_context *seen, struct error *err)
{
    if (!events_enabled(e))
        return 0;
    struct env_context context = *seen;
    context.paths = e->paths;
    context.counters = e->counters;
    if (events_phase_begin(e, PHASE_EVIDENCE, err) ||
        events_put(e, EVENT_ENV, env_collect(&context), err))
        return -err->code;
    return events_phase_end(e, PHASE_EVIDENCE, err);
}

static void release(struct events *e)
{
    events_file_release(&e->file);
    free(e->steps);
    free(e->comms);
    str_release(&e->text);
    counters_close(e->migrations);
    json_decref(e->paths);
    free(e);
}

static struct events *make(const char *dir, int rank)
{
    struct events *e = mem_zalloc(1, sizeof *e);
    e->file.fd = -1;
    e->rank = rank;
    e->text = (struct str)STR_INIT;
    e->paths = json_object();
    if (!dir)
        return e;
    e->steps = mem_zalloc(STEPS_MAX, sizeof *e->steps);
    e->comms = mem_zalloc(COMMS_MAX, sizeof *e->comms);
    str_reserve(&e->text, TEXT_BYTES + LINE_BYTES);
    json_put_str(e->paths, "trial_dir", dir);
    return e;
}

static int put_exec_phase(struct events *e, double entry_s, struct error *err)
{
    double start = clock_process_start_s();
    if (start < 0)
        return 0;
    if (start > entry_s) /* the grain of the start is 10 ms */
        start = entry_s;
    if (put_phase(e, PHASE_EXEC, "begin", start, err))
        return -err->code;
    return put_phase(e, PHASE_EXEC, "end", entry_s, err);
}

int events_open(struct events **out, int rank, double entry_s, int argc, char *const *argv,
                struct error *err)
{
    const char *dir = getenv(ENV_TRIAL_DIR);
    const bool recorded = dir && *dir;
    struct events *e = make(recorded ? dir : NULL, rank);
    if (!recorded) {
        *out = e;
        return 0;
    }
    if (events_file_open(&e->file, dir, rank, err) ||
        events_put(e, EVENT_HELLO, events_hello(rank, entry_s, argc, argv), err) ||
        put_exec_phase(e, entry_s, err)) {
        release(e);
        return -err->code;
    }
    e->migrations = events_migrations_open();
    *out = e;
    return 0;
}

static void write_done(struct events *e, int code, const struct error *why, struct error *err)
{
    json_t *fields = json_object();
    json_put_int(fields, "exit_code", code);
    json_put_int(fields, "steps", e->steps_total);
    json_put_int(fields, "comm_dropped", e->comms_dropped);
    if (why && why->message)
        json_put_str(fields, "error", why->message);
    events_put_migrations(fields, e->migrations);
    events_put(e, EVENT_DONE, fields, err);
}

int events_finish(struct events *e, int code, const struct error *why)
{
    if (!e)
        return code;
    if (events_enabled(e)) {
        struct error err = ERROR_INIT;
        if (code == 0)
            events_flush(e, &err);
        int lost_errno = e->file.write_errno;
        e->file.write_errno = 0; /* room may be there again: say that the rank ended */
        write_done(e, lost_errno && !code ? NANOCHAT_EXIT_WRITE : code, why, &err);
        const int closing = events_file_close(&e->file);
        if (closing)
            error_errno(&err, NANOCHAT_EXIT_WRITE, closing, "cannot write %s", e->file.path);
        if (err.code && !code) {
            log_warn("%s", err.message);
            code = NANOCHAT_EXIT_WRITE;
        }
        error_release(&err);
    }
    release(e);
    return code;
}
