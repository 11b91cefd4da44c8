#include "common/topo.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/topo_hwloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOPO_EXIT 4

static const char *set_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

const char *topo_stand_in(void)
{
    static const char *const names[] = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (set_variable(names[i]))
            return names[i];
    return NULL;
}

/* What is left when nobody tells more: the PUs that the kernel lets us run on. */
static int load_affinity(struct topo *t, const char *why, struct error *err)
{
    int failed = pus_usable(&t->usable);
    if (failed)
        return error_errno(err, TOPO_EXIT, failed, "cannot ask which PUs may be used");
    pus_copy(&t->pus, &t->usable);
    pus_copy(&t->allowed, &t->usable);
    t->this_machine = true;
    t->why = why;
    return 0;
}

void topo_release(struct topo *t)
{
#if HAVE_HWLOC
    if (t->hwloc)
        hwloc_topology_destroy(topo_tree(t));
#endif
    free(t->from);
    pus_release(&t->pus);
    pus_release(&t->allowed);
    pus_release(&t->usable);
    pus_release(&t->nodes);
    pus_release(&t->allowed_nodes);
    *t = (struct topo){0};
}

#if HAVE_HWLOC

void topo_from_bitmap(hwloc_const_bitmap_t bitmap, struct pus *out)
{
    if (hwloc_bitmap_last(bitmap) < 0) /* empty, or without an end */
        return;
    for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i))
        pus_add(out, (unsigned)i);
}

hwloc_bitmap_t topo_to_bitmap(const struct pus *set)
{
    hwloc_bitmap_t bitmap = hwloc_bitmap_alloc();
    if (!bitmap)
        BUG("out of memory for a bitmap");
    for (int i = pus_next(set, -1); i >= 0; i = pus_next(set, i))
        hwloc_bitmap_set(bitmap, (unsigned)i);
    return bitmap;
}

const char *topo_hwloc_version(void)
{
    static char text[24];
    unsigned v = hwloc_get_api_version();
    snprintf(text, sizeof text, "%u.%u.%u", v >> 16, v >> 8 & 0xff, v & 0xff);
    return text;
}

/* Where do the descriptions come from? hwloc itself falls back to this machine without a word when
 * a variable's value cannot be used: so each is asked for by hand. */
struct origin {
    const char *xml, *synthetic; /* both NULL: this machine, or HWLOC_FSROOT */
    const char *said_by;         /* "HWLOC_XMLFILE=", or "" */
};

static struct origin origin_of(const char *from)
{
    if (!from && set_variable("HWLOC_XMLFILE"))
        return (struct origin){.xml = getenv("HWLOC_XMLFILE"), .said_by = "HWLOC_XMLFILE="};
    if (!from && set_variable("HWLOC_SYNTHETIC"))
        return (struct origin){.synthetic = getenv("HWLOC_SYNTHETIC"),
                               .said_by = "HWLOC_SYNTHETIC="};
    if (!from)
        return (struct origin){.said_by = ""};
    if (fs_exists(from) || strchr(from, '/') || str_ends_with(from, ".xml"))
        return (struct origin){.xml = from, .said_by = ""};
    return (struct origin){.synthetic = from, .said_by = ""};
}

static int use_origin(hwloc_topology_t t, const struct origin *o, struct error *err)
{
    if (o->xml && fs_is_dir(o->xml))
        return error_set(err, TOPO_EXIT, "%s%s: a directory, expected hwloc's XML", o->said_by,
                         o->xml);
    if (o->xml && hwloc_topology_set_xml(t, o->xml))
        return error_errno(err, TOPO_EXIT, errno, "%s%s: no topology in hwloc's XML", o->said_by,
                           o->xml);
    if (o->synthetic && hwloc_topology_set_synthetic(t, o->synthetic)) {
        error_set(err, TOPO_EXIT, "%s\"%s\": neither a file nor a synthetic topology", o->said_by,
                  o->synthetic);
        return error_hint(err, "such as \"node:2 core:4 pu:2\"; --help tells more");
    }
    return 0;
}

/* A sandbox without /sys: hwloc would complain on standard error and show one PU of nothing. */
static bool has_sysfs(void)
{
    static const char *const dirs[] = {"/sys/devices/system/cpu", "/sys/bus/cpu/devices"};
    const char *root = set_variable("HWLOC_FSROOT");
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        auto_free char *path = mem_printf("%s%s", root ? root : "", dirs[i]);
        if (fs_is_dir(path))
            return true;
    }
    return false;
}

