#include "harness/session_data.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"

#include <string.h>

static bool is_session(const char *dir)
{
    auto_free char *trials = mem_printf("%s/trials.jsonl", dir);
    auto_free char *resolved = mem_printf("%s/resolved.json", dir);
    return fs_exists(trials) || fs_exists(resolved);
}

/* The newest session below a folder: their names begin with the time. */
static char *newest_session(const char *folder)
{
    auto_strv names = STRV_INIT;
    auto_error struct error ignored = ERROR_INIT;
    if (fs_list_dir(folder, &names, NCBENCH_EXIT_RESULTS, &ignored))
        return NULL;
    for (size_t i = names.count; i-- > 0;) {
        auto_free char *dir = mem_printf("%s/%s", folder, names.items[i]);
        if (fs_is_dir(dir) && is_session(dir))
            return steal(&dir);
    }
    return NULL;
}

static char *trim_slashes(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return mem_strndup(path, n);
}

static int find_session(const char *path, char **out, struct error *err)
{
    auto_free char *dir = trim_slashes(path);
    if (fs_exists(dir) && !fs_is_dir(dir)) {
        char *parent = fs_dirname(dir);
        free(dir);
        dir = parent;
    }
    if (!fs_is_dir(dir))
        return error_set(err, NCBENCH_EXIT_RESULTS, "no session at %s: no such directory", path);
    if (is_session(dir)) {
        *out = steal(&dir);
        return 0;
    }
    *out = newest_session(dir);
    if (!*out)
        return error_set(err, NCBENCH_EXIT_RESULTS,
                         "no session at %s: neither it nor a folder in it holds trials.jsonl",
                         path);
    return 0;
}

static size_t count_lines(const char *path)
{
    auto_str text = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    size_t lines = 0;
    if (fs_read_file(path, &text, NCBENCH_EXIT_RESULTS, &ignored))
        return 0;
    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n';
    return lines;
}

static char *session_name(const char *dir)
{
    auto_free char *real = fs_realpath(dir);
    return mem_strdup(fs_basename(real ? real : dir));
}

int session_data_load(const char *path, struct session_data *out, struct error *err)
{
    *out = (struct session_data){.study = {.control = -1}};
    if (find_session(path, &out->dir, err))
        return -err->code;
    out->id = session_name(out->dir);
    auto_free char *resolved = mem_printf("%s/resolved.json", out->dir);
    auto_free char *trials = mem_printf("%s/trials.jsonl", out->dir);
    auto_free char *summary = mem_printf("%s/session.json", out->dir);
    auto_free char *plan = mem_printf("%s/plan.jsonl", out->dir);
    if (json_read_file(resolved, NCBENCH_EXIT_RESULTS, &out->resolved, err) ||
        (fs_exists(trials) && records_load(trials, &out->records, err)) ||
        study_from_json(out->resolved, &out->records, &out->study, err)) {
        session_data_release(out);
        return error_wrap(err, "session %s", path);
    }
    auto_error struct error ignored = ERROR_INIT;
    if (fs_exists(summary))
        json_read_file(summary, NCBENCH_EXIT_RESULTS, &out->summary, &ignored);
    out->planned = count_lines(plan);
    return 0;
}

void session_data_release(struct session_data *s)
{
    free(s->dir);
    free(s->id);
    json_decref(s->resolved);
    json_decref(s->summary);
    records_release(&s->records);
    study_release(&s->study);
    *s = (struct session_data){.study = {.control = -1}};
}

const json_t *session_data_latest(const struct session_data *s, const char *arm, const char *path)
{
    for (size_t i = s->records.count; i-- > 0;) {
        const struct record *r = &s->records.items[i];
        if (arm && strcmp(r->runtime, arm) != 0)
            continue;
        const json_t *value = json_at(r->json, path);
        if (value && !json_is_null(value))
            return value;
    }
    return NULL;
}
