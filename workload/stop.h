/* SIGTERM and SIGINT ask a run to end after the step in progress; a second signal ends it at once.
 * Signals that come together count as one: Slurm signals every process of a step, and the launcher
 * hands on what it gets. Ranks agree on it in the all-reduce of the loss, so that none waits for
 * one that has left. */
#ifndef WORKLOAD_STOP_H
#define WORKLOAD_STOP_H

#include "common/error.h"

#define STOP_TWICE_S 2

void stop_install(void);
/* The signal that asked this process to end, or 0. */
int stop_requested(void);
/* NANOCHAT_EXIT_PEER ("killed"), naming the signal; `done` says how far the run came. */
int stop_error(int signal, const char *done, struct error *err);

#endif
