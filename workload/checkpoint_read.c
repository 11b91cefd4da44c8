/* Reading checkpoints. Everything is checked against the manifest before it is believed. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "workload/checkpoint.h"
#include "workload/checkpoint_priv.h"
#include "workload/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CORRUPT NANOCHAT_EXIT_CHECKPOINT

/* ---- finding ------------------------------------------------------------------------------- */

/* The step of a directory's name, or -1. */
static int64_t step_of_name(const char *name)
{
    int64_t step;
    if (!str_starts_with(name, CHECKPOINT_DIR_PREFIX))
        return -1;
    const char *digits = name + strlen(CHECKPOINT_DIR_PREFIX);
    while (*digits == '0' && digits[1])
        digits++;
    return num_parse_i64(digits, &step) ? step : -1;
}

static bool has_manifest(const char *dir, const char *name)
{
    auto_free char *path = mem_printf("%s/%s/%s", dir, name, CHECKPOINT_MANIFEST);
    return fs_exists(path);
}

static int not_found(const char *dir, int64_t step, const struct str *found, struct error *err)
{
    if (!found->len)
        return error_set(err, CORRUPT, "no checkpoint in %s", dir);
    return error_set(err, CORRUPT, "no checkpoint of step %" PRId64 " in %s (there are: %s)", step,
                     dir, found->data);
}

int checkpoint_find(const char *dir, int64_t step, char **path, struct error *err)
{
    auto_strv names = STRV_INIT;
    if (fs_list_dir(dir, &names, CORRUPT, err))
        return error_wrap(err, "looking for a checkpoint");
    const char *best = NULL;
    int64_t best_step = -1;
    auto_str found = STR_INIT;
    for (size_t i = 0; i < names.count; i++) {
        int64_t s = step_of_name(names.items[i]);
        if (s < 0 || !has_manifest(dir, names.items[i]))
            continue;
        str_appendf(&found, "%s%" PRId64, found.len ? ", " : "", s);
        if (step < 0 ? s > best_step : s == step) {
            best = names.items[i];
            best_step = s;
        }
    }
    if (!best)
        return not_found(dir, step, &found, err);
    *path = mem_printf("%s/%s", dir, best);
    return 0;
}

/* ---- manifest ------------------------------------------------------------------------------ */

static int read_manifest(const char *path, json_t **manifest, struct error *err)
{
    auto_free char *file = mem_printf("%s/%s", path, CHECKPOINT_MANIFEST);
    auto_json *obj = NULL;
    if (json_read_file(file, CORRUPT, &obj, err))
        return error_wrap(err, "not a complete checkpoint");
    const char *format = json_read_str(obj, "format");
    if (!format || strcmp(format, CHECKPOINT_FORMAT) != 0)
        return error_set(err, CORRUPT, "%s: format \"%s\", expected \"%s\"", file,
                         format ? format : "", CHECKPOINT_FORMAT);
    if (!json_is_array(json_at(obj, "files")))
        return error_set(err, CORRUPT, "%s: no list of files", file);
    *manifest = json_incref(obj);
    return 0;
}

static const json_t *find_entry(const json_t *manifest, const char *name)
{
    size_t i;
    json_t *file;
    json_array_foreach((json_t *)json_at(manifest, "files"), i, file)
    {
        const char *n = json_read_str(file, "name");
        if (n && !strcmp(n, name))
            return file;
    }
    return NULL;
}

static int check_size(const char *path, const json_t *entry, struct error *err)
{
    const char *name = json_read_str(entry, "name");
    int64_t bytes;
    if (!name || strchr(name, '/') || !json_read_i64(entry, "bytes", &bytes))
        return error_set(err, CORRUPT, "%s/%s: malformed list of files", path, CHECKPOINT_MANIFEST);
    auto_free char *file = mem_printf("%s/%s", path, name);
    struct stat st;
    if (stat(file, &st))
        return error_errno(err, CORRUPT, errno, "cannot open %s", file);
    if (st.st_size != bytes)
        return error_set(err, CORRUPT,
                         "%s has %" PRId64 " bytes, expected %" PRId64 ": truncated or altered",
                         file, (int64_t)st.st_size, bytes);
    return 0;
}

/* Size and hash of one file. */
static int verify(const char *path, const char *name, struct error *err)
{
    auto_json *manifest = NULL;
    if (read_manifest(path, &manifest, err))
        return -err->code;
    const json_t *entry = find_entry(manifest, name);
    if (!entry)
        return error_set(err, CORRUPT, "checkpoint %s has no %s", path, name);
    if (check_size(path, entry, err))
        return -err->code;
    auto_free char *file = mem_printf("%s/%s", path, name);
    const char *expected = json_read_str(entry, "sha256");
    char found[SHA256_HEX];
    if (sha256_file(file, found, CORRUPT, err))
        return -err->code;
    if (!expected || strcmp(found, expected) != 0)
        return error_set(err, CORRUPT, "%s has sha256 %.16s…, expected %.16s…: altered", file,
                         found, expected ? expected : "");
    return 0;
}

