/* Trial records: one JSON object a line in trials.jsonl, the source of truth of a session
 * (results/README.md describes the fields).
 *
 * Writing: the harness builds a json_t and appends it with record_append (one write, one
 * fdatasync). Reading: records_load parses all lines; a torn last line (no newline) is left out and
 * counted. A line that is whole but not a record is an error (exit 8) that names the line.
 *
 * Two rules need a whole block and are therefore applied when records are read, in memory, the
 * same way by every reader (records_derive):
 *   warm-up  every ok trial of a block leaves out the same leading steps, the most that one of its
 *            trials asks for (train.warmup_own); train.step_time_s, rank_skew_s, tokens_per_s, mfu
 *            and phases_s.{warmup,steady} follow from train.step_max_s and step_skew_s;
 *   loss     where train.loss_rel_tol is a number, a trial whose last loss differs by more than
 *            that from its block's baseline is `invalid`.
 * Deriving again changes nothing. */
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
    enum outcome outcome; /* after deriving; json's "outcome" says the same */
};

struct records {
    struct record *items;
    size_t count, cap;
    bool torn;          /* the file ended in a torn line */
    int64_t good_bytes; /* length of the whole lines */
};

/* Load and derive. */
int records_load(const char *path, struct records *out, struct error *err);
/* From memory; name for messages. */
int records_parse(const char *text, size_t len, const char *name, struct records *out,
                  struct error *err);
/* Add one record (its reference is taken over) without deriving; name for messages. */
int records_add(struct records *r, json_t *record, const char *name, struct error *err);
/* For all blocks whose records lie at index `from` and behind. */
void records_derive(struct records *r, size_t from);
void records_release(struct records *r);
/* fd: opened O_APPEND. On failure nothing of the record stays in the file. */
int record_append(int fd, const char *path, const json_t *record, struct error *err);

/* The value of a metric of an ok trial: "step_time_s" (train.step_time_s.median), "tokens_per_s",
 * "mfu", "start_s" (phases_s.start), "wall_s", or any dotted path. False if null or absent. */
bool record_metric(const struct record *r, const char *metric, double *out);
/* +1: larger is worse (times), -1: larger is better (rates). */
int metric_direction(const char *metric);
/* One of the named ones, or a dotted path. */
bool metric_is_known(const char *metric);

/* ---- the train object of a record ---------------------------------------------------------- */
/* (Re)compute what depends on the warm-up: w leading steps are left out, the first step among them
 * (w < 1 counts as 1). Needs step_max_s, step_skew_s; uses tokens_per_step, flops_per_token,
 * peak_flops_per_rank and world (of the record's "ranks"). */
void record_apply_warmup(json_t *record, int64_t w);
/* Steps to leave out by the detector: the first window of 2 x 10 steps whose slope and whose two
 * halves' medians agree, asked for at each step up to half of them; -1: not steady. */
int64_t warmup_detect(const double *step_s, size_t n);

/* gpu: of the record's gpu_telemetry.devices. Did a rank tell that this GPU is its own? By the bus
 * id too: an instance of a GPU (MIG) has a UUID of its own. Where none tells, every GPU of the node
 * may be. */
bool record_uses_gpu(const json_t *record, const json_t *gpu);

#endif
