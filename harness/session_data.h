/* A session on disk, read for analysis: scenario, records, study. Nothing is written. */
#ifndef HARNESS_SESSION_DATA_H
#define HARNESS_SESSION_DATA_H

#include "harness/record.h"
#include "harness/study.h"

struct session_data {
    char *dir;        /* as given, without a trailing slash */
    char *id;         /* name of the session's directory */
    json_t *resolved; /* resolved.json */
    json_t *summary;  /* session.json, or NULL */
    struct records records;
    struct study study;
    size_t planned; /* trials of plan.jsonl, 0 if unreadable */
};

/* path: a session's directory, a folder of sessions (the newest is taken), or a file in a session
 * (its trials.jsonl, say). Exit 8 when it is none of these or cannot be read. */
int session_data_load(const char *path, struct session_data *out, struct error *err);
void session_data_release(struct session_data *s);

/* "podman" of the newest record that tells the runtime's versions: {"podman": "4.3.1"}; or NULL. */
const json_t *session_data_latest(const struct session_data *s, const char *arm, const char *path);

#endif
