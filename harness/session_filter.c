/* --only 'runtime=podman,ranks=2': some of the plan's trials. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/session.h"

#include <stdlib.h>
#include <string.h>

/* A matrix value as the user would write it. */
static bool value_is(const json_t *value, const char *text)
{
    auto_str written = STR_INIT;
    if (json_is_string(value))
        return !strcmp(json_string_value(value), text);
    json_write(&written, value, 0);
    return !strcmp(written.data, text);
}

static bool has_runtime(const struct scenario *s, const char *name)
{
    for (size_t i = 0; i < s->n_runtimes; i++)
        if (!strcmp(s->cells[0].runtimes[i].name, name))
            return true;
    return false;
}

static int check_condition(const struct scenario *s, const char *key, const char *value,
                           struct error *err)
{
    if (!strcmp(key, "runtime") && !has_runtime(s, value))
        return error_set(err, NCBENCH_EXIT_USAGE, "--only runtime=%s: no runtime has that name",
                         value);
    if (strcmp(key, "runtime") && strcmp(key, "cell") && !json_object_get(s->cells[0].values, key))
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "--only %s=%s: \"%s\" is no key, expected runtime, cell, or a key of the "
                         "matrix",
                         key, value, key);
    return 0;
}

static bool matches(const struct scenario *s, const struct planned_trial *t, const char *key,
                    const char *value)
{
    const struct cell *cell = &s->cells[t->cell];
    if (!strcmp(key, "runtime"))
        return !strcmp(cell->runtimes[t->runtime].name, value);
    if (!strcmp(key, "cell"))
        return !strcmp(cell->id, value);
    return value_is(json_object_get(cell->values, key), value);
}

static void keep_matching(const struct scenario *s, struct plan *plan, const char *key,
                          const char *value)
{
    size_t kept = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (matches(s, &plan->trials[i], key, value))
            plan->trials[kept++] = plan->trials[i];
    plan->count = kept;
}

int session_filter(const struct scenario *s, const char *only, struct plan *plan, struct error *err)
{
    if (!only || !*only || !s->n_cells)
        return 0;
    auto_free char *copy = mem_strdup(only);
    char *save = NULL;
    for (char *part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        char *value = strchr(part, '=');
        if (!value)
            return error_set(err, NCBENCH_EXIT_USAGE, "--only \"%s\": expected KEY=VALUE", part);
        *value++ = '\0';
        if (check_condition(s, part, value, err))
            return -err->code;
        keep_matching(s, plan, part, value);
    }
    if (!plan->count)
        return error_set(err, NCBENCH_EXIT_USAGE, "--only \"%s\" leaves no trial of the plan",
                         only);
    return 0;
}
