#include "harness/session.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/host_name.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "harness/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- who runs it -------------------------------------------------------------------------------
 */
static bool own_stat(pid_t pid, struct process *out)
{
    char path[64];
    auto_str text = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return fs_read_file(path, &text, NCBENCH_EXIT_RESULTS, &ignored) == 0 &&
           process_parse_stat(text.data, out);
}

static void read_boot_id(struct str *out)
{
    auto_error struct error ignored = ERROR_INIT;
    fs_read_file("/proc/sys/kernel/random/boot_id", out, NCBENCH_EXIT_RESULTS, &ignored);
    if (out->len)
        str_truncate(out, strcspn(out->data, "\n"));
}

void session_put_process(json_t *summary)
{
    auto_str boot = STR_INIT;
    struct process self = {0};
    read_boot_id(&boot);
    own_stat(getpid(), &self);
    json_object_set_new(summary, "pid", json_integer(getpid()));
    json_object_set_new(summary, "pid_start_ticks", json_integer((json_int_t)self.start_ticks));
    json_object_set_new(summary, "host", json_string(host_name()));
    json_object_set_new(summary, "boot_id", json_string(boot.data));
}

bool session_is_alive(const json_t *summary)
{
    int64_t pid, ticks;
    auto_str boot = STR_INIT;
    struct process found;
    read_boot_id(&boot);
    const char *theirs = json_read_str(summary, "boot_id");
    return theirs && !strcmp(theirs, boot.data) && json_read_i64(summary, "pid", &pid) &&
           json_read_i64(summary, "pid_start_ticks", &ticks) && own_stat((pid_t)pid, &found) &&
           found.state != 'Z' && (int64_t)found.start_ticks == ticks;
}

/* ---- the directory ------------------------------------------------------------------------------
 */
static void new_id(char out[static 32])
{
    struct timespec now;
    struct tm tm;
    unsigned char r[2] = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
        r[0] = (unsigned char)getpid(), r[1] = (unsigned char)now.tv_nsec;
    size_t n = strftime(out, 32, "%Y%m%dT%H%M%SZ", &tm);
    snprintf(out + n, 32 - n, "-%02x%02x", r[0], r[1]);
}

