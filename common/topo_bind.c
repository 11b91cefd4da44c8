/* Which PUs each rank of a node gets. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/topo_hwloc.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const topo_bind_names[] = {"none", "cores", "numa", "gpu-local", NULL};

const char *topo_bind_name(enum topo_bind policy)
{
    return topo_bind_names[policy];
}

enum topo_bind topo_bind_parse(const char *name)
{
    for (size_t i = 0; topo_bind_names[i]; i++)
        if (!strcmp(topo_bind_names[i], name))
            return (enum topo_bind)i;
    BUG("no binding is called \"%s\"", name);
}

static void note(struct topo_plan *plan, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void note(struct topo_plan *plan, const char *fmt, ...)
{
    va_list ap;
    if (plan->note) /* the first reason is the cause */
        return;
    va_start(ap, fmt);
    plan->note = mem_vprintf(fmt, ap);
    va_end(ap);
}

static void place(struct topo_plan *plan, int rank, const struct pus *set, const char *where)
{
    pus_copy(&plan->ranks[rank], set);
    free(plan->where[rank]);
    plan->where[rank] = mem_strdup(where);
}

/* ---- cores: a share each ---------------------------------------------------------------------
 */

/* In the order of their numbers, as evenly as they go; with more ranks than PUs some share one. */
static void share_by_number(const struct pus *from, int count, struct pus *out)
{
    int n = pus_count(from), pu = -1, index = 0;
    auto_free int *all = mem_alloc((size_t)(n + 1) * sizeof *all);
    while ((pu = pus_next(from, pu)) >= 0)
        all[index++] = pu;
    for (int r = 0; r < count; r++) {
        int begin = (int)((long)r * n / count), end = (int)((long)(r + 1) * n / count);
        for (int i = begin; i < end || i == begin; i++)
            pus_add(&out[r], (unsigned)all[i]);
    }
}

#if HAVE_HWLOC
/* By the tree, so that what is near stays together. */
static bool share_by_tree(const struct topo *t, const struct pus *from, int count, struct pus *out)
{
    hwloc_topology_t tree;
    if (!t->hwloc || hwloc_topology_dup(&tree, topo_tree(t)))
        return false;
    hwloc_bitmap_t set = topo_to_bitmap(from);
    bool done = hwloc_topology_restrict(tree, set, 0) == 0;
    hwloc_bitmap_free(set);
    if (done) {
        auto_free hwloc_bitmap_t *sets = mem_zalloc((size_t)count, sizeof *sets);
        hwloc_obj_t root = hwloc_get_root_obj(tree);
        done = hwloc_distrib(tree, &root, 1, sets, (unsigned)count, INT_MAX, 0) == 0;
        for (int r = 0; done && r < count; r++) {
            topo_from_bitmap(sets[r], &out[r]);
            hwloc_bitmap_free(sets[r]);
        }
    }
    hwloc_topology_destroy(tree);
    return done;
}
#else
static bool share_by_tree(const struct topo *t, const struct pus *from, int count, struct pus *out)
{
    (void)t, (void)from, (void)count, (void)out;
    return false;
}
#endif

/* The ranks in `which` (count of them) each get a share of `from`. */
static void share(const struct topo *t, const struct pus *from, const int *which, int count,
                  const char *where, struct topo_plan *plan)
{
    struct pus *out = mem_zalloc((size_t)count, sizeof *out);
    if (!share_by_tree(t, from, count, out))
        share_by_number(from, count, out);
    for (int i = 0; i < count; i++) {
        place(plan, which[i], &out[i], where);
        pus_release(&out[i]);
    }
    free(out);
}

static void plan_cores(const struct topo *t, struct topo_plan *plan)
{
    auto_free int *all = mem_alloc((size_t)plan->count * sizeof *all);
    for (int r = 0; r < plan->count; r++)
        all[r] = r;
    share(t, &t->usable, all, plan->count, "", plan);
}

/* ---- numa: a node each -----------------------------------------------------------------------
 */
