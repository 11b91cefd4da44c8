/* GitHub-flavoured Markdown. */
#include "harness/reporters/reporter.h"

#include <string.h>

/* Characters that Markdown or the HTML in it would take for itself are escaped. Underscores within
 * words are left alone: no renderer of today takes them for emphasis. */
static void put(struct str *out, const char *text)
{
    for (const char *p = text ? text : ""; *p; p++) {
        bool inner = p > text && p[1] && *p == '_' && strchr(" \n", p[-1]) == NULL && p[1] != ' ';
        if (*p == '\n')
            str_append(out, " ");
        else if (*p == '<')
            str_append(out, "&lt;");
        else if (*p == '>')
            str_append(out, "&gt;");
        else if (*p == '&')
            str_append(out, "&amp;");
        else if (strchr("\\`*[]|", *p) || (*p == '_' && !inner))
            str_appendf(out, "\\%c", *p);
        else
            str_append_char(out, *p);
    }
}

static void put_table(struct str *out, const struct node *n)
{
    if (n->cells.count <= n->columns)
        return;
    for (size_t i = 0; i < n->cells.count; i++) {
        str_append(out, i % n->columns ? " " : "| ");
        put(out, n->cells.items[i]);
        str_append(out, " |");
        if (i % n->columns != n->columns - 1)
            continue;
        str_append(out, "\n");
        if (i != n->columns - 1)
            continue;
        str_append(out, "|");
        for (size_t c = 0; c < n->columns; c++)
            str_append(out, n->align[c] == 'r' ? " ---: |" : " :--- |");
        str_append(out, "\n");
    }
    if (n->text) {
        str_append(out, "\n*");
        put(out, n->text);
        str_append(out, "*\n");
    }
    str_append(out, "\n");
}

/* A fence longer than any run of backticks in the text. */
static void put_code(struct str *out, const char *text)
{
    size_t longest = 2;
    size_t run = 0;
    for (const char *p = text; *p; p++) {
        run = *p == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    auto_str fence = STR_INIT;
    for (size_t i = 0; i <= longest; i++)
        str_append(&fence, "`");
    str_appendf(out, "%s\n%s\n%s\n\n", fence.data, text, fence.data);
}

static void put_node(struct str *out, const struct node *n)
{
    switch (n->kind) {
    case NODE_HEADING:
        for (int i = 0; i < n->level; i++)
            str_append(out, "#");
        str_append(out, " ");
        put(out, n->text);
        str_append(out, "\n\n");
        break;
    case NODE_PARAGRAPH:
        put(out, n->text);
        str_append(out, "\n\n");
        break;
    case NODE_NOTE:
        str_append(out, "> ");
        put(out, n->text);
        str_append(out, "\n\n");
        break;
    case NODE_VERDICT:
        str_append(out, "- **");
        put(out, n->label && *n->label ? n->label : "all");
        str_append(out, " — ");
        put(out, verdict_words(n->verdict));
        str_append(out, "**: ");
        put(out, n->text);
        str_append(out, "\n");
        break;
    case NODE_LIST:
        for (size_t i = 0; i < n->cells.count; i++) {
            str_append(out, "- ");
            put(out, n->cells.items[i]);
            str_append(out, "\n");
        }
        if (n->cells.count)
            str_append(out, "\n");
        break;
    case NODE_TABLE: put_table(out, n); break;
    case NODE_FIGURE:
        if (n->svg)
            str_appendf(out, "![%s](plots/%s.svg)\n\n", n->name, n->name);
        str_append(out, "*");
        put(out, n->text);
        str_append(out, "*\n\n");
        break;
    case NODE_CODE: put_code(out, n->text); break;
    }
}

static void render(const struct document *d, const char *title, struct str *out)
{
    (void)title; /* the first heading says it */
    for (size_t i = 0; i < d->count; i++) {
        bool run_ends =
            i > 0 && d->items[i - 1].kind == NODE_VERDICT && d->items[i].kind != NODE_VERDICT;
        if (run_ends)
            str_append(out, "\n");
        put_node(out, &d->items[i]);
    }
}

const struct reporter_ops reporter_markdown = {"md", ".md", render};
