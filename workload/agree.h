/* Ranks that fail together: what one rank finds wrong, all ranks learn, so that none waits in a
 * collective for a peer that has already given up. */
#ifndef WORKLOAD_AGREE_H
#define WORKLOAD_AGREE_H

#include "workload/comm.h"

/* Collective. Call it with err set or not: returns 0 when no rank has an error, else negative with
 * err set on every rank (its own error, or "rank N failed while <doing>" with that rank's code). */
int agree(struct comm *comm, const char *doing, struct error *err);

#endif
