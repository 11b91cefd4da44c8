/* --nccl-profile: NCCL calls lib/nanochat-nccl-profiler.so (NANOCHAT_NCCL_PROFILER names another),
 * whose sums become one event at the end of the run. */
#ifndef WORKLOAD_NCCL_PROFILE_H
#define WORKLOAD_NCCL_PROFILE_H

#include "common/error.h"
#include "workload/events.h"

struct nccl_profiler;

/* Opens the object and sets NCCL_PROFILER_PLUGIN to it. Call before NCCL is opened. */
int nccl_profile_begin(const struct nccl_profiler **out, struct error *err);
/* Writes the event nccl_profile. Call when the communicator is closed; NULL: nothing. */
int nccl_profile_end(const struct nccl_profiler *p, struct events *events, struct error *err);

#endif
