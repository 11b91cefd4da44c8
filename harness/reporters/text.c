/* Plain text for terminals: aligned tables, no colour. */
#include "harness/reporters/reporter.h"

#include <string.h>

/* Columns that a text takes on a terminal: code points, all of width one here. */
static size_t width(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void pad(struct str *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        str_append_char(out, ' ');
}

static void put_table(struct str *out, const struct node *n)
{
    if (n->cells.count <= n->columns)
        return;
    if (n->text)
        str_appendf(out, "%s\n", n->text);
    for (size_t i = 0; i < n->cells.count; i++) {
        size_t column = i % n->columns;
        size_t widest = 0;
        for (size_t k = column; k < n->cells.count; k += n->columns)
            widest = width(n->cells.items[k]) > widest ? width(n->cells.items[k]) : widest;
        size_t fill = widest - width(n->cells.items[i]);
        str_append(out, "  ");
        if (n->align[column] == 'r')
            pad(out, fill);
        str_append(out, n->cells.items[i]);
        if (column == n->columns - 1)
            str_append(out, "\n");
        else if (n->align[column] != 'r')
            pad(out, fill);
    }
    str_append(out, "\n");
}

static void put_heading(struct str *out, const struct node *n)
{
    str_appendf(out, "%s\n", n->text);
    for (size_t i = width(n->text); i > 0 && n->level < 3; i--)
        str_append(out, n->level == 1 ? "=" : "-");
    str_append(out, n->level < 3 ? "\n\n" : "\n");
}

static void render(const struct document *d, const char *title, struct str *out)
{
    (void)title;
    for (size_t i = 0; i < d->count; i++) {
        const struct node *n = &d->items[i];
        if (i && d->items[i - 1].kind == NODE_VERDICT && n->kind != NODE_VERDICT)
            str_append(out, "\n");
        switch (n->kind) {
        case NODE_HEADING: put_heading(out, n); break;
        case NODE_PARAGRAPH:
        case NODE_CODE: str_appendf(out, "%s\n\n", n->text); break;
        case NODE_NOTE: str_appendf(out, "note: %s\n\n", n->text); break;
        case NODE_VERDICT:
            str_appendf(out, "%s%s%s\n", n->label ? n->label : "",
                        n->label && *n->label ? ": " : "", n->text);
            break;
        case NODE_LIST:
            for (size_t k = 0; k < n->cells.count; k++)
                str_appendf(out, "  - %s\n", n->cells.items[k]);
            if (n->cells.count)
                str_append(out, "\n");
            break;
        case NODE_TABLE: put_table(out, n); break;
        case NODE_FIGURE: break;
        }
    }
}

const struct reporter_ops reporter_text = {"text", ".txt", render};
