/* The plan: every trial in order, deterministic from scenario and seed.
 *
 * A block is each runtime once in one cell, in random order (by the seed, cell and block number
 * alone, so that adding cells or resuming does not reshuffle others). Blocks of different cells
 * alternate. Block 0 is the discarded one when discard_first_block is set. The plan holds all
 * blocks up to the last look; `run` ends a cell earlier when its verdict allows it. */
#ifndef HARNESS_PLAN_H
#define HARNESS_PLAN_H

#include "harness/scenario.h"

struct planned_trial {
    char id[64]; /* "c03.b07.podman" */
    size_t seq;  /* place in the plan */
    size_t cell; /* index */
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
/* One trial of a block that is repeated (attempt > 1) at the end: id "c03.b07.podman.a2". */

#endif
