/* Was a trial disturbed by others? Asked of every trial that is ok, right after it ended, by rules
 * that are fixed in advance and never look at a metric:
 *
 *   foreign CPU  processes outside the trial used more than disturbance.foreign_cpu of the CPU time
 *                that the ranks' PUs had, and at least 50 ms (/proc/stat counts in ticks of 10 ms).
 *                Outside is what is neither of the trial's processes (collected by the harness, so
 *                that the runtime's helpers count with the trial) nor the harness itself.
 *   steal        the hypervisor took more than disturbance.steal of the machine's CPU time, and
 *                more than three times the median over the session's trials so far
 *   clock step   the wall clock moved by more than 0.1 s and 0.1 % against the monotonic one
 *   GPUs         of those that the ranks use: clocks held back for heat or by a power brake in more
 *                than disturbance.gpu_clocks of the samples, or (disturbance.gpu_processes) a
 *                process that is not the trial's computes there before or after it. A power cap is
 *                every busy GPU's and is only recorded
 *
 * Contention among the trial's own ranks is none of these. A disturbed trial keeps its numbers; its
 * block is left out of the analysis and repeated (harness/blocks.h, session_run.c).
 *
 * The record gains `disturbance`: {watched, foreign_cpu, steal, clock_step_s, reasons[]}, shares as
 * ratios. With NCBENCH_WATCH=off in the environment of ncbench nothing is judged and the record
 * says so: for tests of other things on busy machines. */
#ifndef HARNESS_DISTURBANCE_H
#define HARNESS_DISTURBANCE_H

#include "harness/record.h"
#include "harness/scenario.h"

#define ENV_WATCH "NCBENCH_WATCH"

/* record: of a trial that just ended; its outcome becomes `disturbed` where the rules say so.
 * earlier: the session's records so far. */
void disturbance_judge(const struct scenario *s, const struct records *earlier, json_t *record);

#endif
