#include "workload/safetensors.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_MAX ((uint64_t)100 << 20) /* the format's own limit */
#define HEADER_ALIGN 64                  /* data start of the files that we write */

struct st_file {
    char *name;
    void *map; /* NULL: a borrowed buffer */
    size_t map_len;
    json_t *header;
    const json_t *metadata;
    struct st_tensor *items; /* in order of the data */
    size_t count, cap;
};

static const struct {
    const char *name;
    int bytes;
} dtypes[] = {
    {"F32", 4},  {"I32", 4}, {"BF16", 2},    {"F16", 2},     {"F64", 8}, {"I64", 8},
    {"U8", 1},   {"I8", 1},  {"I16", 2},     {"U16", 2},     {"U32", 4}, {"U64", 8},
    {"BOOL", 1}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
};

static int dtype_bytes(const char *dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtype, dtypes[i].name))
            return dtypes[i].bytes;
    return 0;
}

static int read_shape(const json_t *shape, struct st_tensor *t)
{
    if (!json_is_array(shape) || json_array_size(shape) > sizeof t->shape / sizeof *t->shape)
        return -1;
    t->ndim = (int)json_array_size(shape);
    t->n = 1;
    for (int i = 0; i < t->ndim; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        int64_t value = json_integer_value(dim);
        if (!json_is_integer(dim) || value < 0 || __builtin_mul_overflow(t->n, value, &t->n))
            return -1;
        t->shape[i] = value;
    }
    return 0;
}

/* One entry of the header; data_len: bytes behind the header. */
static int read_tensor(const struct st_file *f, const char *key, const json_t *entry,
                       const char *data, size_t data_len, struct st_tensor *t, int code,
                       struct error *err)
{
    t->name = key;
    t->dtype = json_read_str(entry, "dtype");
    int item = t->dtype ? dtype_bytes(t->dtype) : 0;
    if (!item)
        return error_set(err, code, "%s: tensor \"%s\" has the unknown dtype \"%s\"", f->name, key,
                         t->dtype ? t->dtype : "");
    int64_t bytes;
    if (read_shape(json_object_get(entry, "shape"), t) ||
        __builtin_mul_overflow(t->n, (int64_t)item, &bytes))
        return error_set(err, code, "%s: tensor \"%s\" has a bad shape", f->name, key);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return error_set(err, code, "%s: tensor \"%s\" has bad data_offsets", f->name, key);
    int64_t begin = json_integer_value(from), end = json_integer_value(to);
    if (begin < 0 || end < begin || (uint64_t)end > data_len)
        return error_set(err, code,
                         "%s: tensor \"%s\" lies at bytes %" PRId64 " to %" PRId64
                         " of data, but the file has %zu: truncated?",
                         f->name, key, begin, end, data_len);
    if (end - begin != bytes)
        return error_set(
            err, code, "%s: tensor \"%s\" has %" PRId64 " bytes of data, its shape needs %" PRId64,
            f->name, key, end - begin, bytes);
    t->data = data + begin;
    t->bytes = (size_t)bytes;
    return 0;
}

static int by_data(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1; /* empty tensors first */
    return strcmp(x->name, y->name);
}

/* The format allows neither holes nor overlaps. */
static int check_layout(const struct st_file *f, const char *data, size_t len, int code,
                        struct error *err)
{
    const char *at = data;
    for (size_t i = 0; i < f->count; i++) {
        if ((const char *)f->items[i].data != at)
            return error_set(err, code, "%s: a hole or an overlap before tensor \"%s\"", f->name,
                             f->items[i].name);
        at += f->items[i].bytes;
    }
    if ((size_t)(at - data) != len)
        return error_set(err, code, "%s: %zu bytes of data behind the last tensor", f->name,
                         len - (size_t)(at - data));
    return 0;
}

static int parse(struct st_file *f, const char *bytes, size_t len, int code, struct error *err)
{
    if (len < 8)
        return error_set(err, code, "%s: %zu bytes are no safetensors file", f->name, len);
    uint64_t header_len = 0;
    for (int i = 7; i >= 0; i--)
        header_len = header_len << 8 | (unsigned char)bytes[i];
    if (header_len > HEADER_MAX || header_len > len - 8)
        return error_set(err, code,
                         "%s: the header needs %" PRIu64 " bytes, the file has %zu: truncated, or "
                         "no safetensors file",
                         f->name, header_len, len - 8);
    auto_free char *where = mem_printf("%s: header", f->name);
    if (json_parse(bytes + 8, header_len, where, code, &f->header, err))
        return -code;
    if (!json_is_object(f->header))
        return error_set(err, code, "%s: the header is no JSON object", f->name);
    const char *data = bytes + 8 + header_len;
    size_t data_len = len - 8 - header_len;
    const char *key;
    json_t *entry;
    json_object_foreach(f->header, key, entry)
    {
        if (!strcmp(key, "__metadata__")) {
            f->metadata = entry;
            continue;
        }
        struct st_tensor t = {0};
        if (read_tensor(f, key, entry, data, data_len, &t, code, err))
            return -code;
        vec_push(f, t);
    }
    if (f->count)
        qsort(f->items, f->count, sizeof *f->items, by_data);
    return check_layout(f, data, data_len, code, err);
}

