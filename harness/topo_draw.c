/* A topology as a tree in text, 100 columns wide at most for ordinary machines. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/topo_hwloc.h"
#include "harness/topo.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH 96
#define MANY_CORES 16 /* more of them below one object are drawn as ranges */

/* ---- head and foot --------------------------------------------------------------------------- */

static void draw_head(const struct topo *t, struct str *out)
{
    auto_free char *usable = pus_text(&t->usable);
    str_appendf(out, "%s: ", t->from);
    topo_summary(t, out);
    str_appendf(out, "\nusable: %d of %d PUs (%s)", pus_count(&t->usable), pus_count(&t->pus),
                usable);
    if (!pus_equal(&t->allowed, &t->pus)) {
        auto_free char *allowed = pus_text(&t->allowed);
        str_appendf(out, "; allowed: %s", allowed);
    }
    if (!t->this_machine)
        str_append(out, "; not this machine");
    str_append(out, "\n");
}

static void draw_plan(const struct topo_plan *plan, struct str *out)
{
    str_append(out, "\n");
    if (plan->note)
        str_appendf(out, "note: %s\n", plan->note);
    for (int r = 0; plan->ranks && r < plan->count; r++) {
        auto_free char *pus = pus_text(&plan->ranks[r]);
        str_appendf(out, "rank %-4d PUs %s%s%s%s\n", r, pus, *plan->where[r] ? "  (" : "",
                    plan->where[r], *plan->where[r] ? ")" : "");
    }
}

#if HAVE_HWLOC

struct canvas {
    const struct topo *t;
    struct topo_devices devices;
    bool all;
    bool utf8;
    bool marked_affinity, marked_disallowed; /* marks that need an explanation */
    struct str *out;
};

static bool terminal_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

/* ---- cores and PUs --------------------------------------------------------------------------- */

struct objects {
    hwloc_obj_t *items;
    size_t count, cap;
};

/* "3" is usable, "(3)" not in our affinity, "x3" not allowed by the cgroup. */
static void draw_pu(struct canvas *c, unsigned pu, struct str *out)
{
    if (!pus_has(&c->t->allowed, pu)) {
        str_appendf(out, " x%u", pu);
        c->marked_disallowed = true;
    } else if (!pus_has(&c->t->usable, pu)) {
        str_appendf(out, " (%u)", pu);
        c->marked_affinity = true;
    } else {
        str_appendf(out, " %u", pu);
    }
}

static void draw_core(struct canvas *c, hwloc_obj_t core, struct str *out)
{
    if (core->type == HWLOC_OBJ_CORE)
        str_appendf(out, "core %u:", core->logical_index);
    else
        str_append(out, "PU");
    for (int pu = hwloc_bitmap_first(core->cpuset); pu >= 0;
         pu = hwloc_bitmap_next(core->cpuset, pu))
        draw_pu(c, (unsigned)pu, out);
}

/* Cells of one width, as many in a row as fit. */
static void draw_grid(struct canvas *c, const struct objects *cores, const char *indent,
                      size_t indent_columns)
{
    auto_strv cells = STRV_INIT;
    size_t width = 0;
    for (size_t i = 0; i < cores->count; i++) {
        auto_str cell = STR_INIT;
        draw_core(c, cores->items[i], &cell);
        width = cell.len > width ? cell.len : width;
        strv_push(&cells, cell.data);
    }
    size_t columns = (WIDTH - indent_columns) / (width + 3);
    columns = columns ? columns : 1;
    for (size_t i = 0; i < cells.count; i++) {
        bool last = i + 1 == cells.count || (i + 1) % columns == 0;
        if (i % columns == 0)
            str_append(c->out, indent);
        str_appendf(c->out, "%-*s%s", last ? 0 : (int)width + 3, cells.items[i], last ? "\n" : "");
    }
}

/* 0 usable, 1 not in our affinity, 2 not allowed, 3 of several kinds. */
static int state_of(const struct canvas *c, hwloc_obj_t core)
{
    int state = -1;
    for (int pu = hwloc_bitmap_first(core->cpuset); pu >= 0;
         pu = hwloc_bitmap_next(core->cpuset, pu)) {
        int now = !pus_has(&c->t->allowed, (unsigned)pu)  ? 2
                  : !pus_has(&c->t->usable, (unsigned)pu) ? 1
                                                          : 0;
        state = state < 0 || state == now ? now : 3;
    }
    return state;
}

