/* The allocation: what it consists of, whether it still is, how much time is left. */
#include "harness/launchers/slurm.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/hostlist.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

#define ASK_S 20.0 /* slurmctld may be busy; a command that hangs must not hang us */

bool slurm_inside(void)
{
    const char *id = getenv("SLURM_JOB_ID");
    return id && *id;
}

static void first_line(struct str *text)
{
    str_truncate(text, strcspn(text->data, "\n"));
}

/* The line that tells what went wrong: a runtime's own error before srun's, which only says that
 * there was one; a client's progress goes to standard error too. Cuts text. */
static const char *telling_line(struct str *text)
{
    static const char *const marks[] = {"[ERROR]", "rror: ", "rror"};
    char *at = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !at; i++)
        at = strstr(text->data, marks[i]);
    while (at && at > text->data && at[-1] != '\n')
        at--;
    at = at ? at : text->data;
    at[strcspn(at, "\n")] = '\0';
    return *at ? at : "it says nothing";
}

static int run(const struct strv *argv, char *const *env, double seconds, struct str *out,
               struct error *err)
{
    auto_str errors = STR_INIT;
    int status = 0;
    if (spawn_capture(argv->items, env, seconds, out, &errors, &status, NCBENCH_EXIT_ENVIRONMENT,
                      err))
        return -err->code;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s failed: %s", argv->items[0],
                     telling_line(&errors));
}

int slurm_ask(const struct strv *argv, double seconds, struct str *out, struct error *err)
{
    return run(argv, NULL, seconds, out, err);
}

int slurm_run(const struct slurm_step *step, const struct strv *command, double seconds,
              struct error *err)
{
    static const char *const not_ours[] = {"SLURM_", "SRUN_", "PYXIS_"};
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_str out = STR_INIT;
    for (char **e = environ; *e; e++) {
        bool ours = true;
        for (size_t i = 0; i < sizeof not_ours / sizeof *not_ours; i++)
            ours = ours && !str_starts_with(*e, not_ours[i]);
        if (ours)
            strv_push(&env, *e);
    }
    slurm_client_env(&env);
    slurm_step_argv(step, &argv);
    strv_extend(&argv, command);
    return run(&argv, env.items, seconds, &out, err);
}

static int ask(const char *command, const char *last, struct str *out, struct error *err)
{
    auto_strv argv = STRV_INIT;
    auto_free char *copy = mem_strdup(command);
    char *save = NULL;
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        strv_push(&argv, word);
    strv_push(&argv, last);
    return slurm_ask(&argv, ASK_S, out, err);
}

double slurm_parse_time(const char *text)
{
    long long part[4] = {0};
    int n = 0;
    const char *dash = strchr(text, '-');
    if (dash) {
        auto_free char *days = mem_strndup(text, (size_t)(dash - text));
        int64_t value;
        if (!num_parse_i64(days, &value))
            return -1;
        part[0] = value;
        text = dash + 1;
    }
    long long numbers[3] = {0};
    for (const char *p = text; n < 3; n++) {
        char *end;
        numbers[n] = strtoll(p, &end, 10);
        if (end == p || numbers[n] < 0)
            return -1;
        if (!*end) {
            n++;
            break;
        }
        if (*end != ':')
            return -1;
        p = end + 1;
    }
    double seconds = 0; /* the last number is seconds */
    for (int i = 0; i < n; i++)
        seconds = seconds * 60 + (double)numbers[i];
    return (double)part[0] * 86400 + seconds;
}

int64_t slurm_least_cpus(const char *text)
{
    int64_t least = 0;
    for (const char *p = text; p && *p;) {
        char *end;
        long long cpus = strtoll(p, &end, 10);
        if (end == p || cpus < 1)
            return 0;
        least = !least || cpus < least ? cpus : least;
        end += strcspn(end, ",");
        p = *end ? end + 1 : end;
    }
    return least;
}

char *slurm_first_nodes(const struct slurm_allocation *a, int64_t count)
{
    auto_str list = STR_INIT;
    for (int64_t i = 0; i < count && i < (int64_t)a->nodes.count; i++)
        str_appendf(&list, "%s%s", i ? "," : "", a->nodes.items[i]);
    return str_steal(&list);
}

static bool same_short_name(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");
    return len && len == strcspn(b, ".") && !strncmp(a, b, len);
}

const char *slurm_own_node(const struct slurm_allocation *a, const char *host)
{
    const char *told = getenv("SLURMD_NODENAME");
    for (size_t i = 0; told && i < a->nodes.count; i++)
        if (!strcmp(a->nodes.items[i], told))
            return a->nodes.items[i];
    for (size_t i = 0; i < a->nodes.count; i++)
        if (same_short_name(a->nodes.items[i], host))
            return a->nodes.items[i];
    return NULL;
}

