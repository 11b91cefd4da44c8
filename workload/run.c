#include "workload/run.h"
#include "workload/nccl_profile.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/str.h"
#include "kernels/plan_files.h"
#include "workload/stop.h"
#include "workload/verbs.h"

#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double program_entry_s; /* here, so that tests without main link */

/* Before there are threads: what they do is counted by inheritance. */
static void open_counters(struct run *run)
{
    const char *text = getenv(ENV_COUNTERS);
    auto_strv names = STRV_INIT;
    if (!text || !events_enabled(run->events))
        return;
    counters_split(text, &names);
    if (names.count)
        run->counters = counters_open(&names);
    for (size_t i = 0; run->counters && i < counters_count(run->counters); i++) {
        const struct counter_info *info = counters_info(run->counters, i);
        if (!info->source && !run->quiet)
            log_warn("counter %s is unavailable: %s", info->name, info->why);
    }
}

int run_begin(struct run *run, int argc, char **argv, struct error *err)
{
    *run = (struct run){0};
    stop_install();
    if (comm_config_from_env(&run->comm_config, err))
        return -err->code;
    run->quiet = run->comm_config.rank != 0;
    /* argv[-2] is the program, argv[-1] the verb: hello tells the whole command line */
    if (events_open(&run->events, run->comm_config.rank, program_entry_s, argc + 2, argv - 2, err))
        return -err->code;
    open_counters(run);
    events_set_counters(run->events, run->counters);
    return 0;
}

/* Without a word from the user the ranks of a node share its CPUs. */
static int default_threads(const struct run *run)
{
    const char *given = getenv("OMP_NUM_THREADS");
    if (given && *given)
        return 0; /* the device reads it */
    int share = omp_get_num_procs() / run->comm_config.local_world;
    return share > 1 ? share : 1;
}

static struct plan_store *plans_of(const struct run *run)
{
    return run->device && run->device->ops->plans ? run->device->ops->plans(run->device) : NULL;
}

static char *plans_folder(void)
{
    return fs_below_base(PLANS_FOLDER);
}

static void load_plans(const struct run *run)
{
    struct plan_store *plans = plans_of(run);
    auto_free char *folder = plans ? plans_folder() : NULL;
    const char *why;
    if (!plans || plan_files_load(plans, folder, &why) || run->quiet)
        return;
    if (plans->mode == PLANS_STORED)
        log_warn("no stored plans in %s/%s.txt (%s): products take the first algorithm offered",
                 folder, plans->identity, why);
}

/* Every rank adds what it has timed: owners of different matrices meet different shapes. A run is
 * not worth less for plans that cannot be kept. */
static void save_plans(const struct run *run)
{
    const struct plan_store *plans = plans_of(run);
    struct error why = ERROR_INIT;
    if (!plans)
        return;
    auto_free char *folder = plans_folder();
    if (plan_files_save(plans, folder, &why))
        log_warn("plans of products are not kept: %s", why.message);
    error_release(&why);
}

static int open_device(struct run *run, const struct run_config *config, struct error *err)
{
    const bool own_format = !config->dtype || !strcmp(config->dtype, "auto");
    struct device_config device = {
        .type = *config->device_type ? config->device_type : "cpu",
        .deterministic = config->deterministic,
        .own_attention = config->own_attention,
        .plans = config->plans,
        .dtype = own_format ? NULL : config->dtype,
        .index = run->comm_config.local_rank,
        .threads = config->threads ? config->threads : default_threads(run),
    };
    if (events_phase_begin(run->events, PHASE_DEVICE_INIT, err) ||
        device_open(&run->device, &device, err))
        return -err->code;
    load_plans(run);
    struct device_info info;
    run->device->ops->info(run->device, &info);
    run->threads = info.threads;
    return events_phase_end(run->events, PHASE_DEVICE_INIT, err);
}

static int open_comm(struct run *run, const struct run_config *config, struct error *err)
{
    run->comm_config.timeout_s = config->comm_timeout_s;
    run->comm_config.device = run->device;
    run->comm_config.backend = config->comm;
    if (config->nccl_profile && run->comm_config.rank == 0 && !run->device->collectives)
        log_warn("--nccl-profile: this device has no NCCL, there will be nothing to tell");
    if (config->nccl_profile && nccl_profile_begin(&run->nccl_profiler, err))
        return -err->code;
    if (events_phase_begin(run->events, PHASE_COMM_INIT, err) ||
        comm_open(&run->comm, &run->comm_config, err) ||
        events_phase_end(run->events, PHASE_COMM_INIT, err))
        return -err->code;
    comm_set_observer(run->comm, events_comm, run->events);
    const struct env_context seen = {
        .comm = run->comm, .device = run->device, .local_rank = run->comm_config.local_rank};
    return events_env(run->events, &seen, err);
}

int run_connect(struct run *run, const struct run_config *config, struct error *err)
{
    return open_device(run, config, err) || open_comm(run, config, err) ? -err->code : 0;
}

int run_measure_peak(struct run *run, double seconds, double *peak, struct error *err)
{
    /* all at once, as in a step: ranks may share cores */
    if (events_phase_begin(run->events, PHASE_PEAK, err) || comm_barrier(run->comm, err))
        return -err->code;
    double own = run->device->ops->measure_peak(run->device, seconds);
    double sums[2] = {own > 0 ? own : 0, own > 0};
    if (comm_all_reduce_sum_f64(run->comm, sums, 2, err))
        return -err->code;
    int world = comm_world(run->comm);
    *peak = sums[1] == world ? sums[0] / world : -1;
    return events_phase_end(run->events, PHASE_PEAK, err);
}

int run_print(struct run *run, struct error *err, const char *fmt, ...)
{
    if (run->quiet)
        return 0;
    va_list ap;
    va_start(ap, fmt);
    int n = vprintf(fmt, ap);
    va_end(ap);
    if (n < 0 || fflush(stdout))
        return error_set(err, NANOCHAT_EXIT_WRITE, "cannot write standard output");
    return 0;
}

void run_teardown(struct run *run)
{
    struct error ignored = ERROR_INIT; /* events_finish reports a file that cannot be written */
    if (!run->tearing_down && run->events)
        events_phase_begin(run->events, PHASE_TEARDOWN, &ignored);
    run->tearing_down = true;
    error_release(&ignored);
}

int run_end(struct run *run, struct error *err)
{
    struct error ignored = ERROR_INIT;
    run_teardown(run);
    counters_close(run->counters);
    comm_close(run->comm);
    save_plans(run);
    if (run->events)
        nccl_profile_end(run->nccl_profiler, run->events, &ignored);
    error_release(&ignored);
    device_close(run->device);
    if (run->events)
        events_phase_end(run->events, PHASE_TEARDOWN, &ignored);
    error_release(&ignored);
    char who[32] = "nanochat";
    if (run->comm_config.world > 1) /* all ranks may share one terminal */
        snprintf(who, sizeof who, "nanochat: rank %d", run->comm_config.rank);
    error_print(err, who);
    return run->events ? events_finish(run->events, err->code, err) : err->code;
}