static void draw_run(struct canvas *c, const struct objects *cores, size_t begin, size_t end,
                     const char *indent)
{
    static const char *const states[] = {"", "  (not in this process's affinity)",
                                         "  (not allowed)", "  (some not usable)"};
    auto_pus set = {0};
    for (size_t i = begin; i < end; i++)
        topo_from_bitmap(cores->items[i]->cpuset, &set);
    auto_free char *pus = pus_text(&set);
    unsigned first = cores->items[begin]->logical_index,
             last = cores->items[end - 1]->logical_index;
    const char *word = cores->items[begin]->type == HWLOC_OBJ_CORE ? "core" : "PU";
    if (cores->items[begin]->type != HWLOC_OBJ_CORE)
        str_appendf(c->out, "%sPUs %s", indent, pus);
    else if (first == last)
        str_appendf(c->out, "%s%s %u: PUs %s", indent, word, first, pus);
    else
        str_appendf(c->out, "%s%ss %u-%u: PUs %s", indent, word, first, last, pus);
    str_appendf(c->out, "%s\n", states[state_of(c, cores->items[begin])]);
}

static void draw_runs(struct canvas *c, const struct objects *cores, const char *indent)
{
    for (size_t i = 0; i < cores->count;) {
        size_t end = i + 1;
        int state = state_of(c, cores->items[i]);
        int pus = hwloc_bitmap_weight(cores->items[i]->cpuset);
        while (end < cores->count && state_of(c, cores->items[end]) == state &&
               hwloc_bitmap_weight(cores->items[end]->cpuset) == pus)
            end++;
        draw_run(c, cores, i, end, indent);
        i = end;
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* A cache of one core, or a level with a single child that says nothing, is not drawn by itself. */
static bool is_transparent(const struct canvas *c, hwloc_obj_t o)
{
    if (!hwloc_obj_type_is_cache(o->type))
        return false;
    return hwloc_get_nbobjs_inside_cpuset_by_type(topo_tree(c->t), o->cpuset, HWLOC_OBJ_CORE) < 2;
}

static void expand(const struct canvas *c, hwloc_obj_t o, struct objects *boxes,
                   struct objects *cores)
{
    for (hwloc_obj_t child = o->first_child; child; child = child->next_sibling) {
        if (child->type == HWLOC_OBJ_CORE || child->type == HWLOC_OBJ_PU)
            vec_push(cores, child);
        else if (is_transparent(c, child))
            expand(c, child, boxes, cores);
        else
            vec_push(boxes, child);
    }
}

static void draw_label(const struct canvas *c, hwloc_obj_t o)
{
    char type[64], size[32];
    const char *model = hwloc_obj_get_info_by_name(o, "CPUModel");
    hwloc_obj_type_snprintf(type, sizeof type, o, 0);
    if (hwloc_obj_type_is_cache(o->type)) {
        str_appendf(c->out, "%s %u", type, o->logical_index);
        if (o->attr->cache.size)
            str_appendf(c->out, "  %s",
                        num_format_size(size, sizeof size, (double)o->attr->cache.size));
    } else {
        str_appendf(c->out, "%s %u", o->type == HWLOC_OBJ_GROUP ? "Group" : type, o->logical_index);
    }
    if (model && *model)
        str_appendf(c->out, "  %s", model);
    str_append(c->out, "\n");
}

static void draw_memory(const struct canvas *c, hwloc_obj_t o, const char *indent)
{
    char size[32];
    for (hwloc_obj_t m = o->memory_first_child; m; m = m->next_sibling) {
        if (m->type != HWLOC_OBJ_NUMANODE) { /* a memory-side cache */
            draw_memory(c, m, indent);
            continue;
        }
        str_appendf(c->out, "%sNUMA node %u: ", indent, m->os_index);
        if (m->attr->numanode.local_memory)
            str_append(c->out,
                       num_format_size(size, sizeof size, (double)m->attr->numanode.local_memory));
        else
            str_append(c->out, "no memory");
        if (m->subtype)
            str_appendf(c->out, " (%s)", m->subtype);
        if (!pus_has(&c->t->allowed_nodes, m->os_index))
            str_append(c->out, "  (not allowed)");
        str_append(c->out, "\n");
    }
}

static void draw_device(const struct canvas *c, hwloc_obj_t pci, const char *indent)
{
    auto_json *fast = topo_devices_json(c->t, true);
    auto_json *other = topo_devices_json(c->t, false);
    char bus[32];
    snprintf(bus, sizeof bus, "%04x:%02x:%02x.%x", (unsigned)pci->attr->pcidev.domain,
             pci->attr->pcidev.bus, pci->attr->pcidev.dev, pci->attr->pcidev.func);
    const json_t *text = json_object_get(fast, bus);
    text = text ? text : json_object_get(other, bus);
    str_appendf(c->out, "%s%s  %s", indent, bus, json_string_value(text));
    for (size_t i = 0; i < c->devices.count; i++)
        if (!strcmp(c->devices.items[i].bus_id, bus) && c->devices.items[i].is_gpu &&
            !c->devices.items[i].local_known)
            str_append(c->out, "  (locality unknown)");
    str_append(c->out, "\n");
}

static void draw_devices(const struct canvas *c, hwloc_obj_t o, const char *indent)
{
    for (hwloc_obj_t io = o->io_first_child; io; io = io->next_sibling) {
        if (io->type == HWLOC_OBJ_PCI_DEVICE)
            draw_device(c, io, indent);
        else if (io->type == HWLOC_OBJ_BRIDGE)
            draw_devices(c, io, indent);
    }
}

static void draw_inside(struct canvas *c, hwloc_obj_t o, const char *prefix, size_t level);

static void draw_boxes(struct canvas *c, const struct objects *boxes, const char *prefix,
                       size_t level)
{
    for (size_t i = 0; i < boxes->count; i++) {
        bool last = i + 1 == boxes->count;
        auto_free char *below = mem_printf("%s%s", prefix, last ? "   " : c->utf8 ? "│  " : "|  ");
        str_appendf(c->out, "%s%s", prefix, c->utf8 ? last ? "└─ " : "├─ " : last ? "`- " : "|- ");
        draw_label(c, boxes->items[i]);
        draw_inside(c, boxes->items[i], below, level + 1);
    }
}

static void draw_inside(struct canvas *c, hwloc_obj_t o, const char *prefix, size_t level)
{
    struct objects boxes = {0}, cores = {0};
    expand(c, o, &boxes, &cores);
    auto_free char *indent = mem_printf("%s%s", prefix,
                                        !boxes.count ? ""
                                        : c->utf8    ? "│  "
                                                     : "|  ");
    draw_memory(c, o, indent);
    if (cores.count > MANY_CORES && !c->all)
        draw_runs(c, &cores, indent);
    else if (cores.count)
        draw_grid(c, &cores, indent, 3 * (level + 1));
    draw_devices(c, o, indent);
    draw_boxes(c, &boxes, prefix, level);
    free(boxes.items);
    free(cores.items);
}

static void draw_caches(const struct topo *t, struct str *out)
{
    hwloc_topology_t tree = topo_tree(t);
    bool any = false;
    for (int depth = 0; depth < hwloc_topology_get_depth(tree); depth++) {
        hwloc_obj_t o = hwloc_get_obj_by_depth(tree, depth, 0);
        char type[16], size[32] = "size unknown";
        if (!o || !hwloc_obj_type_is_cache(o->type))
            continue;
        hwloc_obj_type_snprintf(type, sizeof type, o, 0);
        if (o->attr->cache.size)
            num_format_size(size, sizeof size, (double)o->attr->cache.size);
        str_appendf(out, "%s%u x %s %s",
                    any ? ", " : "caches: ", hwloc_get_nbobjs_by_depth(tree, depth), type, size);
        any = true;
    }
    str_append(out, any ? "\n" : "");
}

void topo_draw(const struct topo *t, const struct topo_plan *plan, bool all, struct str *out)
{
    draw_head(t, out);
    if (t->hwloc) {
        struct canvas c = {.t = t, .all = all, .utf8 = terminal_is_utf8(), .out = out};
        topo_devices(t, &c.devices);
        draw_caches(t, out);
        str_append(out, "\n");
        draw_inside(&c, hwloc_get_root_obj(topo_tree(t)), "", 0);
        if (c.marked_affinity || c.marked_disallowed)
            str_appendf(out, "\n%s%s%s\n",
                        c.marked_affinity ? "(n) not in this process's affinity" : "",
                        c.marked_affinity && c.marked_disallowed ? ", " : "",
                        c.marked_disallowed ? "xn not allowed by the cgroup" : "");
        topo_devices_release(&c.devices);
    }
    if (plan)
        draw_plan(plan, out);
}

#else

void topo_draw(const struct topo *t, const struct topo_plan *plan, bool all, struct str *out)
{
    (void)all, (void)WIDTH, (void)MANY_CORES;
    draw_head(t, out);
    if (plan)
        draw_plan(plan, out);
}

#endif
