/* From evidence to outcome. In this order: our own limit or signal; what could not be started; the
 * OOM killer by cgroup evidence, which wins over every exit code, 0 included; with hello seen the
 * program's own word; without it the runtime's. Only an `ok` trial becomes a number, so what looks
 * ok is looked at once more: every rank must have finished, and they must agree about each other.
 */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/trial.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void because(struct trial_facts *f, enum outcome outcome, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void because(struct trial_facts *f, enum outcome outcome, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    strv_push_own(&f->reasons, mem_vprintf(fmt, ap));
    va_end(ap);
    f->outcome = outcome;
}

/* ---- what the harness did itself --------------------------------------------------------------
 */
static void judge_own(struct trial_facts *f)
{
    const struct limits *limits = &f->context->scenario->limits;
    if (f->end == END_TIMEOUT)
        because(f, OUTCOME_TIMEOUT, "not done within limits.trial (%g s)", limits->trial_s);
    else if (f->end == END_NO_OUTPUT)
        because(f, OUTCOME_TIMEOUT, "no output and no event for limits.no_output (%g s)",
                limits->no_output_s);
    else if (f->cancel_signal)
        because(f, OUTCOME_CANCELLED, "ncbench was ended by signal %d (%s)", f->cancel_signal,
                strsignal(f->cancel_signal));
    else
        because(f, OUTCOME_CANCELLED, "the session's time was over");
}

static void judge_not_started(struct trial_facts *f)
{
    const char *text = f->start_error.message ? f->start_error.message : "it did not start";
    if (f->start_error.hint)
        f->hint = mem_strdup(f->start_error.hint);
    if (f->create_failed) {
        because(f, OUTCOME_RUNTIME_FAILED, "create: %s", text);
        return;
    }
    const struct launcher_job *job = NULL;
    for (size_t i = 0; i < f->n_processes && !job; i++)
        if (f->processes[i].job.failed_step != SPAWN_OK)
            job = &f->processes[i].job;
    /* The client of a runtime that is missing is not a missing workload. */
    bool client = job && strcmp(job->argv->items[0], f->workload.items[0]) != 0;
    enum outcome outcome = OUTCOME_HARNESS_ERROR;
    if (job && job->failed_step == SPAWN_EXEC && job->failed_errno == ENOENT)
        outcome = client ? OUTCOME_UNAVAILABLE : OUTCOME_NOT_FOUND;
    else if (job && job->failed_step == SPAWN_EXEC)
        outcome = OUTCOME_NOT_EXECUTABLE;
    because(f, outcome, "%s", text);
}

/* ---- the OOM killer ---------------------------------------------------------------------------
 */
static bool was_killed(const struct trial_facts *f)
{
    for (size_t i = 0; i < f->n_processes; i++)
        if (f->children[i].reaped && WIFSIGNALED(f->children[i].status) &&
            WTERMSIG(f->children[i].status) == SIGKILL)
            return true;
    return f->failed_signal == SIGKILL;
}

static bool judge_oom(struct trial_facts *f)
{
    int64_t kills = 0, machine = 0;
    json_read_i64(f->collected, "cgroup.oom_kills", &kills);
    json_read_i64(f->collected, "cgroup.machine_oom_kills", &machine);
    const char *file = json_read_str(f->collected, "cgroup.oom_file");
    if (kills > 0)
        because(f, OUTCOME_OOM,
                "the kernel's OOM killer ended %lld process%s of it: oom_kill in %s",
                (long long)kills, kills == 1 ? "" : "es", file);
    else if (machine > 0 && was_killed(f) && f->end == END_BY_ITSELF)
        because(f, OUTCOME_OOM,
                "killed while the machine's OOM killer was at work: oom_kill in /proc/vmstat");
    return f->reasons.count > 0;
}

/* ---- the program's word -----------------------------------------------------------------------
 */
/* Of the process whose end counts: the one that failed first, by itself. */
static int failing_status(const struct trial_facts *f)
{
    int status = f->first_failed < 0 ? 0 : f->children[f->first_failed].status;
    return trial_is_step(f) ? trial_step_status(f, status) : status;
}

static void judge_signal(struct trial_facts *f, int status)
{
    f->failed_signal = WTERMSIG(status);
    f->core_dumped = WCOREDUMP(status);
    because(f, OUTCOME_SIGNALLED, "ended by signal %d (%s)%s", f->failed_signal,
            strsignal(f->failed_signal), f->core_dumped ? ", core dumped" : "");
}

/* "rank 1" of the launcher's message about a rank that a signal ended, the signal behind it. */
static void read_launcher_word(struct trial_facts *f)
{
    for (const char *p = f->stderr_tail.data; (p = strstr(p, "rank ")) != NULL; p++) {
        int rank, sig;
        size_t line = strcspn(p, "\n");
        const char *word = strstr(p, "signal ");
        if (sscanf(p, "rank %d", &rank) != 1 || !word || word >= p + line ||
            sscanf(word, "signal %d", &sig) != 1)
            continue;
        f->failed_rank = rank;
        f->failed_signal = sig;
        return;
    }
}

/* Who failed first: the rank that others lost, else one that says so itself, else one that is
 * silent. */
static void find_failed_rank(struct trial_facts *f)
{
    read_launcher_word(f);
    int64_t value;
    for (size_t i = 0; f->failed_rank < 0 && i < f->events.count; i++)
        if (json_read_i64(f->events.items[i].peer_lost, "rank", &value))
            f->failed_rank = (int)value;
    for (size_t i = 0; f->failed_rank < 0 && i < f->events.count; i++)
        if (json_read_i64(f->events.items[i].done, "exit_code", &value) && value &&
            value != NANOCHAT_EXIT_PEER)
            f->failed_rank = f->events.items[i].rank;
    for (size_t i = 0; f->failed_rank < 0 && i < f->events.count; i++)
        if (!f->events.items[i].done)
            f->failed_rank = f->events.items[i].rank;
}

/* What the failed rank said last of itself: the message of its `done`. */
static const char *last_word(const struct trial_facts *f)
{
    static const char *const keys[] = {"error", "message", "why", NULL};
    for (size_t i = 0; i < f->events.count; i++)
        for (int k = 0; keys[k] && f->events.items[i].rank == f->failed_rank; k++)
            if (json_read_str(f->events.items[i].done, keys[k]))
                return json_read_str(f->events.items[i].done, keys[k]);
    return NULL;
}

static void judge_exit_code(struct trial_facts *f, int code)
{
    /* 6 and 9 mean this in our contract; a program that never spoke it means something else */
    bool ours = trial_events_hello(&f->events);
    enum outcome outcome = ours && code == NANOCHAT_EXIT_NUMERIC ? OUTCOME_NUMERIC_FAILED
                           : ours && code == NANOCHAT_EXIT_OOM   ? OUTCOME_OOM
                                                                 : OUTCOME_WORKLOAD_FAILED;
    find_failed_rank(f);
    auto_str text = STR_INIT;
    str_appendf(&text, "exit %d", code);
    if (f->failed_rank >= 0)
        str_appendf(&text, ", rank %d failed", f->failed_rank);
    if (f->failed_signal)
        str_appendf(&text, " by signal %d (%s)", f->failed_signal, strsignal(f->failed_signal));
    if (last_word(f))
        str_appendf(&text, ": %s", last_word(f));
    if (code > 128 && code < 128 + 65)
        str_appendf(&text, " (a shell would write signal %d so; there is no evidence of one)",
                    code - 128);
    because(f, outcome, "%s", text.data);
}

/* ---- is what looks ok really ok? ---------------------------------------------------------------
 */
static bool check_done(struct trial_facts *f)
{
    int64_t code;
    for (size_t i = 0; i < f->events.count; i++) {
        const struct rank_events *e = &f->events.items[i];
        if (e->done && (!json_read_i64(e->done, "exit_code", &code) || code == 0))
            continue;
        f->failed_rank = e->rank;
        if (e->done)
            because(f, OUTCOME_WORKLOAD_FAILED, "exit 0, but rank %d says exit_code %lld", e->rank,
                    (long long)code);
        else
            because(f, OUTCOME_WORKLOAD_FAILED, "exit 0, but rank %d never wrote `done`", e->rank);
        return false;
    }
    return true;
}

/* An integer that a rank tells of itself in one of its first events. */
static bool told(const struct rank_events *e, const char *key, int64_t *out)
{
    return json_read_i64(e->hello, key, out) || json_read_i64(e->env, key, out) ||
           json_read_i64(e->config, key, out);
}

static void check_world(struct trial_facts *f)
{
    if ((int64_t)f->events.count != f->ranks)
        because(f, OUTCOME_INVALID, "%zu ranks wrote events, expected %lld", f->events.count,
                (long long)f->ranks);
    for (size_t i = 0; i < f->events.count; i++) {
        const struct rank_events *e = &f->events.items[i];
        int64_t value;
        if (e->hellos > 1)
            because(f, OUTCOME_INVALID, "%lld processes said hello as rank %d",
                    (long long)e->hellos, e->rank);
        if (told(e, "rank", &value) && value != e->rank)
            because(f, OUTCOME_INVALID, "rank %lld wrote the events of rank %d", (long long)value,
                    e->rank);
        if ((told(e, "world", &value) || told(e, "world_size", &value)) && value != f->ranks)
            because(f, OUTCOME_INVALID, "rank %d is one of %lld ranks, expected %lld", e->rank,
                    (long long)value, (long long)f->ranks);
    }
}

static const char *told_text(const struct rank_events *e, const char *key)
{
    const char *text = json_read_str(e->env, key);
    return text ? text : json_read_str(e->config, key);
}

/* One communicator, and a GPU of its own for each rank. */
static void check_shared(struct trial_facts *f)
{
    for (size_t i = 1; i < f->events.count; i++) {
        const struct rank_events *e = &f->events.items[i];
        const char *first = told_text(&f->events.items[0], "rank.comm_id");
        const char *mine = told_text(e, "rank.comm_id");
        if (first && mine && strcmp(first, mine) != 0)
            because(f, OUTCOME_INVALID, "ranks %d and %d are in different communicators",
                    f->events.items[0].rank, e->rank);
        for (size_t k = 0; k < i; k++) {
            const char *theirs = told_text(&f->events.items[k], "gpu.uuid");
            const char *uuid = told_text(e, "gpu.uuid");
            if (uuid && theirs && !strcmp(uuid, theirs))
                because(f, OUTCOME_INVALID, "ranks %d and %d share the GPU %s",
                        f->events.items[k].rank, e->rank, uuid);
        }
    }
}

static void check_counters(struct trial_facts *f)
{
    const struct scenario *s = f->context->scenario;
    for (size_t i = 0; s->measure.require_counters && i < f->events.count; i++)
        for (size_t k = 0; k < s->measure.counters.count; k++) {
            const char *name = s->measure.counters.items[k];
            const json_t *group = json_at(f->events.items[i].env, "counters");
            const char *why =
                json_string_value(json_object_get(json_at(group, "unavailable"), name));
            if (!json_object_get(json_at(group, "sources"), name))
                because(f, OUTCOME_INVALID, "counter %s is required, rank %d has none: %s", name,
                        f->events.items[i].rank, why ? why : "it does not tell");
        }
}

/* A telemetry that ended early is a note, unless the scenario needs all of it. */
static void check_gpu(struct trial_facts *f)
{
    const char *status = json_read_str(f->collected, "gpu_telemetry.status");
    const char *why = json_read_str(f->collected, "gpu_telemetry.reason");
    const bool required = f->context->scenario->measure.gpu.required;
    double lost_s = 0;
    if (!status || !strcmp(status, "ok"))
        return;
    if (json_read_f64(f->collected, "gpu_telemetry.lost_s", &lost_s))
        strv_pushf(&f->flags, "gpu_telemetry_incomplete: lost after %.3g s: %s", lost_s, why);
    if (required)
        because(f, OUTCOME_INVALID, "GPU telemetry is required and was %s: %s", status, why);
}

/* ---- the whole ---------------------------------------------------------------------------------
 */
static void judge_with_hello(struct trial_facts *f)
{
    int status = failing_status(f);
    if (WIFSIGNALED(status))
        judge_signal(f, status);
    else if (status)
        judge_exit_code(f, WEXITSTATUS(status));
    else if (check_done(f)) {
        check_world(f);
        check_shared(f);
        check_counters(f);
    }
}

static void ask_runtime(struct trial_facts *f, int status)
{
    auto_str reason = STR_INIT;
    struct runtime_evidence evidence = {status, false, f->stderr_tail.data};
    f->outcome = trial_is_step(f) ? runtime_classify_srun(&evidence, &reason) : OUTCOME_COUNT;
    if (f->outcome == OUTCOME_COUNT)
        f->outcome = f->ops->classify(&evidence, &reason);
    if (f->outcome == OUTCOME_SIGNALLED && WIFSIGNALED(status)) {
        f->failed_signal = WTERMSIG(status);
        f->core_dumped = WCOREDUMP(status);
    }
    if (f->outcome == OUTCOME_OK) /* a runtime cannot vouch for a program that was never heard */
        f->outcome = OUTCOME_RUNTIME_FAILED;
    strv_push(&f->reasons, reason.len ? reason.data : "it failed before it said hello");
}

static void judge_without_hello(struct trial_facts *f)
{
    int status = failing_status(f);
    if (status == 0)
        because(f, OUTCOME_WORKLOAD_FAILED,
                "exit 0, but no rank ever said hello (events: none is for programs that write no "
                "events)");
    else
        ask_runtime(f, status);
}

/* A foreign command without events: its exit status alone; but 125 to 127 are the words of shells
 * and runtimes for "never started". */
static void judge_silent(struct trial_facts *f)
{
    int status = failing_status(f);
    auto_str reason = STR_INIT;
    struct runtime_evidence evidence = {status, false, f->stderr_tail.data};
    enum outcome by_srun =
        status && trial_is_step(f) ? runtime_classify_srun(&evidence, &reason) : OUTCOME_COUNT;
    if (by_srun != OUTCOME_COUNT)
        because(f, by_srun, "%s", reason.data);
    else if (WIFSIGNALED(status))
        judge_signal(f, status);
    else if (status && WEXITSTATUS(status) >= 125 && WEXITSTATUS(status) <= 127)
        ask_runtime(f, status);
    else if (status)
        judge_exit_code(f, WEXITSTATUS(status));
}

/* The line of standard error that says most: the last one that speaks of an error, else the last.
 */
static void take_hint(struct trial_facts *f)
{
    const char *best = NULL, *last = NULL;
    for (const char *p = f->stderr_tail.data; *p;) {
        size_t n = strcspn(p, "\n");
        auto_free char *line = mem_strndup(p, n);
        if (*str_trim(line)) {
            last = p;
            if (strcasestr(line, "error") || strcasestr(line, "denied") ||
                strcasestr(line, "cannot") || strcasestr(line, "no such"))
                best = p;
        }
        p += n + (p[n] == '\n');
    }
    if (f->hint || !(best || last))
        return;
    const char *from = best ? best : last;
    auto_free char *line = mem_strndup(from, strcspn(from, "\n"));
    f->hint = mem_strdup(str_trim(line));
}

void trial_judge(struct trial_facts *f)
{
    if (f->judged)
        return;
    f->outcome = OUTCOME_OK;
    if (f->end == END_NOT_STARTED)
        judge_not_started(f);
    else if (f->end != END_BY_ITSELF)
        judge_own(f);
    else if (judge_oom(f) || trial_step_judge(f))
        ;
    else if (f->context->scenario->events == EVENTS_NONE)
        judge_silent(f);
    else if (trial_events_hello(&f->events))
        judge_with_hello(f);
    else
        judge_without_hello(f);
    if (f->outcome == OUTCOME_CANCELLED)
        trial_step_blame(f);
    if (f->outcome == OUTCOME_OK)
        check_gpu(f);
    if (f->strays.len)
        strv_pushf(&f->flags, "strays_killed: %s", f->strays.data);
    if (f->outcome != OUTCOME_OK)
        take_hint(f);
}
