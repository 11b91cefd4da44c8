#include "harness/trial.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/host_name.h"
#include "common/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STDERR_TAIL_BYTES 4096

void trial_facts_init(struct trial_facts *f, const struct trial_context *context,
                      const struct planned_trial *planned, int64_t attempt, int64_t seq)
{
    const struct scenario *s = context->scenario;
    *f = (struct trial_facts){
        .context = context,
        .planned = planned,
        .cell = &s->cells[planned->cell],
        .attempt = attempt,
        .seq = seq,
        .origin_s = clock_mono_s(),
        .create_s = NAN,
        .spawn_s = NAN,
        .reap_s = NAN,
        .end_s = NAN,
        .stderr_tail = STR_INIT,
        .strays = STR_INIT,
        .failed_rank = -1,
        .first_failed = -1,
    };
    f->spec = &f->cell->runtimes[planned->runtime];
    f->ops = runtime_find(f->spec->kind);
    if (!f->ops)
        BUG("runtime kind \"%s\" is not in the registry", f->spec->kind);
    f->ranks = f->cell->nodes * f->cell->ranks_per_node;
    f->id = attempt > 1 ? mem_printf("%s.a%lld", planned->id, (long long)attempt)
                        : mem_strdup(planned->id);
    f->unique_id = mem_printf("%s.%s", context->session_id, f->id);
    f->marker = mem_printf("%s=%s", ENV_TRIAL_ID, f->unique_id);
    f->scope = (struct reaper_scope){.marker = f->marker, .since_ticks = reaper_now_ticks()};
    clock_utc(f->started_utc);
}

static void processes_free(struct trial_facts *f)
{
    for (size_t i = 0; i < f->n_processes; i++) {
        struct trial_process *p = &f->processes[i];
        strv_release(&p->workload_env);
        strv_release(&p->argv);
        strv_release(&p->env);
        free(p->stdout_path);
        free(p->stderr_path);
        free(p->trial_id);
    }
    free(f->processes);
    free(f->children);
}

void trial_facts_release(struct trial_facts *f)
{
    processes_free(f);
    free(f->id);
    free(f->unique_id);
    free(f->marker);
    free(f->dir);
    free(f->hint);
    strv_release(&f->workload);
    strv_release(&f->env);
    mounts_release(&f->mounts);
    error_release(&f->start_error);
    str_release(&f->strays);
    str_release(&f->stderr_tail);
    trial_events_release(&f->events);
    json_decref(f->collected);
    json_decref(f->topology);
    free(f->no_topology);
    strv_release(&f->reasons);
    strv_release(&f->flags);
}

static bool create_all(struct trial_facts *f)
{
    if (!f->ops->create)
        return true;
    double begin = clock_mono_s();
    for (size_t i = 0; i < f->n_processes; i++) {
        if (f->ops->create(&f->processes[i].launch, &f->start_error)) {
            f->end = END_NOT_STARTED;
            f->create_failed = true;
            return false;
        }
    }
    f->create_s = clock_mono_s() - begin;
    return true;
}

static bool start_all(struct trial_facts *f)
{
    for (size_t i = 0; i < f->n_processes; i++) {
        struct launcher_job *job = &f->processes[i].job;
        int rc = f->context->launcher->start(job, &f->start_error);
        if (isnan(f->spawn_s))
            f->spawn_s = job->started_s;
        if (rc) {
            f->end = END_NOT_STARTED;
            return false;
        }
        f->children[i].pid = job->pid;
    }
    return true;
}

/* The last bytes of a file, as text that may be shown and stored. No more is read: a program may
 * have written more than there is memory. */
static void read_tail(const char *path, struct str *out)
{
    char text[STDERR_TAIL_BYTES];
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    off_t at = size > STDERR_TAIL_BYTES ? size - STDERR_TAIL_BYTES : 0;
    ssize_t len = size > 0 ? pread(fd, text, sizeof text, at) : 0;
    ssize_t from = 0;
    while (at && from < len && ((unsigned char)text[from] & 0xc0) == 0x80)
        from++; /* not in the middle of a character */
    if (len > from)
        str_append_printable(out, text + from, (size_t)(len - from));
}

