/* The machine's topology as this process sees it, in hwloc's XML, loaded so that a host and a
 * container on it can be compared (disallowed parts included, no CPUID, important I/O devices). */
#ifndef HARNESS_TOPO_H
#define HARNESS_TOPO_H

#include "common/error.h"
#include "common/str.h"

#include <stdbool.h>

/* Append the XML. 4: the topology cannot be loaded, or HWLOC_SYNTHETIC or HWLOC_XMLFILE is set to
 * something that cannot. *this_machine: false when one of these variables stands for another. */
int topo_xml(struct str *out, bool *this_machine, struct error *err);

#endif
