/* ncbench merge: several sessions of one scenario as strata of one. */
#include "common/cleanup.h"
#include "common/log.h"
#include "harness/session_end.h"
#include "harness/session_merge.h"
#include "harness/verbs.h"

#include <stdio.h>

struct merge_options {
    char *output;
    bool differ;
};

const struct option_spec merge_options[] = {
    {"output", 'o', OPT_STRING, offsetof(struct merge_options, output), NULL, 0, 0, "DIR",
     "folder to make; merged/<time> beside the first session"},
    {"allow-different", 0, OPT_BOOL, offsetof(struct merge_options, differ), NULL, 0, 0, NULL,
     "merge sessions of other scenarios or programs too"},
    {0}};

static int merge(const struct merge_options *o, const struct strv *paths, struct error *err)
{
    char *made = NULL;
    if (session_merge(paths, o->output, o->differ, &made, err))
        return err->code;
    auto_free char *dir = made;
    struct session_data session;
    struct analysis a;
    if (session_data_load(dir, &session, err))
        return err->code;
    analysis_make(&session.study, &session.view.records, NULL, &a);
    session_tell_verdicts(&a);
    analysis_release(&a);
    session_data_release(&session);
    int rc = 0;
    if (printf("%s\n", dir) < 0 || fflush(stdout))
        rc = -error_set(err, NCBENCH_EXIT_RESULTS, "cannot write to standard output");
    return rc;
}

int cmd_merge(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    auto_strv operands = STRV_INIT;
    struct merge_options o;
    options_defaults(merge_options, &o);
    int rc;
    if (options_parse(merge_options, &o, argc, argv, &operands, &err))
        rc = err.code;
    else if (operands.count < 2)
        rc = -error_set(&err, NCBENCH_EXIT_USAGE, "merge takes two sessions or more, got %zu",
                        operands.count);
    else
        rc = merge(&o, &operands, &err);
    if (err.code)
        error_print(&err, "ncbench");
    options_release(merge_options, &o);
    return rc;
}
