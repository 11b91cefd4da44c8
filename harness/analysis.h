/* The analysis of a whole session: what every reporter prints.
 *
 * Order of judgement: comparability overrules the numbers of its cell and arm; a control arm that
 * is not equivalent or inconclusive, or a handicap arm that is not slower, makes every comparison
 * of the session untrustworthy. Holm's family is the primary metric over all cells and arms, the
 * control left out. */
#ifndef HARNESS_ANALYSIS_H
#define HARNESS_ANALYSIS_H

#include "harness/comparability.h"
#include "harness/scaling_stats.h"
#include "harness/verdict.h"

#include <stdbool.h>
#include <stddef.h>

struct analysis_options {
    const char *metric; /* in place of the primary one; NULL: the scenario's */
    double margin;      /* relative, in place of the scenario's; < 0: none */
};

struct arm_count { /* trials of an arm, the warm-up block left out */
    size_t outcome[OUTCOME_COUNT];
    size_t total;
};

struct analysis {
    const struct study *study;     /* borrowed */
    const struct records *records; /* borrowed */
    char *metric;                  /* judged: the primary one, or that of the options */
    struct blocks *blocks;         /* by cell */
    struct comparability *env;     /* [cell * n_arms + arm] against the baseline */
    struct comparison *items; /* by cell, then arm; the baseline has none; then secondary ones */
    size_t count, cap;
    size_t n_primary; /* the first so many are of `metric` */
    size_t family;    /* comparisons in Holm's family */
    bool has_control, has_handicap;
    bool control_ok;      /* of both, where they are */
    char *control_reason; /* if it failed */
    bool untrustworthy;   /* any verdict is not_comparable or untrustworthy */
    struct arm_count *arms;
};

void analysis_make(const struct study *s, const struct records *r,
                   const struct analysis_options *options, struct analysis *out);
void analysis_release(struct analysis *a);

/* The comparison of a metric, or NULL. */
const struct comparison *analysis_find(const struct analysis *a, const char *metric, size_t cell,
                                       size_t arm);
bool analysis_is_control(const struct analysis *a, const struct comparison *c);
const struct comparability *analysis_env(const struct analysis *a, size_t cell, size_t arm);
/* 7 if anything is not comparable or untrustworthy, else 0. */
int analysis_exit(const struct analysis *a);

/* Values of a metric over the blocks that count, in order of blocks; the caller frees. */
double *analysis_values(const struct analysis *a, size_t cell, size_t arm, const char *metric,
                        size_t *n);

/* ---- scaling over ranks ---------------------------------------------------------------------- */
struct scaling_point {
    size_t cell;
    double n;                         /* ranks */
    double step_time_s, tokens_per_s; /* medians over the blocks; NaN if unknown */
    double efficiency;                /* relative to the smallest n */
    double speedup;
    double karp_flatt;          /* NaN at the smallest n */
    double batch, accumulation; /* rows of a micro-batch, micro-batches a step; NaN if unknown */
    bool breaks;                /* what a rank does changes here: no line, no model across it */
};
/* Points of an arm by growing n; returns how many (0: no scaling asked for, or one size only).
 * Where cells vary in more than the rank count, only those that share the other values of the
 * first. */
size_t analysis_scaling(const struct analysis *a, size_t arm, struct scaling_point **out);

/* Least squares of the blocks' log-ratios to the baseline on log2 of the size: does what a runtime
 * costs grow with the size? False: no interval. */
bool analysis_ratio_slope(const struct analysis *a, size_t arm, struct scaling_slope *out);

/* Models, from this many sizes on, N = 1 among them, and across no break. What cannot be told from
 * the data is not shown: coherency where the bootstrap's 95 % interval (blocks resampled within
 * sizes, a fixed seed) reaches 0; the size beyond which throughput falls also below 6 sizes and
 * beyond 4 times the largest. */
#define SCALING_FIT_POINTS 4
struct scaling_fit {
    double serial; /* Amdahl's fraction (fit on times) or, for weak scaling, Gustafson's */
    struct usl usl;
    bool coherency_shown, n_max_shown;
    struct interval n_max_ci;
};
bool analysis_scaling_fit(const struct analysis *a, size_t arm, struct scaling_fit *out);

#endif
