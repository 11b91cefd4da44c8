#include "harness/events_reader.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LINE_BYTES (4u << 20)
#define RANK_MAX 1000000

static double number(const json_t *event, const char *key)
{
    double value = NAN;
    json_read_f64(event, key, &value);
    return value;
}

/* A duration: finite and not negative, else NaN. */
static double duration(const json_t *event, const char *key)
{
    double value = number(event, key);
    return value >= 0 ? value : NAN;
}

/* Keep the first of its kind: a second hello or done is somebody else's. */
static bool keep(json_t **slot, json_t *event)
{
    if (*slot)
        return false;
    *slot = json_incref(event);
    return true;
}

static bool take_step(struct rank_events *e, const json_t *event)
{
    struct step_event s = {
        .step = -1,
        .t_start_s = number(event, "t_start_s"),
        .t_end_s = number(event, "t_end_s"),
        .data_wait_s = duration(event, "data_wait_s"),
        .fwd_s = duration(event, "fwd_s"),
        .bwd_s = duration(event, "bwd_s"),
        .comm_s = duration(event, "comm_s"),
        .opt_s = duration(event, "opt_s"),
        .loss = number(event, "loss"),
        .grad_norm = number(event, "grad_norm"),
        .tokens = duration(event, "tokens"),
    };
    json_read_i64(event, "step", &s.step);
    if (s.step < 0 || !(s.t_end_s >= s.t_start_s))
        return false;
    if (e->steps.count && e->steps.items[e->steps.count - 1].step >= s.step)
        return false;
    vec_push(&e->steps, s);
    return true;
}

static struct phase_event *phase_slot(struct rank_events *e, const char *name)
{
    for (size_t i = 0; i < e->phases.count; i++)
        if (!strcmp(e->phases.items[i].name, name))
            return &e->phases.items[i];
    struct phase_event fresh = {.begin_s = NAN, .end_s = NAN, .open_s = NAN};
    snprintf(fresh.name, sizeof fresh.name, "%s", name);
    vec_push(&e->phases, fresh);
    return &e->phases.items[e->phases.count - 1];
}

static bool take_phase(struct rank_events *e, const json_t *event)
{
    const char *name = json_read_str(event, "name"), *edge = json_read_str(event, "edge");
    double t = number(event, "t_s");
    if (!name || !edge || !isfinite(t) || strlen(name) >= sizeof e->phases.items->name ||
        e->phases.count > 100)
        return false;
    struct phase_event *p = phase_slot(e, name);
    if (!strcmp(edge, "begin")) {
        p->open_s = t;
        p->end_s = NAN;
        if (!isfinite(p->begin_s))
            p->begin_s = t;
        return true;
    }
    if (strcmp(edge, "end") || !(t >= p->open_s))
        return false;
    p->total_s += t - p->open_s;
    p->end_s = t;
    p->open_s = NAN;
    return true;
}

static bool take_comm(struct rank_events *e, const json_t *event)
{
    const char *op = json_read_str(event, "op");
    double time_us = duration(event, "time_us");
    int64_t bytes = -1;
    json_read_i64(event, "bytes", &bytes);
    if (!op || bytes < 0 || !isfinite(time_us) || strlen(op) >= sizeof e->comms.items->op)
        return false;
    struct comm_event *slot = NULL;
    for (size_t i = 0; i < e->comms.count && !slot; i++)
        if (e->comms.items[i].bytes == bytes && !strcmp(e->comms.items[i].op, op))
            slot = &e->comms.items[i];
    if (!slot) {
        if (e->comms.count >= 10000)
            return false;
        struct comm_event fresh = {.bytes = bytes};
        snprintf(fresh.op, sizeof fresh.op, "%s", op);
        vec_push(&e->comms, fresh);
        slot = &e->comms.items[e->comms.count - 1];
    }
    mem_grow((void **)&slot->time_us, &slot->cap, slot->count, sizeof *slot->time_us);
    slot->time_us[slot->count++] = time_us;
    return true;
}

static bool take_counters(struct rank_events *e, const json_t *event)
{
    json_t *values = json_object_get(event, "values");
    struct counters_event c = {.values = values};
    if (!json_is_object(values) || !json_read_i64(event, "step", &c.step))
        return false;
    json_incref(values);
    vec_push(&e->counts, c);
    return true;
}

static bool take(struct rank_events *e, json_t *event)
{
    const char *kind = json_read_str(event, "event");
    if (!kind)
        return false;
    double t = number(event, "t_s");
    if (!isfinite(t))
        t = number(event, "t_end_s");
    if (isfinite(t) && !(e->last_t_s >= t))
        e->last_t_s = t;
    if (!strcmp(kind, EVENT_STEP))
        return take_step(e, event);
    if (!strcmp(kind, EVENT_COMM))
        return take_comm(e, event);
    if (!strcmp(kind, EVENT_COUNTERS))
        return take_counters(e, event);
    if (!strcmp(kind, EVENT_PHASE))
        return take_phase(e, event);
    if (!strcmp(kind, EVENT_HELLO)) {
        e->hellos++;
        return keep(&e->hello, event);
    }
    if (!strcmp(kind, EVENT_ENV))
        return keep(&e->env, event);
    if (!strcmp(kind, EVENT_CONFIG))
        return keep(&e->config, event);
    if (!strcmp(kind, EVENT_DONE))
        return keep(&e->done, event);
    if (!strcmp(kind, EVENT_SUMMARY))
        return keep(&e->summary, event);
    if (!strcmp(kind, EVENT_PEER_LOST))
        keep(&e->peer_lost, event);
    return true; /* what a newer program adds is not an error */
}

