/* The safetensors format: 8 bytes little-endian header length, a JSON header {name: {dtype, shape,
 * data_offsets}}, then the data. Reading maps the file; every length and offset is checked, and so
 * is that the tensors cover the data without hole or overlap. Files that we write keep their data
 * 64-byte-aligned; others may not, so copy with memcpy rather than through a float pointer. */
#ifndef WORKLOAD_SAFETENSORS_H
#define WORKLOAD_SAFETENSORS_H

#include "common/error.h"
#include "common/json.h"

#include <stddef.h>
#include <stdint.h>

struct st_tensor {
    const char *name;  /* borrowed from the file */
    const char *dtype; /* "F32", "I32", "BF16" … */
    int ndim;
    int64_t shape[8];
    int64_t n;        /* elements */
    const void *data; /* borrowed: the mapping */
    size_t bytes;
};

struct st_file;
/* code: exit code of errors (NANOCHAT_EXIT_CHECKPOINT). */
int st_open(const char *path, struct st_file **out, int code, struct error *err);
/* The same on a buffer (borrowed), for fuzzing. */
int st_open_memory(const void *data, size_t len, const char *name, struct st_file **out, int code,
                   struct error *err);
void st_close(struct st_file *f);
size_t st_count(const struct st_file *f);
const struct st_tensor *st_at(const struct st_file *f, size_t i); /* in order of the data */
const struct st_tensor *st_find(const struct st_file *f, const char *name);
const json_t *st_metadata(const struct st_file *f); /* "__metadata__", or NULL */

/* Where a tensor's bytes come from when `data` is no host memory: *host is valid until the next
 * call. */
struct st_source {
    int (*fetch)(void *user, const struct st_tensor *t, const void **host, struct error *err);
    void *user;
};

/* Write tensors to path, data in the given order: created or truncated, written, fsynced; not
 * renamed. name, dtype, ndim, shape, data and bytes are used. bytes (may be NULL): length of the
 * file. source NULL: data is host memory. */
int st_write(const char *path, const struct st_tensor *tensors, size_t n, const json_t *metadata,
             const struct st_source *source, int code, int64_t *bytes, struct error *err);

#endif
