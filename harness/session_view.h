/* A session as it lies on disk, for status and show: plan, records, summary. Nothing is written,
 * and a session that is still running may be read. */
#ifndef HARNESS_SESSION_VIEW_H
#define HARNESS_SESSION_VIEW_H

#include "harness/record.h"

struct session_view {
    char *dir;
    json_t *summary; /* session.json */
    json_t *plan;    /* array of plan.jsonl's lines; empty if it is not there */
    struct records records;
};

/* path: a session's directory, or a folder of sessions (the newest). With trial not NULL a last
 * component that is no directory is a trial's id (*trial, owned by the caller; else NULL). Exit 8
 * for what is no session. */
int session_view_load(const char *path, struct session_view *out, char **trial, struct error *err);
void session_view_release(struct session_view *v);
/* "running", "complete", "incomplete", "cancelled", "failed", or "lost": its process is gone, and
 * it never wrote an end. */
const char *session_view_state(const struct session_view *v);

#endif
