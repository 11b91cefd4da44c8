/* ncbench run: a session from its plan to its last record. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "harness/gate.h"
#include "harness/launchers/slurm.h"
#include "harness/session.h"
#include "harness/session_end.h"
#include "harness/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run_options {
    struct strv defines;
    char *out, *resume, *only, *nanochat, *progress;
    int64_t blocks, seed;
    double timeout_s;
    bool dry_run, fail_fast, allow_drift, gate, quiet, verbose;
};

#define AT(field) offsetof(struct run_options, field)
const struct option_spec run_options[] = {
    {"define", 'D', OPT_LIST, AT(defines), NULL, 0, 0, "KEY=VALUE",
     "replace a variable or any key of the scenario, by its dotted name; may be repeated"},
    {"out", 'o', OPT_STRING, AT(out), NULL, 0, 0, "DIR",
     "results folder, instead of output.dir of the scenario"},
    {"resume", 0, OPT_STRING, AT(resume), NULL, 0, 0, "SESSION",
     "go on with that session; without a directory behind it: the newest of FILE; job: the one of "
     "this Slurm job, which was started again, or a new one where it had begun none"},
    {"allow-drift", 0, OPT_BOOL, AT(allow_drift), NULL, 0, 0, NULL,
     "resume though the scenario, the program, an image or the host has changed, as a new stratum"},
    {"only", 0, OPT_STRING, AT(only), NULL, 0, 0, "KEY=VALUE,…",
     "only the trials of that runtime, cell or matrix value, as runtime=podman,ranks=2"},
    {"blocks", 0, OPT_INT, AT(blocks), "-1", -1, 100000, "N",
     "that many analysed blocks a cell instead of the scenario's looks; -1: as the scenario says"},
    {"seed", 0, OPT_INT, AT(seed), "-1", -1, 9e15, "N",
     "seed of the order of trials, instead of sampling.seed; -1: as the scenario says"},
    {"timeout", 0, OPT_DURATION, AT(timeout_s), NULL, 0, 0, "DURATION",
     "end the session after that time, with exit code 124; it can be resumed"},
    {"nanochat", 0, OPT_STRING, AT(nanochat), NULL, 0, 0, "PATH",
     "the workload's program; by default it is looked for beside ncbench, then on PATH"},
    {"dry-run", 'n', OPT_BOOL, AT(dry_run), NULL, 0, 0, NULL,
     "print the plan, a line of JSON a trial, and run nothing"},
    {"fail-fast", 0, OPT_BOOL, AT(fail_fast), NULL, 0, 0, NULL,
     "end the session at the first failed trial, instead of after limits.max_failures"},
    {"gate", 0, OPT_BOOL, AT(gate), NULL, 0, 0, NULL,
     "when the session is complete, exit as `ncbench gate` does: 1 a gate failed, 6 inconclusive, "
     "7 "
     "not comparable or untrustworthy"},
    {"progress", 0, OPT_CHOICE, AT(progress), "auto", 0, 0, "auto|plain|none",
     "a live line on a terminal and plain lines elsewhere; plain lines; nothing"},
    {"quiet", 'q', OPT_BOOL, AT(quiet), NULL, 0, 0, NULL,
     "errors and the session's directory only"},
    {"verbose", 'v', OPT_BOOL, AT(verbose), NULL, 0, 0, NULL, "tell more"},
    {0}};

/* "--resume" without a session behind it means the newest one: it is last, or an option or a file
 * follows. */
static void mend_resume(int argc, char *const *argv, struct strv *out)
{
    bool options = true;
    for (int i = 0; i < argc; i++) {
        options = options && strcmp(argv[i], "--") != 0;
        bool bare = options && !strcmp(argv[i], "--resume");
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (bare && (!next || *next == '-' || (fs_exists(next) && !fs_is_dir(next))))
            strv_push(out, "--resume=latest");
        else
            strv_push(out, argv[i]);
    }
}

static bool resumes_job(const struct run_options *o)
{
    return o->resume && !strcmp(o->resume, "job");
}

static int check_operands(const struct run_options *o, const struct strv *files, struct error *err)
{
    if (files->count > 1)
        return error_set(err, NCBENCH_EXIT_USAGE, "\"%s\": one scenario at a time",
                         files->items[1]);
    if (!files->count && (!o->resume || !strcmp(o->resume, "latest")))
        return error_set(err, NCBENCH_EXIT_USAGE, "no scenario given, expected run FILE");
    if (!files->count && resumes_job(o))
        return error_set(err, NCBENCH_EXIT_USAGE, "--resume=job needs the scenario");
    if (o->resume && o->dry_run)
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "--dry-run prints the plan of a scenario; that of a session is its "
                         "plan.jsonl");
    if (o->resume && !resumes_job(o) &&
        (o->only || o->blocks >= 0 || o->seed >= 0 || o->defines.count))
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "a resumed session keeps its plan: -D, --only, --blocks and --seed cannot "
                         "be given with --resume");
    return 0;
}

