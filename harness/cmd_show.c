/* ncbench show: the trials of a session, or one trial: record, logs, environment, argv. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "harness/session_view.h"
#include "harness/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct show_options {
    bool log, env, argv, json;
};

const struct option_spec show_options[] = {
    {"log", 0, OPT_BOOL, offsetof(struct show_options, log), NULL, 0, 0, NULL,
     "what the ranks and the launcher wrote"},
    {"env", 0, OPT_BOOL, offsetof(struct show_options, env), NULL, 0, 0, NULL,
     "the environment that the workload was given, a variable a line"},
    {"argv", 0, OPT_BOOL, offsetof(struct show_options, argv), NULL, 0, 0, NULL,
     "what was started, an argument a line"},
    {"json", 0, OPT_BOOL, offsetof(struct show_options, json), NULL, 0, 0, NULL,
     "the record, or all records, as JSON"},
    {0}};

static const struct record *find_trial(const struct session_view *v, const char *id)
{
    for (size_t i = 0; i < v->records.count; i++)
        if (!strcmp(v->records.items[i].trial, id))
            return &v->records.items[i];
    return NULL;
}

/* ---- a session ----------------------------------------------------------------------------------
 */
static void list_trials(const struct session_view *v, struct str *out)
{
    char step[32], start[32], wall[32];
    str_appendf(out, "%-24s %-16s %10s %10s %10s  %s\n", "trial", "outcome", "step", "start",
                "wall", "flags");
    for (size_t i = 0; i < v->records.count; i++) {
        const struct record *r = &v->records.items[i];
        double x;
        snprintf(step, sizeof step, "-");
        snprintf(start, sizeof start, "-");
        snprintf(wall, sizeof wall, "-");
        if (record_metric(r, "step_time_s", &x))
            num_format_duration(step, sizeof step, x);
        if (record_metric(r, "start_s", &x))
            num_format_duration(start, sizeof start, x);
        if (json_read_f64(r->json, "wall_s", &x))
            num_format_duration(wall, sizeof wall, x);
        str_appendf(out, "%-24s %-16s %10s %10s %10s ", r->trial, outcome_name(r->outcome), step,
                    start, wall);
        const json_t *flags = json_at(r->json, "flags");
        for (size_t k = 0; k < json_array_size(flags); k++)
            str_appendf(out, " %s", json_string_value(json_array_get(flags, k)));
        str_append(out, "\n");
    }
}

static void all_records(const struct session_view *v, struct str *out)
{
    for (size_t i = 0; i < v->records.count; i++) {
        json_write(out, v->records.items[i].json, 0);
        str_append(out, "\n");
    }
}

/* ---- a trial ------------------------------------------------------------------------------------
 */
static void show_logs(const char *dir, struct str *out)
{
    auto_strv names = STRV_INIT;
    auto_error struct error ignored = ERROR_INIT;
    fs_list_dir(dir, &names, NCBENCH_EXIT_RESULTS, &ignored);
    for (size_t i = 0; i < names.count; i++) {
        auto_str text = STR_INIT;
        auto_free char *path = mem_printf("%s/%s", dir, names.items[i]);
        if (!str_ends_with(names.items[i], ".out") && !str_ends_with(names.items[i], ".err"))
            continue;
        if (fs_read_file(path, &text, NCBENCH_EXIT_RESULTS, &ignored) || !text.len)
            continue;
        str_appendf(out, "==> %s <==\n", names.items[i]);
        str_append_printable(out, text.data, text.len);
        if (!str_ends_with(out->data, "\n"))
            str_append(out, "\n");
    }
}

static void show_list(const json_t *list, struct str *out)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        str_appendf(out, "%s\n", json_string_value(json_array_get(list, i)));
}