struct node {
    unsigned number;
    struct pus pus; /* usable */
};
struct nodes {
    struct node *items;
    size_t count, cap;
    int without_memory;
};

static void nodes_release(struct nodes *n)
{
    for (size_t i = 0; i < n->count; i++)
        pus_release(&n->items[i].pus);
    free(n->items);
}

#if HAVE_HWLOC
/* A second node of the same PUs (high-bandwidth memory) is not another place to compute. */
static bool is_known(const struct nodes *n, const struct pus *pus)
{
    for (size_t i = 0; i < n->count; i++)
        if (pus_equal(&n->items[i].pus, pus))
            return true;
    return false;
}

static void find_nodes(const struct topo *t, struct nodes *out)
{
    hwloc_obj_t o = NULL;
    while (t->hwloc && (o = hwloc_get_next_obj_by_type(topo_tree(t), HWLOC_OBJ_NUMANODE, o))) {
        struct node n = {.number = o->os_index};
        topo_from_bitmap(o->cpuset, &n.pus);
        pus_and(&n.pus, &t->usable);
        bool memory = o->attr->numanode.local_memory > 0;
        bool gpu = o->subtype && !strcmp(o->subtype, "GPUMemory");
        out->without_memory += !memory;
        if (memory && !gpu && pus_count(&n.pus) > 0 && !is_known(out, &n.pus))
            vec_push(out, n);
        else
            pus_release(&n.pus);
    }
}
#else
static void find_nodes(const struct topo *t, struct nodes *out)
{
    (void)t, (void)out;
}
#endif

static void plan_numa(const struct topo *t, struct topo_plan *plan)
{
    struct nodes nodes = {0};
    find_nodes(t, &nodes);
    if (!nodes.count) {
        if (!t->hwloc)
            note(plan, "NUMA nodes are not known (%s): bound to cores", t->why);
        else
            note(plan, "no NUMA node has memory and usable PUs: bound to cores");
        plan_cores(t, plan);
    }
    for (int r = 0; nodes.count && r < plan->count; r++) {
        const struct node *n = &nodes.items[(size_t)r * nodes.count / (size_t)plan->count];
        auto_free char *where = mem_printf("NUMA node %u", n->number);
        place(plan, r, &n->pus, where);
    }
    nodes_release(&nodes);
}

/* ---- gpu-local -------------------------------------------------------------------------------
 */

/* The GPUs in the order in which the ranks take them: indices into devices. */
struct gpus {
    size_t *items;
    size_t count, cap;
};

static bool add_visible(const struct gpus *all, char *word, struct gpus *out)
{
    int64_t index;
    if (!num_parse_i64(str_trim(word), &index) || index < 0 || (size_t)index >= all->count)
        return false;
    vec_push(out, all->items[index]);
    return true;
}

/* CUDA's default order (fastest first) is the order of the bus for equal GPUs. */
static bool find_gpus(const struct topo_devices *d, struct gpus *out, struct topo_plan *plan)
{
    struct gpus all = {0};
    for (size_t i = 0; i < d->count; i++)
        if (d->items[i].is_gpu)
            vec_push(&all, i);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible || !all.count) {
        *out = all;
        return all.count > 0;
    }
    auto_free char *copy = mem_strdup(visible);
    char *save = NULL;
    bool good = true;
    for (char *w = strtok_r(copy, ",", &save); w && good; w = strtok_r(NULL, ",", &save))
        good = add_visible(&all, w, out);
    free(all.items);
    if (!good)
        note(plan,
             "CUDA_VISIBLE_DEVICES=%s: only a list of numbers tells which GPUs: locality unknown, "
             "bound to cores",
             visible);
    return good && out->count > 0;
}

