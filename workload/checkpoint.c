/* Writing checkpoints; reading them is checkpoint_read.c. */
#include "workload/checkpoint.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/agree.h"
#include "workload/checkpoint_priv.h"
#include "workload/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE NANOCHAT_EXIT_WRITE

/* One line of the manifest; plain bytes, for it travels between ranks. */
struct entry {
    char name[64];
    char sha256[SHA256_HEX];
    int64_t bytes;
};

struct save {
    const char *dir;
    char *partial, *final; /* paths of this step's directory before and after the commit */
    struct comm *comm;
    struct entry *entries; /* rank 0's model and meta, then one optimizer file a rank */
    size_t count;
    int64_t bytes; /* written by this rank */
};

void checkpoint_meta_release(struct checkpoint_meta *meta)
{
    json_decref(meta->loader);
    json_decref(meta->loop);
    json_decref(meta->user);
    *meta = (struct checkpoint_meta){0};
}

/* Directories that a killed run left half-written. */
static int remove_leftovers(const char *dir, struct error *err)
{
    auto_strv names = STRV_INIT;
    if (fs_list_dir(dir, &names, WRITE, err))
        return -err->code;
    for (size_t i = 0; i < names.count; i++) {
        if (!str_starts_with(names.items[i], "." CHECKPOINT_DIR_PREFIX) ||
            !str_ends_with(names.items[i], CHECKPOINT_PARTIAL_SUFFIX))
            continue;
        auto_free char *path = mem_printf("%s/%s", dir, names.items[i]);
        if (fs_remove_tree(path, WRITE, err))
            return -err->code;
    }
    return 0;
}

static int make_partial(const struct save *s, struct error *err)
{
    if (comm_rank(s->comm) == 0 && !fs_mkdir_p(s->dir, WRITE, err) &&
        !remove_leftovers(s->dir, err))
        fs_mkdir_p(s->partial, WRITE, err);
    return agree(s->comm, "preparing the checkpoint", err);
}

/* The file is written: fill in its line of the manifest. */
static int describe(struct save *s, struct entry *e, struct error *err)
{
    auto_free char *path = mem_printf("%s/%s", s->partial, e->name);
    struct stat st;
    if (stat(path, &st))
        return error_errno(err, WRITE, errno, "cannot write %s", path);
    e->bytes = st.st_size;
    s->bytes += e->bytes;
    return sha256_file(path, e->sha256, WRITE, err);
}

/* Tensors on the way from the device to the file: one buffer, as long as the longest. */
struct staging {
    struct device *device;
    void *buffer;
    size_t bytes;
};

static int fetch(void *user, const struct st_tensor *t, const void **host, struct error *err)
{
    struct staging *s = user;
    if (s->device->ops->host_memory) {
        *host = t->data;
        return 0;
    }
    if (t->bytes > s->bytes) {
        free(s->buffer);
        s->buffer = NULL;
        s->bytes = 0;
        if (mem_try_alloc(&s->buffer, t->bytes, "a tensor of the checkpoint", err))
            return -err->code;
        s->bytes = t->bytes;
    }
    *host = s->buffer;
    return s->device->ops->to_host(s->device, s->buffer, t->data, (int64_t)t->bytes, err);
}

static int write_tensors(const char *path, struct device *device, const struct st_tensor *tensors,
                         size_t n, const json_t *metadata, struct error *err)
{
    struct staging staging = {.device = device};
    const struct st_source source = {fetch, &staging};
    int rc = st_write(path, tensors, n, metadata, &source, WRITE, NULL, err);
    free(staging.buffer);
    return rc;
}

static int write_model(struct save *s, struct model *model, struct error *err)
{
    size_t n = model_n_params(model);
    auto_free struct st_tensor *tensors = mem_zalloc(n, sizeof *tensors);
    for (size_t i = 0; i < n; i++) {
        const struct param *p = model_param(model, i);
        tensors[i] = (struct st_tensor){.name = p->name,
                                        .dtype = "F32",
                                        .ndim = 2,
                                        .shape = {p->rows, p->cols},
                                        .n = p->rows * p->cols,
                                        .data = p->weight,
                                        .bytes = (size_t)(p->rows * p->cols) * sizeof(float)};
    }
    struct entry *e = &s->entries[0];
    snprintf(e->name, sizeof e->name, CHECKPOINT_MODEL);
    auto_free char *path = mem_printf("%s/%s", s->partial, e->name);
    if (write_tensors(path, model_device(model), tensors, n, NULL, err))
        return -err->code;
    return describe(s, e, err);
}

static int write_meta(struct save *s, const struct checkpoint_meta *meta, struct error *err)
{
    auto_json *obj = json_object();
    json_put_str(obj, "format", CHECKPOINT_FORMAT);
    json_put_int(obj, "step", meta->step);
    json_put(obj, "model_config", model_config_json(&meta->config));
    if (meta->tokenizer_hash[0])
        json_put_str(obj, "tokenizer_sha256", meta->tokenizer_hash);
    else
        json_put_null(obj, "tokenizer_sha256", "the data needs no tokenizer");
    json_put_int(obj, "world", meta->world);
    json_put(obj, "loader_state", meta->loader ? json_incref(meta->loader) : json_object());
    json_put(obj, "loop_state", meta->loop ? json_incref(meta->loop) : json_object());
    json_put(obj, "user_config", meta->user ? json_incref(meta->user) : json_object());
    struct entry *e = &s->entries[1];
    snprintf(e->name, sizeof e->name, CHECKPOINT_META);
    auto_free char *path = mem_printf("%s/%s", s->partial, e->name);
    if (json_write_file(path, obj, WRITE, err))
        return -err->code;
    return describe(s, e, err);
}

