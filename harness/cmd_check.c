/* ncbench check: judge a scenario without running anything. */
#include "common/cleanup.h"
#include "common/log.h"
#include "common/protocol.h"
#include "harness/plan.h"
#include "harness/scenario.h"
#include "harness/schema.h"
#include "harness/verbs.h"

#include <stdio.h>

struct check_options {
    bool dump, portable, strict, reference;
    struct strv defines;
};

const struct option_spec check_options[] = {
    {"dump", 0, OPT_BOOL, offsetof(struct check_options, dump), NULL, 0, 0, NULL,
     "print resolved.json: the scenario with all defaults, variables and cells"},
    {"portable", 0, OPT_BOOL, offsetof(struct check_options, portable), NULL, 0, 0, NULL,
     "judge the file alone, not whether this machine can run it"},
    {"strict", 0, OPT_BOOL, offsetof(struct check_options, strict), NULL, 0, 0, NULL,
     "take warnings as errors (exit 3)"},
    {"reference", 0, OPT_BOOL, offsetof(struct check_options, reference), NULL, 0, 0, NULL,
     "print the reference of all scenario keys and end"},
    {"define", 'D', OPT_LIST, offsetof(struct check_options, defines), NULL, 0, 0, "KEY=VALUE",
     "replace a variable or a key, such as image=x or sampling.seed=7; may be repeated"},
    {0},
};

static int print(const struct str *text, struct error *err)
{
    if (fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write to standard output");
    return 0;
}

/* What the scenario comes to, for people; the dump for programs. */
static int tell(const struct scenario *s, const struct check_options *o, struct error *err)
{
    auto_str text = STR_INIT;
    if (o->dump) {
        json_write(&text, s->resolved, 2);
        str_append_char(&text, '\n');
    } else {
        struct plan plan;
        if (plan_make(s, -1, &plan, err))
            return -err->code;
        str_appendf(&text,
                    "%s: fine: %zu cell%s, %zu runtime%s, at most %zu trials, repeats apart\n",
                    s->path, s->n_cells, s->n_cells == 1 ? "" : "s", s->n_runtimes,
                    s->n_runtimes == 1 ? "" : "s", plan.count);
        plan_release(&plan);
    }
    return print(&text, err);
}

static int check_file(const char *path, const struct check_options *o, struct error *err)
{
    struct scenario s;
    auto_strv warnings = STRV_INIT;
    if (scenario_load(path, &o->defines, &s, err))
        return -err->code;
    int rc = scenario_check(&s, o->portable, &warnings, err);
    for (size_t i = 0; i < warnings.count; i++)
        log_warn("%s: %s", path, warnings.items[i]);
    if (!rc && o->strict && warnings.count)
        rc = error_set(err, NCBENCH_EXIT_SCENARIO, "%s: %zu warning%s, and --strict was given",
                       path, warnings.count, warnings.count == 1 ? "" : "s");
    if (!rc)
        rc = tell(&s, o, err);
    scenario_release(&s);
    return rc;
}

static int check_all(const struct check_options *o, const struct strv *files, struct error *err)
{
    if (o->reference) {
        auto_str text = STR_INIT;
        schema_reference(&text);
        return print(&text, err);
    }
    if (!files->count)
        return error_set(err, NCBENCH_EXIT_USAGE, "check needs a scenario file");
    /* every file is judged; the first bad one decides the exit code */
    int code = 0;
    for (size_t i = 0; i < files->count; i++) {
        auto_error struct error one = ERROR_INIT;
        if (!check_file(files->items[i], o, &one))
            continue;
        scenario_error_print(&one, "ncbench");
        if (!code)
            code = one.code;
    }
    return -code;
}

int cmd_check(int argc, char **argv)
{
    struct check_options o;
    auto_strv files = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    options_defaults(check_options, &o);
    int rc = options_parse(check_options, &o, argc, argv, &files, &err);
    if (!rc)
        rc = check_all(&o, &files, &err);
    error_print(&err, "ncbench");
    options_release(check_options, &o);
    return -rc;
}