/* --resume=job: the options of a new session stand beside it; one that goes on has them already. */
static int find_session_of_job(struct run_options *o, const char *scenario_path, struct error *err)
{
    struct scenario s = {0};
    if (!resumes_job(o))
        return 0;
    if (!slurm_inside())
        return error_set(err, NCBENCH_EXIT_USAGE, "--resume=job: this is no job of Slurm");
    if (scenario_load(scenario_path, &o->defines, &s, err) == 0) {
        auto_free char *folder = mem_printf("%s/%s", o->out ? o->out : s.output.dir, s.name);
        free(o->resume);
        o->resume = session_newest(folder, getenv("SLURM_JOB_ID"));
    }
    scenario_release(&s);
    if (o->resume && !err->code) {
        strv_clear(&o->defines);
        free(o->only);
        o->only = NULL;
        o->blocks = o->seed = -1;
    }
    return err->code ? -err->code : 0;
}

static int print_plan(const struct session_options *o, struct error *err)
{
    struct scenario s = {0};
    struct plan plan = {0};
    auto_str text = STR_INIT;
    if (scenario_load(o->scenario_path, &o->defines, &s, err) == 0 &&
        plan_make(&s, o->blocks, &plan, err) == 0 && session_filter(&s, o->only, &plan, err) == 0)
        plan_write(&s, &plan, &text);
    plan_release(&plan);
    scenario_release(&s);
    if (err->code)
        return -err->code;
    if (fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write the plan to standard output");
    return 0;
}

static void tell_end(const struct session *s, int code)
{
    size_t ok = 0;
    for (size_t i = 0; i < s->records.count; i++)
        ok += s->records.items[i].outcome == OUTCOME_OK;
    log_info("%s: %s, %zu trials, %zu ok, %zu not", s->shown, json_read_str(s->summary, "state"),
             s->records.count, ok, s->records.count - ok);
    if (code)
        log_info("`ncbench status %s` tells what failed; `ncbench run --resume %s` goes on",
                 s->shown, s->shown);
}

/* Reports of what is there, unless we were told to stop; then the gates, if asked for. */
static int after_session(const struct session *s, int code, bool gate, struct error *err)
{
    if (code >= NCBENCH_EXIT_LIMIT)
        return code;
    struct session_data session;
    struct analysis a;
    auto_str lines = STR_INIT;
    if (session_data_load(s->dir, &session, err))
        return -err->code;
    analysis_make(&session.study, &session.view.records, NULL, &a);
    if (session_end(&s->scenario, &session, &a, s->shown, err))
        code = -err->code;
    else if (!code && gate)
        code = gates_run(&a, false, &lines, err);
    analysis_release(&a);
    session_data_release(&session);
    fputs(lines.data, stderr);
    return code;
}

static int run_session(const struct session_options *o, bool gate, struct error *err)
{
    struct session s;
    int code = 0;
    int rc = o->resume ? session_resume(o, &s, err) : session_create(o, &s, err);
    if (rc == 0) {
        log_info("session %s: %zu trials planned", s.shown, s.plan.count);
        rc = session_run(&s, o, &code, err);
        tell_end(&s, code);
        if (rc == 0)
            code = after_session(&s, code, gate, err);
        printf("%s\n", s.shown);
        if (fflush(stdout) && !err->code)
            rc = error_set(err, NCBENCH_EXIT_RESULTS, "cannot write to standard output");
    } else if (s.summary) { /* begun, but nothing can run */
        auto_error struct error ignored = ERROR_INIT;
        session_cleanup(&s);
        if (!o->resume)
            session_save(&s, "failed", err->code, &ignored);
    }
    session_release(&s);
    return rc ? rc : code;
}

int cmd_run(int argc, char **argv)
{
    struct run_options o;
    auto_error struct error err = ERROR_INIT;
    auto_strv files = STRV_INIT, args = STRV_INIT;
    int code = 0;
    options_defaults(run_options, &o);
    mend_resume(argc, argv, &args);
    if (options_parse(run_options, &o, (int)args.count, args.items, &files, &err) == 0 &&
        check_operands(&o, &files, &err) == 0 &&
        find_session_of_job(&o, files.count ? files.items[0] : NULL, &err) == 0) {
        log_set_level(o.quiet ? LOG_WARN : o.verbose ? LOG_DEBUG : LOG_INFO);
        if (o.seed >= 0)
            strv_pushf(&o.defines, "sampling.seed=%lld", (long long)o.seed);
        struct session_options session = {
            .scenario_path = files.count ? files.items[0] : NULL,
            .defines = o.defines,
            .out = o.out,
            .resume = o.resume,
            .only = o.only,
            .blocks = o.blocks,
            .timeout_s = o.timeout_s,
            .nanochat = o.nanochat,
            .progress = o.progress,
            .fail_fast = o.fail_fast,
            .allow_drift = o.allow_drift,
            .quiet = o.quiet,
        };
        code = o.dry_run ? print_plan(&session, &err) : run_session(&session, o.gate, &err);
    }
    if (err.code)
        scenario_error_print(&err, "ncbench");
    options_release(run_options, &o);
    return err.code ? err.code : code;
}
