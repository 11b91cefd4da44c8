#include "harness/session_data.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"

#include <string.h>

int session_data_load(const char *path, struct session_data *out, struct error *err)
{
    *out = (struct session_data){.study = {.control = -1, .handicap = -1}};
    if (session_view_load(path, &out->view, NULL, err)) {
        session_data_release(out);
        return -err->code;
    }
    auto_free char *real = fs_realpath(out->view.dir);
    auto_free char *resolved = mem_printf("%s/resolved.json", out->view.dir);
    out->id = mem_strdup(fs_basename(real ? real : out->view.dir));
    if (json_read_file(resolved, NCBENCH_EXIT_RESULTS, &out->resolved, err) ||
        study_from_json(out->resolved, &out->view.records, &out->study, err)) {
        session_data_release(out);
        return error_wrap(err, "session %s", path);
    }
    return 0;
}

void session_data_release(struct session_data *s)
{
    session_view_release(&s->view);
    free(s->id);
    json_decref(s->resolved);
    study_release(&s->study);
    *s = (struct session_data){.study = {.control = -1, .handicap = -1}};
}

const json_t *session_data_latest(const struct session_data *s, const char *arm, const char *path)
{
    for (size_t i = s->view.records.count; i-- > 0;) {
        const struct record *r = &s->view.records.items[i];
        if (arm && strcmp(r->runtime, arm) != 0)
            continue;
        const json_t *value = json_at(r->json, path);
        if (value && !json_is_null(value))
            return value;
    }
    return NULL;
}
