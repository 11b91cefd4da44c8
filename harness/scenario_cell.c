/* One cell: its JSON into struct cell, and what must hold between its keys. */
#include "harness/scenario_priv.h"

#include "common/batch.h"
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What nanochat takes for these when they are not given. */
enum { DEVICE_BATCH_DEFAULT = 32, SEQUENCE_DEFAULT = 2048, TOTAL_BATCH_DEFAULT = 524288 };

static char *text_at(const json_t *object, const char *key)
{
    return mem_strdup(json_string_value(json_object_get(object, key)));
}

static void push_strings(const json_t *list, struct strv *out)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item) strv_push(out, json_string_value(item));
}

static void push_pairs(const json_t *object, struct strv *out)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value)
        strv_pushf(out, "%s=%s", name, json_string_value(value));
}

/* Complain about a part of the cell; the cell is named when there is a matrix. */
static struct diag *complain_cell(struct loader *l, size_t cell, const char *path,
                                  const struct error *err)
{
    auto_str where = STR_INIT;
    if (l->scope.n_axes) {
        str_append(&where, " in the cell ");
        cell_describe(l, cell, &where);
    }
    struct diag *d = complain_at(l, path, "%s%s", err->message, where.data);
    if (err->hint)
        diag_hint(d, "%s", err->hint);
    return d;
}

/* ---- environment ------------------------------------------------------------------------------
 */
static void check_env(struct loader *l, const char *path)
{
    const struct bound *map = bound_at(l, path);
    if (!str_ends_with(map->key->path, "env"))
        return;
    for (const struct bound *b = map->first; b; b = b->next) {
        const char *name = b->name->text;
        if (strchr(name, '='))
            complain_key(l, b,
                         "\"%s\" is no name of an environment variable, expected none with \"=\"",
                         name);
        else if (str_starts_with(name, "NCBENCH_"))
            complain_key(l, b, "%s is set by ncbench itself", name);
    }
}

/* ---- workload ---------------------------------------------------------------------------------
 */
/* Options of nanochat, in the order of the schema: "--depth=2". */
static void push_options(const json_t *workload, struct strv *argv)
{
    for (const struct schema_key *key = schema_keys; key->path; key++) {
        if (!key->option)
            continue;
        const json_t *value = json_at(workload, key->path + strlen("workload."));
        char number[NUM_F64_MAX];
        if (json_is_integer(value))
            strv_pushf(argv, "%s=%" PRId64, key->option, (int64_t)json_integer_value(value));
        else if (json_is_real(value))
            strv_pushf(argv, "%s=%s", key->option, num_format_f64(number, json_real_value(value)));
        else if (json_is_boolean(value))
            strv_pushf(argv, "%s=%s", key->option, json_is_true(value) ? "true" : "false");
        else if (json_is_string(value))
            strv_pushf(argv, "%s=%s", key->option, json_string_value(value));
    }
}

static void refuse_keys_below(struct loader *l, const char *path, const char *why)
{
    const struct bound *map = bound_at(l, path);
    if (!strcmp(map->key->path, path) && !map->bad)
        complain(l, map, "is not for %s", why);
}

static void check_data(struct loader *l, const json_t *workload)
{
    const char *source = json_read_str(workload, "data.source");
    bool file = json_at(workload, "data.path") != NULL;
    if (!source || bound_at(l, "workload.data")->bad)
        return;
    if (!strcmp(source, "synthetic") && file)
        complain_at(l, "workload.data.path", "synthetic data has no file");
    else if (strcmp(source, "synthetic") != 0 && !file && bound_at(l, "workload.data.path") &&
             strcmp(bound_at(l, "workload.data.path")->key->path, "workload.data.path") != 0)
        complain_at(l, "workload.data.path",
                    "is missing, expected the file or folder of the %s data", source);
}

