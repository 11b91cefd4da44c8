/* PCI devices and the PUs near them. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/topo_hwloc.h"

#include <stdlib.h>
#include <string.h>

void topo_devices_release(struct topo_devices *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i].bus_id);
        free(d->items[i].names);
        pus_release(&d->items[i].local);
    }
    free(d->items);
    *d = (struct topo_devices){0};
}

#if HAVE_HWLOC

enum { PCI_VGA = 0x0300, PCI_3D = 0x0302, PCI_DISPLAY_OTHER = 0x0380, PCI_ACCELERATOR = 0x1200 };
enum { VENDOR_AMD = 0x1002, VENDOR_NVIDIA = 0x10de };

/* A VGA controller alone is no GPU: servers have one for their console. */
static bool is_gpu(unsigned class_id, unsigned vendor_id)
{
    if (class_id == PCI_3D || class_id == PCI_DISPLAY_OTHER || class_id == PCI_ACCELERATOR)
        return true;
    return class_id == PCI_VGA && (vendor_id == VENDOR_AMD || vendor_id == VENDOR_NVIDIA);
}

static char *names_below(hwloc_obj_t pci)
{
    struct str out = STR_INIT;
    for (hwloc_obj_t child = pci->io_first_child; child; child = child->next_sibling)
        if (child->type == HWLOC_OBJ_OS_DEVICE && child->name)
            str_appendf(&out, "%s%s", out.len ? "," : "", child->name);
    return str_steal(&out);
}

/* The kernel's own word; virtual machines often hang every device off one bridge and say node -1:
 * then nothing is known, and nothing is invented. */
static bool local_by_sysfs(const char *bus_id, struct pus *out)
{
    auto_free char *node = mem_printf("/sys/bus/pci/devices/%s/numa_node", bus_id);
    auto_free char *list = mem_printf("/sys/bus/pci/devices/%s/local_cpulist", bus_id);
    auto_str text = STR_INIT;
    int64_t number;
    if (!fs_sys_read_i64(node, &number) || number < 0 || !fs_sys_read(list, &text))
        return false;
    return pus_parse(text.data, out) && pus_count(out) > 0;
}

static void find_local(const struct topo *t, hwloc_obj_t pci, struct topo_device *out)
{
    hwloc_topology_t tree = topo_tree(t);
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(tree, pci);
    bool one_node = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_NUMANODE) < 2;
    bool telling = near && near->parent; /* the root tells nothing, but where there is no choice */
    if ((telling || one_node) && near && near->cpuset) {
        topo_from_bitmap(near->cpuset, &out->local);
        out->local_known = pus_count(&out->local) > 0;
    } else if (t->this_machine) {
        out->local_known = local_by_sysfs(out->bus_id, &out->local);
    }
}

static int by_bus_id(const void *a, const void *b)
{
    return strcmp(((const struct topo_device *)a)->bus_id, ((const struct topo_device *)b)->bus_id);
}

void topo_devices(const struct topo *t, struct topo_devices *out)
{
    *out = (struct topo_devices){0};
    if (!t->hwloc)
        return;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(topo_tree(t), o)) != NULL;) {
        const struct hwloc_pcidev_attr_s *pci = &o->attr->pcidev;
        struct topo_device d = {
            .bus_id = mem_printf("%04x:%02x:%02x.%x", (unsigned)pci->domain, pci->bus, pci->dev,
                                 pci->func),
            .names = names_below(o),
            .class_id = pci->class_id,
            .vendor_id = pci->vendor_id,
            .device_id = pci->device_id,
            .is_gpu = is_gpu(pci->class_id, pci->vendor_id),
            .is_network = pci->class_id >> 8 == 0x02,
        };
        find_local(t, o, &d);
        vec_push(out, d);
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_bus_id);
}

#else

void topo_devices(const struct topo *t, struct topo_devices *out)
{
    (void)t;
    *out = (struct topo_devices){0};
}

#endif
