#include "harness/session_merge.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/session_data.h"

#include <string.h>
#include <unistd.h>

struct merge {
    struct session_data *sessions;
    size_t count;
};

/* ---- may they be merged? ------------------------------------------------------------------------
 */
/* What was asked: without the seed of the order and what is about running and output. */
static json_t *question_of(const struct session_data *s)
{
    static const char *const aside[] = {"limits", "output", "gates", "description", "merged"};
    json_t *copy = json_deep_copy(s->resolved);
    for (size_t i = 0; i < sizeof aside / sizeof *aside; i++)
        json_object_del(copy, aside[i]);
    json_t *sampling = json_object_get(copy, "sampling");
    if (json_is_object(sampling))
        json_object_del(sampling, "seed");
    return copy;
}

static const char *first_difference(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)a, key,
                        value) if (!json_equal(value, json_object_get(b, key))) return key;
    json_object_foreach((json_t *)b, key, value) if (!json_object_get(a, key)) return key;
    return NULL;
}

static int same_question(const struct session_data *a, const struct session_data *b,
                         struct error *err)
{
    auto_json *x = question_of(a);
    auto_json *y = question_of(b);
    const char *key = first_difference(x, y);
    if (!key)
        return 0;
    error_set(err, NCBENCH_EXIT_UNTRUSTWORTHY, "%s and %s ask different questions: \"%s\" differs",
              a->id, b->id, key);
    return error_hint(err, "--allow-different merges them all the same");
}

static int same_program(const struct session_data *a, const struct session_data *b,
                        struct error *err)
{
    for (size_t arm = 0; arm < a->study.n_arms; arm++) {
        const char *name = a->study.arms[arm].name;
        const char *x = json_string_value(session_data_latest(a, name, "binary_sha256"));
        const char *y = json_string_value(session_data_latest(b, name, "binary_sha256"));
        if (!x || !y || !strcmp(x, y))
            continue;
        error_set(err, NCBENCH_EXIT_UNTRUSTWORTHY,
                  "%s and %s ran different programs in %s: sha256 %.12s… and %.12s…", a->id, b->id,
                  name, x, y);
        return error_hint(err, "--allow-different merges them all the same");
    }
    return 0;
}

/* Arms and cells mean the same, by name. */
static int same_shape(const struct session_data *a, const struct session_data *b, struct error *err)
{
    for (size_t i = 0; i < a->study.n_cells; i++) {
        int k = study_cell_index(&b->study, a->study.cells[i].id);
        if (k < 0 || !json_equal(a->study.cells[i].values, b->study.cells[k].values))
            return error_set(err, NCBENCH_EXIT_SCENARIO, "%s and %s have different cells", a->id,
                             b->id);
    }
    for (size_t i = 0; i < a->study.n_arms; i++)
        if (study_arm_index(&b->study, a->study.arms[i].name) < 0)
            return error_set(err, NCBENCH_EXIT_SCENARIO, "%s has no arm %s", b->id,
                             a->study.arms[i].name);
    return 0;
}

/* Which trial of which session a record tells of, wherever it was copied to; NULL: it does not say.
 */
static char *trial_identity(const struct record *r)
{
    const char *session = json_read_str(r->json, "session");
    const char *started = json_read_str(r->json, "started_utc");
    return session ? mem_printf("%s %s %lld %s", session, r->trial, (long long)r->attempt,
                                started ? started : "")
                   : NULL;
}

/* A block that counts twice makes intervals narrower than they are: a copy of a session, or a
 * merged one beside a part of it, is no other session. seen: the trials of the sessions before. */
static int other_trials(const struct session_data *s, json_t *seen, struct error *err)
{
    auto_json *own = json_object();
    for (size_t i = 0; i < s->view.records.count; i++) {
        auto_free char *key = trial_identity(&s->view.records.items[i]);
        const char *where = key ? json_string_value(json_object_get(seen, key)) : NULL;
        if (where)
            return error_set(err, NCBENCH_EXIT_USAGE,
                             "%s and %s hold the same trial, %s of session %s", where, s->id,
                             s->view.records.items[i].trial,
                             json_read_str(s->view.records.items[i].json, "session"));
        if (key)
            json_object_set_new(own, key, json_string(s->id));
    }
    json_object_update(seen, own);
    return 0;
}

static int check(const struct merge *m, bool differ, struct error *err)
{
    auto_json *seen = json_object();
    const struct session_data *first = &m->sessions[0];
    for (size_t i = 0; i < m->count; i++) {
        const struct session_data *s = &m->sessions[i];
        auto_free char *here = fs_realpath(s->view.dir);
        for (size_t k = 0; k < i; k++) {
            auto_free char *there = fs_realpath(m->sessions[k].view.dir);
            if (here && there && !strcmp(here, there))
                return error_set(err, NCBENCH_EXIT_USAGE, "session %s is named twice", s->id);
        }
        if (other_trials(s, seen, err))
            return -err->code;
        if (i > 0 && (same_shape(first, s, err) ||
                      (!differ && (same_question(first, s, err) || same_program(first, s, err)))))
            return -err->code;
    }
    return 0;
}

