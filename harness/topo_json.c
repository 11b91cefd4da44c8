/* A topology as JSON: `ncbench topo show --json`, and what a trial's record keeps of one. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/topo_hwloc.h"
#include "harness/topo.h"

#include <string.h>

static const char *device_kind(const struct topo_device *d)
{
    if (d->is_gpu)
        return "GPU";
    if (d->is_network)
        return d->class_id == 0x0207 ? "InfiniBand" : "network";
    if (d->class_id >> 8 == 0x01)
        return "storage";
    return d->class_id >> 8 == 0x03 ? "display" : "device";
}

static char *device_text(const struct topo_device *d)
{
    return mem_printf("%s %04x:%04x%s%s%s", device_kind(d), d->vendor_id, d->device_id,
                      *d->names ? " (" : "", d->names, *d->names ? ")" : "");
}

json_t *topo_devices_json(const struct topo *t, bool fast)
{
    json_t *out = json_object();
    struct topo_devices devices;
    topo_devices(t, &devices);
    for (size_t i = 0; i < devices.count; i++) {
        const struct topo_device *d = &devices.items[i];
        auto_free char *text = device_text(d);
        if ((d->is_gpu || d->is_network) == fast)
            json_put_str(out, d->bus_id, text);
    }
    topo_devices_release(&devices);
    return out;
}

static void put_ranks(json_t *obj, const struct topo_plan *plan)
{
    json_t *ranks = json_array();
    for (int r = 0; plan->ranks && r < plan->count; r++) {
        json_t *one = json_object();
        json_put_int(one, "rank", r);
        json_put(one, "pus", pus_json(&plan->ranks[r]));
        if (*plan->where[r])
            json_put_str(one, "where", plan->where[r]);
        json_array_append_new(ranks, one);
    }
    json_put(obj, "ranks", ranks);
    if (plan->note)
        json_put_str(obj, "note", plan->note);
}

#if HAVE_HWLOC

static void plural(struct str *out, int n, const char *what)
{
    str_appendf(out, "%s%d %s%s", out->len ? ", " : "", n, what, n == 1 ? "" : "s");
}

void topo_summary(const struct topo *t, struct str *out)
{
    auto_str text = STR_INIT;
    if (t->hwloc) {
        hwloc_topology_t tree = topo_tree(t);
        int packages = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_PACKAGE);
        int cores = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_CORE);
        char memory[32];
        if (packages > 0)
            plural(&text, packages, "package");
        if (cores > 0)
            plural(&text, cores, "core");
        plural(&text, pus_count(&t->pus), "PU");
        plural(&text, hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_NUMANODE), "NUMA node");
        double bytes = (double)hwloc_get_root_obj(tree)->total_memory;
        if (bytes > 0)
            str_appendf(&text, ", %s", num_format_size(memory, sizeof memory, bytes));
    } else {
        plural(&text, pus_count(&t->pus), "PU");
    }
    str_append(out, text.data);
}

static json_t *numa_json(const struct topo *t)
{
    json_t *all = json_array();
    hwloc_obj_t o = NULL;
    while ((o = hwloc_get_next_obj_by_type(topo_tree(t), HWLOC_OBJ_NUMANODE, o)) != NULL) {
        json_t *node = json_object();
        auto_pus set = {0};
        topo_from_bitmap(o->cpuset, &set);
        json_put_int(node, "node", o->os_index);
        json_put_int(node, "memory_bytes", (int64_t)o->attr->numanode.local_memory);
        json_put(node, "pus", pus_json(&set));
        json_put_bool(node, "allowed", pus_has(&t->allowed_nodes, o->os_index));
        json_array_append_new(all, node);
    }
    return all;
}

/* One entry a level: all of one size, as they nearly always are, else the first one's. */
static json_t *caches_json(const struct topo *t)
{
    json_t *all = json_array();
    hwloc_topology_t tree = topo_tree(t);
    for (int depth = 0; depth < hwloc_topology_get_depth(tree); depth++) {
        hwloc_obj_t o = hwloc_get_obj_by_depth(tree, depth, 0);
        char type[16];
        if (!o || !hwloc_obj_type_is_cache(o->type))
            continue;
        hwloc_obj_type_snprintf(type, sizeof type, o, 0);
        json_t *level = json_object();
        json_put_str(level, "type", type);
        if (o->attr->cache.size)
            json_put_int(level, "size_bytes", (int64_t)o->attr->cache.size);
        else
            json_put_null(level, "size_bytes", "not told");
        json_put_int(level, "count", (int64_t)hwloc_get_nbobjs_by_depth(tree, depth));
        json_put_int(level, "pus_each", hwloc_bitmap_weight(o->cpuset));
        json_array_append_new(all, level);
    }
    return all;
}

