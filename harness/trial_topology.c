/* The topology that the first rank of each node exported from inside. One file a host and runtime
 * is kept; a trial that saw the same leaves none behind, one that saw another keeps its own. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/topo.h"
#include "harness/trial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The file's path below the session's directory, owned. */
static char *keep(const struct trial_facts *f, const char *host, const char *fresh)
{
    struct topo_comparison c = {0};
    auto_error struct error err = ERROR_INIT;
    char *name = mem_printf("topo/%s/%s.xml", f->spec->name, host);
    auto_free char *kept = mem_printf("%s/%s", f->context->session_dir, name);
    auto_free char *dir = fs_dirname(kept);
    bool same = false;
    if (!fs_exists(kept)) {
        if (!fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, &err) && !rename(fresh, kept))
            return name;
    } else {
        same = !topo_compare(kept, fresh, &c, &err) && c.verdict == TOPO_SAME;
        topo_comparison_release(&c);
    }
    if (same) {
        unlink(fresh);
        return name;
    }
    free(name);
    return mem_printf("trials/%s/%s", f->id, fs_basename(fresh));
}

/* "same", …, as `key`; what differs, as words, behind `list`. */
static void compare_with(json_t *obj, const char *key, const char *reference, const char *path,
                         const char *absent, json_t *list)
{
    struct topo_comparison c = {0};
    auto_error struct error err = ERROR_INIT;
    if (!fs_exists(reference)) {
        json_put_null(obj, key, absent);
        return;
    }
    if (topo_compare(reference, path, &c, &err)) {
        json_put_null(obj, key, err.message);
        return;
    }
    json_put_str(obj, key, topo_verdict_name(c.verdict));
    for (size_t i = 0; i < c.count; i++) {
        auto_free char *text =
            mem_printf("%s: %s instead of %s", c.items[i].what, c.items[i].b, c.items[i].a);
        json_array_append_new(list, json_string(text));
    }
    topo_comparison_release(&c);
}

static json_t *describe(const struct topo *t)
{
    json_t *obj = json_object();
    char sha[SHA256_HEX];
    auto_str summary = STR_INIT;
    auto_free char *pus = pus_text(&t->allowed);
    auto_free char *nodes = pus_text(&t->allowed_nodes);
    topo_fingerprint(t, sha);
    topo_summary(t, &summary);
    json_put_str(obj, "fingerprint", sha);
    json_put_str(obj, "summary", summary.data);
    json_put_str(obj, "allowed_pus", pus);
    json_put_str(obj, "allowed_nodes", nodes);
    json_put(obj, "devices", topo_devices_json(t, true));
    json_put(obj, "other_devices", topo_devices_json(t, false));
    return obj;
}

static const char *why_none(const struct trial_facts *f)
{
    if (!f->context->scenario->measure.topology)
        return "measure.topology is false";
    const json_t *env = f->events.count ? f->events.items[0].env : NULL;
    const char *why = json_read_str(env, "topology.xml_why");
    return why ? why : "no rank exported it";
}

/* What the rank saw, as the record has it; NULL: it exported nothing, or err says why not. */
static json_t *topology_of(const struct trial_facts *f, const char *host, int rank,
                           struct error *err)
{
    auto_free char *fresh = mem_printf("%s/" TOPOLOGY_FILE_FMT, f->dir, rank);
    auto_topo t = {0};
    if (!host || !fs_exists(fresh) || topo_load(fresh, &t, err))
        return NULL;
    const size_t base = f->context->scenario->baseline;
    const char *dir = f->context->session_dir;
    auto_free char *outside = mem_printf("%s/topo/%s.xml", dir, host);
    auto_free char *reference =
        mem_printf("%s/topo/%s/%s.xml", dir, f->cell->runtimes[base].name, host);
    auto_free char *name = keep(f, host, fresh);
    auto_free char *path = mem_printf("%s/%s", dir, name);
    json_t *out = describe(&t), *host_list = json_array(), *list = json_array();
    json_put_str(out, "host", host);
    json_put_str(out, "xml", name);
    compare_with(out, "vs_host", outside, path, "the host's own view is not known", host_list);
    if (f->planned->runtime == base)
        json_put_null(out, "vs_baseline", "this is the baseline");
    else
        compare_with(out, "vs_baseline", reference, path,
                     "the baseline has not told its topology yet", list);
    json_put(out, "differences", list);
    json_put(out, "host_differences", host_list);
    return out;
}

/* The first node's is the record's; those of the others stand below it, by host. */
static void add_other(json_t *first, json_t *other)
{
    json_t *all = json_object_get(first, "other_nodes");
    json_t *prints = json_object_get(first, "other_fingerprints");
    const char *host = json_read_str(other, "host");
    if (!all) {
        json_put(first, "other_nodes", all = json_object());
        json_put(first, "other_fingerprints", prints = json_object());
    }
    json_put_str(prints, host, json_read_str(other, "fingerprint"));
    json_object_set_new(all, host, other);
}

void trial_topology(struct trial_facts *f)
{
    for (size_t i = 0; i < f->events.count; i++) {
        const int rank = f->events.items[i].rank;
        const int64_t node = trial_is_step(f) ? rank / f->cell->ranks_per_node : 0;
        auto_error struct error err = ERROR_INIT;
        json_t *own = topology_of(f, trial_host(f, node), rank, &err);
        if (own && !f->topology)
            f->topology = own;
        else if (own)
            add_other(f->topology, own);
        else if (err.code && !f->no_topology)
            f->no_topology = mem_strdup(err.message);
    }
    if (!f->topology && !f->no_topology)
        f->no_topology = mem_strdup(why_none(f));
}