int checkpoint_check_files(const char *path, bool optimizer, struct error *err)
{
    auto_json *manifest = NULL;
    if (read_manifest(path, &manifest, err))
        return -err->code;
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(manifest, "files"), i, entry)
    {
        const char *name = json_read_str(entry, "name");
        if (!optimizer && name && str_starts_with(name, CHECKPOINT_OPTIM_PREFIX))
            continue;
        if (check_size(path, entry, err)) {
            if (name && str_starts_with(name, CHECKPOINT_OPTIM_PREFIX))
                error_hint(err, "--reset-optimizer resumes with a fresh optimizer state");
            return -err->code;
        }
    }
    return 0;
}

/* ---- meta ---------------------------------------------------------------------------------- */

static json_t *take_object(const json_t *obj, const char *key)
{
    const json_t *v = json_at(obj, key);
    return json_is_object(v) ? json_incref((json_t *)v) : NULL;
}

int checkpoint_parse_meta(const char *text, size_t len, const char *name,
                          struct checkpoint_meta *meta, struct error *err)
{
    auto_json *obj = NULL;
    if (json_parse(text, len, name, CORRUPT, &obj, err))
        return -err->code;
    struct checkpoint_meta m = {0};
    int64_t world;
    if (!json_read_i64(obj, "step", &m.step) || m.step < 0)
        return error_set(err, CORRUPT, "%s: no step", name);
    if (!json_read_i64(obj, "world", &world) || world < 1 || world > INT32_MAX)
        return error_set(err, CORRUPT, "%s: no number of ranks", name);
    m.world = (int)world;
    const char *hash = json_read_str(obj, "tokenizer_sha256");
    if (hash && strlen(hash) != SHA256_HEX - 1)
        return error_set(err, CORRUPT, "%s: malformed tokenizer_sha256", name);
    snprintf(m.tokenizer_hash, sizeof m.tokenizer_hash, "%s", hash ? hash : "");
    const json_t *config = json_at(obj, "model_config");
    if (!json_is_object(config))
        return error_set(err, CORRUPT, "%s: no model_config", name);
    if (model_config_from_json(config, &m.config, err)) {
        err->code = CORRUPT;
        return error_wrap(err, "%s", name);
    }
    m.loader = take_object(obj, "loader_state");
    m.loop = take_object(obj, "loop_state");
    m.user = take_object(obj, "user_config");
    *meta = m;
    if (m.loader && m.loop && m.user)
        return 0;
    checkpoint_meta_release(meta);
    return error_set(err, CORRUPT, "%s: no loader_state, loop_state or user_config", name);
}

/* The manifest and meta.json must speak of the same checkpoint. */
static int check_manifest(const char *path, const struct checkpoint_meta *meta, struct error *err)
{
    auto_json *manifest = NULL;
    if (read_manifest(path, &manifest, err))
        return -err->code;
    int64_t step = -1, world = -1;
    json_read_i64(manifest, "step", &step);
    json_read_i64(manifest, "world", &world);
    if (step == meta->step && world == meta->world)
        return 0;
    return error_set(
        err, CORRUPT,
        "%s/%s is of step %" PRId64 " and %" PRId64 " ranks, %s of step %" PRId64 " and %d ranks",
        path, CHECKPOINT_MANIFEST, step, world, CHECKPOINT_META, meta->step, meta->world);
}

int checkpoint_read_meta(const char *path, struct checkpoint_meta *meta, struct error *err)
{
    if (verify(path, CHECKPOINT_META, err))
        return -err->code;
    auto_free char *file = mem_printf("%s/%s", path, CHECKPOINT_META);
    auto_str text = STR_INIT;
    if (fs_read_file(file, &text, CORRUPT, err) ||
        checkpoint_parse_meta(text.data, text.len, file, meta, err))
        return -err->code;
    if (check_manifest(path, meta, err))
        checkpoint_meta_release(meta);
    return -err->code;
}

