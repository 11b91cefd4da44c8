/* Where the launchers of several nodes meet, from the variables that srun gives each task. */
#ifndef WORKLOAD_LAUNCH_SLURM_H
#define WORKLOAD_LAUNCH_SLURM_H

#include "common/error.h"

#include <stdint.h>

struct launch_place {
    int64_t nnodes;      /* 0: not given */
    int64_t node_rank;   /* -1: not given */
    char *master_addr;   /* owned; NULL: not given */
    int64_t master_port; /* 0: not given */
};

/* What is not given: number of nodes from SLURM_STEP_NUM_NODES, number of this node from
 * SLURM_NODEID, address from the first of SLURM_STEP_NODELIST, and a port that differs from step to
 * step (20000 to 31999, below those that the kernel gives away). Only inside a step of one task a
 * node. NANOCHAT_EXIT_USAGE: what is needed is not there, or contradicts what is given. */
int launch_place_from_slurm(struct launch_place *r, struct error *err);
void launch_place_release(struct launch_place *r);

#endif
