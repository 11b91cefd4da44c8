#include "harness/topo.h"

#include "common/protocol.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

/* hwloc itself falls back without a word when these cannot be used: ask for them by hand. */
static int use_stand_in(hwloc_topology_t t, struct error *err)
{
    const char *synthetic = getenv("HWLOC_SYNTHETIC");
    const char *xml = getenv("HWLOC_XMLFILE");
    if (xml && *xml && hwloc_topology_set_xml(t, xml))
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "HWLOC_XMLFILE=%s", xml);
    if (synthetic && *synthetic && hwloc_topology_set_synthetic(t, synthetic))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT,
                         "HWLOC_SYNTHETIC=%s: not a topology, expected such as \"node:2 core:4 "
                         "pu:2\"",
                         synthetic);
    return 0;
}

static int load(hwloc_topology_t t, struct error *err)
{
    if (use_stand_in(t, err))
        return -err->code;
    /* CPUID would show caches that a container's view of /sys does not. */
    hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(t))
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "cannot load the topology");
    return 0;
}

static int export_xml(hwloc_topology_t t, struct str *out, struct error *err)
{
#if HWLOC_API_VERSION >= 0x00030000
    const unsigned long flags = HWLOC_TOPOLOGY_EXPORT_XML_FLAG_V2; /* so that 2.x tools read it */
#else
    const unsigned long flags = 0;
#endif
    char *text = NULL;
    int length = 0;
    if (hwloc_topology_export_xmlbuffer(t, &text, &length, flags))
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "cannot write the topology");
    str_append(out, text); /* length counts the NUL */
    hwloc_free_xmlbuffer(t, text);
    return 0;
}

int topo_xml(struct str *out, bool *this_machine, struct error *err)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "cannot make a topology");
    int failed = load(t, err);
    if (!failed) {
        *this_machine = hwloc_topology_is_thissystem(t);
        failed = export_xml(t, out, err);
    }
    hwloc_topology_destroy(t);
    return failed;
}
