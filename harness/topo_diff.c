/* Are two views of a machine the same? hwloc's own diff gives up ("too complex") on everything but
 * sizes and names: so what a container may change is taken out first and compared by itself: the
 * allowed sets as bitmaps, devices as sets, infos that do not count not at all. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "common/topo_hwloc.h"
#include "harness/topo.h"

#include <errno.h>
#include <math.h>
#include <string.h>

const char *topo_verdict_name(enum topo_verdict v)
{
    static const char *const names[] = {"same", "differs", "too_complex"};
    return names[v];
}

void topo_comparison_release(struct topo_comparison *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i].what);
        free(c->items[i].a);
        free(c->items[i].b);
    }
    free(c->items);
    *c = (struct topo_comparison){0};
}

/* Takes what, a and b over. */
static void add(struct topo_comparison *c, char *what, char *a, char *b)
{
    struct topo_difference d = {what, a, b};
    vec_push(c, d);
    if (c->verdict == TOPO_SAME)
        c->verdict = TOPO_DIFFERS;
}

static void compare_sets(struct topo_comparison *c, const char *what, const struct pus *a,
                         const struct pus *b)
{
    if (!pus_equal(a, b))
        add(c, mem_strdup(what), pus_text(a), pus_text(b));
}

static void compare_devices(struct topo_comparison *c, const struct topo *a, const struct topo *b,
                            bool fast)
{
    auto_json *left = topo_devices_json(a, fast);
    auto_json *right = topo_devices_json(b, fast);
    const char *key;
    json_t *value;
    json_object_foreach(left, key, value)
    {
        const char *text = json_string_value(value), *other = json_read_str(right, key);
        const json_t *there = json_object_get(right, key);
        other = json_string_value(there);
        if (!other || strcmp(text, other) != 0)
            add(c, mem_printf("device %s", key), mem_strdup(text),
                mem_strdup(other ? other : "absent"));
    }
    json_object_foreach(right, key, value) if (!json_object_get(left, key))
        add(c, mem_printf("device %s", key), mem_strdup("absent"),
            mem_strdup(json_string_value(value)));
}

#if HAVE_HWLOC

/* ---- the trees -------------------------------------------------------------------------------
 */

/* DMI: serial numbers and the like, which only root reads. */
static bool is_ignored(const char *name, size_t n)
{
    static const char *const names[] = {"HostName",  "ProcessName",  "LinuxCgroup", "OSRelease",
                                        "OSVersion", "hwlocVersion", "Backend"};
    if (n >= 3 && !strncmp(name, "DMI", 3))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && !strncmp(name, names[i], n))
            return true;
    return false;
}

/* Without the infos that do not count: with another number of them the diff gives up. */
static void strip_infos(const char *xml, struct str *out)
{
    static const char tag[] = "<info name=\"";
    for (const char *p; (p = strstr(xml, tag)) != NULL;) {
        const char *name = p + sizeof tag - 1, *end = strstr(p, "/>");
        if (!end)
            break;
        end += 2;
        str_append_n(out, xml, (size_t)(p - xml));
        if (!is_ignored(name, strcspn(name, "\"")))
            str_append_n(out, p, (size_t)(end - p));
        xml = end;
    }
    str_append(out, xml);
}

/* For the diff: no devices, everything allowed. */
static int load_bare(const char *path, hwloc_topology_t *out, struct error *err)
{
    auto_str text = STR_INIT, xml = STR_INIT;
    hwloc_topology_t t;
    if (fs_read_file(path, &text, NCBENCH_EXIT_ENVIRONMENT, err))
        return -err->code;
    strip_infos(text.data, &xml);
    if (hwloc_topology_init(&t))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "cannot make a topology: out of memory");
    hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_set_xmlbuffer(t, xml.data, (int)xml.len + 1) || hwloc_topology_load(t)) {
        int errnum = errno;
        hwloc_topology_destroy(t);
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errnum, "%s: no topology in hwloc's XML",
                           path);
    }
    hwloc_topology_allow(t, NULL, NULL, HWLOC_ALLOW_FLAG_ALL);
    *out = t;
    return 0;
}

static char *object_name(hwloc_topology_t t, int depth, unsigned index)
{
    hwloc_obj_t o = hwloc_get_obj_by_depth(t, depth, index);
    char type[64] = "object";
    if (o)
        hwloc_obj_type_snprintf(type, sizeof type, o, 0);
    return mem_printf("%s %u", type, index);
}

static char *size_text(hwloc_uint64_t bytes)
{
    char text[32];
    return mem_strdup(num_format_size(text, sizeof text, (double)bytes));
}

/* Sizes that differ by less than 1 % are the same memory, less what was reserved at boot. */
static bool is_near(hwloc_uint64_t a, hwloc_uint64_t b)
{
    return fabs((double)a - (double)b) <= 0.01 * (double)a;
}

