#include "harness/diag.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum { CHARACTER_STEP = 64, LINE_WIDTH_MAX = 100 };

/* ---- source ---------------------------------------------------------------------------------- */
static bool continues(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Line ends are \n, \r\n and a lone \r, as editors have it. (YAML 1.1 also knows U+0085 and
 * U+2028: counting those would put every later line off by one for the reader.) */
static void index_lines(struct source *source)
{
    size_t cap = 0, n = 0;
    mem_grow((void **)&source->lines, &cap, n, sizeof *source->lines);
    source->lines[n++] = 0;
    for (size_t i = 0; i < source->len; i++) {
        char c = source->text[i];
        if (c != '\n' && c != '\r')
            continue;
        if (c == '\r' && i + 1 < source->len && source->text[i + 1] == '\n')
            i++;
        mem_grow((void **)&source->lines, &cap, n, sizeof *source->lines);
        source->lines[n++] = (uint32_t)(i + 1);
    }
    source->n_lines = n;
}

static void index_characters(struct source *source)
{
    bool ascii = true;
    for (size_t i = 0; i < source->len && ascii; i++)
        ascii = !(source->text[i] & 0x80);
    if (ascii)
        return;
    size_t cap = 0, character = 0;
    for (size_t i = 0; i < source->len; i++) {
        if (continues((unsigned char)source->text[i]))
            continue;
        if (character++ % CHARACTER_STEP == 0) {
            mem_grow((void **)&source->characters, &cap, source->n_characters,
                     sizeof *source->characters);
            source->characters[source->n_characters++] = (uint32_t)i;
        }
    }
}

void source_init(struct source *source, const char *name, const char *text, size_t len)
{
    *source = (struct source){.name = name, .text = text, .len = len};
    index_lines(source);
    index_characters(source);
}

void source_release(struct source *source)
{
    free(source->lines);
    free(source->characters);
    *source = (struct source){0};
}

static size_t line_of(const struct source *source, size_t offset)
{
    size_t low = 0, high = source->n_lines;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (source->lines[mid] <= offset)
            low = mid;
        else
            high = mid;
    }
    return low;
}

struct source_position source_position(const struct source *source, size_t offset)
{
    if (offset > source->len)
        offset = source->len;
    size_t line = line_of(source, offset), column = 1;
    for (size_t i = source->lines[line]; i < offset; i++)
        column += !continues((unsigned char)source->text[i]);
    return (struct source_position){line + 1, column};
}

size_t source_offset_of_character(const struct source *source, size_t index)
{
    if (!source->characters)
        return index < source->len ? index : source->len;
    if (index / CHARACTER_STEP >= source->n_characters)
        return source->len;
    size_t offset = source->characters[index / CHARACTER_STEP];
    for (size_t left = index % CHARACTER_STEP; left && offset < source->len; left--)
        for (offset++; offset < source->len && continues((unsigned char)source->text[offset]);)
            offset++;
    return offset;
}

void source_line(const struct source *source, size_t line, const char **start, size_t *len)
{
    size_t from = source->lines[line - 1];
    size_t to = line < source->n_lines ? source->lines[line] : source->len;
    while (to > from && (source->text[to - 1] == '\n' || source->text[to - 1] == '\r'))
        to--;
    *start = source->text + from;
    *len = to - from;
}

/* ---- diagnostics ------------------------------------------------------------------------------
 */
struct diag *diags_add(struct diags *diags, size_t offset, size_t length, const char *path,
                       const char *fmt, ...)
{
    for (size_t i = 0; i < diags->count; i++)
        if (diags->items[i].offset == offset &&
            (!strcmp(diags->items[i].path, path) ||
             (offset != DIAG_NOWHERE && !*diags->items[i].path)))
            return NULL;
    if (diags->count == DIAG_MAX) {
        diags->dropped++;
        return NULL;
    }
    va_list ap;
    va_start(ap, fmt);
    auto_free char *message = mem_vprintf(fmt, ap);
    va_end(ap);
    auto_str shown = STR_INIT;
    str_append_printable(&shown, message, strlen(message));
    struct diag diag = {.offset = offset, .length = length, .seq = diags->count};
    diag.path = mem_strdup(path);
    diag.message = str_steal(&shown);
    vec_push(diags, diag);
    return &diags->items[diags->count - 1];
}

void diag_hint(struct diag *diag, const char *fmt, ...)
{
    if (!diag)
        return;
    va_list ap;
    va_start(ap, fmt);
    free(diag->hint);
    diag->hint = mem_vprintf(fmt, ap);
    va_end(ap);
}

static int by_position(const void *a, const void *b)
{
    const struct diag *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->seq < y->seq ? -1 : 1;
}

/* One character at s: its code point; *n is its length in bytes (the text is valid UTF-8). */
static uint32_t decode(const char *s, size_t len, size_t *n)
{
    unsigned char lead = (unsigned char)*s;
    *n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (*n > len)
        *n = len;
    uint32_t c = *n == 1 ? lead : lead & (0xFFu >> (*n + 1));
    for (size_t i = 1; i < *n; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3F);
    return c;
}

