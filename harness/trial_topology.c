/* The topology that a trial's first rank exported from inside. One file a host and runtime is kept;
 * a trial that saw the same leaves none behind, one that saw another keeps its own. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/topo.h"
#include "harness/trial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "topo.rank00000.xml" /* one node: its first rank is rank 0 */

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
    return mem_printf("trials/%s/%s", f->id, FILE_NAME);
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

void trial_topology(struct trial_facts *f)
{
    auto_free char *fresh = mem_printf("%s/%s", f->dir, FILE_NAME);
    auto_topo t = {0};
    auto_error struct error err = ERROR_INIT;
    if (!fs_exists(fresh) || topo_load(fresh, &t, &err)) {
        f->no_topology = mem_strdup(err.code ? err.message : why_none(f));
        return;
    }
    const struct scenario *s = f->context->scenario;
    const char *dir = f->context->session_dir;
    const char *baseline = f->cell->runtimes[s->baseline].name;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    auto_free char *outside = mem_printf("%s/topo/%s.xml", dir, host);
    auto_free char *reference = mem_printf("%s/topo/%s/%s.xml", dir, baseline, host);
    char *name = keep(f, host, fresh);
    auto_free char *path = mem_printf("%s/%s", dir, name);
    f->topology = json_object();
    json_put_str(f->topology, "xml", name);
    auto_json *about = describe(&t);
    json_object_update(f->topology, about);
    json_t *host_list = json_array(), *list = json_array();
    compare_with(f->topology, "vs_host", outside, path, "the host's own view is not known",
                 host_list);
    if (f->planned->runtime == s->baseline)
        json_put_null(f->topology, "vs_baseline", "this is the baseline");
    else
        compare_with(f->topology, "vs_baseline", reference, path,
                     "the baseline has not told its topology yet", list);
    json_put(f->topology, "differences", list);
    json_put(f->topology, "host_differences", host_list);
    free(name);
}
