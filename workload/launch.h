/* Starting the ranks of a node, and ending them: what torchrun does, without Python.
 *
 * Each rank is a process group of its own with RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
 * GROUP_RANK (the node's number), MASTER_ADDR and MASTER_PORT set and /dev/null as standard input.
 * The launcher
 *
 *   - writes rank<NNNNN>.out and .err into log_dir (node<NNNNN>… with NCBENCH_TRIAL_FILES=node), or
 *     lets the ranks inherit its streams;
 *   - forwards TERM, INT, HUP, USR1 and USR2 to the ranks; TERM, INT and HUP begin the end: after
 *     grace_s, or at a second one of them, what is still there is killed; those that come within
 * two seconds are one, because a client of a runtime hands on what our group gets as well;
 *   - ends all ranks when one fails (TERM, grace_s, KILL);
 *   - leaves no process behind: ranks die with the launcher, what a rank started dies with the
 *     rank, and what escaped from its group is adopted (child subreaper) and killed at the end.
 *
 * Result: 0 when all ranks end with 0, else the code of the rank that failed first of its own
 * accord; a rank that only reports a lost peer (8) is not the cause if another one failed too. A
 * rank that was ended by a signal gives NANOCHAT_EXIT_PEER. Codes that belong to shells and
 * runtimes (from 125 on) become NANOCHAT_EXIT_BUG. The message names rank, code or signal, and
 * step. */
#ifndef WORKLOAD_LAUNCH_H
#define WORKLOAD_LAUNCH_H

#include "common/error.h"
#include "common/topo.h"

#include <stdbool.h>

struct launch_config {
    int nproc;               /* ranks on this node */
    int nnodes, node_rank;   /* 1, 0 on a single node */
    const char *master_addr; /* NULL: 127.0.0.1 */
    int master_port;         /* 0: one that is free now */
    const char *log_dir;     /* NULL: streams are inherited */
    double grace_s;
    enum topo_bind bind;
    char *const *argv; /* of every rank; argv[0] is a path */
};

/* Runs the ranks to their end. Sets this process's signal mask while it runs; one at a time. */
int launch_run(const struct launch_config *config, struct error *err);

/* launch_bind.c: where each rank goes. NANOCHAT_EXIT_PLAN: more ranks than usable PUs. A plan that
 * could not be made as asked is told on standard error. Frees with topo_plan_release. */
int launch_plan(const struct launch_config *config, struct topo_plan *out, struct error *err);

/* How the launcher tells a rank what was asked for: the policy, the PUs ("0-3"), and why it is not
 * quite that. Not on the list of variables that are compared. */
#define ENV_BIND "RANK_BIND"
#define ENV_BIND_PUS "RANK_BIND_PUS"
#define ENV_BIND_NOTE "RANK_BIND_NOTE"

#endif
