/* ncbench gate: evaluate the gates of a session; the entry point for CI. */
#include "common/cleanup.h"
#include "harness/gate.h"
#include "harness/output.h"
#include "harness/session_data.h"
#include "harness/verbs.h"

struct gate_options {
    bool json;
    char *output;
};

const struct option_spec gate_options[] = {
    {"json", 0, OPT_BOOL, offsetof(struct gate_options, json), NULL, 0, 0, NULL,
     "a JSON array with one object a gate and cell"},
    {"output", 'o', OPT_STRING, offsetof(struct gate_options, output), NULL, 0, 0, "FILE",
     "write to FILE in place of standard output (-)"},
    {0}};

static int gate(const struct gate_options *o, const char *path, struct error *err)
{
    auto_str text = STR_INIT;
    struct session_data session;
    struct analysis a;
    if (session_data_load(path, &session, err))
        return err->code;
    analysis_make(&session.study, &session.view.records, NULL, &a);
    int rc = gates_run(&a, o->json, &text, err);
    analysis_release(&a);
    session_data_release(&session);
    if (!err->code && output_write(o->output, &text, err))
        rc = err->code;
    return rc;
}

int cmd_gate(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    auto_strv operands = STRV_INIT;
    struct gate_options o;
    options_defaults(gate_options, &o);
    int rc;
    if (options_parse(gate_options, &o, argc, argv, &operands, &err))
        rc = err.code;
    else if (operands.count != 1)
        rc =
            -error_set(&err, NCBENCH_EXIT_USAGE, "gate takes one session, got %zu", operands.count);
    else
        rc = gate(&o, operands.items[0], &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(gate_options, &o);
    return rc;
}
