/* Before the first trial: what will run, whether its runtimes are there, and what they are. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/host_name.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "common/topo.h"
#include "harness/session.h"
#include "harness/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the program -------------------------------------------------------------------------------
 */
static char *beside_ncbench(const char *name)
{
    auto_free char *self = fs_realpath("/proc/self/exe");
    auto_free char *dir = self ? fs_dirname(self) : NULL;
    char *path = dir ? mem_printf("%s/%s", dir, name) : NULL;
    if (path && access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

char *session_find_nanochat(const char *given, struct error *err)
{
    if (given) {
        char *path = fs_realpath(given);
        if (path && access(path, X_OK) == 0)
            return path;
        free(path);
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "--nanochat %s: no program is there", given);
        return NULL;
    }
    char *path = beside_ncbench("nanochat");
    return path ? path : spawn_find_program("nanochat");
}

int session_find_workload(struct session *s, const char *given, struct error *err)
{
    s->workload_sha256[0] = '\0';
    if (s->scenario.is_verb || given)
        s->nanochat = session_find_nanochat(given, err);
    if (err->code)
        return -err->code;
    auto_free char *program = NULL;
    if (s->scenario.is_verb)
        program = mem_strdup(s->nanochat);
    else if (s->scenario.n_cells && s->scenario.cells[0].argv.count)
        program = spawn_find_program(s->scenario.cells[0].argv.items[0]);
    if (!program)
        return 0; /* told by the first trial, or it is inside the image only */
    auto_error struct error ignored = ERROR_INIT;
    if (sha256_file(program, s->workload_sha256, NCBENCH_EXIT_ENVIRONMENT, &ignored))
        s->workload_sha256[0] = '\0';
    return 0;
}

/* ---- runtimes ----------------------------------------------------------------------------------
 */
static bool same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && !strcmp(a, b));
}

/* One of them may name a container that is to be made. */
static bool same_options(const struct runtime_spec *a, const struct runtime_spec *b)
{
    bool same = a->options.count == b->options.count;
    for (size_t i = 0; same && i < a->options.count; i++)
        same = !strcmp(a->options.items[i], b->options.items[i]);
    return same;
}

/* The runtime of a cell that needs no preparation of its own: an earlier cell's is the same. */
static bool is_like(const struct runtime_spec *a, const struct runtime_spec *b)
{
    return same_text(a->kind, b->kind) && same_text(a->image, b->image) &&
           same_text(a->rootfs, b->rootfs) && same_options(a, b);
}

static int probe(const struct runtime_ops *ops, const struct runtime_spec *spec, struct error *err)
{
    struct runtime_probe found = {0};
    if (!ops->probe)
        return 0;
    ops->probe(&found);
    if (!found.available)
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s (%s) is not available: %s", spec->name,
                  spec->kind, found.why ? found.why : "no reason given");
    runtime_probe_release(&found);
    return err->code ? -err->code : 0;
}

static int prepare(const struct session *s, const struct runtime_ops *ops,
                   const struct runtime_spec *spec, struct error *err)
{
    if (s->allocation.job_id && ops->node_prepare)
        return session_node_prepare(s, ops, spec, err);
    return ops->prepare ? ops->prepare(spec, s->dir, err) : 0;
}

static int cleanup(const struct session *s, const struct runtime_ops *ops,
                   const struct runtime_spec *spec, struct error *err)
{
    if (s->allocation.job_id && ops->node_cleanup)
        return session_node_cleanup(s, ops, spec, err);
    return ops->cleanup ? ops->cleanup(spec, s->dir, err) : 0;
}

static int prepare_one(struct session *s, size_t place, const struct runtime_spec *spec,
                       struct error *err)
{
    const struct runtime_ops *ops = runtime_find(spec->kind);
    if (!ops)
        BUG("runtime kind \"%s\" is not in the registry", spec->kind);
    if (probe(ops, spec, err))
        return -err->code;
    s->prepared[place] = true;
    if (prepare(s, ops, spec, err))
        return error_wrap(err, "preparing runtime %s", spec->name);
    s->descriptions[place] = json_object();
    if (ops->describe)
        ops->describe(spec, s->dir, s->descriptions[place]);
    return 0;
}

static int prepare_place(struct session *s, size_t cell, size_t runtime, struct error *err)
{
    size_t n = s->scenario.n_runtimes, place = cell * n + runtime;
    const struct runtime_spec *spec = &s->scenario.cells[cell].runtimes[runtime];
    if (s->descriptions[place])
        return 0;
    for (size_t c = 0; c < s->scenario.n_cells; c++)
        for (size_t r = 0; r < n; r++)
            if (s->descriptions[c * n + r] && is_like(spec, &s->scenario.cells[c].runtimes[r])) {
                s->descriptions[place] = json_incref(s->descriptions[c * n + r]);
                return 0;
            }
    return prepare_one(s, place, spec, err);
}

/* As trials name the node that ncbench is on. */
static const char *own_name(const struct session *s)
{
    const char *node = s->allocation.job_id ? slurm_own_node(&s->allocation, host_name()) : NULL;
    return node ? node : host_name();
}

/* The host's own view: what the ranks export from inside is held against it. */
static int dump_topology(struct session *s, struct error *err)
{
    auto_topo topo = {0};
    auto_str xml = STR_INIT;
    auto_error struct error why = ERROR_INIT;
    if (!s->scenario.measure.topology)
        return 0;
    if (topo_load(NULL, &topo, &why) || topo_export(&topo, &xml, &why)) {
        log_warn("topology: %s", why.message);
        return 0;
    }
    auto_free char *path = mem_printf("%s/topo/%s.xml", s->dir, own_name(s));
    auto_free char *dir = fs_dirname(path);
    return fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, err) ||
                   fs_write_atomic(path, xml.data, xml.len, NCBENCH_EXIT_RESULTS, err)
               ? -err->code
               : 0;
}

static int prepare_all(struct session *s, struct error *err)
{
    size_t places = s->scenario.n_cells * s->scenario.n_runtimes;
    s->descriptions = mem_zalloc(places + 1, sizeof *s->descriptions);
    s->prepared = mem_zalloc(places + 1, sizeof *s->prepared);
    for (size_t i = 0; i < s->plan.count; i++) {
        const struct planned_trial *t = &s->plan.trials[i];
        if (prepare_place(s, t->cell, t->runtime, err))
            return -err->code;
    }
    return dump_topology(s, err);
}

/* A signal ends the preparation, and what it made so far goes before ncbench does. */
int session_prepare(struct session *s, struct error *err)
{
    struct interrupt i;
    interrupt_open(&i);
    spawn_interrupted_by(&i.waited);
    int failed = prepare_all(s, err);
    spawn_interrupted_by(NULL);
    interrupt_poll(&i);
    if (i.signal) {
        session_cleanup(s);
        if (!failed)
            error_set(err, 128 + i.signal, "interrupted while the runtimes were prepared");
        err->code = 128 + i.signal;
        failed = -err->code;
    }
    interrupt_close(&i);
    return failed;
}

void session_cleanup(struct session *s)
{
    size_t n = s->scenario.n_runtimes;
    for (size_t i = 0; s->prepared && i < s->scenario.n_cells * n; i++) {
        const struct runtime_spec *spec = &s->scenario.cells[i / n].runtimes[i % n];
        const struct runtime_ops *ops = runtime_find(spec->kind);
        auto_error struct error err = ERROR_INIT;
        if (s->prepared[i] && ops && cleanup(s, ops, spec, &err))
            log_warn("cleaning up runtime %s: %s", spec->name, err.message);
        s->prepared[i] = false;
    }
}
