#include "harness/job_script.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/launchers/slurm.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define WARN_S 120 /* before the end of the job ncbench is told, to end the trial and write */

static bool same(const char *a, const char *b)
{
    return (!a && !b) || (a && b && !strcmp(a, b));
}

/* One job is asked for all cells; its size is the largest, all else must be the same. */
static bool same_job(const struct slurm_options *a, const struct slurm_options *b)
{
    return same(a->account, b->account) && same(a->partition, b->partition) &&
           same(a->qos, b->qos) && same(a->constraint, b->constraint) &&
           same(a->reservation, b->reservation) && a->time_limit_s == b->time_limit_s &&
           strv_equal(&a->sbatch, &b->sbatch) && strv_equal(&a->setup, &b->setup);
}

static int check_cells(const struct scenario *s, struct error *err)
{
    for (size_t i = 0; i < s->n_cells; i++) {
        if (!s->cells[i].is_slurm) {
            error_set(err, NCBENCH_EXIT_SCENARIO, "%s: launch.scheduler is local, expected slurm",
                      s->path);
            return error_hint(err, "-D launch.scheduler=slurm changes it");
        }
        if (!same_job(&s->cells[i].slurm, &s->cells[0].slurm))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "%s: cells %s and %s ask for different jobs (launch.slurm)", s->path,
                             s->cells[0].id, s->cells[i].id);
    }
    return 0;
}

/* #SBATCH lines are words, not shell: nothing is quoted, so nothing may need it. */
static int option(struct str *out, const char *name, const char *value, struct error *err)
{
    if (!value)
        return 0;
    if (strpbrk(value, "\n\r"))
        return error_set(err, NCBENCH_EXIT_SCENARIO, "launch.slurm: a line break in --%s", name);
    bool quoted = strpbrk(value, " \t\"'&|;") != NULL;
    str_appendf(out, "#SBATCH --%s=%s%s%s\n", name, quoted ? "\"" : "", value, quoted ? "\"" : "");
    return 0;
}

static void append_time(struct str *out, double seconds)
{
    int64_t minutes = (int64_t)ceil(seconds / 60);
    if (seconds > 0)
        str_appendf(out, "#SBATCH --time=%" PRId64 ":%02" PRId64 ":00\n", minutes / 60,
                    minutes % 60);
}

static int append_options(const struct scenario *s, struct str *out, struct error *err)
{
    const struct slurm_options *o = &s->cells[0].slurm;
    int64_t nodes = 0, cpus = 0, gpus = 0;
    for (size_t i = 0; i < s->n_cells; i++) {
        const struct cell *c = &s->cells[i];
        int64_t own =
            slurm_cpus_per_task(c->slurm.cpus_per_task, c->ranks_per_node, c->threads_per_rank);
        nodes = c->nodes > nodes ? c->nodes : nodes;
        cpus = own > cpus ? own : cpus;
        gpus = c->slurm.gpus_per_node > gpus ? c->slurm.gpus_per_node : gpus;
    }
    str_appendf(out, "#SBATCH --job-name=%s\n#SBATCH --nodes=%" PRId64 "\n", s->name, nodes);
    str_appendf(out, "#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=%" PRId64 "\n", cpus);
    if (gpus)
        str_appendf(out, "#SBATCH --gpus-per-node=%" PRId64 "\n", gpus);
    append_time(out, o->time_limit_s);
    if (option(out, "account", o->account, err) || option(out, "partition", o->partition, err) ||
        option(out, "qos", o->qos, err) || option(out, "constraint", o->constraint, err) ||
        option(out, "reservation", o->reservation, err))
        return -err->code;
    str_append(out, "#SBATCH --output=%x-%j.out\n#SBATCH --open-mode=append\n#SBATCH --requeue\n");
    str_appendf(out, "#SBATCH --signal=B:TERM@%d\n", WARN_S);
    for (size_t i = 0; i < o->sbatch.count; i++) {
        if (strpbrk(o->sbatch.items[i], "\n\r"))
            return error_set(err, NCBENCH_EXIT_SCENARIO, "launch.slurm.sbatch: a line break");
        str_appendf(out, "#SBATCH %s\n", o->sbatch.items[i]);
    }
    return 0;
}

static void append_setting(struct str *out, const char *name, const char *value)
{
    str_appendf(out, "%s=", name);
    str_append_word(out, value);
    str_append_char(out, '\n');
}

static const char body[] =
    "\n"
    "# `sbatch FILE SESSION` goes on with a session. A job that Slurm started again, after a node\n"
    "# failed or something more urgent took its place, goes on with its own; on other nodes\n"
    "# what is measured from then on is analysed as a stratum of its own.\n"
    "if [ \"$#\" -gt 0 ]; then\n"
    "    arguments+=(\"--resume=$1\" --allow-drift)\n"
    "elif [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ]; then\n"
    "    arguments+=(--resume=job --allow-drift \"${start[@]}\")\n"
    "else\n"
    "    arguments+=(\"${start[@]}\")\n"
    "fi\n"
    "\n"
    "# Slurm tells this shell shortly before the time is over. ncbench ends the trial and writes "
    "its\n"
    "# record; `wait` returns at the signal, so it is called until ncbench has really ended.\n"
    "\"$ncbench\" run \"$scenario\" \"${arguments[@]}\" &\n"
    "pid=$!\n"
    "trap 'kill -TERM \"$pid\"' TERM INT\n"
    "rc=0\n"
    "wait \"$pid\" || rc=$?\n"
    "while kill -0 \"$pid\" 2>/dev/null; do\n"
    "    rc=0\n"
    "    wait \"$pid\" || rc=$?\n"
    "done\n"
    "exit \"$rc\"\n";

int job_script_write(const struct scenario *s, const struct job_script_options *o, struct str *out,
                     struct error *err)
{
    if (check_cells(s, err))
        return -err->code;
    str_append(out, "#!/usr/bin/env bash\n# Made by `ncbench sbatch` from ");
    str_append_printable(out, o->scenario_path, strlen(o->scenario_path));
    str_append_char(out, '\n');
    if (append_options(s, out, err))
        return -err->code;
    str_append(out, "set -euo pipefail\n\n");
    append_setting(out, "ncbench", o->ncbench);
    append_setting(out, "scenario", o->scenario_path);
    str_append(out, "arguments=(--progress=plain");
    if (o->out) {
        str_append(out, " --out=");
        str_append_word(out, o->out);
    }
    str_append(out, ")\n# Only a new session takes these.\nstart=(");
    for (size_t i = 0; i < o->start->count; i++) {
        str_append(out, i ? " " : "");
        str_append_word(out, o->start->items[i]);
    }
    str_append(out, ")\ncd ");
    str_append_word(out, o->directory);
    str_append_char(out, '\n');
    for (size_t i = 0; i < s->cells[0].slurm.setup.count; i++)
        str_appendf(out, "%s\n", s->cells[0].slurm.setup.items[i]);
    str_append(out, body);
    return 0;
}
