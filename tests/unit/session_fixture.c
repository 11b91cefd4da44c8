#include "tests/unit/session_fixture.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <string.h>

void fixture_study(struct study *out, const char *looks, bool control)
{
    auto_free char *text = mem_printf(
        "{\"name\": \"fixture\", \"baseline\": \"bare\","
        " \"runtimes\": [{\"name\": \"bare\", \"kind\": \"bare\", \"differs\": []},"
        "  {\"name\": \"podman\", \"kind\": \"podman\", \"differs\": []}],"
        " \"cells\": [{\"id\": \"c00\", \"values\": {\"ranks\": 1}, \"ranks_per_node\": 1},"
        "  {\"id\": \"c01\", \"values\": {\"ranks\": 2}, \"ranks_per_node\": 2}],"
        " \"scaling\": {\"mode\": \"weak\", \"over\": \"ranks\"},"
        " \"sampling\": {\"looks\": %s, \"stop\": \"decided\", \"control\": %s,"
        "  \"discard_first_block\": true},"
        " \"compare\": {\"primary\": \"step_time_s\", \"secondary\": [\"tokens_per_s\"],"
        "  \"margin\": {\"step_time_s\": \"1%%\", \"start_s\": {\"rel\": \"20%%\","
        "   \"abs\": \"100ms\"}}},"
        " \"gates\": [{\"metric\": \"step_time_s\", \"runtime\": \"*\", \"vs\": \"baseline\","
        "  \"verdict\": \"not_slower\"}]}",
        looks, control ? "true" : "false");
    auto_error struct error err = ERROR_INIT;
    json_t *resolved = NULL;
    if (json_parse(text, strlen(text), "fixture", NCBENCH_EXIT_RESULTS, &resolved, &err) ||
        study_from_json(resolved, NULL, out, &err))
        BUG("fixture: %s", err.message);
    json_decref(resolved);
}

static json_t *train_of(double step_time_s)
{
    json_t *step = json_object();
    json_t *train = json_object();
    if (step_time_s > 0) {
        json_put_f64(step, "median", step_time_s);
        json_put_f64(train, "tokens_per_s", 512 / step_time_s);
    } else {
        json_put_null(step, "median", "no samples");
        json_put_null(train, "tokens_per_s", "no samples");
    }
    json_put(train, "step_time_s", step);
    return train;
}

void fixture_add(struct records *r, struct fixture_trial t)
{
    auto_error struct error err = ERROR_INIT;
    int64_t attempt = t.attempt ? t.attempt : 1;
    json_t *record = json_object();
    json_put_str(record, "schema", RECORD_SCHEMA);
    json_put(record, "trial",
             json_sprintf("%s.b%02d.%s.a%d", t.cell, (int)t.block, t.runtime, (int)attempt));
    json_put_int(record, "seq", (int64_t)r->count);
    json_put_int(record, "attempt", attempt);
    json_put(record, "cell", json_pack("{s:s}", "id", t.cell));
    json_put_int(record, "block", t.block);
    json_put_str(record, "runtime", t.runtime);
    json_put_bool(record, "baseline", !strcmp(t.runtime, "bare"));
    json_put_bool(record, "warmup_block", t.block == 0);
    json_put_str(record, "outcome", outcome_name(t.outcome));
    json_put(record, "phases_s", json_pack("{s:f}", "start", t.block * 0.01 + 0.1));
    json_put(record, "train", train_of(t.step_time_s));
    if (t.env)
        json_put(record, "env", json_pack("[o]", t.env));
    if (records_add(r, record, "fixture", &err))
        BUG("fixture: %s", err.message);
}

void fixture_add_pairs(struct records *r, const char *cell, const double *a, const double *b,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fixture_add(
            r, (struct fixture_trial){cell, "bare", (int64_t)i + 1, 0, OUTCOME_OK, a[i], NULL});
        fixture_add(
            r, (struct fixture_trial){cell, "podman", (int64_t)i + 1, 0, OUTCOME_OK, b[i], NULL});
    }
}
