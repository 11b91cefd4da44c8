/* Going on with a session: its own copy of the scenario, its records as far as they are whole, and
 * the refusal to mix measurements of different things without saying so. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/host_name.h"
#include "common/log.h"
#include "common/mem.h"
#include "harness/session.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_of_job(const char *summary_path, const char *job_id)
{
    auto_json *summary = NULL;
    auto_error struct error unreadable = ERROR_INIT;
    if (json_read_file(summary_path, NCBENCH_EXIT_RESULTS, &summary, &unreadable))
        return false;
    const char *job = json_read_str(summary, "slurm.job");
    return job && !strcmp(job, job_id);
}

char *session_newest(const char *folder, const char *job_id)
{
    auto_strv names = STRV_INIT;
    auto_error struct error ignored = ERROR_INIT;
    if (fs_list_dir(folder, &names, NCBENCH_EXIT_RESULTS, &ignored))
        return NULL;
    for (size_t i = names.count; i-- > 0;) { /* names begin with the time */
        auto_free char *summary = mem_printf("%s/%s/session.json", folder, names.items[i]);
        if (job_id ? is_of_job(summary, job_id) : fs_exists(summary))
            return mem_printf("%s/%s", folder, names.items[i]);
    }
    return NULL;
}

static int find_dir(const struct session_options *o, struct session *s, struct error *err)
{
    if (strcmp(o->resume, "latest") != 0) {
        s->shown = mem_strdup(o->resume);
        while (strlen(s->shown) > 1 && str_ends_with(s->shown, "/"))
            s->shown[strlen(s->shown) - 1] = '\0';
    } else if (!o->scenario_path) {
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "--resume needs a session's directory, or the scenario whose newest "
                         "session is meant");
    } else {
        struct scenario wanted = {0};
        if (scenario_load(o->scenario_path, &o->defines, &wanted, err) == 0) {
            auto_free char *folder =
                mem_printf("%s/%s", o->out ? o->out : wanted.output.dir, wanted.name);
            s->shown = session_newest(folder, NULL);
            if (!s->shown)
                error_set(err, NCBENCH_EXIT_RESULTS, "%s: no session to resume", folder);
        }
        scenario_release(&wanted);
    }
    if (err->code)
        return -err->code;
    s->dir = fs_realpath(s->shown);
    if (!s->dir)
        return error_set(err, NCBENCH_EXIT_RESULTS, "%s: no session is there", s->shown);
    s->id = mem_strdup(fs_basename(s->dir));
    return 0;
}

static int read_summary(struct session *s, struct error *err)
{
    auto_free char *path = mem_printf("%s/session.json", s->shown);
    if (json_read_file(path, NCBENCH_EXIT_RESULTS, &s->summary, err))
        return -err->code;
    if (session_is_alive(s->summary))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s: still being run by process %lld",
                         s->shown,
                         (long long)json_integer_value(json_object_get(s->summary, "pid")));
    return json_read_i64(s->summary, "stratum", &s->stratum), 0;
}