int st_open_memory(const void *data, size_t len, const char *name, struct st_file **out, int code,
                   struct error *err)
{
    struct st_file *f = mem_zalloc(1, sizeof *f);
    f->name = mem_strdup(name);
    if (parse(f, data, len, code, err)) {
        st_close(f);
        return -code;
    }
    *out = f;
    return 0;
}

int st_open(const char *path, struct st_file **out, int code, struct error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, code, errno, "cannot open %s", path);
    struct stat st;
    if (fstat(fd, &st))
        return error_errno(err, code, errno, "cannot read %s", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, code, "%s is no regular file", path);
    if (st.st_size == 0)
        return error_set(err, code, "%s: 0 bytes are no safetensors file", path);
    size_t len = (size_t)st.st_size;
    void *map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_errno(err, code, errno, "cannot map %s", path);
    if (st_open_memory(map, len, path, out, code, err)) {
        munmap(map, len);
        return -code;
    }
    (*out)->map = map;
    (*out)->map_len = len;
    return 0;
}

void st_close(struct st_file *f)
{
    if (!f)
        return;
    if (f->map)
        munmap(f->map, f->map_len);
    json_decref(f->header);
    free(f->items);
    free(f->name);
    free(f);
}

size_t st_count(const struct st_file *f)
{
    return f->count;
}

const struct st_tensor *st_at(const struct st_file *f, size_t i)
{
    if (i >= f->count)
        BUG("tensor %zu of %zu", i, f->count);
    return &f->items[i];
}

const struct st_tensor *st_find(const struct st_file *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->items[i].name, name))
            return &f->items[i];
    return NULL;
}

const json_t *st_metadata(const struct st_file *f)
{
    return f->metadata;
}

/* Length, header and its padding, ready to be written. */
static void make_header(struct str *out, const struct st_tensor *tensors, size_t n,
                        const json_t *metadata)
{
    auto_json *header = json_object();
    if (metadata)
        json_put(header, "__metadata__", json_deep_copy(metadata));
    size_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        const struct st_tensor *t = &tensors[i];
        json_t *shape = json_array(), *entry = json_object();
        for (int d = 0; d < t->ndim; d++)
            json_array_append_new(shape, json_integer(t->shape[d]));
        json_put_str(entry, "dtype", t->dtype);
        json_put(entry, "shape", shape);
        json_put(entry, "data_offsets",
                 json_pack("[I,I]", (json_int_t)offset, (json_int_t)(offset + t->bytes)));
        json_put(header, t->name, entry);
        offset += t->bytes;
    }
    str_append_n(out, "\0\0\0\0\0\0\0\0", 8);
    json_write(out, header, 0);
    while (out->len % HEADER_ALIGN)
        str_append_char(out, ' ');
    for (int i = 0; i < 8; i++)
        out->data[i] = (char)((out->len - 8) >> (8 * i));
}

int st_write(const char *path, const struct st_tensor *tensors, size_t n, const json_t *metadata,
             const struct st_source *source, int code, int64_t *bytes, struct error *err)
{
    auto_str header = STR_INIT;
    make_header(&header, tensors, n, metadata);
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, code, errno, "cannot create %s", path);
    if (fs_write_all(fd, path, header.data, header.len, code, err))
        return -code;
    int64_t total = (int64_t)header.len;
    for (size_t i = 0; i < n; i++) {
        const void *host = tensors[i].data;
        if ((source && source->fetch(source->user, &tensors[i], &host, err)) ||
            fs_write_all(fd, path, host, tensors[i].bytes, code, err))
            return -err->code;
        total += (int64_t)tensors[i].bytes;
    }
    if (fsync(fd))
        return error_errno(err, code, errno, "cannot write %s", path);
    int closing = steal_fd(&fd);
    if (close(closing))
        return error_errno(err, code, errno, "cannot write %s", path);
    if (bytes)
        *bytes = total;
    return 0;
}
