#include "workload/data_textfile.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data_dictd.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#define READ_BYTES ((size_t)256 << 10)
#define PROBE_BYTES ((size_t)1 << 20) /* in which a separator line is looked for */

static const char separator[] = "<|endoftext|>";

enum document_rule { RULE_DICTD, RULE_SEPARATOR, RULE_PARAGRAPH };

struct text_file {
    char *path;
    gzFile gz;
    enum document_rule rule;
    struct dictd_entry *entries;
    size_t n_entries, next_entry;
    /* Bytes [base, base + have) of the text are in buffer; places below are offsets in the text. */
    char *buffer;
    size_t base, have, cap;
    bool at_eof;
    size_t at; /* where the next document begins */
};

struct line {
    size_t start, len; /* without its newline */
};

/* Read on until the text up to `upto` is in the buffer, or all of it. */
static int fill(struct text_file *f, size_t upto, struct error *err)
{
    while (!f->at_eof && f->base + f->have < upto) {
        if (f->cap < f->have + READ_BYTES) {
            f->cap = 2 * (f->have + READ_BYTES);
            f->buffer = mem_realloc(f->buffer, f->cap, 1);
        }
        int n = gzread(f->gz, f->buffer + f->have, (unsigned)READ_BYTES);
        int code;
        const char *why = gzerror(f->gz, &code);
        if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) /* cut off: n is short, code set */
            return error_set(err, NANOCHAT_EXIT_DATA, "cannot read %s: %s", f->path,
                             code == Z_ERRNO ? strerror(errno) : why);
        f->have += (size_t)n;
        f->at_eof = (size_t)n < READ_BYTES;
    }
    return 0;
}

/* Forget the text before f->at, when that is worth the move. */
static void discard(struct text_file *f)
{
    size_t n = f->at - f->base;
    if (n < READ_BYTES || n < f->have / 2)
        return;
    if (n > f->have)
        n = f->have;
    memmove(f->buffer, f->buffer + n, f->have - n);
    f->base += n;
    f->have -= n;
}

static const char *text_at(const struct text_file *f, size_t offset)
{
    return f->buffer + (offset - f->base);
}

/* The line at `start`; *found false: the text ends there. */
static int read_line(struct text_file *f, size_t start, struct line *line, bool *found,
                     struct error *err)
{
    size_t searched = start;
    for (;;) {
        size_t end = f->base + f->have;
        const char *newline =
            searched < end ? memchr(text_at(f, searched), '\n', end - searched) : NULL;
        if (newline) {
            *line = (struct line){start, (size_t)(newline - text_at(f, start))};
            *found = true;
            return 0;
        }
        if (f->at_eof) {
            *line = (struct line){start, end - start};
            *found = start < end;
            return 0;
        }
        searched = end > start ? end : start;
        if (fill(f, end + READ_BYTES, err))
            return -err->code;
    }
}

static bool is_blank(const char *text, size_t len)
{
    while (len && (*text == ' ' || *text == '\t' || *text == '\r'))
        text++, len--;
    return len == 0;
}

static bool is_separator(const char *text, size_t len)
{
    if (len && text[len - 1] == '\r')
        len--;
    return len == sizeof separator - 1 && !memcmp(text, separator, len);
}

static bool ends_document(const struct text_file *f, const struct line *line)
{
    const char *text = text_at(f, line->start);
    return f->rule == RULE_PARAGRAPH ? is_blank(text, line->len) : is_separator(text, line->len);
}

/* Documents made of lines: from f->at to the line that ends it, or to the end of the text. */
static int next_of_lines(struct text_file *f, const char **doc, size_t *len, struct error *err)
{
    struct line line = {0, 0};
    bool found;
    size_t start = f->at, end = f->at, place = f->at;
    for (;;) {
        if (read_line(f, place, &line, &found, err))
            return -err->code;
        if (!found)
            break;
        place = line.start + line.len + 1;
        if (!ends_document(f, &line)) {
            end = line.start + line.len;
            continue;
        }
        if (f->rule == RULE_SEPARATOR || end > start)
            break;
        start = end = place; /* blank lines before a paragraph */
        f->at = place;
        discard(f);
    }
    f->at = place;
    bool at_end = !found && end == start;
    *doc = at_end ? NULL : text_at(f, start);
    *len = end - start;
    return 0;
}

