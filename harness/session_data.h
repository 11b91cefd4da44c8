/* A session on disk, read for analysis: what session_view.h finds, and the study of its scenario.
 * Nothing is written. */
#ifndef HARNESS_SESSION_DATA_H
#define HARNESS_SESSION_DATA_H

#include "harness/session_view.h"
#include "harness/study.h"

struct session_data {
    struct session_view view;
    char *id;         /* name of the session's directory */
    json_t *resolved; /* resolved.json */
    struct study study;
};

/* path as for session_view_load. Exit 8 when there is no session or it cannot be read. */
int session_data_load(const char *path, struct session_data *out, struct error *err);
void session_data_release(struct session_data *s);

/* A field of the newest record (of that arm; NULL: of any) that has it, not null; or NULL. */
const json_t *session_data_latest(const struct session_data *s, const char *arm, const char *path);

#endif
