/* The machinery against known truth: simulated trials of the fake runtime go through blocks, looks,
 * verdicts and comparability as real ones do. */
#ifndef HARNESS_SELFTEST_H
#define HARNESS_SELFTEST_H

#include "common/error.h"
#include "harness/verdict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum selftest_rule {
    EXPECT,        /* the verdict `want` */
    EXPECT_NOT,    /* any other than `want` */
    EXPECT_WITHIN, /* neither "slower" nor "faster" */
};

struct selftest_case {
    const char *name;
    const char *bare, *arm; /* scripts of the fake runtime, as JSON */
    const char *control;    /* script of the control arm; NULL: there is none */
    const char *arm_env;    /* the arm's environment as JSON; NULL: as the baseline's */
    int sessions;           /* simulated, each with another seed */
    enum selftest_rule rule;
    enum verdict_kind want;
    double share; /* of the sessions that must come out as expected, at least */
};
extern const struct selftest_case selftest_cases[]; /* ends with {NULL} */

struct selftest_result {
    size_t verdicts[VERDICT_COUNT];
    double mean_blocks; /* analysed when the cell was ended */
    double share;       /* of sessions as wanted */
    bool passed;
};
int selftest_run(const struct selftest_case *c, uint64_t seed, struct selftest_result *out,
                 struct error *err);

/* ---- selftest --full: error rates, power and coverage ----------------------------------------
 *
 * Every row simulates so many sessions of one truth: paired trials differ by `noise` (sd of the
 * log-ratio; the trials' noise is AR(1), with drift and with a factor that the arms of a block
 * share), the arm is slower by `effect`, the margin is 1 %, and there are 1, 2 or 3 looks (6, 12,
 * 24 blocks). Session i of row r has the seed  seed + 1,000,000 r + i:  the table does not depend
 * on how many processes made it. */
struct selftest_row {
    double noise, effect;
    int looks;
    bool never; /* stop: never, so that the number of blocks is fixed */
};
extern const struct selftest_row selftest_rows[];
extern const size_t selftest_row_count;

struct selftest_tally { /* whole numbers, so that the sum does not depend on the order */
    int64_t sessions;
    int64_t verdicts[VERDICT_COUNT];
    int64_t blocks;
    int64_t covered; /* sessions whose printed interval holds the truth */
    int64_t sd_nano; /* sum of the sd of the log-ratios, in 1e-9 */
};
double selftest_share_different(const struct selftest_tally *t); /* any slower or faster */
double selftest_share_slower(const struct selftest_tally *t);    /* with or without size */
double selftest_share(const struct selftest_tally *t, enum verdict_kind v);
double selftest_coverage(const struct selftest_tally *t);
double selftest_nominal(const struct selftest_row *row); /* coverage of the printed interval */

/* jobs: processes; >= 1. */
int selftest_row_run(const struct selftest_row *row, uint64_t seed, int64_t sessions, int jobs,
                     struct selftest_tally *out, struct error *err);
/* What of a row must hold, as words ("false claims <= 5.5 %"); NULL: it only informs. With fewer
 * than 20,000 sessions three standard errors are allowed. */
const char *selftest_row_rule(const struct selftest_row *row, const struct selftest_tally *t,
                              bool *holds);

/* ---- selftest --pitfalls: what usual ways to compare claim where there is no difference --------
 *
 * Trials of both arms vary alike (sd 0.5 %; the file says what else), and every claim of a
 * difference is false. */
struct pitfall_session {
    bool usual, ours; /* was a difference claimed, the usual way and ours? */
};
struct stats_rng;
struct pitfall {
    const char *usual, *ours; /* what is done */
    struct pitfall_session (*session)(struct stats_rng *rng);
};
extern const struct pitfall selftest_pitfalls[]; /* ends with {NULL} */

struct pitfall_tally {
    int64_t sessions, usual, ours; /* all; those with a false claim */
};
void selftest_pitfall_run(const struct pitfall *pitfall, uint64_t seed, int64_t sessions,
                          struct pitfall_tally *out);

#endif