static void check_batch(struct loader *l, const json_t *workload, size_t index,
                        const struct cell *cell)
{
    int64_t total = TOTAL_BATCH_DEFAULT, device = DEVICE_BATCH_DEFAULT, sequence = SEQUENCE_DEFAULT;
    json_read_i64(workload, "train.total_batch_size", &total);
    json_read_i64(workload, "train.device_batch_size", &device);
    json_read_i64(workload, "model.max_seq_len", &sequence);
    if (bound_at(l, "workload.train.total_batch_size")->bad ||
        bound_at(l, "workload.train.device_batch_size")->bad ||
        bound_at(l, "workload.model.max_seq_len")->bad)
        return; /* judged when they can be read */
    int64_t accumulation;
    auto_error struct error err = ERROR_INIT;
    if (batch_accumulation(total, device, sequence, cell->nodes * cell->ranks_per_node,
                           &accumulation, &err))
        complain_cell(l, index, "workload.train.total_batch_size", &err);
}

static void fill_verb(struct loader *l, const json_t *workload, size_t index, struct cell *cell)
{
    const char *verb = json_read_str(workload, "command");
    if (!verb)
        return;
    bool train = !strcmp(verb, "base-train");
    strv_push(&cell->argv, verb);
    push_options(workload, &cell->argv);
    if (!train) {
        auto_free char *why = mem_printf("%s, only for base-train; use workload.args", verb);
        refuse_keys_below(l, "workload.model", why);
        refuse_keys_below(l, "workload.train", why);
        return;
    }
    check_data(l, workload);
    if (cell->nodes > 0 && cell->ranks_per_node > 0)
        check_batch(l, workload, index, cell);
}

static void fill_exec(struct loader *l, const json_t *workload, struct cell *cell)
{
    static const char *const sections[] = {"workload.model", "workload.train", "workload.data"};
    push_strings(json_object_get(workload, "exec"), &cell->argv);
    for (size_t i = 0; i < 3; i++)
        refuse_keys_below(l, sections[i], "workload.exec, only for workload.command");
}

static void push_path(const json_t *workload, const char *key, struct strv *paths)
{
    const char *path = json_read_str(workload, key);
    if (path && !strv_contains(paths, path))
        strv_push(paths, path);
}

/* A dictionary of dictd is two files: without X.index beside X.dict.dz a container would cut the
 * text into other documents than bare metal does. */
static void push_dict_index(const json_t *workload, struct strv *paths)
{
    const char *path = json_read_str(workload, "data.path");
    if (!path || !(str_ends_with(path, ".dict.dz") || str_ends_with(path, ".dict")))
        return;
    size_t stem = strlen(path) - strlen(str_ends_with(path, ".dz") ? ".dict.dz" : ".dict");
    auto_free char *index = mem_printf("%.*s.index", (int)stem, path);
    if (fs_exists(index) && !strv_contains(paths, index))
        strv_push(paths, index);
}

static void fill_workload(struct loader *l, const struct scenario *s, const json_t *workload,
                          size_t index, struct cell *cell)
{
    if (s->is_verb)
        fill_verb(l, workload, index, cell);
    else
        fill_exec(l, workload, cell);
    push_strings(json_object_get(workload, "args"), &cell->argv);
    push_pairs(json_object_get(workload, "env"), &cell->env);
    check_env(l, "workload.env");
    push_path(workload, "data.path", &cell->paths);
    push_dict_index(workload, &cell->paths);
    push_path(workload, "data.tokenizer", &cell->paths);
    push_strings(json_object_get(workload, "paths"), &cell->paths);
}

/* ---- launch -----------------------------------------------------------------------------------
 */
static void fill_slurm(const json_t *slurm, struct slurm_options *o)
{
    o->account = text_at(slurm, "account");
    o->partition = text_at(slurm, "partition");
    o->qos = text_at(slurm, "qos");
    o->constraint = text_at(slurm, "constraint");
    o->reservation = text_at(slurm, "reservation");
    o->mem = text_at(slurm, "mem");
    o->mpi = text_at(slurm, "mpi");
    o->network = text_at(slurm, "network");
    json_read_f64(slurm, "time_limit_s", &o->time_limit_s);
    json_read_i64(slurm, "cpus_per_task", &o->cpus_per_task);
    json_read_i64(slurm, "gpus_per_node", &o->gpus_per_node);
    push_strings(json_object_get(slurm, "args"), &o->args);
    push_strings(json_object_get(slurm, "sbatch"), &o->sbatch);
    push_strings(json_object_get(slurm, "setup"), &o->setup);
}

