/* Simulated sessions for the selftest: trials of the fake runtime become records in memory, and
 * blocks, looks, verdicts and comparability treat them as those of a real session. Nothing is
 * forked and no file is touched. A session depends on its seed alone. */
#ifndef HARNESS_SELFTEST_SIM_H
#define HARNESS_SELFTEST_SIM_H

#include "common/error.h"
#include "harness/analysis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct simulation_setup {
    const char *name;               /* for messages */
    const char *bare, *arm;         /* scripts of the fake runtime, as JSON */
    const char *control;            /* script of the control arm; NULL: there is none */
    const char *bare_env, *arm_env; /* what a rank sees, as JSON; NULL: it tells nothing */
    const char *looks;              /* "[6, 12, 24]" */
    const char *stop;               /* "decided", "never" */
    bool first_block_warms;         /* block 0 is made and not analysed */
};

struct simulation {
    struct study study;
    struct records records; /* of the session that runs */
    json_t *scripts[3];     /* bare, arm, control */
    json_t *env[2];         /* of the baseline and of the arm */
    bool first_block_warms;
};

struct simulated { /* what came of a session */
    enum verdict_kind verdict;
    int64_t blocks;       /* run, failed ones included, when the cell was ended */
    struct paired paired; /* of the last look */
};

/* 70: a script or scenario of the selftest is not understood. */
int simulation_open(const struct simulation_setup *setup, struct simulation *out,
                    struct error *err);
int simulation_session(struct simulation *s, uint64_t seed, struct simulated *out,
                       struct error *err);
void simulation_close(struct simulation *s);

#endif
