/* Slurm's lists of nodes: "nid[001-003,007],login1", "rack[1-2]node[01-04]".
 *
 * Numbers keep the width of the first one of their range ("001-003" are three digits). Names are in
 * the order of the list, which is the order of Slurm's node numbers within a step. */
#ifndef COMMON_HOSTLIST_H
#define COMMON_HOSTLIST_H

#include "common/error.h"
#include "common/str.h"

#define HOSTLIST_MAX 65536

/* Appends the names. code: of the error for a list that cannot be understood. */
int hostlist_expand(const char *text, struct strv *names, int code, struct error *err);

#endif