/* What a launcher cannot do, whatever the machine. */
static void check_scheduler(struct loader *l, const struct cell *cell)
{
    if (!cell->is_slurm && cell->nodes > 1)
        diag_hint(complain_at(l, "launch.nodes", "%lld nodes, but scheduler: local has one",
                              (long long)cell->nodes),
                  "scheduler: slurm runs a trial on several nodes");
    for (size_t i = 0; i < cell->slurm.sbatch.count; i++)
        if (!str_starts_with(cell->slurm.sbatch.items[i], "-"))
            complain_at(l, "launch.slurm.sbatch",
                        "\"%s\" is no option, expected such as \"--exclusive\"",
                        cell->slurm.sbatch.items[i]);
    for (size_t i = 0; i < cell->slurm.args.count; i++)
        if (!str_starts_with(cell->slurm.args.items[i], "-"))
            complain_at(l, "launch.slurm.args", "\"%s\" is no option of srun",
                        cell->slurm.args.items[i]);
}

static void fill_launch(const json_t *launch, struct cell *cell)
{
    json_read_i64(launch, "nodes", &cell->nodes);
    json_read_i64(launch, "ranks_per_node", &cell->ranks_per_node);
    json_read_i64(launch, "threads_per_rank", &cell->threads_per_rank);
    const char *scheduler = json_read_str(launch, "scheduler");
    cell->is_slurm = scheduler && !strcmp(scheduler, "slurm");
    fill_slurm(json_object_get(launch, "slurm"), &cell->slurm);
    const char *bind = json_read_str(launch, "bind");
    for (size_t i = 0; bind && topo_bind_names[i]; i++)
        if (!strcmp(topo_bind_names[i], bind))
            cell->bind = (enum topo_bind)i;
}

/* ---- runtimes ---------------------------------------------------------------------------------
 */
static void fill_mount(struct loader *l, const char *path, json_t *item, struct mounts *mounts)
{
    struct mount m = {0};
    auto_error struct error err = ERROR_INIT;
    const char *spec = json_read_str(item, "spec");
    if (spec) {
        if (mount_parse(spec, &m, &err)) {
            struct diag *d = complain_at(l, path, "%s", err.message);
            if (err.hint)
                diag_hint(d, "%s", err.hint);
            return;
        }
    } else {
        const char *target = json_read_str(item, "target");
        m.source = mem_strdup(json_read_str(item, "source"));
        m.target = mem_strdup(target ? target : m.source);
        json_read_bool(item, "read_only", &m.read_only);
        if (!m.source) {
            free(m.target);
            complain_at(l, path, "has no source, expected an absolute path of this machine");
            return;
        }
    }
    json_read_bool(item, "optional", &m.optional);
    vec_push(mounts, m);
    /* one form in resolved.json, whichever was written */
    json_object_clear(item);
    json_object_set_new(item, "source", json_string(m.source));
    json_object_set_new(item, "target", json_string(m.target));
    json_object_set_new(item, "read_only", json_boolean(m.read_only));
    json_object_set_new(item, "optional", json_boolean(m.optional));
}

static void fill_mounts(struct loader *l, size_t arm, const json_t *spec, struct mounts *mounts)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(spec, "mounts"), i, item)
    {
        auto_free char *path = mem_printf("runtimes[%zu].mounts[%zu]", arm, i);
        fill_mount(l, path, item, mounts);
    }
}

