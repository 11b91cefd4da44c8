#include "harness/session_view.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/session.h"

#include <stdlib.h>
#include <string.h>

static bool is_session(const char *dir)
{
    auto_free char *path = mem_printf("%s/session.json", dir);
    return fs_exists(path);
}

static char *without_slash(const char *path)
{
    char *copy = mem_strdup(path);
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
        copy[n - 1] = '\0';
    return copy;
}

static int find(const char *path, struct session_view *v, char **trial, struct error *err)
{
    auto_free char *clean = without_slash(path);
    if (is_session(clean)) {
        v->dir = steal(&clean);
        return 0;
    }
    v->dir = session_newest(clean, NULL);
    char *slash = strrchr(clean, '/');
    if (v->dir || !trial || !slash)
        return v->dir ? 0 : error_set(err, NCBENCH_EXIT_RESULTS, "%s: no session is there", path);
    *trial = mem_strdup(slash + 1);
    *slash = '\0';
    if (str_ends_with(clean, "/trials") && !is_session(clean))
        clean[strlen(clean) - strlen("/trials")] = '\0';
    if (!is_session(clean))
        return error_set(err, NCBENCH_EXIT_RESULTS, "%s: no session is there", path);
    v->dir = steal(&clean);
    return 0;
}

static void read_plan(struct session_view *v)
{
    auto_free char *path = mem_printf("%s/plan.jsonl", v->dir);
    auto_str text = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    v->plan = json_array();
    if (fs_read_file(path, &text, NCBENCH_EXIT_RESULTS, &ignored))
        return;
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_t *trial = json_loads(line, 0, NULL);
        if (trial)
            json_array_append_new(v->plan, trial);
    }
}

int session_view_load(const char *path, struct session_view *v, char **trial, struct error *err)
{
    *v = (struct session_view){0};
    if (trial)
        *trial = NULL;
    if (find(path, v, trial, err))
        return -err->code;
    auto_free char *summary = mem_printf("%s/session.json", v->dir);
    auto_free char *records = mem_printf("%s/trials.jsonl", v->dir);
    read_plan(v);
    if (json_read_file(summary, NCBENCH_EXIT_RESULTS, &v->summary, err))
        return -err->code;
    return fs_exists(records) ? records_load(records, &v->records, err) : 0;
}

void session_view_release(struct session_view *v)
{
    free(v->dir);
    json_decref(v->summary);
    json_decref(v->plan);
    records_release(&v->records);
    *v = (struct session_view){0};
}

const char *session_view_state(const struct session_view *v)
{
    const char *state = json_read_str(v->summary, "state");
    if (state && !strcmp(state, "running") && !session_is_alive(v->summary)) {
        /* on another host nothing can be said */
        json_t *self = json_object();
        session_put_process(self);
        const char *here = json_read_str(self, "host"), *there = json_read_str(v->summary, "host");
        bool same = here && there && !strcmp(here, there);
        json_decref(self);
        return same ? "lost" : state;
    }
    return state ? state : "lost";
}
