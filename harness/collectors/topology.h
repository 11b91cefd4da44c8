/* The hwloc topology of this machine as seen from this process, as XML. */
#ifndef HARNESS_COLLECTORS_TOPOLOGY_H
#define HARNESS_COLLECTORS_TOPOLOGY_H

#include "common/error.h"
#include "common/str.h"

/* Without hwloc's x86 back end and with disallowed objects, so that two views of one machine can be
 * compared object by object; the allowed sets are in the XML. Exit 4 when it cannot be had. */
int topology_xml(struct str *out, struct error *err);

#endif
