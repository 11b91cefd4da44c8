/* libFuzzer target: the scenario loader takes any bytes. A line "#D key=value" at the start is a
 * define. What loads must be whole: a plan can be made, and its dump loads as JSON. */
#include "harness/scenario.h"
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/plan.h"

#include <stdint.h>
#include <string.h>

static void use(const struct scenario *s)
{
    struct plan plan;
    auto_error struct error err = ERROR_INIT;
    auto_str dump = STR_INIT, lines = STR_INIT;
    auto_strv warnings = STRV_INIT;
    if (!s->n_cells || !s->n_runtimes || s->baseline >= s->n_runtimes || !s->name || !s->primary)
        __builtin_trap();
    if (s->n_cells * s->n_runtimes < 1000 && !plan_make(s, 2, &plan, &err)) {
        plan_write(s, &plan, &lines);
        plan_release(&plan);
    }
    scenario_check(s, true, &warnings, &err);
    json_write(&dump, s->resolved, 0);
    auto_json *back = NULL;
    if (json_parse(dump.data, dump.len, "dump", 3, &back, &err))
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    auto_strv defines = STRV_INIT;
    const char *end = size > 3 && !memcmp(text, "#D ", 3) ? memchr(text, '\n', size) : NULL;
    if (end)
        strv_push_own(&defines, mem_strndup(text + 3, (size_t)(end - text) - 3));
    struct scenario s;
    auto_error struct error err = ERROR_INIT;
    auto_free char *copy = mem_alloc(size); /* of its own, so that reading past the end is seen */
    memcpy(copy, data, size);
    if (!scenario_parse(copy, size, "fuzz", &defines, &s, &err))
        use(&s);
    else if (!err.message || !*err.message || (err.code != 2 && err.code != 3))
        __builtin_trap();
    scenario_release(&s);
    return 0;
}
