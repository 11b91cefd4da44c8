#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data_source.h"
#include "workload/data_textfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define SAMPLE_BYTES ((size_t)1 << 20)
#define SAMPLE_FILES 8
#define WHOLE_BYTES ((int64_t)4 << 20) /* files up to this size are hashed whole */

const char *split_name(enum split split)
{
    return split == SPLIT_TRAIN ? "train" : "validation";
}

int split_is_empty(struct error *err, enum split split, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *why = mem_vprintf(fmt, ap);
    va_end(ap);
    return error_set(err, NANOCHAT_EXIT_DATA, "%s split is empty: %s", split_name(split), why);
}

/* X.index beside X.dict or X.dict.dz. */
static bool is_dictd_index(const char *path)
{
    if (!str_ends_with(path, ".index"))
        return false;
    int stem = (int)(strlen(path) - strlen(".index"));
    auto_free char *plain = mem_printf("%.*s.dict", stem, path);
    auto_free char *zipped = mem_printf("%.*s.dict.dz", stem, path);
    return fs_exists(plain) || fs_exists(zipped);
}

static bool is_data_file(const char *name, const char *path)
{
    struct stat st;
    return name[0] != '.' && !str_ends_with(name, ".tmp") && !stat(path, &st) &&
           S_ISREG(st.st_mode) && !is_dictd_index(path);
}

int data_files_list(struct data_files *out, const char *path, struct error *err)
{
    out->directory = fs_is_dir(path);
    if (!out->directory) {
        if (!fs_exists(path))
            return error_errno(err, NANOCHAT_EXIT_DATA, errno, "cannot open %s", path);
        strv_push(&out->paths, path);
        return 0;
    }
    auto_strv names = STRV_INIT;
    if (fs_list_dir(path, &names, NANOCHAT_EXIT_DATA, err))
        return -err->code;
    for (size_t i = 0; i < names.count; i++) {
        auto_free char *file = mem_printf("%s/%s", path, names.items[i]);
        if (is_data_file(names.items[i], file))
            strv_push_own(&out->paths, steal(&file));
    }
    return 0;
}

int data_files_select(struct data_files *files, const char *path, enum split split,
                      int64_t val_files, struct error *err)
{
    size_t n = files->paths.count;
    if (!n)
        return split_is_empty(err, split, "no shard found in %s", path);
    if (!files->directory)
        return 0;
    size_t n_val = (uint64_t)val_files < n ? (size_t)val_files : n;
    if (split == SPLIT_TRAIN && n_val == n && val_files == 1)
        return split_is_empty(err, split, "1 shard found, the last is kept for validation");
    if (split == SPLIT_TRAIN && n_val == n)
        return split_is_empty(err, split,
                              "%zu shards found, the last %" PRId64 " are kept for validation", n,
                              val_files);
    auto_strv chosen = STRV_INIT;
    size_t first = split == SPLIT_TRAIN ? 0 : n - n_val;
    size_t end = split == SPLIT_TRAIN ? n - n_val : n;
    for (size_t i = first; i < end; i++)
        strv_push(&chosen, files->paths.items[i]);
    strv_release(&files->paths);
    files->paths = chosen;
    chosen = (struct strv)STRV_INIT;
    return 0;
}

static int append_part(int fd, const char *path, int64_t offset, size_t len, struct str *out,
                       struct error *err)
{
    str_reserve(out, len);
    while (len) {
        ssize_t n = pread(fd, out->data + out->len, len, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, NANOCHAT_EXIT_DATA, errno, "cannot read %s", path);
        if (n == 0)
            return error_set(err, NANOCHAT_EXIT_DATA, "%s became shorter while it was read", path);
        out->len += (size_t)n;
        offset += n;
        len -= (size_t)n;
    }
    out->data[out->len] = '\0';
    return 0;
}

/* One line a file: name, size, sha256 of its content, of the sampled parts, or nothing. */
static int append_identity(struct str *lines, const char *path, bool read, int64_t *bytes,
                           struct error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return error_errno(err, NANOCHAT_EXIT_DATA, errno, "cannot open %s", path);
    auto_str content = STR_INIT;
    bool whole = !read || st.st_size <= WHOLE_BYTES;
    size_t first = !read ? 0 : whole ? (size_t)st.st_size : SAMPLE_BYTES;
    if (append_part(fd, path, 0, first, &content, err) ||
        (!whole &&
         append_part(fd, path, st.st_size - (int64_t)SAMPLE_BYTES, SAMPLE_BYTES, &content, err)))
        return -err->code;
    char hash[SHA256_HEX];
    sha256_hex(content.data, content.len, hash);
    str_appendf(lines, "%s %" PRId64 " %s\n", fs_basename(path), (int64_t)st.st_size, hash);
    *bytes += st.st_size;
    return 0;
}

static int list_with_indexes(const char *path, struct strv *out, struct error *err)
{
    struct data_files files = {.paths = STRV_INIT};
    int rc = data_files_list(&files, path, err);
    for (size_t i = 0; i < files.paths.count && !rc; i++) {
        strv_push(out, files.paths.items[i]);
        char *index = text_file_index_path(files.paths.items[i]);
        if (index)
            strv_push_own(out, index);
    }
    strv_release(&files.paths);
    return rc;
}

int data_identity(const char *path, json_t *obj, struct error *err)
{
    auto_strv list = STRV_INIT;
    const struct strv *paths = &list;
    auto_str lines = STR_INIT;
    int64_t bytes = 0;
    if (list_with_indexes(path, &list, err))
        return -err->code;
    for (size_t i = 0; i < paths->count; i++) {
        bool read = i < SAMPLE_FILES || i + SAMPLE_FILES >= paths->count;
        if (append_identity(&lines, paths->items[i], read, &bytes, err))
            return -err->code;
    }
    char hash[SHA256_HEX];
    sha256_hex(lines.data, lines.len, hash);
    json_put_int(obj, "files", (int64_t)paths->count);
    json_put_int(obj, "bytes", bytes);
    json_put_str(obj, "content_sha256", hash);
    json_put_str(obj, "content_rule",
                 "names and sizes, content of the first and last 8 files, of those above 4 MiB "
                 "the first and last MiB");
    return 0;
}
