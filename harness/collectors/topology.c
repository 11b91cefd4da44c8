#include "harness/collectors/topology.h"

#include "common/protocol.h"

#include <hwloc.h>

static int export_xml(hwloc_topology_t topology, struct str *out)
{
    char *xml = NULL;
    int len = 0;
    /* cpuid would show the machine's real topology where /sys shows another (a fixture, a VM). */
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) ||
        hwloc_topology_load(topology) || hwloc_topology_export_xmlbuffer(topology, &xml, &len, 0))
        return -1;
    str_append(out, xml);
    hwloc_free_xmlbuffer(topology, xml);
    return 0;
}

int topology_xml(struct str *out, struct error *err)
{
    hwloc_topology_t topology;
    int rc = hwloc_topology_init(&topology);
    if (rc == 0) {
        rc = export_xml(topology, out);
        hwloc_topology_destroy(topology);
    }
    return rc ? error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                          "hwloc cannot read the topology of this machine")
              : 0;
}