/* The scenario as it was: the session's copy, with the options that it was started with. */
static int read_scenario(struct session *s, struct error *err)
{
    auto_free char *copy = mem_printf("%s/scenario.yaml", s->shown);
    auto_str text = STR_INIT;
    auto_strv defines = STRV_INIT;
    const char *path = json_read_str(s->summary, "scenario_path");
    const json_t *given = json_object_get(s->summary, "defines");
    for (size_t i = 0; i < json_array_size(given); i++)
        strv_push(&defines, json_string_value(json_array_get(given, i)));
    if (fs_read_file(copy, &text, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    return scenario_parse(text.data, text.len, path ? path : copy, &defines, &s->scenario, err);
}

static int make_plan(struct session *s, struct error *err)
{
    int64_t blocks = -1;
    auto_str text = STR_INIT;
    json_read_i64(s->summary, "blocks", &blocks);
    if (plan_make(&s->scenario, blocks, &s->plan, err) ||
        session_filter(&s->scenario, json_read_str(s->summary, "only"), &s->plan, err))
        return -err->code;
    plan_write(&s->scenario, &s->plan, &text);
    sha256_hex(text.data, text.len, s->plan_sha256);
    return 0;
}

/* A torn last line: kept aside, cut off. */
static int set_torn_aside(struct session *s, const struct str *text, struct error *err)
{
    auto_free char *aside = mem_printf("%s/trials.torn", s->shown);
    auto_close int fd = open(aside, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    size_t good = (size_t)s->records.good_bytes;
    if (fd < 0)
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot write %s", aside);
    if (fs_write_all(fd, aside, text->data + good, text->len - good, NCBENCH_EXIT_RESULTS, err) ||
        fs_write_all(fd, aside, "\n", 1, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    if (fsync(fd) || ftruncate(s->trials_fd, (off_t)good))
        return error_set(err, NCBENCH_EXIT_RESULTS, "cannot cut the torn line off %s",
                         s->trials_path);
    log_info("%s: a torn last line was set aside in trials.torn", s->trials_path);
    return 0;
}

static int read_records(struct session *s, struct error *err)
{
    auto_str text = STR_INIT;
    if (session_open_trials(s, err) ||
        fs_read_file(s->trials_path, &text, NCBENCH_EXIT_RESULTS, err) ||
        records_parse(text.data, text.len, s->trials_path, &s->records, err))
        return -err->code;
    return s->records.torn ? set_torn_aside(s, &text, err) : 0;
}

/* ---- drift --------------------------------------------------------------------------------------
 */
static void drifted(struct str *out, const char *what, const char *was, const char *is)
{
    str_appendf(out, "%s%s: %.19s, now %.19s", out->len ? "; " : "", what, was ? was : "none",
                is ? is : "none");
}

static void compare_text(struct str *out, const char *what, const char *was, const char *is)
{
    if ((was && is && strcmp(was, is) != 0) || !was != !is)
        drifted(out, what, was, is);
}

static void scenario_drift(const struct session *s, struct str *out)
{
    const char *path = json_read_str(s->summary, "scenario_path");
    const char *was = json_read_str(s->summary, "scenario_sha256");
    char now[SHA256_HEX];
    auto_error struct error gone = ERROR_INIT;
    compare_text(out, "the session's copy of the scenario", was, s->scenario.sha256);
    if (path && sha256_file(path, now, NCBENCH_EXIT_RESULTS, &gone) == 0)
        compare_text(out, path, was, now);
}

/* Images, by digest where there is one. */
static void image_drift(const struct session *s, struct str *out)
{
    static const char *const keys[] = {"image.digest", "image.id", "rootfs"};
    const json_t *before = json_object_get(s->summary, "runtimes");
    for (size_t i = 0; i < s->plan.count; i++) {
        const struct planned_trial *t = &s->plan.trials[i];
        const struct cell *cell = &s->scenario.cells[t->cell];
        auto_free char *key = mem_printf("%s.%s", cell->id, cell->runtimes[t->runtime].name);
        const json_t *was = json_object_get(before, key);
        const json_t *is = s->descriptions[t->cell * s->scenario.n_runtimes + t->runtime];
        if (!was || !is || t->block > s->plan.trials[0].block)
            continue;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            compare_text(out, key, json_read_str(was, keys[k]), json_read_str(is, keys[k]));
    }
}

static void find_drift(const struct session *s, struct str *out)
{
    scenario_drift(s, out);
    compare_text(out, "plan.jsonl", json_read_str(s->summary, "plan_sha256"), s->plan_sha256);
    compare_text(out, "the workload's program", json_read_str(s->summary, "workload_sha256"),
                 *s->workload_sha256 ? s->workload_sha256 : NULL);
    if (s->allocation.job_id) /* ncbench itself may be anywhere */
        compare_text(out, "nodes", json_read_str(s->summary, "slurm.nodes"),
                     s->allocation.node_list);
    else
        compare_text(out, "host", json_read_str(s->summary, "host"), host_name());
    image_drift(s, out);
}

static int judge_drift(struct session *s, bool allowed, struct error *err)
{
    auto_str drift = STR_INIT;
    find_drift(s, &drift);
    if (!drift.len)
        return 0;
    if (!allowed) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s: not what it was: %s", s->shown, drift.data);
        return error_hint(err,
                          "start a new session, or --allow-drift: what is measured from now on "
                          "is analysed as a stratum of its own");
    }
    s->stratum++;
    log_warn("%s: going on as stratum %lld: %s", s->shown, (long long)s->stratum, drift.data);
    json_t *strata = json_object_get(s->summary, "strata");
    if (!strata) {
        strata = json_array();
        json_object_set_new(s->summary, "strata", strata);
    }
    json_t *entry = json_object();
    json_put_int(entry, "stratum", s->stratum);
    json_put_str(entry, "drift", drift.data);
    json_array_append_new(strata, entry);
    json_object_set_new(s->summary, "stratum", json_integer(s->stratum));
    json_object_set_new(s->summary, "workload_sha256",
                        *s->workload_sha256 ? json_string(s->workload_sha256) : json_null());
    json_object_set_new(s->summary, "scenario_sha256", json_string(s->scenario.sha256));
    return 0;
}

int session_resume(const struct session_options *o, struct session *s, struct error *err)
{
    auto_strv warnings = STRV_INIT;
    *s = (struct session){.trials_fd = -1, .resumed = true};
    if (find_dir(o, s, err) || read_summary(s, err) || read_scenario(s, err) || make_plan(s, err) ||
        scenario_check(&s->scenario, false, &warnings, err))
        return -err->code;
    const char *nanochat = o->nanochat ? o->nanochat : json_read_str(s->summary, "nanochat");
    if (session_find_allocation(s, err) || session_find_workload(s, nanochat, err) ||
        read_records(s, err) || session_prepare(s, err) || judge_drift(s, o->allow_drift, err) ||
        session_sweep(s, err))
        return -err->code;
    session_put_runtimes(s);
    session_put_process(s->summary);
    return session_save(s, "running", 0, err);
}
