/* Trial records: one JSON object a line in trials.jsonl, the source of truth of a session
 * (results/README.md describes the fields).
 *
 * Writing: the harness builds a json_t and appends it with record_append (one write, one
 * fdatasync). Reading: records_load parses all lines; a torn last line (no newline) is left out and
 * counted. A line that is whole but not a record is an error (exit 8) that names the line. */
#ifndef HARNESS_RECORD_H
#define HARNESS_RECORD_H

#include "common/error.h"
#include "common/json.h"
#include "common/protocol.h"

#include <stdbool.h>
#include <stdint.h>

#define RECORD_SCHEMA "trial/1.0"

struct record {
    json_t *json;      /* owned: the whole record */
    const char *trial; /* borrowed from json */
    const char *cell;  /* "c00" */
    const char *runtime;
    int64_t block, attempt, seq, stratum;
    bool baseline, warmup_block;
    enum outcome outcome;
};

struct records {
    struct record *items;
    size_t count, cap;
    bool torn;          /* the file ended in a torn line */
    int64_t good_bytes; /* length of the whole lines */
};

int records_load(const char *path, struct records *out, struct error *err);
/* From memory; name for messages. */
int records_parse(const char *text, size_t len, const char *name, struct records *out,
                  struct error *err);
void records_release(struct records *r);
/* fd: opened O_APPEND. */
int record_append(int fd, const char *path, const json_t *record, struct error *err);

/* The value of a metric of an ok trial: "step_time_s" (train.step_time_s.median), "tokens_per_s",
 * "mfu", "start_s" (phases_s.start), "wall_s", or any dotted path. False if null or absent. */
bool record_metric(const struct record *r, const char *metric, double *out);
/* +1: larger is worse (times), -1: larger is better (rates). */
int metric_direction(const char *metric);

#endif
