#include "harness/scenario.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "harness/scenario_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- loader -----------------------------------------------------------------------------------
 */
static void loader_release(struct loader *l)
{
    for (size_t i = 0; i < l->n_cells * l->scope.n_axes; i++)
        value_release(&l->cells[i]);
    free(l->cells);
    scope_release(&l->scope);
    json_decref(l->kept);
    free(l->defaults);
    free(l->usage_message);
    free(l->usage_hint);
    diags_release(&l->diags);
    source_release(&l->source);
    arena_release(&l->arena);
}

static bool in_trouble(const struct loader *l)
{
    return l->diags.count || l->usage;
}

static size_t count_keys(void)
{
    size_t n = 0;
    while (schema_keys[n].path)
        n++;
    return n;
}

/* Resolve the keys of the top level that depend on the matrix, or those that do not. */
static json_t *resolve_top(struct loader *l, bool per_cell)
{
    json_t *doc = json_object();
    for (const struct schema_key *key = schema_keys; key->path; key++) {
        if (!schema_is_child(&schema_root, key) || !(key->flags & SCHEMA_PER_CELL) == per_cell)
            continue;
        const char *name = schema_name(key);
        if (!strcmp(name, "vars") || !strcmp(name, "matrix") || !strcmp(name, "zip") ||
            !strcmp(name, "include") || !strcmp(name, "exclude"))
            continue; /* scope and matrix have read them */
        struct bound *bound = bound_child(l->root, name, strlen(name));
        json_t *value = NULL;
        if (!bound && (key->flags & SCHEMA_REQUIRED))
            complain_missing(l, l->root, key);
        else
            value = resolve(l, key, bound);
        if (value)
            json_object_set_new(doc, name, value);
    }
    return doc;
}

/* A control arm, which the file does not list: the baseline under another name. */
static void append_twin(const struct scenario *s, const struct cell *cell, int arm, json_t *arms)
{
    if (arm < 0)
        return;
    json_t *twin = json_copy(json_array_get(arms, s->baseline));
    json_object_set_new(twin, "name", json_string(cell->runtimes[arm].name));
    if (arm == s->handicap)
        json_object_set_new(twin, "differs", json_pack("[s]", ENV_HANDICAP));
    json_array_append_new(arms, twin);
}

/* resolved.json: the scenario's own keys, then each cell with all that it means. */
static json_t *resolved_cell(const struct scenario *s, const struct cell *cell, json_t *doc)
{
    json_t *out = json_object(), *argv = json_array();
    json_object_set_new(out, "id", json_string(cell->id));
    json_object_set(out, "values", cell->values);
    for (size_t i = 0; i < cell->argv.count; i++)
        json_array_append_new(argv, json_string(cell->argv.items[i]));
    json_object_set_new(out, "argv", argv);
    json_object_update(out, doc);
    if (s->control >= 0 || s->handicap >= 0) {
        json_t *arms = json_copy(json_object_get(doc, "runtimes"));
        append_twin(s, cell, s->control, arms);
        append_twin(s, cell, s->handicap, arms);
        json_object_set_new(out, "runtimes", arms);
    }
    return out;
}

static bool too_large(struct loader *l)
{
    size_t per_cell = 0;
    static const char *const sections[] = {"workload", "runtimes", "launch"};
    for (size_t i = 0; i < 3; i++) {
        const struct bound *b = bound_child(l->root, sections[i], strlen(sections[i]));
        per_cell += b ? b->node->expanded : 0;
    }
    if (l->n_cells <= 1 || per_cell <= SCENARIO_VALUES_MAX / l->n_cells)
        return false;
    complain_at(l, "matrix",
                "%zu cells of %zu values each are too many, expected at most %d values", l->n_cells,
                per_cell, SCENARIO_VALUES_MAX);
    return true;
}

static void load_cells(struct loader *l, struct scenario *s)
{
    json_t *cells = json_array();
    s->cells = mem_zalloc(l->n_cells + 1, sizeof *s->cells);
    for (size_t i = 0; i < l->n_cells && l->diags.count < DIAG_MAX; i++) {
        scope_enter(l, l->cells + i * l->scope.n_axes);
        if (!i)
            scope_check_vars(l);
        auto_json *doc = resolve_top(l, true);
        if (!i)
            s->check.loss =
                json_read_f64(doc, "workload.check.loss.rel_tol", &s->check.loss_rel_tol);
        s->n_cells++;
        if (!i)
            s->check.loss =
                json_read_f64(doc, "workload.check.loss.rel_tol", &s->check.loss_rel_tol);
        if (cell_fill(l, s, doc, i, &s->cells[i]) && !in_trouble(l))
            json_array_append_new(cells, resolved_cell(s, &s->cells[i], doc));
    }
    json_object_set_new(s->resolved, "cells", cells);
}

