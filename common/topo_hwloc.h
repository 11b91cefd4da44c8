/* For the files that look into hwloc's tree themselves; empty in a build without hwloc. */
#ifndef COMMON_TOPO_HWLOC_H
#define COMMON_TOPO_HWLOC_H

#include "common/topo.h"

#if HAVE_HWLOC
#include <hwloc.h>

static inline hwloc_topology_t topo_tree(const struct topo *t)
{
    return (hwloc_topology_t)t->hwloc;
}
/* out must be empty. */
void topo_from_bitmap(hwloc_const_bitmap_t bitmap, struct pus *out);
/* Caller frees with hwloc_bitmap_free. */
hwloc_bitmap_t topo_to_bitmap(const struct pus *set);
#endif

#endif
