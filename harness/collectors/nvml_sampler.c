#include "harness/collectors/nvml_sampler.h"

#include "common/clock.h"
#include "common/mem.h"
#include "harness/collectors/nvml_api.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_SAMPLE_S 0.1

static const unsigned long long reason_bits[NVML_REASONS] = {
    NVML_REASON_IDLE,        NVML_REASON_APPLICATION_CLOCKS, NVML_REASON_POWER_CAP,
    NVML_REASON_HW_SLOWDOWN, NVML_REASON_SYNC_BOOST,         NVML_REASON_SW_THERMAL,
    NVML_REASON_HW_THERMAL,  NVML_REASON_HW_POWER_BRAKE,     NVML_REASON_DISPLAY};
const char *const nvml_reason_names[NVML_REASONS] = {
    "idle",       "application_clocks", "power_cap",      "hw_slowdown", "sync_boost",
    "sw_thermal", "hw_thermal",         "hw_power_brake", "display"};

/* The thread's own view of a GPU. */
struct gpu {
    nvml_device_t device;
    double energy_j, ecc; /* at the start; NaN: not told */
};

/* Answers of one GPU to one round of questions; code: NVML's, of each. */
struct answers {
    int power_code, sm_code, memory_code, temperature_code, reasons_code;
    unsigned power_mw, sm_mhz, memory_mhz, temperature_c;
    unsigned long long reasons;
};

struct nvml_sampler {
    /* the thread's alone */
    struct nvml_api api;
    struct gpu *gpus;
    double interval_s, started_s;
    /* shared */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open, stopping, finished; /* finished: the telemetry is whole */
    bool abandoned;                /* nobody waits any more: touch nothing that is shared */
    double asking_s;               /* when the question that is under way was asked */
    struct nvml_telemetry seen;
    int owners; /* the thread, and who started it: the last one frees */
};

/* A thread hangs in the driver: another one would hang too. */
static _Atomic(struct nvml_sampler *) hanging;

/* ---- asking -----------------------------------------------------------------------------------
 */
/* What this device, driver or user cannot have is no failure. */
static bool is_answer(int code)
{
    return code == NVML_OK || code == NVML_NOT_SUPPORTED || code == NVML_NO_PERMISSION ||
           code == NVML_FUNCTION_NOT_FOUND;
}

static struct answers ask(const struct nvml_api *api, nvml_device_t d)
{
    struct answers a = {NVML_NOT_SUPPORTED,
                        NVML_NOT_SUPPORTED,
                        NVML_NOT_SUPPORTED,
                        NVML_NOT_SUPPORTED,
                        NVML_NOT_SUPPORTED,
                        0,
                        0,
                        0,
                        0,
                        0};
    if (api->power_mw)
        a.power_code = api->power_mw(d, &a.power_mw);
    if (api->clock_mhz)
        a.sm_code = api->clock_mhz(d, NVML_CLOCK_SM, &a.sm_mhz);
    if (api->clock_mhz)
        a.memory_code = api->clock_mhz(d, NVML_CLOCK_MEM, &a.memory_mhz);
    if (api->temperature_c)
        a.temperature_code = api->temperature_c(d, NVML_TEMPERATURE_GPU, &a.temperature_c);
    if (api->reasons)
        a.reasons_code = api->reasons(d, &a.reasons);
    return a;
}

/* NVML's code of the first question that got no answer, or NVML_OK. */
static int failure_of(const struct answers *a)
{
    const int codes[] = {a->power_code, a->sm_code, a->memory_code, a->temperature_code,
                         a->reasons_code};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!is_answer(codes[i]))
            return codes[i];
    return NVML_OK;
}

/* *failure is set where the driver gave none; NaN: it does not tell. */
static double energy_of(const struct nvml_api *api, nvml_device_t d, int *failure)
{
    unsigned long long mj = 0;
    int code = api->energy_mj ? api->energy_mj(d, &mj) : NVML_NOT_SUPPORTED;
    *failure = is_answer(code) ? *failure : code;
    return code == NVML_OK ? (double)mj * 1e-3 : NAN;
}

static double ecc_of(const struct nvml_api *api, nvml_device_t d, int *failure)
{
    unsigned long long n = 0;
    int code = api->ecc_errors ? api->ecc_errors(d, NVML_ECC_UNCORRECTED, NVML_ECC_VOLATILE, &n)
                               : NVML_NOT_SUPPORTED;
    *failure = is_answer(code) ? *failure : code;
    return code == NVML_OK ? (double)n : NAN;
}

