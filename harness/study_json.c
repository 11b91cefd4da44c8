/* A study from resolved.json: the scenario with its defaults filled in, in the words of the
 * scenario. Percentages and durations are numbers there or, as written by people, texts. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "harness/study.h"

#include <math.h>
#include <string.h>

static double number_or_text(const json_t *v, double otherwise)
{
    double out;
    if (json_is_number(v))
        return json_number_value(v);
    if (json_is_string(v) && (num_parse_percent(json_string_value(v), &out) ||
                              num_parse_duration(json_string_value(v), &out)))
        return out;
    return otherwise;
}

static int read_arms(const json_t *resolved, struct study *out, struct error *err)
{
    const json_t *list = json_at(resolved, "runtimes");
    if (!list) /* per cell, for their ${…} may differ; names, kinds and differs do not */
        list = json_at(json_array_get(json_at(resolved, "cells"), 0), "runtimes");
    size_t n = json_array_size(list);
    if (n == 0)
        return error_set(err, NCBENCH_EXIT_RESULTS, "resolved.json: it lists no runtimes");
    out->arms = mem_zalloc(n + 2 + 1, /* two controls may come */
                           sizeof *out->arms);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        const char *name = json_read_str(item, "name");
        if (!name)
            return error_set(err, NCBENCH_EXIT_RESULTS, "resolved.json: runtimes[%zu] has no name",
                             i);
        struct study_arm *arm = &out->arms[out->n_arms++];
        const char *kind = json_read_str(item, "kind");
        arm->name = mem_strdup(name);
        arm->kind = mem_strdup(kind ? kind : name);
        size_t k;
        json_t *text;
        json_array_foreach(json_at(item, "differs"), k, text) if (json_is_string(text))
            strv_push(&arm->differs, json_string_value(text));
    }
    return 0;
}

/* A control arm is not in what people wrote: add it where the loader has not. */
static int add_twin(struct study *out, const char *what)
{
    auto_free char *name = mem_printf("%s-%s", out->arms[out->baseline].name, what);
    int at = study_arm_index(out, name);
    if (at >= 0)
        return at;
    out->arms[out->n_arms].kind = mem_strdup(out->arms[out->baseline].kind);
    out->arms[out->n_arms].name = steal(&name);
    return (int)out->n_arms++;
}

static void add_controls(const json_t *resolved, struct study *out)
{
    bool wanted = false;
    auto_free char *name = mem_printf("%s-control", out->arms[out->baseline].name);
    json_read_bool(resolved, "sampling.control", &wanted);
    out->control = wanted ? add_twin(out, "control") : study_arm_index(out, name);
    out->handicap_share = number_or_text(json_at(resolved, "sampling.handicap"), 0);
    if (out->handicap_share > 0)
        out->handicap = add_twin(out, "handicap");
}

static int read_sampling(const json_t *resolved, struct study *out, struct error *err)
{
    size_t i;
    json_t *look;
    json_array_foreach(json_at(resolved, "sampling.looks"), i, look)
    {
        if (out->n_looks == 5 || !json_is_integer(look))
            return error_set(err, NCBENCH_EXIT_RESULTS,
                             "resolved.json: sampling.looks is not a list of at most 5 integers");
        out->looks[out->n_looks++] = json_integer_value(look);
    }
    if (!out->n_looks)
        out->looks[out->n_looks++] = 6;
    const char *stop = json_read_str(resolved, "sampling.stop");
    out->stop = !stop || !strcmp(stop, "decided") ? STOP_DECIDED
                : !strcmp(stop, "precision")      ? STOP_PRECISION
                                                  : STOP_NEVER;
    json_read_bool(resolved, "sampling.discard_first_block", &out->discard_first_block);
    const char *mode = json_read_str(resolved, "scaling.mode");
    out->scaling = !mode                     ? SCALING_NONE
                   : !strcmp(mode, "weak")   ? SCALING_WEAK
                   : !strcmp(mode, "strong") ? SCALING_STRONG
                                             : SCALING_NONE;
    out->scaling_over = mem_strdup(json_read_str(resolved, "scaling.over"));
    return 0;
}

static void read_margins(const json_t *resolved, struct study *out)
{
    const json_t *margins = json_at(resolved, "compare.margin");
    out->margins = mem_zalloc(json_object_size(margins) + 1, sizeof *out->margins);
    const char *metric;
    json_t *value;
    json_object_foreach((json_t *)margins, metric, value)
    {
        struct margin m = {mem_strdup(metric), 0, 0};
        if (json_is_object(value)) {
            m.rel = number_or_text(json_object_get(value, "rel"), 0);
            m.abs = number_or_text(json_object_get(value, "abs"), 0);
        } else {
            m.rel = number_or_text(value, 0);
        }
        out->margins[out->n_margins++] = m;
    }
}

