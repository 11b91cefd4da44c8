/* Containers in enroot's data path of a node where ncbench does not run: command lines for a step
 * of Slurm, for enroot and for pyxis, which keeps its containers there too. */
#ifndef RUNTIMES_ENROOT_NODE_H
#define RUNTIMES_ENROOT_NODE_H

#include "common/str.h"

/* Where the containers lie: as the variables of the user say, or, as pyxis has it, as the site's
 * enroot.conf says alone. */
enum enroot_paths { ENROOT_PATHS_OF_USER, ENROOT_PATHS_OF_SITE };

/* Unpack a squashfs into the container `name`, in place of one that is there. */
void enroot_node_create(const char *name, const char *image, struct strv *argv);
/* Remove containers; the names are to be appended by the caller. Absent is success. */
void enroot_node_remove(enum enroot_paths paths, struct strv *argv);
/* Remove the containers that pyxis made for steps of this job and did not remove when they ended.
 */
void enroot_node_remove_steps(struct strv *argv);

#endif
