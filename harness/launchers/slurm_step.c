/* The command line of a step. */
#include "harness/launchers/slurm.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IMMEDIATE_S 60 /* a step that cannot be made by then fails, instead of waiting for ever */

void slurm_step_argv(const struct slurm_step *s, struct strv *argv)
{
    const struct slurm_options *o = s->options;
    auto_free char *nodes = slurm_first_nodes(s->allocation, s->nodes);
    const int64_t minutes = (int64_t)ceil(s->time_s / 60);
    strv_push(argv, "srun");
    strv_pushf(argv, "--jobid=%s", s->allocation->job_id);
    strv_pushf(argv, "--job-name=%s", s->name);
    strv_pushf(argv, "--nodes=%" PRId64, s->nodes);
    strv_pushf(argv, "--nodelist=%s", nodes); /* the same nodes for every arm */
    strv_pushf(argv, "--ntasks=%" PRId64, s->nodes * s->tasks_per_node);
    strv_pushf(argv, "--ntasks-per-node=%" PRId64, s->tasks_per_node);
    strv_pushf(argv, "--cpus-per-task=%" PRId64, s->cpus_per_task);
    strv_pushf(argv, "--mem=%s", o->mem ? o->mem : "0"); /* 0: all of the allocation's */
    if (o->gpus_per_node > 0)
        strv_pushf(argv, "--gpus-per-node=%" PRId64, o->gpus_per_node);
    strv_pushf(argv, "--cpu-bind=%s", s->bind ? "cores" : "none");
    strv_pushf(argv, "--mpi=%s", o->mpi ? o->mpi : "none");
    if (o->network)
        strv_pushf(argv, "--network=%s", o->network);
    strv_pushf(argv, "--time=%" PRId64, minutes > 0 ? minutes : 1);
    /* With the batch script's own step, and with one that is still being cleaned up. */
    strv_push(argv, "--overlap");
    strv_push(argv, "--exact");
    strv_pushf(argv, "--immediate=%d", IMMEDIATE_S);
    strv_pushf(argv, "--kill-on-bad-exit=%d", s->kill_on_bad_exit);
    strv_push(argv, "--wait=0"); /* for ever for the other tasks: the harness has limits */
    strv_pushf(argv, "--chdir=%s", s->cwd);
    strv_push(argv, "--export=ALL"); /* of srun's own, which holds what the trial asks for */
    strv_push(argv, "--input=none");
    if (s->output)
        strv_pushf(argv, "--output=%s", s->output);
    if (s->errors)
        strv_pushf(argv, "--error=%s", s->errors);
    strv_extend(argv, &o->args);
    if (s->runtime)
        strv_extend(argv, s->runtime);
}

int64_t slurm_cpus_per_task(int64_t asked, int64_t ranks_per_node, int64_t threads_per_rank)
{
    return asked > 0 ? asked : ranks_per_node * threads_per_rank;
}

void slurm_client_env(struct strv *env)
{
    static const char *const names[] = {"SLURM_CONF", "PATH", "HOME"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && !strv_env_get(env, names[i]))
            strv_env_set(env, names[i], getenv(names[i]));
}

void slurm_inherited(const struct slurm_step *s, struct strv *warnings)
{
    const struct {
        const char *name, *what;
        int64_t ours;
    } known[] = {
        {"SLURM_CPUS_PER_TASK", "CPUs a task", s->cpus_per_task},
        {"SRUN_CPUS_PER_TASK", "CPUs a task", s->cpus_per_task},
        {"SLURM_NTASKS_PER_NODE", "tasks a node", s->tasks_per_node},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *text = getenv(known[i].name);
        int64_t value;
        if (text && num_parse_i64(text, &value) && value != known[i].ours)
            strv_pushf(warnings,
                       "%s=%s of the environment is not used: the scenario says %" PRId64 " %s",
                       known[i].name, text, known[i].ours, known[i].what);
    }
    static const char *const others[] = {"SLURM_CPU_BIND",  "SLURM_MEM_BIND",  "SLURM_DISTRIBUTION",
                                         "SLURM_GPU_BIND",  "SLURM_MPI_TYPE",  "SLURM_HINT",
                                         "SLURM_EXCLUSIVE", "SLURM_EXPORT_ENV"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (getenv(others[i]))
            strv_pushf(warnings, "%s=%s of the environment is not used", others[i],
                       getenv(others[i]));
}

void slurm_options_release(struct slurm_options *o)
{
    char *const texts[] = {o->account,     o->partition, o->qos, o->constraint,
                           o->reservation, o->mem,       o->mpi, o->network};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    strv_release(&o->args);
    strv_release(&o->sbatch);
    strv_release(&o->setup);
    *o = (struct slurm_options){0};
}
