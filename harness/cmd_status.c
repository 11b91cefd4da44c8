/* ncbench status: how far a session is, what failed and why. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/session_view.h"
#include "harness/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct status_options {
    bool json;
};

const struct option_spec status_options[] = {{"json", 0, OPT_BOOL,
                                              offsetof(struct status_options, json), NULL, 0, 0,
                                              NULL, "one JSON object on standard output"},
                                             {0}};

/* A row: one runtime in one cell. */
struct row {
    const char *cell, *runtime;
    size_t planned, ok, failed;
};

struct rows {
    struct row *items;
    size_t count, cap;
};

static struct row *row_of(struct rows *rows, const char *cell, const char *runtime)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->items[i].cell, cell) && !strcmp(rows->items[i].runtime, runtime))
            return &rows->items[i];
    struct row fresh = {cell, runtime, 0, 0, 0};
    vec_push(rows, fresh);
    return &rows->items[rows->count - 1];
}

/* A planned trial's cell is a text or an object with an id. */
static const char *plan_cell(const json_t *trial)
{
    const char *cell = json_read_str(trial, "cell");
    return cell ? cell : json_read_str(trial, "cell.id");
}

static void count(const struct session_view *v, struct rows *rows)
{
    size_t i;
    json_t *t;
    json_array_foreach(v->plan, i, t)
    {
        const char *runtime = json_read_str(t, "runtime");
        if (plan_cell(t) && runtime)
            row_of(rows, plan_cell(t), runtime)->planned++;
    }
    for (i = 0; i < v->records.count; i++) {
        const struct record *r = &v->records.items[i];
        struct row *row = row_of(rows, r->cell, r->runtime);
        row->ok += r->outcome == OUTCOME_OK;
        row->failed += r->outcome != OUTCOME_OK;
    }
}

static const char *first_reason(const struct record *r)
{
    const char *why = json_string_value(json_array_get(json_at(r->json, "reasons"), 0));
    return why ? why : "";
}

static void write_text(const struct session_view *v, const struct rows *rows, struct str *out)
{
    str_appendf(out, "%s: %s\n\n", v->dir, session_view_state(v));
    str_appendf(out, "%-8s %-20s %8s %8s %8s\n", "cell", "runtime", "planned", "ok", "not ok");
    for (size_t i = 0; i < rows->count; i++)
        str_appendf(out, "%-8s %-20s %8zu %8zu %8zu\n", rows->items[i].cell, rows->items[i].runtime,
                    rows->items[i].planned, rows->items[i].ok, rows->items[i].failed);
    if (v->records.torn)
        str_append(out, "\nthe last line of trials.jsonl is torn; --resume sets it aside\n");
    bool any = false;
    for (size_t i = 0; i < v->records.count; i++) {
        const struct record *r = &v->records.items[i];
        if (r->outcome == OUTCOME_OK)
            continue;
        str_append(out, any ? "" : "\nnot ok:\n");
        any = true;
        str_appendf(out, "  %-24s %-16s %s\n", r->trial, outcome_name(r->outcome), first_reason(r));
        const char *hint = json_read_str(r->json, "hint");
        if (hint)
            str_appendf(out, "  %-24s %s\n", "", hint);
    }
}

static void write_json(const struct session_view *v, const struct rows *rows, struct str *out)
{
    auto_json *j = json_object();
    json_put_str(j, "session", v->dir);
    json_put_str(j, "state", session_view_state(v));
    json_put_bool(j, "torn", v->records.torn);
    json_t *cells = json_array(), *failed = json_array();
    for (size_t i = 0; i < rows->count; i++) {
        json_t *row = json_object();
        json_put_str(row, "cell", rows->items[i].cell);
        json_put_str(row, "runtime", rows->items[i].runtime);
        json_put_int(row, "planned", (int64_t)rows->items[i].planned);
        json_put_int(row, "ok", (int64_t)rows->items[i].ok);
        json_put_int(row, "not_ok", (int64_t)rows->items[i].failed);
        json_array_append_new(cells, row);
    }
    for (size_t i = 0; i < v->records.count; i++) {
        const struct record *r = &v->records.items[i];
        if (r->outcome == OUTCOME_OK)
            continue;
        json_t *f = json_object();
        json_put_str(f, "trial", r->trial);
        json_put_str(f, "outcome", outcome_name(r->outcome));
        json_put_str(f, "reason", first_reason(r));
        json_array_append_new(failed, f);
    }
    json_put(j, "cells", cells);
    json_put(j, "failed", failed);
    json_write(out, j, 2);
    str_append(out, "\n");
}

static int print_status(const char *path, bool json, struct error *err)
{
    struct session_view v;
    struct rows rows = {0};
    auto_str out = STR_INIT;
    if (session_view_load(path, &v, NULL, err) == 0) {
        count(&v, &rows);
        if (json)
            write_json(&v, &rows, &out);
        else
            write_text(&v, &rows, &out);
        if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout))
            error_set(err, NCBENCH_EXIT_RESULTS, "cannot write to standard output");
    }
    free(rows.items);
    session_view_release(&v);
    return err->code ? -err->code : 0;
}

int cmd_status(int argc, char **argv)
{
    struct status_options o;
    auto_error struct error err = ERROR_INIT;
    auto_strv paths = STRV_INIT;
    options_defaults(status_options, &o);
    if (options_parse(status_options, &o, argc, argv, &paths, &err) == 0) {
        if (paths.count != 1)
            error_set(&err, NCBENCH_EXIT_USAGE, "expected status SESSION");
        else
            print_status(paths.items[0], o.json, &err);
    }
    if (err.code)
        error_print(&err, "ncbench");
    options_release(status_options, &o);
    return err.code;
}
