/* The plan: every trial in order, deterministic from scenario and seed.
 *
 * A block is each runtime once in one cell, in random order (by the seed, cell and block number
 * alone, so that adding cells or resuming does not reshuffle others). Blocks of different cells
 * alternate. Block 0 is the discarded one when discard_first_block is set. The plan holds all
 * blocks up to the last look; `run` ends a cell earlier when its verdict allows it. */
#ifndef HARNESS_PLAN_H
#define HARNESS_PLAN_H

#include "harness/scenario.h"

#define PLAN_ID_MAX 96

struct planned_trial {
    char id[PLAN_ID_MAX]; /* "c03.b07.podman" */
    size_t seq;           /* place in the plan */
    size_t cell;          /* index */
    int64_t block;
    int position;   /* place of the runtime in its block */
    size_t runtime; /* index */
    bool warmup_block;
};

struct plan {
    struct planned_trial *trials;
    size_t count;
    int64_t blocks; /* per cell, the discarded one included */
};

/* blocks < 0: from the looks; else that many analysed blocks (`--blocks`). */
int plan_make(const struct scenario *s, int64_t blocks, struct plan *out, struct error *err);
void plan_release(struct plan *plan);
/* Lines of plan.jsonl. */
void plan_write(const struct scenario *s, const struct plan *plan, struct str *out);
/* "c03.b07.podman"; "c03.b07.podman.a2" for the second attempt of a block that is repeated. */
void plan_trial_id(const struct scenario *s, size_t cell, int64_t block, size_t runtime,
                   int64_t attempt, char out[static PLAN_ID_MAX]);

#endif