static double power_limit_of(const struct nvml_api *api, nvml_device_t d)
{
    unsigned mw = 0;
    int code = api->power_limit_mw ? api->power_limit_mw(d, &mw) : NVML_NOT_SUPPORTED;
    return code == NVML_OK ? mw * 1e-3 : NAN;
}

static double sm_max_of(const struct nvml_api *api, nvml_device_t d)
{
    unsigned mhz = 0;
    int code = api->max_clock_mhz ? api->max_clock_mhz(d, NVML_CLOCK_SM, &mhz) : NVML_NOT_SUPPORTED;
    return code == NVML_OK ? mhz : NAN;
}

/* Processes that compute on a device; *n of them, owned by the caller. Their number may grow
 * between being asked for and being told. */
static unsigned *processes_of(const struct nvml_api *api, nvml_device_t d, unsigned *n)
{
    unsigned room = 64;
    *n = 0;
    for (int tries = 0; api->processes && tries < 4; tries++) {
        struct nvml_process *found = mem_zalloc(room, sizeof *found);
        unsigned count = room;
        int code = api->processes(d, &count, found);
        unsigned *pids = NULL;
        if (code == NVML_OK && count <= room) {
            pids = mem_zalloc(count + 1, sizeof *pids);
            for (*n = 0; *n < count; (*n)++)
                pids[*n] = found[*n].pid;
        }
        free(found);
        if (pids || code != NVML_INSUFFICIENT_SIZE)
            return pids;
        room = count > room ? count + 16 : room * 2;
    }
    return NULL;
}

/* ---- what is shared ----------------------------------------------------------------------------
 */
/* False: nobody waits for it any more. */
static bool enter(struct nvml_sampler *s)
{
    pthread_mutex_lock(&s->lock);
    if (!s->abandoned)
        return true;
    pthread_mutex_unlock(&s->lock);
    return false;
}

static void leave(struct nvml_sampler *s)
{
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void set_asking(struct nvml_sampler *s)
{
    if (!enter(s))
        return;
    s->asking_s = clock_mono_s();
    leave(s);
}

static void lose(struct nvml_sampler *s, size_t gpu, int code)
{
    if (!enter(s))
        return;
    if (!s->seen.why) {
        s->seen.lost_s = clock_mono_s() - s->started_s;
        s->seen.why = mem_printf("%s: %s", s->seen.gpus[gpu].uuid, s->api.error(code));
    }
    leave(s);
}

static void add_foreign(struct gpu_telemetry *g, const unsigned *pids, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < g->n_foreign; k++)
            known = known || g->foreign[k] == pids[i];
        if (known)
            continue;
        mem_grow((void **)&g->foreign, &g->cap_foreign, g->n_foreign, sizeof *g->foreign);
        g->foreign[g->n_foreign++] = pids[i];
    }
}

static void push(struct series *s, int code, double value)
{
    if (code == NVML_OK)
        vec_push(s, value);
}

static void take(struct gpu_telemetry *g, const struct answers *a)
{
    push(&g->power_w, a->power_code, a->power_mw * 1e-3);
    push(&g->sm_mhz, a->sm_code, a->sm_mhz);
    push(&g->memory_mhz, a->memory_code, a->memory_mhz);
    push(&g->temperature_c, a->temperature_code, a->temperature_c);
    if (a->reasons_code != NVML_OK)
        return;
    g->looked_at_reasons++;
    for (size_t i = 0; i < NVML_REASONS; i++)
        g->held_back[i] += (a->reasons & reason_bits[i]) != 0;
}

/* ---- the thread --------------------------------------------------------------------------------
 */
static int identify(const struct nvml_api *api, nvml_device_t d, struct gpu_telemetry *g)
{
    struct nvml_pci pci = {0};
    unsigned current = 0, pending = 0;
    int code = api->name(d, g->name, sizeof g->name);
    if (!code)
        code = api->uuid(d, g->uuid, sizeof g->uuid);
    if (!code && api->pci && api->pci(d, &pci) == NVML_OK)
        snprintf(g->pci, sizeof g->pci, "%04x:%02x:%02x.0", pci.domain & 0xffff, pci.bus & 0xff,
                 pci.device & 0xff);
    g->mig = api->mig_mode && api->mig_mode(d, &current, &pending) == NVML_OK && current == 1;
    return code;
}

