/* One step number a rank, shared between a launcher and its ranks, so that the launcher can say at
 * which step a rank died even when the rank could not write anything any more.
 *
 * The launcher makes an anonymous file and hands its descriptor down in $NCBENCH_STEP_FD; a rank
 * stores its step in the cell of its local rank. Without the variable there is no cell. */
#ifndef WORKLOAD_STEP_PAGE_H
#define WORKLOAD_STEP_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define ENV_STEP_FD "NCBENCH_STEP_FD"
#define STEP_NONE (-1) /* before the first step */

struct step_page {
    int fd; /* inherited by children; -1: none */
    int count;
    _Atomic int64_t *steps; /* [count]; NULL: none */
};

/* Launcher: all cells are STEP_NONE. Failing is no error: steps are then unknown. */
void step_page_create(struct step_page *page, int count);
void step_page_release(struct step_page *page);

/* Rank: the cell of local_rank, mapped for the rest of the process's life, or NULL. */
_Atomic int64_t *step_page_cell(int local_rank);

#endif