/* Something of the operating system's own must have spoken. */
static bool is_described(hwloc_topology_t t)
{
    return hwloc_obj_get_info_by_name(hwloc_get_root_obj(t), "Backend") != NULL;
}

/* hwloc's plugins, a package of their own, are found on a host and not in an image. They add
 * nothing that is asked for here, but libxml2's needs (libstdc++) would stay in the process: a
 * library that one arm has and the other lacks. */
static int init_without_plugins(hwloc_topology_t *t)
{
    static const char name[] = "HWLOC_PLUGINS_PATH";
    if (getenv(name))
        return hwloc_topology_init(t);
    setenv(name, "", 1);
    int rc = hwloc_topology_init(t);
    unsetenv(name);
    return rc;
}

static int load_tree(hwloc_topology_t *out, const struct origin *o, struct error *err)
{
    hwloc_topology_t t;
    if (init_without_plugins(&t))
        return error_set(err, TOPO_EXIT, "cannot make a topology: out of memory");
    if (use_origin(t, o, err)) {
        hwloc_topology_destroy(t);
        return -err->code;
    }
    hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(t)) {
        int errnum = errno;
        hwloc_topology_destroy(t);
        const char *what = o->xml ? o->xml : o->synthetic ? o->synthetic : "this machine";
        return error_errno(err, TOPO_EXIT, errnum, "%s%s: cannot load the topology", o->said_by,
                           what);
    }
    *out = t;
    return 0;
}

static void take_sets(struct topo *t)
{
    hwloc_topology_t tree = topo_tree(t);
    topo_from_bitmap(hwloc_topology_get_topology_cpuset(tree), &t->pus);
    topo_from_bitmap(hwloc_topology_get_allowed_cpuset(tree), &t->allowed);
    topo_from_bitmap(hwloc_topology_get_topology_nodeset(tree), &t->nodes);
    topo_from_bitmap(hwloc_topology_get_allowed_nodeset(tree), &t->allowed_nodes);
    pus_and(&t->allowed, &t->pus);
    if (!t->this_machine || pus_usable(&t->usable))
        pus_copy(&t->usable, &t->allowed);
}

int topo_load(const char *from, struct topo *out, struct error *err)
{
    *out = (struct topo){0};
    struct origin o = origin_of(from);
    bool native = !o.xml && !o.synthetic;
    out->from = mem_strdup(o.xml ? o.xml : o.synthetic ? o.synthetic : "this machine");
    if (native && !has_sysfs())
        return load_affinity(out, "/sys shows no processors", err);
    hwloc_topology_t tree = NULL;
    if (load_tree(&tree, &o, err)) {
        topo_release(out);
        return -err->code;
    }
    out->hwloc = tree;
    if (native && !is_described(tree)) {
        hwloc_topology_destroy(tree);
        out->hwloc = NULL;
        return load_affinity(out, "/sys does not describe the processors", err);
    }
    out->this_machine = hwloc_topology_is_thissystem(tree);
    take_sets(out);
    return 0;
}

int topo_export(const struct topo *t, struct str *out, struct error *err)
{
#if HWLOC_API_VERSION >= 0x00030000
    const unsigned long flags = HWLOC_TOPOLOGY_EXPORT_XML_FLAG_V2; /* so that 2.x tools read it */
#else
    const unsigned long flags = 0;
#endif
    char *text = NULL;
    int length = 0;
    if (!t->hwloc)
        return error_set(err, TOPO_EXIT, "no topology to write: %s", t->why);
    if (hwloc_topology_export_xmlbuffer(topo_tree(t), &text, &length, flags))
        return error_errno(err, TOPO_EXIT, errno, "cannot write the topology");
    str_append(out, text); /* length counts the NUL */
    hwloc_free_xmlbuffer(topo_tree(t), text);
    return 0;
}

#else

const char *topo_hwloc_version(void)
{
    return NULL;
}

int topo_load(const char *from, struct topo *out, struct error *err)
{
    *out = (struct topo){0};
    if (from || set_variable("HWLOC_XMLFILE") || set_variable("HWLOC_SYNTHETIC")) {
        error_set(err, TOPO_EXIT, "%s: this build cannot read topologies",
                  from ? from : topo_stand_in());
        return error_hint(err, "it was built without hwloc; build with HWLOC=1");
    }
    out->from = mem_strdup("this machine");
    return load_affinity(out, "built without hwloc", err);
}

int topo_export(const struct topo *t, struct str *out, struct error *err)
{
    (void)out;
    return error_set(err, TOPO_EXIT, "no topology to write: %s", t->why);
}

#endif