static int open_gpu(struct nvml_sampler *s, unsigned i, struct gpu_telemetry *g)
{
    struct gpu *own = &s->gpus[i];
    int code = s->api.by_index(i, &own->device), failure = NVML_OK;
    if (!code)
        code = identify(&s->api, own->device, g);
    if (code)
        return code;
    g->power_limit_w = power_limit_of(&s->api, own->device);
    g->sm_max_mhz = sm_max_of(&s->api, own->device);
    g->energy_j = g->ecc_uncorrected = NAN;
    own->energy_j = energy_of(&s->api, own->device, &failure);
    own->ecc = ecc_of(&s->api, own->device, &failure);
    unsigned n;
    unsigned *pids = processes_of(&s->api, own->device, &n);
    add_foreign(g, pids, n);
    free(pids);
    return failure;
}

/* Into t, which is the caller's. */
static void open_all(struct nvml_sampler *s, struct nvml_telemetry *t)
{
    unsigned n = 0;
    *t = (struct nvml_telemetry){.lost_s = NAN};
    if (!nvml_open(&s->api, &t->why))
        return;
    int code = s->api.driver(t->driver, sizeof t->driver);
    if (!code)
        code = s->api.count(&n);
    if (!code && n == 0)
        t->why = mem_strdup("the driver sees no GPU");
    s->gpus = mem_zalloc(n + 1, sizeof *s->gpus);
    t->gpus = mem_zalloc(n + 1, sizeof *t->gpus);
    for (unsigned i = 0; !code && i < n; i++) {
        code = open_gpu(s, i, &t->gpus[i]);
        t->n_gpus += !code;
    }
    if (code)
        t->why = mem_printf("NVML: %s", s->api.error(code));
}

/* A round is taken whole, or not at all. */
static void sample_all(struct nvml_sampler *s, size_t n)
{
    struct answers *all = mem_zalloc(n + 1, sizeof *all);
    int code = NVML_OK;
    size_t i;
    set_asking(s);
    for (i = 0; i < n; i++) {
        all[i] = ask(&s->api, s->gpus[i].device);
        if ((code = failure_of(&all[i])) != NVML_OK)
            break;
    }
    if (code)
        lose(s, i, code);
    else if (enter(s)) {
        for (size_t k = 0; k < n; k++)
            take(&s->seen.gpus[k], &all[k]);
        s->seen.samples++;
        leave(s);
    }
    free(all);
}

/* What is counted from start to end, and who is there when nothing of the trial is. */
static void look_last(struct nvml_sampler *s, size_t n)
{
    set_asking(s);
    for (size_t i = 0; i < n; i++) {
        const struct gpu *own = &s->gpus[i];
        int failure = NVML_OK;
        unsigned n_pids;
        double energy_j = energy_of(&s->api, own->device, &failure) - own->energy_j;
        double ecc = ecc_of(&s->api, own->device, &failure) - own->ecc;
        unsigned *pids = processes_of(&s->api, own->device, &n_pids);
        if (failure)
            lose(s, i, failure);
        else if (enter(s)) {
            s->seen.gpus[i].energy_j = energy_j;
            s->seen.gpus[i].ecc_uncorrected = ecc;
            add_foreign(&s->seen.gpus[i], pids, n_pids);
            leave(s);
        }
        free(pids);
    }
}

/* Until then, or until the trial is over (true). */
static bool is_over_by(struct nvml_sampler *s, double until_s)
{
    struct timespec at = {(time_t)until_s, (long)(fmod(until_s, 1) * 1e9)};
    pthread_mutex_lock(&s->lock);
    while (!s->stopping && !s->abandoned && clock_mono_s() < until_s)
        pthread_cond_timedwait(&s->changed, &s->lock, &at);
    bool over = s->stopping || s->abandoned;
    pthread_mutex_unlock(&s->lock);
    return over;
}

static void let_go(struct nvml_sampler *s)
{
    pthread_mutex_lock(&s->lock);
    int left = --s->owners;
    pthread_mutex_unlock(&s->lock);
    if (left)
        return;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    nvml_telemetry_release(&s->seen);
    free(s->gpus);
    free(s);
}