/* NULL: no object. */
static json_t *parse_line(const char *line, size_t len)
{
    json_error_t why;
    if (len > MAX_LINE_BYTES)
        return NULL;
    auto_json *event = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why);
    return json_is_object(event) ? json_incref(event) : NULL;
}

/* The next whole line of *text, which is moved behind it; NULL: none. */
static const char *next_line(const char **text, const char *end, size_t *len)
{
    const char *line = *text, *newline = memchr(line, '\n', (size_t)(end - line));
    if (!newline)
        return NULL;
    *len = (size_t)(newline - line);
    *text = newline + 1;
    return line;
}

void rank_events_parse(const char *text, size_t len, struct rank_events *out)
{
    const char *end = text + len, *line;
    out->last_t_s = NAN;
    while (text < end && (line = next_line(&text, end, &len))) {
        auto_json *event = parse_line(line, len);
        out->lines++;
        if (!event || !take(out, event))
            out->bad_lines++;
    }
    out->torn = text < end;
}

void rank_events_release(struct rank_events *e)
{
    json_decref(e->hello);
    json_decref(e->env);
    json_decref(e->config);
    json_decref(e->done);
    json_decref(e->peer_lost);
    json_decref(e->summary);
    for (size_t i = 0; i < e->comms.count; i++)
        free(e->comms.items[i].time_us);
    free(e->comms.items);
    for (size_t i = 0; i < e->counts.count; i++)
        json_decref(e->counts.items[i].values);
    free(e->counts.items);
    free(e->steps.items);
    free(e->phases.items);
    *e = (struct rank_events){0};
}

const struct phase_event *rank_events_phase(const struct rank_events *e, const char *name)
{
    for (size_t i = 0; i < e->phases.count; i++)
        if (!strcmp(e->phases.items[i].name, name))
            return &e->phases.items[i];
    return NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* 3 of "events.rank00003.jsonl" with the prefix "events.rank"; -1: another name. */
static int number_of_name(const char *name, const char *prefix)
{
    static const char suffix[] = ".jsonl";
    size_t len = strlen(name), fixed = strlen(prefix) + sizeof suffix - 1;
    if (!str_starts_with(name, prefix) || !str_ends_with(name, suffix) || len <= fixed)
        return -1;
    auto_free char *digits = mem_strndup(name + strlen(prefix), len - fixed);
    char *rest;
    long number = strtol(digits, &rest, 10);
    return *rest || number < 0 || number > RANK_MAX ? -1 : (int)number;
}

/* The events of a rank, made at first sight; items stay in the order of ranks. */
static struct rank_events *rank_slot(struct trial_events *t, int rank)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (t->items[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < t->count && t->items[low].rank == rank)
        return &t->items[low];
    const struct rank_events fresh = {.rank = rank, .last_t_s = NAN};
    vec_push(t, fresh);
    memmove(&t->items[low + 1], &t->items[low], (t->count - 1 - low) * sizeof *t->items);
    t->items[low] = fresh;
    return &t->items[low];
}

void trial_events_parse_shared(const char *text, size_t len, struct trial_events *out)
{
    const char *end = text + len, *line;
    while (text < end && (line = next_line(&text, end, &len))) {
        int64_t rank;
        if (!len)
            continue;
        auto_json *event = parse_line(line, len);
        if (!event || !json_read_i64(event, EVENT_BY_RANK, &rank) || rank < 0 || rank > RANK_MAX) {
            out->nobodys_lines++;
            continue;
        }
        struct rank_events *e = rank_slot(out, (int)rank);
        e->lines++;
        if (!take(e, event))
            e->bad_lines++;
    }
    out->torn_files += text < end;
}

static int load_file(const char *dir, const char *name, struct trial_events *out, struct error *err)
{
    const int rank = number_of_name(name, "events.rank"),
              node = number_of_name(name, "events.node");
    if (rank < 0 && node < 0)
        return 0;
    auto_free char *path = mem_printf("%s/%s", dir, name);
    auto_str text = STR_INIT;
    if (fs_read_file(path, &text, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    out->files++;
    if (rank < 0) {
        trial_events_parse_shared(text.data, text.len, out);
        return 0;
    }
    struct rank_events *e = rank_slot(out, rank);
    rank_events_parse(text.data, text.len, e);
    out->torn_files += e->torn;
    return 0;
}

int trial_events_load(const char *dir, struct trial_events *out, struct error *err)
{
    *out = (struct trial_events){0};
    auto_strv names = STRV_INIT;
    if (fs_list_dir(dir, &names, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    for (size_t i = 0; i < names.count; i++)
        if (load_file(dir, names.items[i], out, err)) {
            trial_events_release(out);
            return -err->code;
        }
    return 0;
}

void trial_events_release(struct trial_events *e)
{
    for (size_t i = 0; i < e->count; i++)
        rank_events_release(&e->items[i]);
    free(e->items);
    *e = (struct trial_events){0};
}

bool trial_events_hello(const struct trial_events *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (e->items[i].hello)
            return true;
    return false;
}

int64_t events_last_step(const char *path)
{
    char buf[4097];
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (size <= 0)
        return -1;
    off_t from = size > 4096 ? size - 4096 : 0;
    ssize_t n = pread(fd, buf, 4096, from);
    if (n <= 0)
        return -1;
    buf[n] = '\0';
    int64_t step = -1;
    char *save = NULL;
    for (char *line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_error_t why;
        auto_json *event = strstr(line, "\"step\"") ? json_loads(line, 0, &why) : NULL;
        const char *kind = json_read_str(event, "event");
        if (kind && !strcmp(kind, EVENT_STEP))
            json_read_i64(event, "step", &step);
    }
    return step;
}