static int write_optimizer(struct save *s, const struct optimizer *o, struct error *err)
{
    size_t n = optimizer_n_tensors(o);
    /* optimizer_tensor returns the name by value: keep the copies alive until the file is written
     */
    auto_free struct optimizer_tensor *states = mem_zalloc(n, sizeof *states);
    auto_free struct st_tensor *tensors = mem_zalloc(n, sizeof *tensors);
    for (size_t i = 0; i < n; i++) {
        states[i] = optimizer_tensor(o, i);
        tensors[i] = (struct st_tensor){.name = states[i].name,
                                        .dtype = "F32",
                                        .ndim = 1,
                                        .shape = {states[i].n},
                                        .n = states[i].n,
                                        .data = states[i].data,
                                        .bytes = (size_t)states[i].n * sizeof(float)};
    }
    auto_json *metadata = json_object(); /* the format wants strings */
    auto_free char *step = mem_printf("%lld", (long long)optimizer_get_step(o));
    auto_free char *rank = mem_printf("%d", comm_rank(s->comm));
    auto_free char *world = mem_printf("%d", comm_world(s->comm));
    json_put_str(metadata, "step", step);
    json_put_str(metadata, "rank", rank);
    json_put_str(metadata, "world", world);
    struct entry *e = &s->entries[2 + comm_rank(s->comm)];
    snprintf(e->name, sizeof e->name, CHECKPOINT_OPTIM_FMT, comm_rank(s->comm));
    auto_free char *path = mem_printf("%s/%s", s->partial, e->name);
    if (write_tensors(path, optimizer_device(o), tensors, n, metadata, err))
        return -err->code;
    return describe(s, e, err);
}

static int write_files(struct save *s, struct model *model, const struct optimizer *optimizer,
                       const struct checkpoint_meta *meta, struct error *err)
{
    if (comm_rank(s->comm) == 0 && !write_model(s, model, err))
        write_meta(s, meta, err);
    if (!err->code && optimizer)
        write_optimizer(s, optimizer, err);
    if (agree(s->comm, "writing the checkpoint", err))
        return -err->code;
    for (int r = 0; optimizer && r < comm_world(s->comm); r++)
        if (comm_broadcast(s->comm, &s->entries[2 + r], sizeof(struct entry), r, err))
            return -err->code;
    return 0;
}

static int write_manifest(const struct save *s, const struct checkpoint_meta *meta,
                          struct error *err)
{
    auto_json *obj = json_object();
    json_put_str(obj, "format", CHECKPOINT_FORMAT);
    json_put_int(obj, "step", meta->step);
    json_put_int(obj, "world", meta->world);
    json_t *files = json_array();
    for (size_t i = 0; i < s->count; i++) {
        json_t *file = json_object();
        json_put_str(file, "name", s->entries[i].name);
        json_put_int(file, "bytes", s->entries[i].bytes);
        json_put_str(file, "sha256", s->entries[i].sha256);
        json_array_append_new(files, file);
    }
    json_put(obj, "files", files);
    auto_free char *path = mem_printf("%s/%s", s->partial, CHECKPOINT_MANIFEST);
    return json_write_file(path, obj, WRITE, err);
}

/* Put the new directory in the place of the old one, in one step where the file system can. */
static int commit(const struct save *s, struct error *err)
{
    if (rename(s->partial, s->final)) {
        if (errno != EEXIST && errno != ENOTEMPTY)
            return error_errno(err, WRITE, errno, "cannot write %s", s->final);
        /* The same step was saved before. */
        if (renameat2(AT_FDCWD, s->partial, AT_FDCWD, s->final, RENAME_EXCHANGE)) {
            if (fs_remove_tree(s->final, WRITE, err))
                return -err->code;
            if (rename(s->partial, s->final))
                return error_errno(err, WRITE, errno, "cannot write %s", s->final);
        } else if (fs_remove_tree(s->partial, WRITE, err)) {
            return -err->code;
        }
    }
    auto_close int fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) && errno != EINVAL))
        return error_errno(err, WRITE, errno, "cannot sync directory %s", s->dir);
    return 0;
}

static void abandon(const struct save *s)
{
    struct error ignored = ERROR_INIT; /* the first failure is what the caller hears of */
    if (comm_rank(s->comm) == 0)
        fs_remove_tree(s->partial, WRITE, &ignored);
    error_release(&ignored);
}

int checkpoint_save(const char *dir, struct model *model, struct optimizer *optimizer,
                    struct comm *comm, const struct checkpoint_meta *meta, int64_t *bytes,
                    double *write_s, struct error *err)
{
    double start = clock_mono_s();
    size_t count = optimizer ? 2 + (size_t)comm_world(comm) : 2;
    auto_free struct entry *entries = mem_zalloc(count, sizeof *entries);
    auto_free char *partial =
        mem_printf("%s/." CHECKPOINT_DIR_FMT CHECKPOINT_PARTIAL_SUFFIX, dir, (long long)meta->step);
    auto_free char *final = mem_printf("%s/" CHECKPOINT_DIR_FMT, dir, (long long)meta->step);
    struct save s = {.dir = dir,
                     .partial = partial,
                     .final = final,
                     .comm = comm,
                     .entries = entries,
                     .count = count};
    if (make_partial(&s, err) || write_files(&s, model, optimizer, meta, err)) {
        abandon(&s);
        return -err->code;
    }
    if (comm_rank(comm) == 0 && (write_manifest(&s, meta, err) || commit(&s, err)))
        abandon(&s);
    if (agree(comm, "finishing the checkpoint", err))
        return -err->code;
    *bytes = s.bytes;
    *write_s = clock_mono_s() - start;
    return 0;
}
