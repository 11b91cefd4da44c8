#include "workload/launch.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/env_priv.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>

/* The tree of what may be used, without what may not. */
static int load_usable(hwloc_topology_t *out, hwloc_const_bitmap_t usable, struct error *err)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t))
        return error_set(err, NANOCHAT_EXIT_OOM, "cannot bind ranks: out of memory");
    hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    if (hwloc_topology_load(t) || hwloc_topology_restrict(t, usable, 0)) {
        int errnum = errno;
        hwloc_topology_destroy(t);
        return error_errno(err, NANOCHAT_EXIT_DEVICE, errnum,
                           "cannot bind ranks: hwloc cannot read this machine's topology");
    }
    if (!hwloc_topology_is_thissystem(t)) {
        hwloc_topology_destroy(t);
        return error_set(err, NANOCHAT_EXIT_DEVICE,
                         "cannot bind ranks: hwloc was told to show another machine; unset "
                         "HWLOC_XMLFILE and HWLOC_SYNTHETIC");
    }
    *out = t;
    return 0;
}

static void copy_sets(struct launch_sets *out, hwloc_bitmap_t *sets, int highest)
{
    out->bytes = CPU_ALLOC_SIZE((size_t)highest + 1);
    for (int r = 0; r < out->count; r++) {
        cpu_set_t *set = mem_zalloc(1, out->bytes);
        for (int pu = hwloc_bitmap_first(sets[r]); pu >= 0; pu = hwloc_bitmap_next(sets[r], pu))
            CPU_SET_S((size_t)pu, out->bytes, set);
        out->items[r] = set;
        hwloc_bitmap_free(sets[r]);
    }
}

int launch_distribute(int count, struct launch_sets *out, struct error *err)
{
    hwloc_bitmap_t usable = env_usable_pus();
    if (!usable)
        return error_set(err, NANOCHAT_EXIT_DEVICE, "cannot bind ranks: sched_getaffinity failed");
    int weight = hwloc_bitmap_weight(usable);
    hwloc_topology_t t = NULL;
    if (weight < count) {
        char *list = NULL;
        hwloc_bitmap_list_asprintf(&list, usable);
        error_set(err, NANOCHAT_EXIT_PLAN, "cannot bind %d ranks to cores: %d usable PU%s (%s)",
                  count, weight, weight == 1 ? "" : "s", list ? list : "?");
        free(list);
        error_hint(err, "start at most %d ranks here, or use --bind=none", weight);
    } else if (!load_usable(&t, usable, err)) {
        auto_free hwloc_bitmap_t *sets = mem_zalloc((size_t)count, sizeof *sets);
        hwloc_obj_t root = hwloc_get_root_obj(t);
        hwloc_distrib(t, &root, 1, sets, (unsigned)count, INT_MAX, 0);
        out->items = mem_zalloc((size_t)count, sizeof *out->items);
        out->count = count;
        copy_sets(out, sets, hwloc_bitmap_last(usable));
        hwloc_topology_destroy(t);
    }
    hwloc_bitmap_free(usable);
    return -err->code;
}

void launch_sets_free(struct launch_sets *sets)
{
    for (int r = 0; r < sets->count; r++)
        free(sets->items[r]);
    free(sets->items);
    *sets = (struct launch_sets){0};
}