static void put_tree(json_t *obj, const struct topo *t)
{
    hwloc_topology_t tree = topo_tree(t);
    int packages = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_PACKAGE);
    int cores = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_CORE);
    char sha[SHA256_HEX];
    if (packages > 0)
        json_put_int(obj, "packages", packages);
    else
        json_put_null(obj, "packages", "not told by this machine");
    if (cores > 0)
        json_put_int(obj, "cores", cores);
    else
        json_put_null(obj, "cores", "not told by this machine");
    json_put(obj, "numa", numa_json(t));
    json_t *caches = caches_json(t);
    if (json_array_size(caches))
        json_put(obj, "caches", caches);
    else {
        json_decref(caches);
        json_put_null(obj, "caches", "not told by this machine");
    }
    topo_fingerprint(t, sha);
    json_put_str(obj, "fingerprint", sha);
}

static json_t *devices_json(const struct topo *t)
{
    json_t *all = json_array();
    struct topo_devices devices;
    topo_devices(t, &devices);
    for (size_t i = 0; i < devices.count; i++) {
        const struct topo_device *d = &devices.items[i];
        json_t *one = json_object();
        auto_free char *text = device_text(d);
        json_put_str(one, "bus_id", d->bus_id);
        json_put_str(one, "what", text);
        json_put_bool(one, "gpu", d->is_gpu);
        json_put_bool(one, "network", d->is_network);
        if (d->local_known)
            json_put(one, "local_pus", pus_json(&d->local));
        else
            json_put_null(one, "local_pus", "locality unknown");
        json_array_append_new(all, one);
    }
    topo_devices_release(&devices);
    return all;
}

#else

void topo_summary(const struct topo *t, struct str *out)
{
    int n = pus_count(&t->pus);
    str_appendf(out, "%d PU%s", n, n == 1 ? "" : "s");
}

static void put_tree(json_t *obj, const struct topo *t)
{
    (void)obj, (void)t, (void)num_format_size;
}
static json_t *devices_json(const struct topo *t)
{
    (void)t;
    return json_array();
}

#endif

json_t *topo_json(const struct topo *t, const struct topo_plan *plan)
{
    static const char *const keys[] = {"packages", "cores",   "numa",
                                       "caches",   "devices", "fingerprint"};
    json_t *obj = json_object();
    json_put_str(obj, "from", t->from);
    json_put_str(obj, "source", t->hwloc ? "hwloc" : "affinity");
    if (topo_hwloc_version())
        json_put_str(obj, "hwloc_api", topo_hwloc_version());
    else
        json_put_null(obj, "hwloc_api", "built without hwloc");
    json_put_bool(obj, "this_machine", t->this_machine);
    json_put_int(obj, "n_online_pus", pus_count(&t->pus));
    json_put_int(obj, "n_usable_pus", pus_count(&t->usable));
    json_put(obj, "usable_pus", pus_json(&t->usable));
    json_put(obj, "allowed_pus", pus_json(&t->allowed));
    json_put(obj, "online_pus", pus_json(&t->pus));
    json_put_int(obj, "default_threads", pus_count(&t->usable));
    if (t->hwloc) {
        put_tree(obj, t);
        json_put(obj, "devices", devices_json(t));
    }
    for (size_t i = 0; !t->hwloc && i < sizeof keys / sizeof *keys; i++)
        json_put_null(obj, keys[i], t->why);
    if (plan)
        put_ranks(obj, plan);
    return obj;
}