static int show_launch(const char *dir, bool env, struct str *out, struct error *err)
{
    auto_free char *path = mem_printf("%s/launch.json", dir);
    auto_json *launch = NULL;
    if (json_read_file(path, NCBENCH_EXIT_RESULTS, &launch, err))
        return -err->code;
    if (env) {
        show_list(json_at(launch, "env"), out);
        return 0;
    }
    const json_t *processes = json_at(launch, "processes");
    for (size_t i = 0; i < json_array_size(processes); i++)
        show_list(json_array_get(processes, i), out);
    return 0;
}

static void show_duration(const char *name, const json_t *value, struct str *out)
{
    char text[32];
    if (json_is_number(value))
        str_appendf(out, "  %-14s %s\n", name,
                    num_format_duration(text, sizeof text, json_number_value(value)));
}

static void show_record(const struct record *r, struct str *out)
{
    str_appendf(out, "%s  %s\n", r->trial, outcome_name(r->outcome));
    show_list(json_at(r->json, "reasons"), out);
    if (json_read_str(r->json, "hint"))
        str_appendf(out, "hint: %s\n", json_read_str(r->json, "hint"));
    str_append(out, "\nphases\n");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json_at(r->json, "phases_s"), key, value)
        show_duration(key, value, out);
    const json_t *step = json_at(r->json, "train.step_time_s");
    if (json_is_object(step)) {
        str_append(out, "\nsteady steps\n");
        static const char *const keys[] = {"median", "mean", "sd", "min", "p95", "max"};
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            show_duration(keys[i], json_object_get(step, keys[i]), out);
    }
    const char *tail = json_read_str(r->json, "stderr_tail");
    if (tail && *tail)
        str_appendf(out, "\nstandard error ends with\n%s\n", tail);
}

static int show_trial(const struct session_view *v, const char *id, const struct show_options *o,
                      struct str *out, struct error *err)
{
    const struct record *r = find_trial(v, id);
    auto_free char *dir = mem_printf("%s/trials/%s", v->dir, id);
    if (!r && !fs_is_dir(dir))
        return error_set(err, NCBENCH_EXIT_RESULTS, "%s: no trial \"%s\" is recorded", v->dir, id);
    if (o->log)
        show_logs(dir, out);
    else if (o->env || o->argv)
        return show_launch(dir, o->env, out, err);
    else if (!r)
        return error_set(err, NCBENCH_EXIT_RESULTS, "%s: trial \"%s\" has no record", v->dir, id);
    else if (o->json) {
        json_write(out, r->json, 2);
        str_append(out, "\n");
    } else
        show_record(r, out);
    return 0;
}

static int show(const char *path, const struct show_options *o, struct error *err)
{
    struct session_view v;
    auto_free char *trial = NULL;
    auto_str out = STR_INIT;
    if (session_view_load(path, &v, &trial, err) == 0) {
        if (trial)
            show_trial(&v, trial, o, &out, err);
        else if (o->log || o->env || o->argv)
            error_set(err, NCBENCH_EXIT_USAGE,
                      "--log, --env and --argv are of one trial, expected show SESSION/TRIAL");
        else if (o->json)
            all_records(&v, &out);
        else
            list_trials(&v, &out);
        if (!err->code && (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout)))
            error_set(err, NCBENCH_EXIT_RESULTS, "cannot write to standard output");
    }
    session_view_release(&v);
    return err->code ? -err->code : 0;
}

int cmd_show(int argc, char **argv)
{
    struct show_options o;
    auto_error struct error err = ERROR_INIT;
    auto_strv paths = STRV_INIT;
    options_defaults(show_options, &o);
    if (options_parse(show_options, &o, argc, argv, &paths, &err) == 0) {
        if (paths.count != 1)
            error_set(&err, NCBENCH_EXIT_USAGE, "expected show SESSION or show SESSION/TRIAL");
        else
            show(paths.items[0], &o, &err);
    }
    if (err.code)
        error_print(&err, "ncbench");
    options_release(show_options, &o);
    return err.code;
}
