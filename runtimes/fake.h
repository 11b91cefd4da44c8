/* The fake runtime: a scripted response in place of a process.
 *
 * Nothing is started. The harness asks fake_respond for what a trial "gave" and writes the record
 * from it, so that sampling, statistics, verdicts and the handling of failures can be tested in
 * milliseconds and with a known truth. For processes that really run, hang, fork or die, use kind
 * `command` with tests/payload.
 *
 * The response depends on the script and on (seed, cell, block, seq) alone: the same plan gives the
 * same records, in any order and after a resume.
 *
 *     script:
 *       step_time_s: 0.1      median step of an undisturbed trial; required unless the outcome of
 *                             every trial is a failure
 *       effect: 0.03          this arm is that much slower (ratio - 1); 0
 *       steps: 40             steps a trial makes
 *       noise_sd: 0.005       sd of the trial's log-median: noise between trials; 0
 *       ar1: 0.8              correlation of that noise from one trial to the next, in order of
 *                             execution; 0 … < 1; 0
 *       block_sd: 0.02        sd of a log-factor that all arms of a block share; 0
 *       drift_per_trial: 1e-4 log-factor per place in the order of execution; 0
 *       within_sd: 0.01       sd of the steps within a trial, relative; 0
 *       warmup_steps: 3       the first steps are slower, by warmup_factor (2); 0
 *       start_s: 0.25         from spawn to hello; 0
 *       start_sd: 0.05        relative sd of start_s; 0
 *       loss: 4.2             loss of the last step; 4
 *       fail_every: 7         trials whose block is a multiple of it (7, 14 …) fail, 1: all; 0
 *       outcome: oom          how they fail; workload_failed
 *       exit_code: 9          with which exit code; 1
 *
 * Numbers may be written as text with a unit ("100ms", "1%"), as everywhere in a scenario. */
#ifndef RUNTIMES_FAKE_H
#define RUNTIMES_FAKE_H

#include "common/error.h"
#include "common/json.h"
#include "common/protocol.h"

#include <stddef.h>
#include <stdint.h>

struct fake_trial {
    uint64_t seed;    /* of the session */
    const char *cell; /* "c00" */
    int64_t block;
    int64_t seq; /* place in the order of execution */
};

struct fake_response {
    enum outcome outcome;
    int exit_code;
    char *reason; /* if not ok; owned */
    double start_s;
    double wall_s;       /* start and all steps */
    double *step_time_s; /* owned; NULL if not ok */
    size_t steps;
    double loss_last;
};

/* 3: the script is not understood; the message names the key. */
int fake_check_script(const json_t *script, struct error *err);
int fake_respond(const json_t *script, const struct fake_trial *trial, struct fake_response *out,
                 struct error *err);
void fake_response_release(struct fake_response *response);

#endif
