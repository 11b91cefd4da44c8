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