static void take_diff(struct topo_comparison *c, hwloc_topology_t a,
                      const struct hwloc_topology_diff_obj_attr_s *d)
{
    auto_free char *object = object_name(a, d->obj_depth, d->obj_index);
    const union hwloc_topology_diff_obj_attr_u *u = &d->diff;
    if (u->generic.type == HWLOC_TOPOLOGY_DIFF_OBJ_ATTR_SIZE) {
        if (!is_near(u->uint64.oldvalue, u->uint64.newvalue))
            add(c, mem_printf("%s: size", object), size_text(u->uint64.oldvalue),
                size_text(u->uint64.newvalue));
    } else if (u->generic.type == HWLOC_TOPOLOGY_DIFF_OBJ_ATTR_INFO) {
        if (!is_ignored(u->string.name, strlen(u->string.name)))
            add(c, mem_printf("%s: %s", object, u->string.name), mem_strdup(u->string.oldvalue),
                mem_strdup(u->string.newvalue));
    } else {
        add(c, mem_printf("%s: name", object), mem_strdup(u->string.oldvalue),
            mem_strdup(u->string.newvalue));
    }
}

static char *shape(const struct topo *t)
{
    struct str out = STR_INIT;
    topo_summary(t, &out);
    return str_steal(&out);
}

/* TOO_COMPLEX is an answer, not an error. */
static int compare_trees(struct topo_comparison *c, const char *path_a, const char *path_b,
                         const struct topo *whole_a, const struct topo *whole_b, struct error *err)
{
    hwloc_topology_t a, b;
    hwloc_topology_diff_t diff = NULL;
    if (load_bare(path_a, &a, err))
        return -err->code;
    if (load_bare(path_b, &b, err)) {
        hwloc_topology_destroy(a);
        return -err->code;
    }
    int rc = hwloc_topology_diff_build(a, b, 0, &diff);
    for (hwloc_topology_diff_t d = rc < 0 ? NULL : diff; d; d = d->generic.next) {
        if (d->generic.type == HWLOC_TOPOLOGY_DIFF_OBJ_ATTR)
            take_diff(c, a, &d->obj_attr);
        else
            rc = 1;
    }
    if (rc != 0) {
        add(c, mem_strdup("structure"), shape(whole_a), shape(whole_b));
        c->verdict = TOPO_TOO_COMPLEX;
    }
    if (diff)
        hwloc_topology_diff_destroy(diff);
    hwloc_topology_destroy(a);
    hwloc_topology_destroy(b);
    return 0;
}

/* ---- the fingerprint -------------------------------------------------------------------------
 */
static void canonical_object(hwloc_obj_t o, struct strv *lines)
{
    auto_pus set = {0};
    topo_from_bitmap(o->cpuset, &set);
    auto_free char *pus = pus_text(&set);
    auto_str line = STR_INIT;
    str_appendf(&line, "%s:%d:%u:%s", hwloc_obj_type_string(o->type), o->depth, o->logical_index,
                pus);
    if (hwloc_obj_type_is_cache(o->type))
        str_appendf(&line, ":%llu", (unsigned long long)o->attr->cache.size);
    if (o->type == HWLOC_OBJ_NUMANODE)
        str_append(&line, o->attr->numanode.local_memory ? ":memory" : ":no memory");
    strv_push(lines, line.data);
}

void topo_canonical(const struct topo *t, struct strv *lines)
{
    if (!t->hwloc)
        return;
    hwloc_topology_t tree = topo_tree(t);
    for (int depth = 0; depth < hwloc_topology_get_depth(tree); depth++)
        for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_depth(tree, depth, o)) != NULL;)
            canonical_object(o, lines);
    for (hwloc_obj_t o = NULL;
         (o = hwloc_get_next_obj_by_type(tree, HWLOC_OBJ_NUMANODE, o)) != NULL;)
        canonical_object(o, lines);
    struct topo_devices devices;
    topo_devices(t, &devices);
    for (size_t i = 0; i < devices.count; i++) {
        const struct topo_device *d = &devices.items[i];
        if (d->class_id >> 8 == 0x02 || d->class_id >> 8 == 0x03)
            strv_pushf(lines, "PCI:%04x:%04x:%s", d->vendor_id, d->device_id, d->bus_id);
    }
    topo_devices_release(&devices);
}

int topo_compare(const char *a, const char *b, struct topo_comparison *out, struct error *err)
{
    auto_topo left = {0}, right = {0};
    *out = (struct topo_comparison){0};
    if (topo_load(a, &left, err) || topo_load(b, &right, err) ||
        compare_trees(out, a, b, &left, &right, err))
        return -err->code;
    compare_sets(out, "online PUs", &left.pus, &right.pus);
    compare_sets(out, "allowed PUs", &left.allowed, &right.allowed);
    compare_sets(out, "allowed NUMA nodes", &left.allowed_nodes, &right.allowed_nodes);
    compare_devices(out, &left, &right, true);
    compare_devices(out, &left, &right, false);
    return 0;
}

#else

void topo_canonical(const struct topo *t, struct strv *lines)
{
    (void)t, (void)lines;
}

int topo_compare(const char *a, const char *b, struct topo_comparison *out, struct error *err)
{
    auto_topo left = {0};
    (void)b, (void)compare_sets, (void)compare_devices;
    *out = (struct topo_comparison){0};
    return topo_load(a, &left, err);
}

#endif

void topo_fingerprint(const struct topo *t, char out[static SHA256_HEX])
{
    auto_strv lines = STRV_INIT;
    auto_str all = STR_INIT;
    topo_canonical(t, &lines);
    for (size_t i = 0; i < lines.count; i++)
        str_appendf(&all, "%s\n", lines.items[i]);
    out[0] = '\0';
    if (lines.count)
        sha256_hex(all.data, all.len, out);
}