/* ---- writing ------------------------------------------------------------------------------------
 */
static json_t *list_of(const struct merge *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->count; i++) {
        const struct session_data *s = &m->sessions[i];
        auto_free char *where = fs_realpath(s->view.dir);
        json_t *item = json_object();
        json_put_str(item, "session", s->id);
        json_put_str(item, "dir", where);
        json_put_str(item, "state", session_view_state(&s->view));
        json_put_str(item, "started_utc", json_read_str(s->view.summary, "started_utc"));
        json_put_str(item, "host", json_read_str(s->view.summary, "host"));
        json_put_str(item, "scenario_sha256", json_read_str(s->view.summary, "scenario_sha256"));
        json_array_append_new(list, item);
    }
    return list;
}

/* The records of a session, its strata numbered on from `base`; returns the next free number. */
static int64_t put_records(const struct session_data *s, int64_t base, struct str *out)
{
    int64_t most = -1;
    for (size_t i = 0; i < s->view.records.count; i++) {
        const struct record *r = &s->view.records.items[i];
        auto_json *copy = json_copy(r->json);
        json_object_set_new(copy, "stratum", json_integer(base + r->stratum));
        json_object_set_new(copy, "logs", json_null());
        auto_free char *why = mem_printf("with session %s", s->id);
        json_object_set_new(copy, "logs_why", json_string(why));
        json_write(out, copy, 0);
        str_append_char(out, '\n');
        most = r->stratum > most ? r->stratum : most;
    }
    return base + most + 1;
}

static bool all_complete(const struct merge *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(session_view_state(&m->sessions[i].view), "complete") != 0)
            return false;
    return true;
}

static json_t *summary_of(const struct merge *m, const char *dir)
{
    char now[CLOCK_UTC_MAX];
    const bool complete = all_complete(m);
    json_t *root = json_object();
    clock_utc(now);
    json_put_str(root, "schema", "session/1.0");
    json_put_str(root, "session", fs_basename(dir));
    json_put_str(root, "name", m->sessions[0].study.name);
    json_put_str(root, "state", complete ? "complete" : "incomplete");
    json_put_int(root, "exit_code", complete ? NCBENCH_EXIT_OK : NCBENCH_EXIT_TRIALS);
    json_put_str(root, "scenario_sha256",
                 json_read_str(m->sessions[0].view.summary, "scenario_sha256"));
    json_put_str(root, "updated_utc", now);
    json_put(root, "merged", list_of(m));
    return root;
}

static int write_session(const struct merge *m, const char *dir, struct error *err)
{
    auto_free char *trials = mem_printf("%s/trials.jsonl", dir);
    auto_free char *resolved_path = mem_printf("%s/resolved.json", dir);
    auto_free char *summary_path = mem_printf("%s/session.json", dir);
    auto_json *resolved = json_copy(m->sessions[0].resolved);
    auto_json *summary = summary_of(m, dir);
    auto_str records = STR_INIT;
    int64_t stratum = 0;
    json_object_set_new(resolved, "merged", list_of(m));
    for (size_t i = 0; i < m->count; i++)
        stratum = put_records(&m->sessions[i], stratum, &records);
    if (fs_exists(summary_path) || fs_exists(trials))
        return error_set(err, NCBENCH_EXIT_RESULTS, "%s: a session is there already", dir);
    if (fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, err) ||
        fs_write_atomic(trials, records.data, records.len, NCBENCH_EXIT_RESULTS, err) ||
        json_write_file(resolved_path, resolved, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    return json_write_file(summary_path, summary, NCBENCH_EXIT_RESULTS, err);
}

/* results/<name>/merged/<time>: not beside the sessions, where `--resume latest` would find it. */
static char *default_dir(const struct merge *m)
{
    char now[CLOCK_UTC_MAX];
    auto_free char *first = fs_realpath(m->sessions[0].view.dir);
    auto_str time = STR_INIT;
    clock_utc(now);
    for (const char *p = now; *p && *p != '.'; p++)
        if (*p != '-' && *p != ':')
            str_append_char(&time, *p);
    char *slash = first ? strrchr(first, '/') : NULL;
    if (slash)
        *slash = '\0';
    return mem_printf("%s/merged/%sZ-%d", slash ? first : ".", time.data, (int)getpid());
}

int session_merge(const struct strv *paths, const char *out, bool differ, char **dir,
                  struct error *err)
{
    struct merge m = {mem_zalloc(paths->count + 1, sizeof *m.sessions), 0};
    *dir = NULL;
    for (size_t i = 0; i < paths->count; i++) {
        if (session_data_load(paths->items[i], &m.sessions[i], err))
            break;
        m.count++;
    }
    if (!err->code && check(&m, differ, err) == 0) {
        char *made = out ? mem_strdup(out) : default_dir(&m);
        if (write_session(&m, made, err))
            free(made);
        else
            *dir = made;
    }
    for (size_t i = 0; i < m.count; i++)
        session_data_release(&m.sessions[i]);
    free(m.sessions);
    return err->code ? -err->code : 0;
}
