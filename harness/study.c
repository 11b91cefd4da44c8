#include "harness/study.h"

#include "common/mem.h"
#include "common/num.h"

#include <math.h>
#include <string.h>

char *study_cell_label(const json_t *values)
{
    struct str out = STR_INIT;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)values, key, value)
    {
        str_appendf(&out, "%s%s ", out.len ? ", " : "", key);
        if (json_is_string(value))
            str_append(&out, json_string_value(value));
        else
            json_write(&out, value, 0);
    }
    return str_steal(&out);
}

bool study_is_control(const struct study *s, size_t arm)
{
    return (int)arm == s->control || (int)arm == s->handicap;
}

int study_arm_index(const struct study *s, const char *name)
{
    for (size_t i = 0; name && i < s->n_arms; i++)
        if (!strcmp(s->arms[i].name, name))
            return (int)i;
    return -1;
}

int study_cell_index(const struct study *s, const char *id)
{
    for (size_t i = 0; id && i < s->n_cells; i++)
        if (!strcmp(s->cells[i].id, id))
            return (int)i;
    return -1;
}

static const struct margin *find_margin(const struct study *s, const char *metric)
{
    for (size_t i = 0; i < s->n_margins; i++)
        if (!strcmp(s->margins[i].metric, metric))
            return &s->margins[i];
    return NULL;
}

static struct margin default_margin(const char *metric)
{
    if (!strcmp(metric, "step_time_s") || !strcmp(metric, "tokens_per_s") || !strcmp(metric, "mfu"))
        return (struct margin){NULL, .01, 0};
    if (!strcmp(metric, "start_s") || str_starts_with(metric, "phases_s."))
        return (struct margin){NULL, .20, .1};
    return (struct margin){NULL, .05, 0};
}

const char *study_margin_metric(const struct study *s, const char *metric)
{
    bool rate = !strcmp(metric, "tokens_per_s") || !strcmp(metric, "mfu");
    return rate && !find_margin(s, metric) && find_margin(s, "step_time_s") ? "step_time_s"
                                                                            : metric;
}

double study_margin(const struct study *s, const char *metric, double level, double *absolute,
                    const char **source)
{
    const struct margin *given = find_margin(s, study_margin_metric(s, metric));
    if (source)
        *source = given ? "scenario" : "default";
    struct margin m = given ? *given : default_margin(metric);
    double share = m.abs > 0 && level > 0 ? m.abs / level : 0;
    if (absolute)
        *absolute = share > m.rel ? m.abs : 0;
    return fmax(m.rel, share);
}

/* ---- from a scenario ----------------------------------------------------------------------- */

static void copy_gates(const struct scenario *s, struct study *out)
{
    out->n_gates = s->n_gates;
    out->gates = mem_zalloc(s->n_gates + 1, sizeof *out->gates);
    for (size_t i = 0; i < s->n_gates; i++) {
        const struct gate *g = &s->gates[i];
        out->gates[i] = (struct gate){mem_strdup(g->metric),
                                      mem_strdup(g->runtime),
                                      mem_strdup(g->vs),
                                      mem_strdup(g->verdict),
                                      g->min,
                                      g->max};
    }
}

static void copy_cells(const struct scenario *s, struct study *out)
{
    out->n_cells = s->n_cells;
    out->cells = mem_zalloc(s->n_cells + 1, sizeof *out->cells);
    for (size_t i = 0; i < s->n_cells; i++) {
        const struct cell *c = &s->cells[i];
        out->cells[i] =
            (struct study_cell){mem_strdup(c->id), study_cell_label(c->values),
                                json_deep_copy(c->values), c->nodes * c->ranks_per_node};
    }
}

void study_from_scenario(const struct scenario *s, struct study *out)
{
    *out = (struct study){.name = mem_strdup(s->name),
                          .description = mem_strdup(s->description),
                          .scenario_sha256 = mem_strdup(s->sha256),
                          .scenario_path = mem_strdup(s->path),
                          .baseline = s->baseline,
                          .control = s->control,
                          .handicap = s->handicap,
                          .handicap_share = s->sampling.handicap,
                          .n_looks = s->sampling.n_looks,
                          .stop = s->sampling.stop,
                          .discard_first_block = s->sampling.discard_first_block,
                          .scaling = s->scaling.mode,
                          .scaling_over = mem_strdup(s->scaling.over),
                          .primary = mem_strdup(s->primary)};
    memcpy(out->looks, s->sampling.looks, sizeof out->looks);
    strv_extend(&out->secondary, &s->secondary);
    out->n_arms = s->n_cells ? s->n_runtimes : 0;
    out->arms = mem_zalloc(out->n_arms + 1, sizeof *out->arms);
    for (size_t i = 0; i < out->n_arms; i++) {
        const struct runtime_spec *spec = &s->cells[0].runtimes[i];
        out->arms[i].name = mem_strdup(spec->name);
        out->arms[i].kind = mem_strdup(spec->kind);
        strv_extend(&out->arms[i].differs, &spec->differs);
    }
    out->n_margins = s->n_margins;
    out->margins = mem_zalloc(s->n_margins + 1, sizeof *out->margins);
    for (size_t i = 0; i < s->n_margins; i++)
        out->margins[i] =
            (struct margin){mem_strdup(s->margins[i].metric), s->margins[i].rel, s->margins[i].abs};
    copy_cells(s, out);
    copy_gates(s, out);
}

void study_release(struct study *s)
{
    free(s->name);
    free(s->description);
    free(s->scenario_sha256);
    free(s->scenario_path);
    free(s->scaling_over);
    free(s->primary);
    strv_release(&s->secondary);
    for (size_t i = 0; i < s->n_arms; i++) {
        free(s->arms[i].name);
        free(s->arms[i].kind);
        strv_release(&s->arms[i].differs);
    }
    free(s->arms);
    for (size_t i = 0; i < s->n_cells; i++) {
        free(s->cells[i].id);
        free(s->cells[i].label);
        json_decref(s->cells[i].values);
    }
    free(s->cells);
    for (size_t i = 0; i < s->n_margins; i++)
        free(s->margins[i].metric);
    free(s->margins);
    for (size_t i = 0; i < s->n_gates; i++) {
        free(s->gates[i].metric);
        free(s->gates[i].runtime);
        free(s->gates[i].vs);
        free(s->gates[i].verdict);
    }
    free(s->gates);
    *s = (struct study){.control = -1, .handicap = -1};
}