static void fill_spec(const json_t *json, struct runtime_spec *spec)
{
    spec->name = text_at(json, "name");
    spec->kind = text_at(json, "kind");
    spec->image = text_at(json, "image");
    spec->rootfs = text_at(json, "rootfs");
    spec->nanochat = text_at(json, "nanochat");
    spec->gpus = text_at(json, "gpus");
    spec->ipc = text_at(json, "ipc");
    spec->network = text_at(json, "network");
    spec->userns = text_at(json, "userns");
    spec->cpuset = text_at(json, "cpuset");
    json_read_i64(json, "shm_size_bytes", &spec->shm_size_bytes);
    json_read_i64(json, "memory_bytes", &spec->memory_bytes);
    push_pairs(json_object_get(json, "env"), &spec->env);
    push_strings(json_object_get(json, "differs"), &spec->differs);
    push_strings(json_object_get(json, "devices"), &spec->devices);
    push_pairs(json_object_get(json, "ulimits"), &spec->ulimits);
    push_strings(json_object_get(json, "options"), &spec->options);
    push_pairs(json_object_get(json, "annotations"), &spec->annotations);
    push_strings(json_object_get(json, "prefix"), &spec->prefix);
    spec->script = json_incref(json_object_get(json, "script"));
}

static void complain_kind(struct loader *l, const char *path, const char *kind)
{
    const char *names[32];
    size_t n = 0;
    auto_str list = STR_INIT;
    for (; n < 32 && runtime_registry[n]; n++) {
        names[n] = runtime_registry[n]->name;
        str_appendf(&list, "%s%s", n ? ", " : "", names[n]);
    }
    struct diag *d =
        complain_at(l, path, "\"%s\" is no runtime, expected one of %s", kind, list.data);
    const char *near = str_nearest(kind, names, n);
    if (near)
        diag_hint(d, "did you mean \"%s\"?", near);
}

static bool takes_key(const struct runtime_ops *ops, const char *name)
{
    static const char *const common[] = {"name", "kind", "env", "differs", NULL};
    for (const char *const *k = common; *k; k++)
        if (!strcmp(*k, name))
            return true;
    for (const char *const *k = ops->keys; k && *k; k++)
        if (!strcmp(*k, name))
            return true;
    return false;
}

static void check_keys(struct loader *l, const struct bound *arm, const struct runtime_ops *ops)
{
    auto_str list = STR_INIT;
    for (const char *const *k = ops->keys; k && *k; k++)
        str_appendf(&list, ", %s", *k);
    for (const struct bound *b = arm->first; b; b = b->next)
        if (b->name && !takes_key(ops, b->name->text))
            complain_key(l, b, "is not for kind %s, which takes env, differs%s", ops->name,
                         list.data);
}

/* Is something at or below this path reported already? */
static bool is_in_error(const struct loader *l, const char *path)
{
    for (size_t i = 0; i < l->diags.count; i++)
        if (str_starts_with(l->diags.items[i].path, path))
            return true;
    return false;
}

/* Not everything of the launch reaches check: who starts it, and what all arms get. */
static int check_launch(const struct runtime_ops *ops, const struct cell *cell,
                        const struct runtime_spec *spec, bool in_step, struct error *err)
{
    if ((ops->flags & RUNTIME_SRUN) && !in_step) {
        error_set(err, NCBENCH_EXIT_SCENARIO, "runtime %s: kind %s is a plugin of srun", spec->name,
                  ops->name);
        return error_hint(err, "launch: {scheduler: slurm}");
    }
    if (runtime_env_check(ops, &cell->env, err) || runtime_env_check(ops, &spec->env, err))
        return -err->code;
    return ops->check(spec, &spec->mounts, true, err);
}

/* What the runtime itself says about a spec, on any machine. */
static void check_spec(struct loader *l, size_t index, size_t arm, const struct cell *cell,
                       bool in_step)
{
    const struct runtime_spec *spec = &cell->runtimes[arm];
    auto_free char *path = mem_printf("runtimes[%zu]", arm);
    auto_free char *kind_path = mem_printf("runtimes[%zu].kind", arm);
    auto_free char *env_path = mem_printf("runtimes[%zu].env", arm);
    if (!spec->kind || !spec->name)
        return; /* reported as missing */
    const struct runtime_ops *ops = runtime_find(spec->kind);
    if (!ops) {
        complain_kind(l, kind_path, spec->kind);
        return;
    }
    check_keys(l, bound_at(l, path), ops);
    check_env(l, env_path);
    auto_error struct error err = ERROR_INIT;
    if (!is_in_error(l, path) && check_launch(ops, cell, spec, in_step, &err))
        complain_cell(l, index, path, &err);
}