static void watch(struct nvml_sampler *s, bool usable, size_t n)
{
    double next_s =
        s->started_s + (FIRST_SAMPLE_S < s->interval_s ? FIRST_SAMPLE_S : s->interval_s);
    while (!is_over_by(s, next_s)) {
        if (usable) {
            sample_all(s, n);
            pthread_mutex_lock(&s->lock);
            usable = !s->seen.why;
            pthread_mutex_unlock(&s->lock);
        }
        next_s += s->interval_s;
        if (next_s < clock_mono_s()) /* a slow answer is not made up for */
            next_s = clock_mono_s() + s->interval_s;
    }
    if (usable)
        look_last(s, n);
}

static void *sampler_main(void *arg)
{
    struct nvml_sampler *s = arg;
    struct nvml_telemetry first;
    set_asking(s);
    open_all(s, &first);
    const size_t n = first.n_gpus;
    const bool usable = !first.why;
    if (enter(s)) {
        s->seen = first;
        s->open = true;
        s->started_s = clock_mono_s(); /* opening took its time; now the trial starts */
        leave(s);
        watch(s, usable, n);
    } else {
        nvml_telemetry_release(&first);
    }
    if (enter(s)) {
        s->finished = true;
        leave(s);
    }
    nvml_close(&s->api);
    struct nvml_sampler *self = s; /* it came back after all */
    atomic_compare_exchange_strong(&hanging, &self, NULL);
    let_go(s);
    return NULL;
}

/* ---- starting and stopping ----------------------------------------------------------------------
 */
static bool start_thread(struct nvml_sampler *s)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &attr, sampler_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return !failed;
}

/* Until *flag, at most so long; false: it did not come. The lock is held. */
static bool wait_for(struct nvml_sampler *s, const bool *flag, double longest_s)
{
    const double until_s = clock_mono_s() + longest_s;
    struct timespec at = {(time_t)until_s, (long)(fmod(until_s, 1) * 1e9)};
    while (!*flag && clock_mono_s() < until_s)
        pthread_cond_timedwait(&s->changed, &s->lock, &at);
    return *flag;
}

/* It hangs in the driver. The lock is held. */
static void abandon(struct nvml_sampler *s, double waited_s)
{
    s->abandoned = true;
    if (!s->seen.why) {
        s->seen.lost_s = s->open ? s->asking_s - s->started_s : NAN;
        s->seen.why = mem_printf("the driver did not answer within %g s", waited_s);
    }
    atomic_store(&hanging, s);
}

struct nvml_sampler *nvml_sampler_start(double interval_s)
{
    struct nvml_sampler *s = mem_zalloc(1, sizeof *s);
    pthread_condattr_t clock;
    s->interval_s = interval_s;
    s->started_s = s->asking_s = clock_mono_s();
    s->seen.lost_s = NAN;
    s->owners = 2;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &clock);
    pthread_condattr_destroy(&clock);
    bool started = false;
    if (atomic_load(&hanging))
        s->seen.why = mem_strdup("the driver did not answer in an earlier trial, and hangs");
    else if (!(started = start_thread(s)))
        s->seen.why = mem_strdup("no thread can be started to ask NVML");
    if (!started) {
        s->abandoned = true;
        s->owners = 1;
        return s;
    }
    pthread_mutex_lock(&s->lock);
    if (!wait_for(s, &s->open, NVML_START_S))
        abandon(s, NVML_START_S);
    pthread_mutex_unlock(&s->lock);
    return s;
}

struct nvml_telemetry nvml_sampler_stop(struct nvml_sampler *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    if (!s->abandoned && !wait_for(s, &s->finished, NVML_STOP_S))
        abandon(s, NVML_STOP_S);
    struct nvml_telemetry t = s->seen;
    s->seen = (struct nvml_telemetry){.lost_s = NAN};
    s->abandoned = true; /* what is shared was handed over */
    pthread_mutex_unlock(&s->lock);
    let_go(s);
    return t;
}

void nvml_telemetry_release(struct nvml_telemetry *t)
{
    for (size_t i = 0; t->gpus && i < t->n_gpus; i++) {
        struct gpu_telemetry *g = &t->gpus[i];
        free(g->power_w.items);
        free(g->sm_mhz.items);
        free(g->memory_mhz.items);
        free(g->temperature_c.items);
        free(g->foreign);
    }
    free(t->gpus);
    free(t->why);
    *t = (struct nvml_telemetry){.lost_s = NAN};
}
