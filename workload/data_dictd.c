#include "workload/data_dictd.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <stdint.h>
#include <string.h>

struct entries {
    struct dictd_entry *items;
    size_t count, cap;
};

static int digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* The number that ends at `stop` or at end; *p moves behind it and its end. Numbers that do not fit
 * below 2^40 are refused. */
static bool read_number(const char **p, const char *end, size_t *out)
{
    size_t value = 0;
    const char *start = *p;
    for (; *p < end && **p != '\t'; ++*p) {
        int d = digit(**p);
        if (d < 0 || value >> 34)
            return false;
        value = value << 6 | (size_t)d;
    }
    *out = value;
    bool any = *p > start;
    *p += *p < end;
    return any;
}

static int by_offset(const void *a, const void *b)
{
    const struct dictd_entry *x = a, *y = b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1)
           : x->len != y->len     ? (x->len < y->len ? -1 : 1)
                                  : 0;
}

static bool is_database_info(const char *headword, size_t len)
{
    static const char prefix[] = "00-database-";
    return len >= sizeof prefix - 1 && !memcmp(headword, prefix, sizeof prefix - 1);
}

static int read_lines(const char *path, const struct str *text, struct entries *entries,
                      struct entries *left_out, struct error *err)
{
    const char *end = text->data + text->len;
    size_t number = 1;
    for (const char *p = text->data; p < end; number++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *line = p, *line_end = newline ? newline : end;
        const char *tab = memchr(p, '\t', (size_t)(line_end - p));
        struct dictd_entry e;
        p = tab ? tab + 1 : line_end;
        if (line < line_end &&
            (!tab || !read_number(&p, line_end, &e.offset) || !read_number(&p, line_end, &e.len)))
            return error_set(err, NANOCHAT_EXIT_DATA,
                             "%s: line %zu is no index entry, expected headword, offset and length",
                             path, number);
        if (tab)
            vec_push(is_database_info(line, (size_t)(tab - line)) ? left_out : entries, e);
        p = newline ? newline + 1 : end;
    }
    return 0;
}

/* Sort, and drop repetitions and what is in left_out. */
static void make_distinct(struct entries *entries, struct entries *left_out)
{
    if (!entries->count)
        return;
    qsort(entries->items, entries->count, sizeof *entries->items, by_offset);
    if (left_out->count)
        qsort(left_out->items, left_out->count, sizeof *left_out->items, by_offset);
    size_t kept = 0;
    for (size_t i = 0; i < entries->count; i++) {
        const struct dictd_entry *e = &entries->items[i];
        bool repeated = kept && !by_offset(e, &entries->items[kept - 1]);
        bool out =
            left_out->count && bsearch(e, left_out->items, left_out->count, sizeof *e, by_offset);
        if (!repeated && !out)
            entries->items[kept++] = *e;
    }
    entries->count = kept;
}

int dictd_read_index(const char *path, struct dictd_entry **out, size_t *n, struct error *err)
{
    auto_str text = STR_INIT;
    if (fs_read_file(path, &text, NANOCHAT_EXIT_DATA, err))
        return -err->code;
    struct entries entries = {0}, left_out = {0};
    int rc = read_lines(path, &text, &entries, &left_out, err);
    if (!rc) {
        make_distinct(&entries, &left_out);
        *out = steal(&entries.items);
        *n = entries.count;
    }
    free(entries.items);
    free(left_out.items);
    return rc;
}
