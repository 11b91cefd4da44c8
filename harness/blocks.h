/* Blocks of a cell: which count, which do not and why, and the pairs of values they give.
 *
 * A block counts when all of its trials are `ok` in one and the same attempt; of several such
 * attempts the last. An arm without a single `ok` trial in the cell is left out of that rule, so
 * that one runtime that cannot start does not silence the others. A block with a disturbed trial
 * is excluded as a whole (it enters the analysis of all blocks). Blocks that were excluded by plan
 * (warm-up) are not even listed. The rule never looks at a metric. */
#ifndef HARNESS_BLOCKS_H
#define HARNESS_BLOCKS_H

#include "harness/study.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum block_state { BLOCK_COMPLETE, BLOCK_DISTURBED, BLOCK_INCOMPLETE };

struct block { /* one attempt at one block */
    int64_t stratum, block, attempt;
    enum block_state state;
    bool superseded;              /* another attempt at this block counts instead */
    const struct record **trials; /* n_arms; NULL: no such trial */
    char *reason;                 /* why it does not count: "podman: timeout" */
};

struct blocks {
    struct block *items;
    size_t count, cap;
    size_t n_arms;
    size_t complete;         /* blocks that count */
    size_t total, disturbed; /* distinct blocks; those with a disturbed attempt */
    size_t incomplete;       /* distinct blocks that do not count and were not disturbed */
};

void blocks_make(const struct study *s, const struct records *r, size_t cell, struct blocks *out);
void blocks_release(struct blocks *b);

struct pairs { /* values of two arms, block by block */
    double *a, *b;
    int64_t *block, *stratum;
    size_t count, cap;
    size_t missing; /* blocks that count but have no value of this metric */
};

/* all: also disturbed blocks. */
void pairs_make(const struct blocks *b, size_t arm_a, size_t arm_b, const char *metric, bool all,
                struct pairs *out);
void pairs_release(struct pairs *p);

/* The metric of a trial that is `ok` or `disturbed`; false if it has none or it is not > 0. */
bool block_value(const struct record *trial, const char *metric, double *out);

#endif