/* The baseline under another name. */
static void fill_twin(struct loader *l, const struct scenario *s, const json_t *json,
                      const char *what, struct runtime_spec *twin)
{
    fill_spec(json, twin);
    fill_mounts(l, s->baseline, json, &twin->mounts);
    char *name = mem_printf("%s-%s", twin->name ? twin->name : "", what);
    free(twin->name);
    twin->name = name;
}

/* By the workload itself, which waits; by the script where nothing runs. */
static void slow_down(struct loader *l, const struct scenario *s, struct runtime_spec *spec)
{
    double effect = 0, share = s->sampling.handicap;
    if (spec->script) {
        json_t *script = json_deep_copy(spec->script);
        json_read_f64(script, "effect", &effect);
        json_object_set_new(script, "effect", json_real((1 + effect) * (1 + share) - 1));
        json_decref(spec->script);
        spec->script = script;
        return;
    }
    const struct bound *command = bound_at(l, "workload.command");
    if (!command || !command->node->text || strcmp(command->node->text, "base-train") != 0)
        complain_at(l, "sampling.handicap",
                    "needs workload.command: base-train, which slows itself down when asked to");
    char text[NUM_F64_MAX];
    strv_pushf(&spec->env, "%s=%s", ENV_HANDICAP, num_format_f64(text, share));
    strv_push(&spec->differs, ENV_HANDICAP);
}

static void fill_runtimes(struct loader *l, const struct scenario *s, const json_t *doc,
                          size_t index, struct cell *cell)
{
    const json_t *list = json_object_get(doc, "runtimes");
    const char *scheduler = json_read_str(doc, "launch.scheduler");
    bool in_step = scheduler && !strcmp(scheduler, "slurm");
    size_t given = json_array_size(list);
    cell->runtimes = mem_zalloc(s->n_runtimes + given + 1, sizeof *cell->runtimes);
    for (size_t arm = 0; arm < given && arm < s->n_runtimes; arm++) {
        const json_t *json = json_array_get(list, arm);
        fill_spec(json, &cell->runtimes[arm]);
        fill_mounts(l, arm, json, &cell->runtimes[arm].mounts);
        check_spec(l, index, arm, cell, in_step);
    }
    if (s->baseline >= given)
        return;
    const json_t *baseline = json_array_get(list, s->baseline);
    if (s->control >= 0)
        fill_twin(l, s, baseline, "control", &cell->runtimes[s->control]);
    if (s->handicap >= 0) {
        fill_twin(l, s, baseline, "handicap", &cell->runtimes[s->handicap]);
        slow_down(l, s, &cell->runtimes[s->handicap]);
    }
}

/* ---- the cell ---------------------------------------------------------------------------------
 */
bool cell_fill(struct loader *l, const struct scenario *s, const json_t *doc, size_t index,
               struct cell *cell)
{
    size_t errors = l->diags.count + l->diags.dropped;
    cell->id = mem_printf("c%02zu", index);
    cell->values = json_object();
    const struct value *values = l->cells + index * l->scope.n_axes;
    for (size_t i = 0; i < l->scope.n_axes; i++)
        json_object_set_new(cell->values, l->scope.axes[i].name, value_to_json(&values[i]));
    fill_launch(json_object_get(doc, "launch"), cell);
    check_scheduler(l, cell);
    fill_workload(l, s, json_object_get(doc, "workload"), index, cell);
    fill_runtimes(l, s, doc, index, cell);
    return l->diags.count + l->diags.dropped == errors;
}

void cell_release(struct cell *cell, size_t n_runtimes)
{
    free(cell->id);
    json_decref(cell->values);
    strv_release(&cell->argv);
    strv_release(&cell->env);
    strv_release(&cell->paths);
    slurm_options_release(&cell->slurm);
    for (size_t i = 0; cell->runtimes && i < n_runtimes; i++)
        runtime_spec_release(&cell->runtimes[i]);
    free(cell->runtimes);
}
