/* ncbench export: the records flat, one row per trial and metric. */
#include "common/cleanup.h"
#include "harness/output.h"
#include "harness/session_data.h"
#include "harness/verbs.h"
#include "harness/verdict_json.h"

#include <math.h>
#include <string.h>

struct export_options {
    char *format;
    char *output;
};

const struct option_spec export_options[] = {
    {"format", 'f', OPT_CHOICE, offsetof(struct export_options, format), "csv", 0, 0, "csv|json",
     "csv: a header and one row per trial and metric, an empty cell where there is no value; json: "
     "an array of the same rows, null where there is none"},
    {"output", 'o', OPT_STRING, offsetof(struct export_options, output), NULL, 0, 0, "FILE",
     "write to FILE in place of standard output (-)"},
    {0}};

/* Every metric that is a number of a trial; phases and disturbances by their path. */
static const char *const metrics[] = {"step_time_s",
                                      "tokens_per_s",
                                      "mfu",
                                      "start_s",
                                      "wall_s",
                                      "train.step_time_s.p95",
                                      "train.step_time_s.mad",
                                      "train.step_time_s.n",
                                      "train.rank_skew_s.median",
                                      "train.loss_last",
                                      "phases_s.create",
                                      "phases_s.exec",
                                      "phases_s.device_init",
                                      "phases_s.comm_init",
                                      "phases_s.data_init",
                                      "phases_s.model_init",
                                      "phases_s.first_step",
                                      "phases_s.warmup",
                                      "phases_s.steady",
                                      "phases_s.eval",
                                      "phases_s.checkpoint",
                                      "phases_s.teardown",
                                      "phases_s.cleanup",
                                      "phases_s.total"};

static const char *const columns[] = {"session", "trial",   "seq",     "cell",   "label",  "block",
                                      "attempt", "stratum", "runtime", "warmup", "outcome"};

static json_t *row_of(const struct session_data *s, const struct record *r, const char *metric)
{
    int cell = study_cell_index(&s->study, r->cell);
    json_t *row = json_object();
    json_put_str(row, "session", s->id);
    json_put_str(row, "trial", r->trial);
    json_put_int(row, "seq", r->seq);
    json_put_str(row, "cell", r->cell);
    json_put_str(row, "label", cell >= 0 ? s->study.cells[cell].label : "");
    json_put_int(row, "block", r->block);
    json_put_int(row, "attempt", r->attempt);
    json_put_int(row, "stratum", r->stratum);
    json_put_str(row, "runtime", r->runtime);
    json_put_bool(row, "warmup", r->warmup_block);
    json_put_str(row, "outcome", outcome_name(r->outcome));
    json_put_str(row, "metric", metric);
    double value;
    if (record_metric(r, metric, &value) && isfinite(value))
        json_put_f64(row, "value", value);
    else
        json_put_null(row, "value",
                      r->outcome == OUTCOME_OK ? "not recorded" : "only ok trials have numbers");
    return row;
}

static void put_csv_row(struct str *out, const json_t *row)
{
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const json_t *v = json_object_get(row, columns[i]);
        if (json_is_string(v))
            csv_put(out, json_string_value(v));
        else if (json_is_boolean(v))
            str_append(out, json_is_true(v) ? "true" : "false");
        else if (json_is_integer(v))
            str_appendf(out, "%lld", (long long)json_integer_value(v));
        str_append_char(out, ',');
    }
    csv_put(out, json_read_str(row, "metric"));
    str_append_char(out, ',');
    double value = NAN;
    json_read_f64(row, "value", &value);
    csv_put_f64(out, value);
    str_append_char(out, '\n');
}

static void export_rows(const struct session_data *s, bool csv, struct str *out)
{
    auto_json *list = json_array();
    if (csv) {
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            str_appendf(out, "%s,", columns[i]);
        str_append(out, "metric,value\n");
    }
    for (size_t i = 0; i < s->view.records.count; i++) {
        for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
            json_t *row = row_of(s, &s->view.records.items[i], metrics[m]);
            if (csv) {
                put_csv_row(out, row);
                json_decref(row);
            } else {
                json_array_append_new(list, row);
            }
        }
    }
    if (csv)
        return;
    json_write(out, list, 1);
    str_append(out, "\n");
}

static int export_session(const struct export_options *o, const char *path, struct error *err)
{
    struct session_data session;
    if (session_data_load(path, &session, err))
        return err->code;
    auto_str text = STR_INIT;
    export_rows(&session, !strcmp(o->format, "csv"), &text);
    int rc = output_write(o->output, &text, err) ? err->code : 0;
    session_data_release(&session);
    return rc;
}

int cmd_export(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    auto_strv operands = STRV_INIT;
    struct export_options o;
    options_defaults(export_options, &o);
    int rc;
    if (options_parse(export_options, &o, argc, argv, &operands, &err))
        rc = err.code;
    else if (operands.count != 1)
        rc = -error_set(&err, NCBENCH_EXIT_USAGE, "export takes one session, got %zu",
                        operands.count);
    else
        rc = export_session(&o, operands.items[0], &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(export_options, &o);
    return rc;
}
