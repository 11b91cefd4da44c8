/* What the analysis needs to know of a scenario, and nothing else: arms, cells, looks, margins.
 *
 * While a session runs it is made from the loaded scenario; afterwards from the session's
 * resolved.json, so that a session can be judged on a machine that has neither the scenario's
 * files nor its environment. Everything is owned by the study. */
#ifndef HARNESS_STUDY_H
#define HARNESS_STUDY_H

#include "common/error.h"
#include "common/json.h"
#include "common/str.h"
#include "harness/record.h"
#include "harness/scenario.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct study_arm {
    char *name, *kind;
    struct strv differs; /* items of the comparison that are meant to differ */
};

struct study_cell {
    char *id;       /* "c00" */
    char *label;    /* "ranks 2"; "" for a matrix of one point */
    json_t *values; /* {"ranks": 2} */
    int64_t ranks;  /* in all; 0: unknown */
};

struct study {
    char *name, *description, *scenario_sha256, *scenario_path;
    struct study_arm *arms;
    size_t n_arms;
    size_t baseline;
    int control;  /* index of the A/A arm, or -1 */
    int handicap; /* index of the arm that was slowed on purpose, or -1 */
    double handicap_share;
    struct study_cell *cells;
    size_t n_cells;
    int64_t looks[5];
    size_t n_looks;
    enum stop_rule stop;
    bool discard_first_block;
    enum scaling_mode scaling;
    char *scaling_over;
    char *primary;
    struct strv secondary;
    struct margin *margins;
    size_t n_margins;
    struct gate *gates;
    size_t n_gates;
    size_t n_sessions; /* that were merged; 0: none */
};

/* By its resolved form, as the analysis of its session will read it. */
void study_from_scenario(const struct scenario *s, struct study *out);
/* resolved: resolved.json; exit 8 for one that is not ours. records: cells that the file does not
 * list are taken from them. */
int study_from_json(const json_t *resolved, const struct records *records, struct study *out,
                    struct error *err);
void study_release(struct study *s);

/* Is it the A/A arm or the slowed one? Neither is a runtime that is asked about. */
bool study_is_control(const struct study *s, size_t arm);
int study_arm_index(const struct study *s, const char *name); /* -1: none */
int study_cell_index(const struct study *s, const char *id);
/* Whose margin holds for a metric: its own, or, throughput being step time turned round, that of
 * step time where only that one is given. An absolute margin is in its unit. */
const char *study_margin_metric(const struct study *s, const char *metric);
/* The relative margin of a metric where the baseline's level, of the metric that
 * study_margin_metric names, is `level`: the larger of the relative and
 * the absolute one. Not in the scenario: the default of the metric (1 % for step time, rates and
 * MFU; 20 % and at least 100 ms for phases; 5 % for anything else). `absolute`
 * becomes the absolute one where that counts, else 0; `source` tells "scenario" or "default"; both
 * may be NULL. */
double study_margin(const struct study *s, const char *metric, double level, double *absolute,
                    const char **source);

/* "ranks 2, seq 256" of {"ranks": 2, "seq": 256}; caller frees. */
char *study_cell_label(const json_t *values);

#endif
