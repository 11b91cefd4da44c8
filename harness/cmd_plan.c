/* ncbench plan: the trials of a scenario in their order; nothing runs. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "harness/plan.h"
#include "harness/plan_power.h"
#include "harness/scenario.h"
#include "harness/session.h"
#include "harness/trial.h"
#include "harness/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct plan_options {
    bool json;
    int64_t blocks, seed;
    char *session;
    struct strv defines;
};

const struct option_spec plan_options[] = {
    {"json", 0, OPT_BOOL, offsetof(struct plan_options, json), NULL, 0, 0, NULL,
     "print the lines of plan.jsonl, a trial a line"},
    {"blocks", 0, OPT_INT, offsetof(struct plan_options, blocks), "-1", -1, 1000000, "N",
     "so many analysed blocks a cell; -1: up to the last look"},
    {"seed", 0, OPT_INT, offsetof(struct plan_options, seed), "-1", -1, 9007199254740992.0, "N",
     "of the order, in place of sampling.seed; -1: the scenario's"},
    {"session", 0, OPT_STRING, offsetof(struct plan_options, session), NULL, 0, 0, "DIR",
     "an earlier session whose noise tells how many blocks are needed; else the newest of this "
     "scenario"},
    {"define", 'D', OPT_LIST, offsetof(struct plan_options, defines), NULL, 0, 0, "KEY=VALUE",
     "replace a variable or a key, such as image=x or sampling.seed=7; may be repeated"},
    {0},
};

static void append_command(struct str *out, const struct strv *argv)
{
    for (size_t i = 0; i < argv->count; i++) {
        auto_str word = STR_INIT;
        str_append_word(&word, argv->items[i]);
        str_append_char(out, ' ');
        str_append_printable(out, word.data, word.len);
    }
    str_append_char(out, '\n');
}

/* What a trial would have of its session; the names in capitals are not known before. */
struct plan_session {
    struct trial_context context;
    struct slurm_allocation allocation;
    char *nanochat;
};

static void session_pretend(struct plan_session *p, const struct scenario *s)
{
    auto_error struct error ignored = ERROR_INIT;
    *p = (struct plan_session){.nanochat = session_find_nanochat(NULL, &ignored)};
    int64_t nodes = 0;
    for (size_t c = 0; c < s->n_cells; c++)
        if (s->cells[c].is_slurm && s->cells[c].nodes > nodes)
            nodes = s->cells[c].nodes;
    for (int64_t i = 1; i <= nodes; i++)
        strv_pushf(&p->allocation.nodes, "NODE%" PRId64, i);
    p->allocation.job_id = mem_strdup("JOB");
    p->context = (struct trial_context){.scenario = s,
                                        .session_id = "SESSION",
                                        .session_dir = "/SESSION",
                                        .nanochat = p->nanochat ? p->nanochat : "nanochat",
                                        .launcher = &launcher_local};
}

static void session_forget(struct plan_session *p)
{
    slurm_release(&p->allocation);
    free(p->nanochat);
}

/* What would be started: the command that `run` composes, of the first rank where it starts each.
 */
static int append_runtime(struct str *out, struct plan_session *p, size_t cell, size_t arm,
                          struct error *err)
{
    const bool is_slurm = p->context.scenario->cells[cell].is_slurm;
    const struct planned_trial trial = {.id = "TRIAL", .cell = cell, .runtime = arm};
    struct trial_facts f;
    p->context.allocation = is_slurm ? &p->allocation : NULL;
    trial_facts_init(&f, &p->context, &trial, 1, 0);
    f.dir = mem_strdup("/SESSION/trials/TRIAL");
    int rc = trial_launch_compose(&f, "PORT", err);
    str_appendf(out, "  %-16s", f.spec->name);
    if (!rc)
        append_command(out, &f.processes[0].argv);
    if (!rc && f.n_processes > 1)
        str_appendf(out, "  %-16s # and %zu more, a rank each\n", "", f.n_processes - 1);
    trial_facts_release(&f);
    return rc;
}

static int append_cells(struct str *out, struct plan_session *session, struct error *err)
{
    const struct scenario *s = session->context.scenario;
    for (size_t c = 0; c < s->n_cells; c++) {
        const struct cell *cell = &s->cells[c];
        auto_str values = STR_INIT;
        json_write(&values, cell->values, 0);
        str_appendf(out,
                    "cell %s %s: %" PRId64 " node%s x %" PRId64 " ranks x %" PRId64 " threads\n",
                    cell->id, values.data, cell->nodes, cell->nodes == 1 ? "" : "s",
                    cell->ranks_per_node, cell->threads_per_rank);
        for (size_t arm = 0; arm < s->n_runtimes; arm++)
            if (append_runtime(out, session, c, arm, err))
                return -err->code;
    }
    return 0;
}

/* A block a line: its runtimes in order. */
static void append_blocks(struct str *out, const struct scenario *s, const struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct planned_trial *t = &plan->trials[i];
        const struct cell *cell = &s->cells[t->cell];
        if (!t->position)
            str_appendf(out, "%5zu  %s.b%02" PRId64 " ", t->seq, cell->id, t->block);
        str_appendf(out, " %s", cell->runtimes[t->runtime].name);
        if ((size_t)t->position + 1 == s->n_runtimes)
            str_append(out, t->warmup_block ? "   (warms up, not analysed)\n" : "\n");
    }
}

static int print_plan(const struct scenario *s, const struct plan_options *o, struct error *err)
{
    struct plan plan;
    auto_str out = STR_INIT;
    if (plan_make(s, o->blocks, &plan, err))
        return -err->code;
    int rc = 0;
    if (o->json) {
        plan_write(s, &plan, &out);
    } else {
        struct plan_session session;
        session_pretend(&session, s);
        rc = append_cells(&out, &session, err);
        session_forget(&session);
        str_appendf(&out, "\ntrial  block    runtimes, in order\n");
        append_blocks(&out, s, &plan);
        str_appendf(&out,
                    "\nat most %zu trials: %" PRId64 " blocks of %zu runtimes in each of %zu "
                    "cell%s; disturbed and failed ones are repeated beyond that\n",
                    plan.count, plan.blocks, s->n_runtimes, s->n_cells, s->n_cells == 1 ? "" : "s");
        rc = rc ? rc : plan_power(s, &plan, o->session, &out, err);
    }
    plan_release(&plan);
    if (!rc && (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout)))
        rc = error_set(err, NCBENCH_EXIT_RESULTS, "cannot write to standard output");
    return rc;
}

static int plan_file(const char *path, struct plan_options *o, struct error *err)
{
    struct scenario s;
    if (o->seed >= 0)
        strv_pushf(&o->defines, "sampling.seed=%" PRId64, o->seed);
    if (scenario_load(path, &o->defines, &s, err))
        return -err->code;
    int rc = print_plan(&s, o, err);
    scenario_release(&s);
    return rc;
}

int cmd_plan(int argc, char **argv)
{
    struct plan_options o;
    auto_strv files = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    options_defaults(plan_options, &o);
    int rc = options_parse(plan_options, &o, argc, argv, &files, &err);
    if (!rc && files.count != 1)
        rc = error_set(&err, NCBENCH_EXIT_USAGE, "plan needs one scenario file");
    if (!rc)
        rc = plan_file(files.items[0], &o, &err);
    scenario_error_print(&err, "ncbench");
    options_release(plan_options, &o);
    return -rc;
}