/* Of the process that failed first, or of the first one. */
static void read_stderr(struct trial_facts *f)
{
    size_t which = f->first_failed < 0 ? 0 : (size_t)f->first_failed;
    if (f->n_processes)
        read_tail(f->processes[which].stderr_path, &f->stderr_tail);
    /* What slurmstepd says of a program that it cannot start is in the rank's own file. */
    if (f->n_processes && trial_is_step(f) && !f->context->scenario->is_verb) {
        const bool shared = f->context->scenario->output.files_per_node;
        auto_free char *path =
            mem_printf(shared ? "%s/" NODE_ERR_FMT : "%s/" RANK_ERR_FMT, f->dir, 0);
        read_tail(path, &f->stderr_tail);
    }
}

const char *trial_host(const struct trial_facts *f, int64_t node)
{
    const struct slurm_allocation *a = f->context->allocation;
    if (!a)
        return host_name();
    return node < (int64_t)a->nodes.count ? a->nodes.items[node] : NULL;
}

/* Whose children the ranks are, if not ours; NULL: they are ours. */
static const char *why_not_ours(const struct trial_facts *f)
{
    if (trial_is_step(f))
        return "the ranks run in a step of Slurm; this is the node of ncbench";
    return f->ops->flags & RUNTIME_DAEMON ? "the ranks are children of the runtime's daemon" : NULL;
}

void trial_mend_collected(const struct trial_facts *f, json_t *collected)
{
    const char *why = why_not_ours(f);
    if (!why)
        return;
    json_object_del(collected, "rusage");
    json_put_null(collected, "rusage", why);
    if (trial_is_step(f)) { /* a daemon's ranks are on this node's GPUs */
        json_object_del(collected, "gpu_telemetry");
        json_object_del(collected, "gpu_telemetry_why");
        json_put_null(collected, "gpu_telemetry", why);
    }
    json_t *node = json_array_get(json_object_get(collected, "host"), 0);
    if (!node)
        return;
    json_object_del(node, "trial_cpu_s");
    json_object_del(node, "others_cpu_s");
    json_put_null(node, "trial_cpu_s", why);
    json_put_null(node, "others_cpu_s", why);
}

static int run_real(struct trial_facts *f, struct error *err)
{
    struct collectors collectors;
    auto_str left = STR_INIT;
    f->dir = mem_printf("%s/trials/%s", f->context->session_dir, f->id);
    if (trial_launch_prepare(f, err))
        return -err->code;
    /* Before the clock starts: opening NVML takes its time. */
    collectors_start(&collectors,
                     &(struct collector_context){.gpu_interval_s = trial_gpu_interval_s(f)});
    f->origin_s = clock_mono_s();
    if (create_all(f) && start_all(f))
        trial_wait(f, &collectors);
    bool gone = trial_end_all(f, &left);
    f->end_s = clock_mono_s();
    collectors_stop(&collectors);
    f->collected = collectors_emit(&collectors);
    collectors_free(&collectors);
    trial_mend_collected(f, f->collected);
    read_stderr(f);
    if (!gone)
        error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                  "trial %s cannot be ended: %s survives; no other trial may start beside it",
                  f->id, left.data);
    else if (trial_events_load(f->dir, &f->events, err))
        return -err->code;
    trial_topology(f);
    return 0;
}

int trial_run(const struct trial_context *context, const struct planned_trial *planned,
              int64_t attempt, int64_t seq, json_t **record, struct error *err)
{
    struct trial_facts f;
    trial_facts_init(&f, context, planned, attempt, seq);
    *record = NULL;
    bool fake = f.ops->flags & RUNTIME_FAKE;
    if ((fake ? trial_fake(&f, err) : run_real(&f, err)) == 0) {
        trial_judge(&f);
        *record = trial_record_make(&f);
    }
    trial_facts_release(&f);
    return err->code ? -err->code : 0;
}
