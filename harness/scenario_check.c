/* Can this machine run the scenario? What no machine could run was refused by scenario_load. */
#include "harness/scenario.h"

#include "common/cleanup.h"
#include "common/counters.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/pus.h"
#include "harness/collectors/nvml_api.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- processing units -------------------------------------------------------------------------
 */
struct problems {
    int code;
    struct strv lines; /* distinct */
    char *hint;
};

static void add_problem(struct problems *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void add_problem(struct problems *p, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *line = mem_vprintf(fmt, ap);
    va_end(ap);
    if (!p->code)
        p->code = code;
    if (!strv_contains(&p->lines, line))
        strv_push(&p->lines, line);
}

/* The nodes and CPUs of the allocation that we are in. */
static void check_slurm(const struct scenario *s, struct problems *problems)
{
    auto_error struct error err = ERROR_INIT;
    struct slurm_allocation a;
    if (slurm_open(&a, &err)) {
        add_problem(problems, err.code, "%s", err.message);
        if (err.hint)
            problems->hint = mem_strdup(err.hint);
        slurm_release(&a);
        return;
    }
    for (size_t i = 0; i < s->n_cells; i++) {
        const struct cell *c = &s->cells[i];
        int64_t cpus =
            slurm_cpus_per_task(c->slurm.cpus_per_task, c->ranks_per_node, c->threads_per_rank);
        if (c->nodes > (int64_t)a.nodes.count)
            add_problem(problems, NCBENCH_EXIT_ENVIRONMENT,
                        "cell %s: %" PRId64 " nodes, the allocation has %zu (%s)", c->id, c->nodes,
                        a.nodes.count, a.node_list);
        if (a.cpus_per_node && cpus > a.cpus_per_node)
            add_problem(problems, NCBENCH_EXIT_ENVIRONMENT,
                        "cell %s: %" PRId64 " CPUs a node, the allocation has %" PRId64, c->id,
                        cpus, a.cpus_per_node);
    }
    slurm_release(&a);
}

/* Kinds that cannot learn in a step on which of several nodes they run. */
static int check_several_nodes(const struct scenario *s, struct error *err)
{
    for (size_t i = 0; i < s->n_cells; i++)
        for (size_t arm = 0; arm < s->n_runtimes; arm++) {
            const struct runtime_spec *spec = &s->cells[i].runtimes[arm];
            const struct runtime_ops *ops = runtime_find(spec->kind);
            if (s->cells[i].is_slurm != s->cells[0].is_slurm)
                return error_set(err, NCBENCH_EXIT_SCENARIO,
                                 "launch.scheduler differs between cells");
            if (s->cells[i].is_slurm && s->cells[i].nodes > 1 && ops->flags & RUNTIME_ENV_FIXED)
                return error_set(err, NCBENCH_EXIT_SCENARIO,
                                 "cell %s: runtime %s (%s) cannot run on %" PRId64
                                 " nodes: its environment is written before the step starts, so "
                                 "that a node cannot learn its number",
                                 s->cells[i].id, spec->name, spec->kind, s->cells[i].nodes);
        }
    return 0;
}

static void check_pus(const struct scenario *s, struct strv *warnings, struct problems *problems)
{
    auto_pus set = {0};
    if (pus_usable(&set))
        return; /* not known: the launcher will say */
    int usable = pus_count(&set);
    auto_free char *list = pus_text(&set);
    for (size_t i = 0; i < s->n_cells; i++) {
        const struct cell *c = &s->cells[i];
        int64_t threads = c->ranks_per_node * c->threads_per_rank;
        if (threads <= usable)
            continue;
        auto_free char *text = mem_printf("%" PRId64 " threads, %d usable PU%s (%s)", threads,
                                          usable, usable == 1 ? "" : "s", list);
        if (c->bind != TOPO_BIND_NONE) {
            add_problem(problems, NCBENCH_EXIT_ENVIRONMENT, "cell %s: %s", c->id, text);
            if (!problems->hint)
                problems->hint = mem_strdup("launch: {bind: none} lets threads share PUs; `-D "
                                            "matrix.NAME=[…]` leaves cells out");
        } else {
            strv_pushf(warnings, "cell %s: %s: they share PUs", c->id, text);
        }
    }
}

/* ---- mounts, runtimes, paths ------------------------------------------------------------------
 */
static void warn_dropped(const struct runtime_spec *spec, struct strv *warnings)
{
    for (size_t i = 0; i < spec->mounts.count; i++) {
        const struct mount *m = &spec->mounts.items[i];
        auto_free char *text =
            mem_printf("runtime %s: mount source %s does not exist, left out as it is optional",
                       spec->name, m->source);
        if (m->optional && !fs_exists(m->source) && !strv_contains(warnings, text))
            strv_push(warnings, text);
    }
}

static void check_spec(const struct runtime_spec *spec, struct strv *warnings,
                       struct problems *problems)
{
    const struct runtime_ops *ops = runtime_find(spec->kind);
    if (!ops)
        BUG("runtime kind \"%s\" was not refused by the loader", spec->kind);
    auto_error struct error err = ERROR_INIT;
    warn_dropped(spec, warnings);
    if (!ops->check(spec, &spec->mounts, false, &err))
        return;
    add_problem(problems, err.code, "%s", err.message);
    if (err.hint && !problems->hint)
        problems->hint = mem_strdup(err.hint);
}

/* What a check of a spec depends on. A check may start a program, so that specs which differ only
 * in their environment are asked about once. */
static json_t *essence_of(const struct scenario *s, size_t cell, size_t arm)
{
    const json_t *cells = json_object_get(s->resolved, "cells");
    json_t *arms = json_object_get(json_array_get(cells, cell), "runtimes");
    json_t *essence = json_copy(json_array_get(arms, arm));
    json_object_del(essence, "name");
    json_object_del(essence, "env");
    json_object_del(essence, "differs");
    return essence;
}

enum { KNOWN_MAX = 64 };

static void check_specs(const struct scenario *s, struct strv *warnings, struct problems *problems)
{
    auto_json *known = json_array();
    for (size_t cell = 0; cell < s->n_cells; cell++)
        for (size_t arm = 0; arm < s->n_runtimes; arm++) {
            json_t *essence = essence_of(s, cell, arm);
            size_t i = 0;
            while (i < json_array_size(known) && !json_equal(json_array_get(known, i), essence))
                i++;
            bool is_new = i == json_array_size(known);
            if (is_new)
                check_spec(&s->cells[cell].runtimes[arm], warnings, problems);
            if (is_new && i < KNOWN_MAX)
                json_array_append(known, essence);
            json_decref(essence);
        }
}

static void check_paths(const struct scenario *s, struct problems *problems)
{
    for (size_t i = 0; i < s->n_cells; i++)
        for (size_t k = 0; k < s->cells[i].paths.count; k++)
            if (!fs_exists(s->cells[i].paths.items[k]))
                add_problem(problems, NCBENCH_EXIT_ENVIRONMENT, "workload path %s does not exist",
                            s->cells[i].paths.items[k]);
}

/* A tokenizer tells its vocabulary; the scenario's must be the same where both are known. */
static void check_tokenizer(const json_t *cell, struct problems *problems)
{
    const char *dir = json_read_str(cell, "workload.data.tokenizer");
    int64_t wanted = 0, found = 0;
    if (!dir || !json_read_i64(cell, "workload.model.vocab_size", &wanted))
        return;
    auto_free char *path = mem_printf("%s/tokenizer.json", dir);
    auto_error struct error ignored = ERROR_INIT; /* a broken one is nanochat's to report */
    auto_json *tokenizer = NULL;
    if (!fs_exists(path) || json_read_file(path, NCBENCH_EXIT_ENVIRONMENT, &tokenizer, &ignored) ||
        !json_read_i64(tokenizer, "vocab_size", &found) || found == wanted)
        return;
    add_problem(problems, NCBENCH_EXIT_ENVIRONMENT,
                "tokenizer %s has a vocabulary of %" PRId64
                ", workload.model.vocab_size is %" PRId64,
                dir, found, wanted);
}

static void check_tokenizers(const struct scenario *s, struct problems *problems)
{
    const json_t *cells = json_object_get(s->resolved, "cells"), *last = NULL;
    for (size_t c = 0; c < s->n_cells; c++) {
        const json_t *cell = json_array_get(cells, c);
        const json_t *data = json_at(cell, "workload.data");
        if (data != last || !c) /* shared by cells where it does not depend on them */
            check_tokenizer(cell, problems);
        last = data;
    }
}

/* On this machine, outside: what a container has the trial tells. */
static void check_counters(const struct scenario *s, struct problems *problems)
{
    if (!s->measure.require_counters)
        return;
    struct counters *c = counters_open(&s->measure.counters);
    for (size_t i = 0; i < counters_count(c); i++) {
        const struct counter_info *info = counters_info(c, i);
        if (!info->source)
            add_problem(problems, NCBENCH_EXIT_ENVIRONMENT, "counter %s is required: %s",
                        info->name, info->why);
    }
    counters_close(c);
}

#define LEAST_GPU_INTERVAL_S 0.05

static void check_gpu(const struct scenario *s, struct problems *problems)
{
    struct nvml_api api;
    auto_free char *why = NULL;
    if (s->measure.gpu.interval_s < LEAST_GPU_INTERVAL_S)
        add_problem(problems, NCBENCH_EXIT_SCENARIO,
                    "measure.gpu.interval is %g ms: at least %g ms, for asking takes time from the "
                    "ranks",
                    s->measure.gpu.interval_s * 1e3, LEAST_GPU_INTERVAL_S * 1e3);
    if (!s->measure.gpu.required)
        return;
    if (s->n_cells && s->cells[0].is_slurm) {
        add_problem(problems, NCBENCH_EXIT_SCENARIO,
                    "measure.gpu.required: trials are steps of Slurm, and the GPUs of their nodes "
                    "cannot be asked from here");
        return;
    }
    unsigned n = 0;
    if (!nvml_open(&api, &why))
        add_problem(problems, NCBENCH_EXIT_ENVIRONMENT, "measure.gpu is required: %s", why);
    else if (api.count(&n) || n == 0)
        add_problem(problems, NCBENCH_EXIT_ENVIRONMENT,
                    "measure.gpu is required: the driver sees no GPU");
    nvml_close(&api);
}

static int report(struct problems *p, struct error *err)
{
    if (p->code) {
        auto_str text = STR_INIT;
        for (size_t i = 0; i < p->lines.count; i++)
            str_appendf(&text, "%s%s", i ? "\n" : "", p->lines.items[i]);
        error_set(err, p->code, "%s", text.data);
        if (p->hint)
            error_hint(err, "%s", p->hint);
    }
    strv_release(&p->lines);
    free(p->hint);
    return -p->code;
}

int scenario_check(const struct scenario *s, bool portable, struct strv *warnings,
                   struct error *err)
{
    strv_extend(warnings, &s->warnings);
    if (check_several_nodes(s, err))
        return -err->code;
    if (portable)
        return 0; /* scenario_load has judged the file */
    struct problems problems = {0};
    if (s->n_cells && s->cells[0].is_slurm)
        check_slurm(s, &problems);
    else
        check_pus(s, warnings, &problems);
    check_paths(s, &problems);
    check_tokenizers(s, &problems);
    check_counters(s, &problems);
    check_gpu(s, &problems);
    check_specs(s, warnings, &problems);
    return report(&problems, err);
}