/* Everything behind the YAML. */
static void load_tree(struct loader *l, const struct yaml_node *root, const struct strv *defines,
                      struct scenario *s)
{
    l->root = bind_node(l, &schema_root, root, NULL, NULL, NULL);
    if (l->root->bad)
        return;
    for (size_t i = 0; defines && i < defines->count; i++)
        if (!define_apply(l, defines->items[i]))
            return;
    scope_init(l);
    matrix_axes(l);
    scope_enter(l, NULL);
    matrix_cells(l);
    s->resolved = resolve_top(l, false);
    scenario_fill(l, s->resolved, s);
    if (!too_large(l))
        load_cells(l, s);
}

static int finish(struct loader *l, struct error *err)
{
    if (l->usage_message) {
        error_set(err, NCBENCH_EXIT_USAGE, "%s", l->usage_message);
        return l->usage_hint ? error_hint(err, "%s", l->usage_hint) : -err->code;
    }
    if (!l->diags.count)
        return 0;
    bool all_defines = true;
    for (size_t i = 0; i < l->diags.count; i++)
        all_defines = all_defines && l->diags.items[i].origin;
    auto_str text = STR_INIT;
    diags_format(&l->diags, &l->source, &text);
    return error_set(err, all_defines ? NCBENCH_EXIT_USAGE : NCBENCH_EXIT_SCENARIO, "%s",
                     text.data);
}

int scenario_parse(const char *text, size_t len, const char *name, const struct strv *defines,
                   struct scenario *out, struct error *err)
{
    *out = (struct scenario){.control = -1, .handicap = -1};
    struct loader l = {.diags = DIAGS_INIT, .kept = json_array()};
    l.defaults = mem_zalloc(count_keys(), sizeof *l.defaults);
    struct yaml_tree tree = {ARENA_INIT, NULL};
    out->path = mem_strdup(name);
    sha256_hex(text, len, out->sha256);
    bool readable = yaml_text_check(&text, &len, &l.diags);
    source_init(&l.source, name, text, readable ? len : 0);
    if (readable)
        yaml_tree_parse(&l.source, &tree, &l.diags);
    if (tree.root)
        load_tree(&l, tree.root, defines, out);
    int rc = finish(&l, err);
    loader_release(&l);
    yaml_tree_release(&tree);
    if (rc)
        scenario_release(out);
    return rc;
}

/* At most one byte more than is allowed: the file may be endless. */
static int read_bounded(const char *path, struct str *out, struct error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, NCBENCH_EXIT_SCENARIO, errno, "cannot read %s", path);
    char buf[65536];
    while (out->len <= YAML_TREE_BYTES_MAX) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, NCBENCH_EXIT_SCENARIO, errno, "cannot read %s", path);
        if (!n)
            break;
        str_append_n(out, buf, (size_t)n);
    }
    return 0;
}

int scenario_load(const char *path, const struct strv *defines, struct scenario *out,
                  struct error *err)
{
    *out = (struct scenario){.control = -1, .handicap = -1};
    auto_str text = STR_INIT;
    if (read_bounded(path, &text, err))
        return -err->code;
    return scenario_parse(text.data, text.len, path, defines, out, err);
}

void scenario_error_print(const struct error *err, const char *program)
{
    if (!err->code)
        return;
    bool placed = strstr(err->message, ": error: ") != NULL;
    if (placed)
        fprintf(stderr, "%s\n", err->message);
    for (const char *line = err->message; !placed && *line;) {
        size_t n = strcspn(line, "\n");
        fprintf(stderr, "%s: error: %.*s\n", program, (int)n, line);
        line += n + (line[n] == '\n');
    }
    if (err->hint)
        fprintf(stderr, "%s: hint: %s\n", program, err->hint);
}

void scenario_release(struct scenario *s)
{
    for (size_t i = 0; i < s->n_cells; i++)
        cell_release(&s->cells[i], s->n_runtimes);
    for (size_t i = 0; i < s->n_margins; i++)
        free(s->margins[i].metric);
    for (size_t i = 0; i < s->n_gates; i++) {
        free(s->gates[i].metric);
        free(s->gates[i].runtime);
        free(s->gates[i].vs);
        free(s->gates[i].verdict);
    }
    free(s->path);
    free(s->name);
    free(s->description);
    free(s->cells);
    free(s->scaling.over);
    free(s->primary);
    strv_release(&s->secondary);
    strv_release(&s->measure.counters);
    free(s->margins);
    free(s->gates);
    free(s->output.dir);
    strv_release(&s->output.plots);
    strv_release(&s->output.report);
    strv_release(&s->warnings);
    json_decref(s->resolved);
    *s = (struct scenario){.control = -1, .handicap = -1};
}