/* "RUNNING|n[1-4]|1:02:03" of the job. */
static int ask_job(const char *job_id, struct str *out, struct error *err)
{
    if (ask("squeue --noheader --format=%T|%N|%L --jobs", job_id, out, err))
        return -err->code;
    first_line(out);
    return 0;
}

static int read_job(struct slurm_allocation *a, char *line, struct error *err)
{
    char *save = NULL;
    const char *state = strtok_r(line, "|", &save);
    const char *list = strtok_r(NULL, "|", &save);
    const char *left = strtok_r(NULL, "|", &save);
    if (!state || strcmp(state, "RUNNING") != 0 || !list)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "job %s of Slurm is not running but %s",
                         a->job_id, state ? state : "gone");
    a->node_list = mem_strdup(list);
    double seconds = left ? slurm_parse_time(left) : -1;
    if (seconds >= 0)
        a->end_s = clock_mono_s() + seconds;
    return hostlist_expand(list, &a->nodes, NCBENCH_EXIT_ENVIRONMENT, err);
}

int slurm_open(struct slurm_allocation *a, struct error *err)
{
    *a = (struct slurm_allocation){0};
    if (!slurm_inside()) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                  "launch.scheduler is slurm, but this is not inside an allocation");
        return error_hint(err, "`ncbench sbatch FILE --submit` makes it a job; salloc works too");
    }
    a->job_id = mem_strdup(getenv("SLURM_JOB_ID"));
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    if (!restarts || !num_parse_i64(restarts, &a->restarts))
        a->restarts = 0;
    a->cpus_per_node = slurm_least_cpus(getenv("SLURM_JOB_CPUS_PER_NODE"));
    auto_str line = STR_INIT, version = STR_INIT, why = STR_INIT;
    if (ask_job(a->job_id, &line, err) || read_job(a, line.data, err) ||
        ask("srun", "--version", &version, err))
        return -err->code;
    first_line(&version);
    a->version = str_steal(&version);
    if (!slurm_is_usable(a, true, &why))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s", why.data);
    return 0;
}

/* Nodes that are down, as "n3 is down"; drained ones still serve their job. */
static bool all_up(const struct slurm_allocation *a, struct str *why)
{
    auto_str out = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    if (ask("sinfo --noheader --Node --format=%N|%T --nodes", a->node_list, &out, &ignored))
        return true;
    char *save = NULL;
    for (char *line = strtok_r(out.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *bar = strchr(line, '|');
        if (!bar || (strncmp(bar + 1, "down", 4) != 0 && strncmp(bar + 1, "fail", 4) != 0 &&
                     !strchr(bar + 1, '*')))
            continue; /* "*": it does not answer */
        *bar = '\0';
        str_appendf(why, "node %s of the allocation is %s", line, bar + 1);
        return false;
    }
    return true;
}

bool slurm_read_taken_away(const char *columns, const struct slurm_allocation *a, struct str *why)
{
    long long restarts = 0;
    char preempted[32] = "";
    if (sscanf(columns, "%lld %31s", &restarts, preempted) < 1)
        return false;
    /* a time, and not "N/A", "None" or "Unknown" */
    const bool is_preempted = *preempted >= '0' && *preempted <= '9';
    if (!is_preempted && restarts <= a->restarts)
        return false;
    str_appendf(why, "job %s of Slurm was %s", a->job_id, is_preempted ? "preempted" : "requeued");
    return true;
}

bool slurm_is_taken_away(const struct slurm_allocation *a, struct str *why)
{
    auto_str out = STR_INIT;
    auto_error struct error ignored = ERROR_INIT; /* a squeue without these columns: nobody knows */
    if (ask("squeue --noheader --Format=RestartCnt:12,PreemptTime:24 --jobs", a->job_id, &out,
            &ignored))
        return false;
    return slurm_read_taken_away(out.data, a, why);
}

bool slurm_is_usable(const struct slurm_allocation *a, bool full, struct str *why)
{
    auto_str line = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    if (ask_job(a->job_id, &line, &err)) {
        if (!strstr(err.message, "Invalid job id"))
            return true;
        str_appendf(why, "job %s of Slurm is over", a->job_id);
        return false;
    }
    const bool running = str_starts_with(line.data, "RUNNING");
    if ((full || !running) && slurm_is_taken_away(a, why))
        return false;
    if (!running) {
        str_appendf(why, "job %s of Slurm is %.*s", a->job_id,
                    line.len ? (int)strcspn(line.data, "|") : 4, line.len ? line.data : "over");
        return false;
    }
    return !full || all_up(a, why);
}

void slurm_release(struct slurm_allocation *a)
{
    free(a->job_id);
    free(a->node_list);
    free(a->version);
    strv_release(&a->nodes);
    *a = (struct slurm_allocation){0};
}
