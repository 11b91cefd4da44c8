/* A report as a document: headings, paragraphs, lists, tables, figures; written once, rendered as
 * Markdown, HTML or plain text (harness/reporters/).
 *
 * All text is plain; renderers escape it. Everything is copied. */
#ifndef HARNESS_DOCUMENT_H
#define HARNESS_DOCUMENT_H

#include "common/str.h"
#include "harness/verdict.h"

#include <stdbool.h>
#include <stddef.h>

enum node_kind {
    NODE_HEADING,
    NODE_PARAGRAPH,
    NODE_NOTE,
    NODE_VERDICT,
    NODE_LIST,
    NODE_TABLE,
    NODE_FIGURE,
    NODE_CODE
};

struct node {
    enum node_kind kind;
    int level;   /* heading: 1…3 */
    char *text;  /* heading, paragraph, note, verdict, code; caption of others */
    char *label; /* verdict: what it is about ("ranks 2") */
    enum verdict_kind verdict;
    struct strv cells; /* list items; table: header, then rows */
    size_t columns;    /* table */
    char *align;       /* table: 'l' or 'r' for each column */
    char *name;        /* figure: "ratio": the file is plots/ratio.svg */
    char *svg;         /* figure: its text, or NULL */
};

struct document {
    struct node *items;
    size_t count, cap;
};

void document_heading(struct document *d, int level, const char *text);
void document_paragraph(struct document *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void document_note(struct document *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void document_code(struct document *d, const char *text);
void document_verdict(struct document *d, const char *label, enum verdict_kind v,
                      const char *sentence);
/* Then document_item for each item; a list without items is not rendered. */
void document_list(struct document *d);
void document_item(struct document *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* header: "cell|n|ratio"; align: "lrr"; caption may be NULL. Then document_cell for each cell, row
 * by row; a table without rows is not rendered. */
void document_table(struct document *d, const char *header, const char *align, const char *caption);
void document_cell(struct document *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* svg may be NULL (then only the caption and the file's name are told); it is taken over. */
void document_figure(struct document *d, const char *name, char *svg, const char *caption);
void document_release(struct document *d);

#endif