static void read_gates(const json_t *resolved, struct study *out)
{
    const json_t *gates = json_at(resolved, "gates");
    out->gates = mem_zalloc(json_array_size(gates) + 1, sizeof *out->gates);
    size_t i;
    json_t *g;
    json_array_foreach(gates, i, g)
    {
        const char *runtime = json_read_str(g, "runtime");
        const char *metric = json_read_str(g, "metric");
        out->gates[out->n_gates++] = (struct gate){mem_strdup(metric ? metric : out->primary),
                                                   mem_strdup(runtime ? runtime : "*"),
                                                   mem_strdup(json_read_str(g, "vs")),
                                                   mem_strdup(json_read_str(g, "verdict")),
                                                   number_or_text(json_object_get(g, "min"), NAN),
                                                   number_or_text(json_object_get(g, "max"), NAN)};
    }
}

static void add_cell(struct study *out, const char *id, const json_t *values, int64_t ranks)
{
    struct study_cell cell = {mem_strdup(id), study_cell_label(values),
                              values ? json_deep_copy(values) : json_object(), ranks};
    out->cells = mem_realloc(out->cells, out->n_cells + 1, sizeof *out->cells);
    out->cells[out->n_cells++] = cell;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct study_cell *)a)->id, ((const struct study_cell *)b)->id);
}

/* Cells as the records tell them: {"id": "c03", "ranks": 4}. */
static void cells_of_records(const struct records *records, struct study *out)
{
    for (size_t i = 0; records && i < records->count; i++) {
        const struct record *r = &records->items[i];
        if (study_cell_index(out, r->cell) >= 0)
            continue;
        auto_json *values = json_deep_copy(json_at(r->json, "cell"));
        const json_t *nested = json_at(values, "values");
        int64_t ranks = 0;
        json_read_i64(r->json, "ranks", &ranks);
        if (json_is_object(values))
            json_object_del(values, "id");
        add_cell(out, r->cell, nested ? nested : values, ranks);
    }
    if (out->n_cells)
        qsort(out->cells, out->n_cells, sizeof *out->cells, by_id);
}

static void read_cells(const json_t *resolved, const struct records *records, struct study *out)
{
    size_t i;
    json_t *c;
    json_array_foreach(json_at(resolved, "cells"), i, c)
    {
        const char *id = json_read_str(c, "id");
        int64_t nodes = 1;
        int64_t ranks = 1;
        json_read_i64(c, "launch.nodes", &nodes);
        json_read_i64(c, "launch.ranks_per_node", &ranks);
        json_read_i64(c, "nodes", &nodes);
        json_read_i64(c, "ranks_per_node", &ranks);
        if (id && study_cell_index(out, id) < 0)
            add_cell(out, id, json_at(c, "values"), nodes * ranks);
    }
    cells_of_records(records, out);
}

int study_from_json(const json_t *resolved, const struct records *records, struct study *out,
                    struct error *err)
{
    *out = (struct study){.control = -1, .handicap = -1};
    if (!json_is_object(resolved))
        return error_set(err, NCBENCH_EXIT_RESULTS, "resolved.json: not an object");
    if (read_arms(resolved, out, err) || read_sampling(resolved, out, err)) {
        study_release(out);
        return -NCBENCH_EXIT_RESULTS;
    }
    const char *baseline = json_read_str(resolved, "baseline");
    int index = study_arm_index(out, baseline);
    out->baseline = index < 0 ? 0 : (size_t)index;
    add_controls(resolved, out);
    const char *name = json_read_str(resolved, "name");
    const char *primary = json_read_str(resolved, "compare.primary");
    out->name = mem_strdup(name ? name : "session");
    out->description = mem_strdup(json_read_str(resolved, "description"));
    out->scenario_sha256 = mem_strdup(json_read_str(resolved, "scenario_sha256"));
    out->scenario_path = mem_strdup(json_read_str(resolved, "scenario_path"));
    out->primary = mem_strdup(primary ? primary : "step_time_s");
    size_t i;
    json_t *metric;
    json_array_foreach(json_at(resolved, "compare.secondary"), i,
                       metric) if (json_is_string(metric))
        strv_push(&out->secondary, json_string_value(metric));
    out->n_sessions = json_array_size(json_at(resolved, "merged"));
    read_margins(resolved, out);
    read_gates(resolved, out);
    read_cells(resolved, records, out);
    return 0;
}

void study_from_scenario(const struct scenario *s, struct study *out)
{
    auto_error struct error err = ERROR_INIT;
    if (study_from_json(s->resolved, NULL, out, &err))
        BUG("%s: %s", s->path, err.message);
}