static int next_of_dictd(struct text_file *f, const char **doc, size_t *len, struct error *err)
{
    if (f->next_entry == f->n_entries) {
        *doc = NULL;
        *len = 0;
        return 0;
    }
    const struct dictd_entry *e = &f->entries[f->next_entry++];
    /* Skip what lies between entries without keeping it. */
    while (!f->at_eof && f->base + f->have < e->offset) {
        f->at = f->base + f->have;
        discard(f);
        if (fill(f, f->at + READ_BYTES, err))
            return -err->code;
    }
    f->at = e->offset;
    if (f->at <= f->base + f->have)
        discard(f);
    if (fill(f, e->offset + e->len, err))
        return -err->code;
    if (e->offset + e->len > f->base + f->have)
        return error_set(err, NANOCHAT_EXIT_DATA,
                         "%s: its index names bytes %zu to %zu, but the text has %zu", f->path,
                         e->offset, e->offset + e->len, f->base + f->have);
    *doc = text_at(f, e->offset);
    *len = e->len;
    if (*len && (*doc)[*len - 1] == '\n')
        --*len;
    return 0;
}

int text_file_next(struct text_file *f, const char **doc, size_t *len, struct error *err)
{
    discard(f);
    return f->rule == RULE_DICTD ? next_of_dictd(f, doc, len, err)
                                 : next_of_lines(f, doc, len, err);
}

static int choose_rule(struct text_file *f, struct error *err)
{
    auto_free char *index = text_file_index_path(f->path);
    if (index) {
        f->rule = RULE_DICTD;
        return dictd_read_index(index, &f->entries, &f->n_entries, err);
    }
    if (fill(f, PROBE_BYTES, err))
        return -err->code;
    f->rule = RULE_PARAGRAPH;
    size_t end = f->have < PROBE_BYTES ? f->have : PROBE_BYTES;
    for (size_t i = 0; i < end;) {
        const char *newline = memchr(f->buffer + i, '\n', end - i);
        size_t line_end = newline ? (size_t)(newline - f->buffer) : end;
        if (is_separator(f->buffer + i, line_end - i)) {
            f->rule = RULE_SEPARATOR;
            break;
        }
        i = line_end + 1;
    }
    return 0;
}

/* Files that people point at by mistake. */
static int refuse_other_kinds(struct text_file *f, struct error *err)
{
    if (fill(f, 1, err))
        return -err->code;
    if (f->have >= 4 && !memcmp(f->buffer, "PAR1", 4))
        return error_set(err, NANOCHAT_EXIT_DATA, "%s is a parquet file, expected text or gzip",
                         f->path);
    if (f->have >= 4 && !memcmp(f->buffer, "\x28\xB5\x2F\xFD", 4))
        return error_set(err, NANOCHAT_EXIT_DATA,
                         "%s is compressed with zstd, expected text or gzip", f->path);
    return 0;
}

int text_file_open(struct text_file **out, const char *path, struct error *err)
{
    gzFile gz = gzopen(path, "rbe");
    if (!gz)
        return error_errno(err, NANOCHAT_EXIT_DATA, errno, "cannot open %s", path);
    gzbuffer(gz, 64 << 10);
    struct text_file *f = mem_zalloc(1, sizeof *f);
    f->gz = gz;
    f->path = mem_strdup(path);
    if (refuse_other_kinds(f, err) || choose_rule(f, err)) {
        text_file_close(f);
        return -err->code;
    }
    *out = f;
    return 0;
}

void text_file_close(struct text_file *f)
{
    if (!f)
        return;
    gzclose(f->gz);
    free(f->path);
    free(f->entries);
    free(f->buffer);
    free(f);
}

char *text_file_index_path(const char *path)
{
    const char *suffix = str_ends_with(path, ".dict.dz") ? ".dict.dz"
                         : str_ends_with(path, ".dict")  ? ".dict"
                                                         : NULL;
    if (!suffix)
        return NULL;
    char *index = mem_printf("%.*s.index", (int)(strlen(path) - strlen(suffix)), path);
    if (fs_exists(index))
        return index;
    free(index);
    return NULL;
}
