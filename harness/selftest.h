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

#endif