/* A name that nobody else has: mkdir decides. */
static int make_dir(struct session *s, const char *out, struct error *err)
{
    auto_free char *parent = mem_printf("%s/%s", out, s->scenario.name);
    if (fs_mkdir_p(parent, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    for (int tries = 0; tries < 100; tries++) {
        char id[32];
        new_id(id);
        auto_free char *dir = mem_printf("%s/%s", parent, id);
        if (mkdir(dir, 0755) == 0) {
            s->id = mem_strdup(id);
            s->dir = fs_realpath(dir);
            s->shown = steal(&dir);
            return 0;
        }
        if (errno != EEXIST)
            return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot create directory %s", dir);
    }
    return error_set(err, NCBENCH_EXIT_RESULTS, "cannot find a free name for a session in %s",
                     parent);
}

int session_check_disk(const struct session *s, struct error *err)
{
    int64_t need = s->scenario.limits.disk_free_bytes, free_now = fs_free_bytes(s->dir);
    char a[32], b[32];
    if (need <= 0 || free_now < 0 || free_now >= need)
        return 0;
    error_set(err, NCBENCH_EXIT_RESULTS, "%s: %s free, limits.disk_free asks for %s", s->shown,
              num_format_size(a, sizeof a, (double)free_now),
              num_format_size(b, sizeof b, (double)need));
    return error_hint(err, "make room, give another folder with --out, or lower limits.disk_free");
}

static int write_file(const struct session *s, const char *name, const struct str *text,
                      struct error *err)
{
    auto_free char *path = mem_printf("%s/%s", s->shown, name);
    return fs_write_atomic(path, text->data, text->len, NCBENCH_EXIT_RESULTS, err);
}

static int write_inputs(struct session *s, const struct session_options *o, struct error *err)
{
    auto_str scenario = STR_INIT, plan = STR_INIT;
    auto_free char *resolved = mem_printf("%s/resolved.json", s->shown);
    if (fs_read_file(o->scenario_path, &scenario, NCBENCH_EXIT_SCENARIO, err) ||
        write_file(s, "scenario.yaml", &scenario, err) ||
        json_write_file(resolved, s->scenario.resolved, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    plan_write(&s->scenario, &s->plan, &plan);
    sha256_hex(plan.data, plan.len, s->plan_sha256);
    return write_file(s, "plan.jsonl", &plan, err);
}

int session_open_trials(struct session *s, struct error *err)
{
    s->trials_path = mem_printf("%s/trials.jsonl", s->shown);
    s->trials_fd = open(s->trials_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (s->trials_fd < 0)
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot write %s", s->trials_path);
    /* Where a file system has no locks, session.json's process is all there is to go by. */
    if (flock(s->trials_fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                         "%s: another ncbench is running this session", s->shown);
    return 0;
}

static json_t *new_summary(const struct session *s, const struct session_options *o)
{
    char utc[CLOCK_UTC_MAX];
    json_t *j = json_object(), *defines = json_array();
    auto_free char *full = fs_realpath(o->scenario_path);
    json_put_str(j, "schema", SESSION_SCHEMA);
    json_put_str(j, "session", s->id);
    json_put_str(j, "name", s->scenario.name);
    json_put_str(j, "state", "running");
    json_put_str(j, "ncbench", NCBENCH_VERSION);
    json_put_str(j, "scenario_path", full);
    json_put_str(j, "scenario_sha256", s->scenario.sha256);
    json_put_str(j, "plan_sha256", s->plan_sha256);
    for (size_t i = 0; i < o->defines.count; i++)
        json_array_append_new(defines, json_string(o->defines.items[i]));
    json_put(j, "defines", defines);
    json_put_str(j, "only", o->only);
    json_put_int(j, "blocks", o->blocks);
    json_put_str(j, "nanochat", s->nanochat);
    json_put_str(j, "workload_sha256", *s->workload_sha256 ? s->workload_sha256 : NULL);
    json_put_int(j, "stratum", 0);
    json_put_str(j, "started_utc", clock_utc(utc));
    return j;
}

int session_save(struct session *s, const char *state, int exit_code, struct error *err)
{
    char utc[CLOCK_UTC_MAX];
    auto_free char *path = mem_printf("%s/session.json", s->shown);
    int64_t ok = 0;
    for (size_t i = 0; i < s->records.count; i++)
        ok += s->records.items[i].outcome == OUTCOME_OK;
    json_object_set_new(s->summary, "state", json_string(state));
    json_object_set_new(s->summary, "exit_code",
                        strcmp(state, "running") ? json_integer(exit_code) : json_null());
    json_object_set_new(s->summary, "updated_utc", json_string(clock_utc(utc)));
    json_object_set_new(s->summary, "trials_planned", json_integer((json_int_t)s->plan.count));
    json_object_set_new(s->summary, "trials_recorded", json_integer((json_int_t)s->records.count));
    json_object_set_new(s->summary, "trials_ok", json_integer(ok));
    return json_write_file(path, s->summary, NCBENCH_EXIT_RESULTS, err);
}

/* On which nodes, by whom: what a resumed session is held against. */
static void put_allocation(json_t *summary, const struct slurm_allocation *a)
{
    json_t *slurm = json_object();
    json_put_str(slurm, "job", a->job_id);
    json_put_str(slurm, "nodes", a->node_list);
    json_put_str(slurm, "version", a->version);
    json_object_set_new(summary, "slurm", slurm);
}

int session_find_allocation(struct session *s, struct error *err)
{
    if (!s->scenario.n_cells || !s->scenario.cells[0].is_slurm)
        return 0;
    return slurm_open(&s->allocation, err);
}

void session_put_runtimes(struct session *s)
{
    json_t *all = json_object();
    for (size_t i = 0; i < s->plan.count; i++) {
        const struct planned_trial *t = &s->plan.trials[i];
        const struct cell *cell = &s->scenario.cells[t->cell];
        json_t *about = s->descriptions[t->cell * s->scenario.n_runtimes + t->runtime];
        auto_free char *key = mem_printf("%s.%s", cell->id, cell->runtimes[t->runtime].name);
        if (about)
            json_object_set(all, key, about);
    }
    json_object_set_new(s->summary, "runtimes", all);
    if (s->allocation.job_id)
        put_allocation(s->summary, &s->allocation);
}

int session_create(const struct session_options *o, struct session *s, struct error *err)
{
    auto_strv warnings = STRV_INIT;
    *s = (struct session){.trials_fd = -1};
    if (scenario_load(o->scenario_path, &o->defines, &s->scenario, err) ||
        scenario_check(&s->scenario, false, &warnings, err) ||
        plan_make(&s->scenario, o->blocks, &s->plan, err) ||
        session_filter(&s->scenario, o->only, &s->plan, err) || session_find_allocation(s, err) ||
        session_find_workload(s, o->nanochat, err))
        return -err->code;
    for (size_t i = 0; i < warnings.count; i++)
        log_warn("%s", warnings.items[i]);
    if (make_dir(s, o->out ? o->out : s->scenario.output.dir, err) || session_check_disk(s, err) ||
        write_inputs(s, o, err) || session_open_trials(s, err))
        return -err->code;
    s->summary = new_summary(s, o);
    session_put_process(s->summary);
    if (s->allocation.job_id) /* a session that is killed before its first trial can go on, too */
        put_allocation(s->summary, &s->allocation);
    if (session_save(s, "running", 0, err) || session_prepare(s, err))
        return -err->code;
    session_put_runtimes(s);
    return session_save(s, "running", 0, err);
}

static void release_json(json_t **items, size_t count)
{
    for (size_t i = 0; items && i < count; i++)
        json_decref(items[i]);
    free(items);
}

void session_release(struct session *s)
{
    release_json(s->descriptions, s->scenario.n_cells * s->scenario.n_runtimes);
    free(s->prepared);
    slurm_release(&s->allocation);
    records_release(&s->records);
    plan_release(&s->plan);
    scenario_release(&s->scenario);
    json_decref(s->summary);
    if (s->trials_fd >= 0)
        close(s->trials_fd);
    free(s->trials_path);
    free(s->nanochat);
    free(s->dir);
    free(s->shown);
    free(s->id);
    *s = (struct session){.trials_fd = -1};
}
