#include "harness/document.h"

#include "common/mem.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static struct node *add(struct document *d, enum node_kind kind, char *text)
{
    struct node node = {.kind = kind, .text = text};
    vec_push(d, node);
    return &d->items[d->count - 1];
}

static struct node *last(struct document *d, enum node_kind kind)
{
    if (d->count == 0 || d->items[d->count - 1].kind != kind)
        BUG("document: a cell or an item without its table or list");
    return &d->items[d->count - 1];
}

void document_heading(struct document *d, int level, const char *text)
{
    add(d, NODE_HEADING, mem_strdup(text))->level = level;
}

void document_paragraph(struct document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(d, NODE_PARAGRAPH, mem_vprintf(fmt, ap));
    va_end(ap);
}

void document_note(struct document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(d, NODE_NOTE, mem_vprintf(fmt, ap));
    va_end(ap);
}

void document_code(struct document *d, const char *text)
{
    add(d, NODE_CODE, mem_strdup(text));
}

void document_verdict(struct document *d, const char *label, enum verdict_kind v,
                      const char *sentence)
{
    struct node *node = add(d, NODE_VERDICT, mem_strdup(sentence));
    node->label = mem_strdup(label);
    node->verdict = v;
}

void document_list(struct document *d)
{
    add(d, NODE_LIST, NULL);
}

void document_item(struct document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    strv_push_own(&last(d, NODE_LIST)->cells, mem_vprintf(fmt, ap));
    va_end(ap);
}

void document_table(struct document *d, const char *header, const char *align, const char *caption)
{
    struct node *node = add(d, NODE_TABLE, mem_strdup(caption));
    node->align = mem_strdup(align);
    node->columns = strlen(align);
    char *copy = mem_strdup(header);
    char *rest = copy;
    char *word;
    while ((word = strsep(&rest, "|")))
        strv_push(&node->cells, word);
    free(copy);
    if (node->cells.count != node->columns)
        BUG("document: %zu headers for %zu columns", node->cells.count, node->columns);
}

void document_cell(struct document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    strv_push_own(&last(d, NODE_TABLE)->cells, mem_vprintf(fmt, ap));
    va_end(ap);
}

void document_figure(struct document *d, const char *name, char *svg, const char *caption)
{
    struct node *node = add(d, NODE_FIGURE, mem_strdup(caption));
    node->name = mem_strdup(name);
    node->svg = svg;
}

void document_release(struct document *d)
{
    for (size_t i = 0; i < d->count; i++) {
        struct node *n = &d->items[i];
        free(n->text);
        free(n->label);
        free(n->align);
        free(n->name);
        free(n->svg);
        strv_release(&n->cells);
    }
    free(d->items);
    *d = (struct document){0};
}