/* Ranks whose GPUs are near the same PUs share those. */
static void place_group(const struct topo *t, const struct topo_devices *d, const size_t *gpu,
                        int first, bool *done, struct topo_plan *plan)
{
    auto_free int *which = mem_alloc((size_t)plan->count * sizeof *which);
    const struct topo_device *device = &d->items[gpu[first]];
    auto_pus near = {0};
    int n = 0;
    pus_copy(&near, &device->local);
    pus_and(&near, &t->usable);
    for (int r = first; r < plan->count; r++) {
        if (!pus_equal(&d->items[gpu[r]].local, &device->local))
            continue;
        which[n++] = r;
        done[r] = true;
    }
    share(t, &near, which, n, "", plan);
    for (int i = 0; i < n; i++) {
        free(plan->where[which[i]]);
        plan->where[which[i]] = mem_printf("GPU %s", d->items[gpu[which[i]]].bus_id);
    }
}

/* Does each GPU that is used tell where it is, with PUs that may be used there? */
static bool all_local(const struct topo *t, const struct topo_devices *d, const size_t *gpu,
                      struct topo_plan *plan)
{
    for (int r = 0; r < plan->count; r++) {
        const struct topo_device *device = &d->items[gpu[r]];
        auto_pus near = {0};
        pus_copy(&near, &device->local);
        pus_and(&near, &t->usable);
        if (!device->local_known)
            note(plan, "GPU %s: locality unknown: bound to cores", device->bus_id);
        else if (!pus_count(&near))
            note(plan, "GPU %s: no PU near it may be used: bound to cores", device->bus_id);
        if (plan->note)
            return false;
    }
    return true;
}

static void plan_gpu(const struct topo *t, struct topo_plan *plan)
{
    struct topo_devices devices;
    struct gpus gpus = {0};
    topo_devices(t, &devices);
    auto_free size_t *gpu = mem_alloc((size_t)plan->count * sizeof *gpu);
    auto_free bool *done = mem_zalloc((size_t)plan->count, sizeof *done);
    bool found = find_gpus(&devices, &gpus, plan);
    if (!found)
        note(plan, t->hwloc ? "no GPU is to be seen on this machine: bound to cores"
                            : "devices are not known without hwloc: bound to cores");
    for (int r = 0; found && r < plan->count; r++)
        gpu[r] = gpus.items[(size_t)r % gpus.count];
    if (!found || !all_local(t, &devices, gpu, plan))
        plan_cores(t, plan);
    for (int r = 0; !plan->note && r < plan->count; r++)
        if (!done[r])
            place_group(t, &devices, gpu, r, done, plan);
    free(gpus.items);
    topo_devices_release(&devices);
}

/* ---- all of them -----------------------------------------------------------------------------
 */
int topo_plan_make(const struct topo *t, enum topo_bind policy, int count, int code,
                   struct topo_plan *out, struct error *err)
{
    *out = (struct topo_plan){.count = count};
    if (policy == TOPO_BIND_NONE)
        return 0;
    int usable = pus_count(&t->usable);
    if (usable < count) {
        auto_free char *list = pus_text(&t->usable);
        error_set(err, code, "cannot bind %d ranks to %s: %d usable PU%s (%s)", count,
                  policy == TOPO_BIND_NUMA ? "NUMA nodes" : "cores", usable, usable == 1 ? "" : "s",
                  list);
        return error_hint(err, "start at most %d ranks here, or use --bind=none", usable);
    }
    out->ranks = mem_zalloc((size_t)count, sizeof *out->ranks);
    out->where = mem_zalloc((size_t)count, sizeof *out->where);
    if (policy == TOPO_BIND_CORES)
        plan_cores(t, out);
    else if (policy == TOPO_BIND_NUMA)
        plan_numa(t, out);
    else
        plan_gpu(t, out);
    return 0;
}

void topo_plan_release(struct topo_plan *plan)
{
    for (int r = 0; plan->ranks && r < plan->count; r++) {
        pus_release(&plan->ranks[r]);
        free(plan->where[r]);
    }
    free(plan->ranks);
    free(plan->where);
    free(plan->note);
    *plan = (struct topo_plan){0};
}
