#include "workload/data_packed.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

struct packed_file {
    const char *path; /* borrowed from the source's list */
    int fd;
    int token_bytes;
    int64_t vocab_size, tokens;
    int64_t first; /* number of its first token in an epoch of the split */
};

struct packed_source {
    struct source base;
    struct data_files files;
    struct packed_file *open;
    enum split split;
    int64_t val_every;
    int64_t epoch_tokens;
    int64_t place; /* of the next token, from the start of the first epoch */
    unsigned char *bytes;
    size_t bytes_cap;
};

static void put_le(unsigned char *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get_le(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

int packed_write(const char *path, const int32_t *tokens, size_t n, int64_t vocab_size,
                 struct error *err)
{
    int width = vocab_size <= 65536 ? 2 : 4;
    auto_free unsigned char *bytes = mem_zalloc(PACKED_HEADER + n * (size_t)width, 1);
    memcpy(bytes, PACKED_MAGIC, 8);
    put_le(bytes + 8, PACKED_VERSION, 4);
    put_le(bytes + 12, (uint64_t)width, 4);
    put_le(bytes + 16, (uint64_t)vocab_size, 8);
    put_le(bytes + 24, n, 8);
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= vocab_size)
            return error_set(err, NANOCHAT_EXIT_DATA,
                             "%s: token %zu is %d, outside the vocabulary of %" PRId64, path, i,
                             tokens[i], vocab_size);
        put_le(bytes + PACKED_HEADER + i * (size_t)width, (uint64_t)tokens[i], width);
    }
    return fs_write_atomic(path, bytes, PACKED_HEADER + n * (size_t)width, NANOCHAT_EXIT_WRITE,
                           err);
}

/* All of len bytes at offset. */
static int read_at(const struct packed_file *f, void *out, size_t len, int64_t offset,
                   struct error *err)
{
    for (unsigned char *p = out; len;) {
        ssize_t n = pread(f->fd, p, len, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, NANOCHAT_EXIT_DATA, errno, "cannot read %s", f->path);
        if (n == 0)
            return error_set(err, NANOCHAT_EXIT_DATA, "%s ends early, at byte %" PRId64, f->path,
                             offset);
        p += n;
        offset += n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_header(struct packed_file *f, int64_t file_bytes, struct error *err)
{
    unsigned char h[PACKED_HEADER];
    if (read_at(f, h, sizeof h, 0, err))
        return -err->code;
    if (memcmp(h, PACKED_MAGIC, 8) != 0 || get_le(h + 8, 4) != PACKED_VERSION)
        return error_set(err, NANOCHAT_EXIT_DATA, "%s is no token file of version %d", f->path,
                         PACKED_VERSION);
    uint64_t width = get_le(h + 12, 4), vocab = get_le(h + 16, 8), tokens = get_le(h + 24, 8);
    if ((width != 2 && width != 4) || vocab < 1 || vocab > INT32_MAX)
        return error_set(err, NANOCHAT_EXIT_DATA,
                         "%s: %" PRIu64 " bytes a token, vocabulary %" PRIu64
                         ", expected 2 or 4, and 1 to %d",
                         f->path, width, vocab, INT32_MAX);
    uint64_t body = (uint64_t)file_bytes - PACKED_HEADER;
    if (body % width != 0 || body / width != tokens)
        return error_set(err, NANOCHAT_EXIT_DATA,
                         "%s: %" PRIu64 " tokens of %" PRIu64 " bytes announced, %" PRIu64
                         " bytes found; the file was cut off or is still being written",
                         f->path, tokens, width, body);
    f->token_bytes = (int)width;
    f->vocab_size = (int64_t)vocab;
    f->tokens = (int64_t)tokens;
    return 0;
}

static int open_file(struct packed_file *f, int64_t vocab_size, struct error *err)
{
    struct stat st;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &st))
        return error_errno(err, NANOCHAT_EXIT_DATA, errno, "cannot open %s", f->path);
    if (read_header(f, st.st_size, err))
        return -err->code;
    if (vocab_size && f->vocab_size > vocab_size)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "%s has a vocabulary of %" PRId64 ", the model only %" PRId64, f->path,
                         f->vocab_size, vocab_size);
    return 0;
}

/* Tokens of the split in a single file of n tokens: whole groups of val_every blocks, then what is
 * left of the last group. */
static int64_t split_tokens(int64_t n, enum split split, int64_t val_every)
{
    int64_t group = val_every * PACKED_BLOCK, train = (val_every - 1) * PACKED_BLOCK;
    int64_t rest = n % group;
    int64_t in_train = n / group * train + (rest < train ? rest : train);
    return split == SPLIT_TRAIN ? in_train : n - in_train;
}

static void packed_close(struct source *base)
{
    struct packed_source *s = (struct packed_source *)base;
    for (size_t i = 0; s->open && i < s->files.paths.count; i++)
        if (s->open[i].fd >= 0)
            close(s->open[i].fd);
    free(s->open);
    free(s->bytes);
    strv_release(&s->files.paths);
    free(s);
}