int checkpoint_check_meta(const struct checkpoint_meta *meta, const struct model_config *config,
                          const char *tokenizer_hash, int world, struct error *err)
{
    const struct model_config *c = &meta->config;
    const struct {
        const char *name;
        int64_t found, expected;
    } dims[] = {{"sequence_len", c->sequence_len, config->sequence_len},
                {"vocab_size", c->vocab_size, config->vocab_size},
                {"n_layer", c->n_layer, config->n_layer},
                {"n_head", c->n_head, config->n_head},
                {"n_kv_head", c->n_kv_head, config->n_kv_head},
                {"n_embd", c->n_embd, config->n_embd},
                {"world (number of ranks)", meta->world, world < 0 ? meta->world : world}};
    auto_str differs = STR_INIT;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        if (dims[i].found != dims[i].expected)
            str_appendf(&differs, "%s%s %" PRId64 ", expected %" PRId64, differs.len ? "; " : "",
                        dims[i].name, dims[i].found, dims[i].expected);
    if (strcmp(meta->tokenizer_hash, tokenizer_hash) != 0)
        str_appendf(&differs, "%stokenizer %.16s, expected %.16s", differs.len ? "; " : "",
                    meta->tokenizer_hash[0] ? meta->tokenizer_hash : "none",
                    tokenizer_hash[0] ? tokenizer_hash : "none");
    if (!differs.len)
        return 0;
    return error_set(err, CORRUPT, "the checkpoint was made for another run: it has %s",
                     differs.data);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static int copy_tensor(const struct st_file *f, const char *file, const char *name, int64_t rows,
                       int64_t cols, struct device *device, float *to, struct error *err)
{
    const struct st_tensor *t = st_find(f, name);
    if (!t)
        return error_set(err, CORRUPT, "%s has no tensor %s", file, name);
    bool shape_ok = cols ? t->ndim == 2 && t->shape[0] == rows && t->shape[1] == cols
                         : t->ndim == 1 && t->shape[0] == rows;
    if (!shape_ok || strcmp(t->dtype, "F32") != 0)
        return error_set(err, CORRUPT,
                         "%s: tensor %s has %" PRId64 " elements of %s, expected %" PRId64
                         " x %" PRId64 " of F32",
                         file, name, t->n, t->dtype, rows, cols ? cols : 1);
    return device->ops->to_device(device, to, t->data, (int64_t)t->bytes, err);
}

static int check_count(const char *file, size_t found, size_t expected, struct error *err)
{
    if (found == expected)
        return 0;
    return error_set(err, CORRUPT, "%s has %zu tensors, expected %zu", file, found, expected);
}

static int copy_weights(const struct st_file *f, const char *file, struct model *model,
                        struct error *err)
{
    size_t n = model_n_params(model);
    if (check_count(file, st_count(f), n, err))
        return -err->code;
    for (size_t i = 0; i < n; i++) {
        const struct param *p = model_param(model, i);
        if (copy_tensor(f, file, p->name, p->rows, p->cols, model_device(model), p->weight, err))
            return -err->code;
    }
    return 0;
}

int checkpoint_load_model(const char *path, struct model *model, struct error *err)
{
    if (verify(path, CHECKPOINT_MODEL, err))
        return -err->code;
    auto_free char *file = mem_printf("%s/%s", path, CHECKPOINT_MODEL);
    struct st_file *f;
    if (st_open(file, &f, CORRUPT, err))
        return -err->code;
    if (!copy_weights(f, file, model, err)) /* the mapping must live until the copies are done */
        model_device(model)->ops->sync(model_device(model), err);
    st_close(f);
    return err->code ? -err->code : model_weights_changed(model, err);
}

static int copy_states(const struct st_file *f, const char *file, struct optimizer *o,
                       struct error *err)
{
    int64_t step;
    const char *text = json_read_str(st_metadata(f), "step");
    if (!text || !num_parse_i64(text, &step) || step < 0)
        return error_set(err, CORRUPT, "%s: no step", file);
    if (check_count(file, st_count(f), optimizer_n_tensors(o), err))
        return -err->code;
    struct device *device = optimizer_device(o);
    for (size_t i = 0; i < optimizer_n_tensors(o); i++) {
        struct optimizer_tensor t = optimizer_tensor(o, i);
        if (copy_tensor(f, file, t.name, t.n, 0, device, t.data, err))
            return -err->code;
    }
    optimizer_set_step(o, step);
    return device->ops->sync(device, err);
}

int checkpoint_load_optimizer(const char *path, struct optimizer *optimizer, struct comm *comm,
                              struct error *err)
{
    char name[64];
    snprintf(name, sizeof name, CHECKPOINT_OPTIM_FMT, comm_rank(comm));
    if (verify(path, name, err))
        return error_hint(err, "--reset-optimizer resumes with a fresh optimizer state");
    auto_free char *file = mem_printf("%s/%s", path, name);
    struct st_file *f;
    if (st_open(file, &f, CORRUPT, err))
        return -err->code;
    copy_states(f, file, optimizer, err);
    st_close(f);
    return -err->code;
}
