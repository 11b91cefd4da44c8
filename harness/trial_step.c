/* Trials that are steps of a Slurm allocation: srun around the runtime's command line, and what is
 * different because the ranks run elsewhere. */
#include "common/cleanup.h"
#include "common/log.h"
#include "common/mem.h"
#include "harness/trial.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define FIRST_PORT 20000
#define PORTS 12000
#define REMOVE_S 60.0

bool trial_is_step(const struct trial_facts *f)
{
    return f->context->allocation != NULL;
}

/* Where the ranks meet; another port for each trial, so that a late rank of the last one disturbs
 * nobody. Below the ports that the kernel gives away. */
static int port_of(const struct trial_facts *f)
{
    uint32_t h = 2166136261u;
    for (const char *p = f->unique_id; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return FIRST_PORT + (int)(h % PORTS);
}

void trial_step_rendezvous(const struct trial_facts *f, struct strv *argv)
{
    if (f->cell->nodes < 2)
        return;
    strv_push(argv, "--rendezvous=slurm"); /* the number of the node, which only a task knows */
    strv_pushf(argv, "--nnodes=%lld", (long long)f->cell->nodes);
    strv_pushf(argv, "--master-addr=%s", f->context->allocation->nodes.items[0]);
    strv_pushf(argv, "--master-port=%d", port_of(f));
}

void trial_step_names(struct strv *env)
{
    strv_push(env, "SLURM_JOB_ID");
    strv_push(env, "SLURM_STEP_ID");
    strv_push(env, "SLURM_NODEID");
}

static struct slurm_step step_of(const struct trial_facts *f)
{
    const struct cell *cell = f->cell;
    const struct limits *limits = &f->context->scenario->limits;
    const bool verb = f->context->scenario->is_verb;
    const int64_t threads = slurm_cpus_per_task(cell->slurm.cpus_per_task, cell->ranks_per_node,
                                                cell->threads_per_rank);
    return (struct slurm_step){
        .allocation = f->context->allocation,
        .options = &cell->slurm,
        .nodes = cell->nodes,
        .tasks_per_node = verb ? 1 : cell->ranks_per_node,
        .cpus_per_task =
            verb ? threads : (threads + cell->ranks_per_node - 1) / cell->ranks_per_node,
        .bind = cell->bind != TOPO_BIND_NONE,
        .kill_on_bad_exit = !verb,
        /* ours comes first; Slurm's is for the case that we are gone */
        .time_s =
            (limits->trial_s > 0 ? limits->trial_s : 365 * 86400.0) + limits->kill_grace_s + 60,
        .name = f->unique_id,
        .cwd = f->dir,
    };
}

/* The environment of the client becomes the tasks'; the runtime's entries without "=" are names. */
static void clean_environment(struct strv *env)
{
    struct strv clean = STRV_INIT;
    for (size_t i = 0; i < env->count; i++)
        if (strchr(env->items[i], '='))
            strv_push(&clean, env->items[i]);
    strv_release(env);
    *env = clean;
}

static void foreign_environment(const struct trial_facts *f, struct strv *env)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)f->ranks);
    strv_env_set(env, ENV_WORLD_SIZE, text);
    strv_env_set(env, ENV_MASTER_ADDR, f->context->allocation->nodes.items[0]);
    snprintf(text, sizeof text, "%d", port_of(f));
    strv_env_set(env, ENV_MASTER_PORT, text);
}

/* Once a session in words, in every record as flags. */
static void tell_inherited(struct trial_facts *f, const struct slurm_step *step)
{
    size_t before = f->flags.count;
    slurm_inherited(step, &f->flags);
    for (size_t i = before; f->seq == 1 && i < f->flags.count; i++)
        log_warn("%s", f->flags.items[i]);
}

void trial_step_wrap(struct trial_process *p, struct trial_facts *f)
{
    struct slurm_step step = step_of(f);
    const bool plugin = f->ops->flags & RUNTIME_SRUN, verb = f->context->scenario->is_verb;
    const char *whose = f->context->scenario->output.files_per_node ? "node%5n" : "rank%5t";
    auto_free char *output = verb ? NULL : mem_printf("%s/%s.out", f->dir, whose);
    auto_free char *errors = verb ? NULL : mem_printf("%s/%s.err", f->dir, whose);
    struct strv argv = STRV_INIT;
    step.output = output;
    step.errors = errors;
    step.runtime = plugin ? &p->argv : NULL;
    slurm_step_argv(&step, &argv);
    strv_extend(&argv, plugin ? &f->workload : &p->argv);
    strv_release(&p->argv);
    p->argv = argv;
    clean_environment(&p->env);
    if (!verb)
        foreign_environment(f, &p->env);
    slurm_client_env(&p->env);
    tell_inherited(f, &step);
}

void trial_step_remove(struct trial_facts *f)
{
    const double seconds = REMOVE_S;
    if (!f->ops->remove_argv || !f->n_processes)
        return;
    struct slurm_step step = step_of(f);
    auto_strv words = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    auto_free char *name = mem_printf("%s.remove", f->unique_id);
    step.name = name;
    step.time_s = seconds;
    step.tasks_per_node = 1;
    f->ops->remove_argv(&f->processes[0].launch, &words);
    if (words.count && slurm_run(&step, &words, seconds, &err))
        strv_pushf(&f->flags, "stop_failed: %s", err.message);
}

bool trial_step_judge(struct trial_facts *f)
{
    auto_str reason = STR_INIT;
    if (!trial_is_step(f) || f->first_failed < 0)
        return false;
    slurm_read_word(f->stderr_tail.data, &f->word, &reason);
    if (f->word.outcome == OUTCOME_COUNT)
        return false;
    f->outcome = f->word.outcome;
    strv_push(&f->reasons, reason.data);
    return true;
}

void trial_step_blame(struct trial_facts *f)
{
    auto_str why = STR_INIT;
    if (!trial_is_step(f) || !f->reasons.count ||
        !slurm_is_taken_away(f->context->allocation, &why))
        return;
    str_appendf(&why, ": %s", f->reasons.items[0]);
    free(f->reasons.items[0]);
    f->reasons.items[0] = str_steal(&why);
    f->word.job_over = true;
}

int trial_step_status(const struct trial_facts *f, int status)
{
    if (status == 0 || !WIFEXITED(status))
        return status;
    if (f->word.exit_code > 0)
        return f->word.exit_code << 8;
    return f->word.signal ? f->word.signal : status;
}

void trial_step_record(const struct trial_facts *f, json_t *record)
{
    const struct slurm_allocation *a = f->context->allocation;
    const struct launcher_job *job = f->n_processes ? &f->processes[0].job : NULL;
    json_t *slurm = json_object();
    json_put_str(slurm, "job", a->job_id);
    const char *told =
        f->events.count ? json_read_str(f->events.items[0].hello, "slurm_step") : NULL;
    if (told || (job && *job->step_id))
        json_put_str(slurm, "step", told ? told : job->step_id);
    else
        json_put_null(slurm, "step", "it ended before Slurm was asked, and no rank told");
    json_put_str(slurm, "version", a->version);
    json_put_bool(slurm, "job_over", f->word.job_over);
    json_put_str(slurm, "failed_node", *f->word.node ? f->word.node : NULL);
    json_put(record, "slurm", slurm);
}