static int open_files(struct packed_source *s, const struct data_config *c, struct error *err)
{
    if (!c->path)
        return error_set(err, NANOCHAT_EXIT_PLAN, "packed data needs a path");
    if (data_files_list(&s->files, c->path, err) ||
        data_files_select(&s->files, c->path, c->split, c->val_files, err))
        return -err->code;
    size_t n = s->files.paths.count;
    s->open = mem_zalloc(n, sizeof *s->open);
    for (size_t i = 0; i < n; i++)
        s->open[i] = (struct packed_file){.path = s->files.paths.items[i], .fd = -1};
    int64_t found = 0;
    for (size_t i = 0; i < n; i++) {
        struct packed_file *f = &s->open[i];
        if (open_file(f, c->vocab_size, err))
            return -err->code;
        f->first = s->epoch_tokens;
        found += f->tokens;
        s->epoch_tokens +=
            s->files.directory ? f->tokens : split_tokens(f->tokens, c->split, c->val_every);
    }
    if (s->epoch_tokens)
        return 0;
    if (c->split == SPLIT_TRAIN || s->files.directory)
        return split_is_empty(err, c->split, "%s holds no tokens", c->path);
    return split_is_empty(err, c->split,
                          "%s holds %" PRId64 " tokens, the first block kept for validation begins "
                          "at %" PRId64,
                          c->path, found, (c->val_every - 1) * PACKED_BLOCK);
}

static int packed_open(struct source **out, const struct data_config *c, struct error *err)
{
    struct packed_source *s = mem_zalloc(1, sizeof *s);
    s->base.ops = &packed_source_ops;
    s->split = c->split;
    s->val_every = c->val_every;
    if (open_files(s, c, err)) {
        packed_close(&s->base);
        return -err->code;
    }
    *out = &s->base;
    return 0;
}

/* Where token `at` of an epoch lies, and how many of the split follow each other from there. */
static const struct packed_file *locate(const struct packed_source *s, int64_t at, int64_t *index,
                                        int64_t *run)
{
    if (!s->files.directory) {
        bool train = s->split == SPLIT_TRAIN;
        int64_t take = train ? (s->val_every - 1) * PACKED_BLOCK : PACKED_BLOCK;
        int64_t within = at % take;
        *index = at / take * s->val_every * PACKED_BLOCK + within +
                 (train ? 0 : (s->val_every - 1) * PACKED_BLOCK);
        *run = take - within;
        if (*run > s->open->tokens - *index)
            *run = s->open->tokens - *index;
        return s->open;
    }
    size_t i = s->files.paths.count - 1;
    while (s->open[i].first > at)
        i--;
    *index = at - s->open[i].first;
    *run = s->open[i].tokens - *index;
    return &s->open[i];
}

static int read_run(struct packed_source *s, const struct packed_file *f, int64_t index,
                    int32_t *tokens, int64_t n, struct error *err)
{
    size_t width = (size_t)f->token_bytes, bytes = (size_t)n * width;
    if (s->bytes_cap < bytes) {
        s->bytes = mem_realloc(s->bytes, bytes, 1);
        s->bytes_cap = bytes;
    }
    if (read_at(f, s->bytes, bytes, PACKED_HEADER + index * f->token_bytes, err))
        return -err->code;
    for (int64_t i = 0; i < n; i++) {
        uint64_t token = get_le(s->bytes + (size_t)i * width, f->token_bytes);
        if (token >= (uint64_t)f->vocab_size)
            return error_set(err, NANOCHAT_EXIT_DATA,
                             "%s: token %" PRId64 " is %" PRIu64
                             ", outside the file's vocabulary of %" PRId64,
                             f->path, index + i, token, f->vocab_size);
        tokens[i] = (int32_t)token;
    }
    return 0;
}

static int packed_read(struct source *base, int32_t *tokens, int64_t n, struct error *err)
{
    struct packed_source *s = (struct packed_source *)base;
    while (tokens && n) {
        int64_t index, run;
        const struct packed_file *f = locate(s, s->place % s->epoch_tokens, &index, &run);
        int64_t take = run < n ? run : n;
        if (read_run(s, f, index, tokens, take, err))
            return -err->code;
        tokens += take;
        s->place += take;
        n -= take;
    }
    s->place += n; /* skipped */
    return 0;
}

static int64_t packed_epoch(const struct source *base)
{
    const struct packed_source *s = (const struct packed_source *)base;
    return s->place ? (s->place - 1) / s->epoch_tokens : 0;
}

static struct source_cursor packed_tell(const struct source *base)
{
    return (struct source_cursor){.offset = ((const struct packed_source *)base)->place};
}

static int packed_seek(struct source *base, const struct source_cursor *c, struct error *err)
{
    if (c->offset < 0)
        return error_set(err, NANOCHAT_EXIT_CHECKPOINT, "token %" PRId64 " does not exist",
                         c->offset);
    ((struct packed_source *)base)->place = c->offset;
    return 0;
}

static void packed_describe(const struct source *base, json_t *obj)
{
    json_put_int(obj, "epoch_tokens", ((const struct packed_source *)base)->epoch_tokens);
}

static void packed_summary(const struct source *base, struct data_summary *out)
{
    (void)base;
    *out = (struct data_summary){0};
}

const struct source_ops packed_source_ops = {
    .name = "packed",
    .needs_path = true,
    .tokenizer = SOURCE_TOKENIZER_MAY,
    .open = packed_open,
    .read = packed_read,
    .epoch = packed_epoch,
    .tell = packed_tell,
    .seek = packed_seek,
    .describe = packed_describe,
    .summary = packed_summary,
    .close = packed_close,
};