struct range {
    uint32_t first, last;
};

static bool within(const struct range *ranges, size_t count, uint32_t c)
{
    for (size_t i = 0; i < count; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

/* Columns that a terminal gives a character: 0 for combining marks, 2 for East Asian wide ones and
 * emoji, else 1. A short table of our own: wcwidth depends on the locale. */
static size_t display_width(uint32_t c)
{
    static const struct range zero[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},
                                        {0x610, 0x61A},   {0x64B, 0x65F},   {0x1AB0, 0x1AFF},
                                        {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x20D0, 0x20FF},
                                        {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}};
    static const struct range two[] = {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x2E80, 0x303E},
                                       {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},
                                       {0xA000, 0xA4CF},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
                                       {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
                                       {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF},
                                       {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};
    if (within(zero, sizeof zero / sizeof *zero, c))
        return 0;
    return within(two, sizeof two / sizeof *two, c) ? 2 : 1;
}

/* Append the line's bytes from..to as they can be shown; under: blanks of the same width (a tab
 * stays a tab, so that it is as wide as the one above). */
static void append_shown(struct str *line, struct str *under, const char *text, size_t from,
                         size_t to, char mark)
{
    for (size_t i = from, n; i < to; i += n) {
        uint32_t c = decode(text + i, to - i, &n);
        size_t before = line->len;
        str_append_printable(line, text + i, n);
        size_t width = c < 0x20 || c == 0x7F ? line->len - before : display_width(c);
        if (c == '\t' && mark == ' ')
            str_append_char(under, '\t');
        else
            for (size_t w = 0; w < (c == '\t' ? 1 : width); w++)
                str_append_char(under, mark);
    }
}

/* Move to the start of a character, back or forth. */
static size_t align(const char *text, size_t len, size_t at, bool back)
{
    while (at < len && at > 0 && continues((unsigned char)text[at]))
        at += back ? (size_t)-1 : 1;
    return at;
}

static void append_excerpt(struct str *out, const struct source *source, const struct diag *diag)
{
    size_t line = source_position(source, diag->offset).line, len;
    const char *text;
    source_line(source, line, &text, &len);
    size_t at = (size_t)(source->text + diag->offset - text);
    at = align(text, len, at < len ? at : len, true);
    size_t from = at > LINE_WIDTH_MAX ? align(text, len, at - LINE_WIDTH_MAX / 2, true) : 0;
    size_t to = len - from > LINE_WIDTH_MAX ? align(text, len, from + LINE_WIDTH_MAX, false) : len;
    size_t end = diag->length < to - at ? align(text, len, at + diag->length, false) : to;
    auto_str shown = STR_INIT, under = STR_INIT;
    if (from) {
        str_append(&shown, "…");
        str_append_char(&under, ' ');
    }
    append_shown(&shown, &under, text, from, at, ' ');
    size_t caret = under.len;
    append_shown(&shown, &under, text, at, end, '~');
    if (under.len == caret)
        str_append_char(&under, '^');
    under.data[caret] = '^';
    if (end < to) {
        auto_str rest = STR_INIT;
        append_shown(&shown, &rest, text, end, to, ' ');
    }
    str_appendf(out, "%5zu | %s%s\n      | %s\n", line, shown.data, to < len ? "…" : "",
                under.data);
}

static void append_diag(struct str *out, const struct source *source, const struct diag *diag)
{
    if (diag->origin) {
        str_appendf(out, "%s: error: ", diag->origin);
    } else if (diag->offset == DIAG_NOWHERE) {
        str_appendf(out, "%s: error: ", source->name);
    } else {
        struct source_position at = source_position(source, diag->offset);
        str_appendf(out, "%s:%zu:%zu: error: ", source->name, at.line, at.column);
    }
    str_appendf(out, "%s%s%s\n", diag->path, *diag->path ? ": " : "", diag->message);
    if (!diag->origin && diag->offset != DIAG_NOWHERE)
        append_excerpt(out, source, diag);
    if (diag->hint)
        str_appendf(out, "hint: %s\n", diag->hint);
}

void diags_format(struct diags *diags, const struct source *source, struct str *out)
{
    if (diags->count)
        qsort(diags->items, diags->count, sizeof *diags->items, by_position);
    for (size_t i = 0; i < diags->count; i++)
        append_diag(out, source, &diags->items[i]);
    if (diags->dropped)
        str_appendf(out, "%s: error: and %zu more errors\n", source->name, diags->dropped);
    if (out->len && out->data[out->len - 1] == '\n')
        str_truncate(out, out->len - 1);
}

void diags_release(struct diags *diags)
{
    for (size_t i = 0; i < diags->count; i++) {
        free(diags->items[i].origin);
        free(diags->items[i].path);
        free(diags->items[i].message);
        free(diags->items[i].hint);
    }
    free(diags->items);
    *diags = (struct diags)DIAGS_INIT;
}
