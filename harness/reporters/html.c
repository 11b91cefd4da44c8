/* One self-contained HTML file: style and pictures inside, no script, nothing fetched. */
#include "harness/reporters/reporter.h"

#include <string.h>

#define LONG_TEXT 24

static const char style[] =
    ":root{color-scheme:light dark;--fg:#1c2329;--dim:#5b6670;--bg:#fff;--line:#d9dee3;"
    "--stripe:#f6f8fa;--good:#0b6e4f;--good-bg:#e3f4ec;--bad:#9b2c1f;--bad-bg:#fbe9e6;"
    "--open:#7a5600;--open-bg:#fdf3d8;--void:#5a3a86;--void-bg:#efe8f8}\n"
    "@media (prefers-color-scheme:dark){:root{--fg:#e4e8ec;--dim:#9aa5af;--bg:#14181c;"
    "--line:#353d45;--stripe:#1b2126;--good:#7fdcb4;--good-bg:#12352a;--bad:#ff9d8f;"
    "--bad-bg:#43201b;--open:#f3cd73;--open-bg:#3a2f12;--void:#c9adf0;--void-bg:#2e2340}}\n"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;padding:2rem 1.25rem 4rem;max-width:64rem;background:var(--bg);"
    "color:var(--fg);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',"
    "Arial,sans-serif}\n"
    "h1{font-size:1.75rem;line-height:1.2;margin:0 0 .5rem}"
    "h2{font-size:1.25rem;margin:2.5rem 0 .75rem;padding-bottom:.3rem;"
    "border-bottom:1px solid var(--line)}"
    "h3{font-size:1.02rem;margin:1.5rem 0 .5rem}"
    "p{margin:.5rem 0 .9rem;overflow-wrap:anywhere}"
    "ul{padding-left:1.25rem}li{margin:.2rem 0;overflow-wrap:anywhere}"
    ".note{color:var(--dim);border-left:3px solid var(--line);padding:.1rem 0 .1rem .9rem}\n"
    ".verdict{display:grid;grid-template-columns:minmax(6rem,auto) 1fr;gap:.15rem 1rem;"
    "margin:.6rem 0;padding:.8rem 1rem;border-radius:.5rem;border:1px solid var(--line);"
    "border-left:.4rem solid currentColor}"
    ".verdict b{text-transform:none}.verdict span{grid-column:1/-1;color:var(--fg)}"
    ".verdict i{font-style:normal;color:var(--dim);text-align:right}"
    ".good{color:var(--good);background:var(--good-bg)}.bad{color:var(--bad);"
    "background:var(--bad-bg)}.open{color:var(--open);background:var(--open-bg)}"
    ".void{color:var(--void);background:var(--void-bg)}\n"
    ".scroll{overflow-x:auto;margin:.75rem 0 1.25rem}"
    "table{border-collapse:collapse;width:100%;font-size:.88rem;"
    "font-variant-numeric:tabular-nums}"
    "caption{caption-side:bottom;text-align:left;color:var(--dim);padding-top:.5rem;"
    "font-size:.85rem}"
    "th,td{padding:.4rem .6rem;border-bottom:1px solid var(--line);text-align:left;"
    "vertical-align:top;white-space:nowrap}"
    "td.w{white-space:normal;overflow-wrap:anywhere;min-width:9rem}"
    "th{font-weight:600;color:var(--dim);white-space:nowrap;border-bottom-width:2px}"
    "tbody tr:nth-child(even){background:var(--stripe)}"
    "th.r,td.r{text-align:right;white-space:nowrap}\n"
    "figure{margin:1.25rem 0}figure svg{display:block;width:100%;height:auto;background:#fff;"
    "border:1px solid var(--line);border-radius:.5rem;padding:.5rem}"
    "figcaption{color:var(--dim);font-size:.9rem;margin-top:.4rem}"
    "pre{overflow-x:auto;padding:.8rem 1rem;background:var(--stripe);border:1px solid "
    "var(--line);border-radius:.5rem;font:.85rem/1.5 ui-monospace,'SF Mono',Menlo,Consolas,"
    "monospace}\n"
    "@media print{body{max-width:none;padding:0;font-size:10.5pt}h2{break-after:avoid}"
    "figure,.verdict,tr{break-inside:avoid}.scroll{overflow:visible}"
    "pre{white-space:pre-wrap}}\n";

static void put(struct str *out, const char *text)
{
    for (const char *p = text ? text : ""; *p; p++) {
        switch (*p) {
        case '<': str_append(out, "&lt;"); break;
        case '>': str_append(out, "&gt;"); break;
        case '&': str_append(out, "&amp;"); break;
        case '"': str_append(out, "&quot;"); break;
        case '\'': str_append(out, "&#39;"); break;
        case ' ': str_append(out, p[1] == '%' ? "&nbsp;" : " "); break;
        default:
            /* Control characters have no place in HTML. */
            if ((unsigned char)*p >= 0x20 || *p == '\n' || *p == '\t')
                str_append_char(out, *p);
        }
    }
}

static const char *verdict_class(enum verdict_kind v)
{
    switch (v) {
    case VERDICT_EQUIVALENT:
    case VERDICT_FASTER:
    case VERDICT_FASTER_UNCERTAIN: return "good";
    case VERDICT_SLOWER:
    case VERDICT_SLOWER_UNCERTAIN: return "bad";
    case VERDICT_INCONCLUSIVE: return "open";
    default: return "void";
    }
}

static void put_table(struct str *out, const struct node *n)
{
    if (n->cells.count <= n->columns)
        return;
    str_append(out, "<div class=\"scroll\"><table>\n");
    if (n->text) {
        str_append(out, "<caption>");
        put(out, n->text);
        str_append(out, "</caption>\n");
    }
    for (size_t i = 0; i < n->cells.count; i++) {
        size_t column = i % n->columns;
        const char *tag = i < n->columns ? "th" : "td";
        if (column == 0)
            str_append(out, i == 0 ? "<thead><tr>" : "<tr>");
        /* Only long texts may break within a word: paths, checksums. */
        bool wide = strlen(n->cells.items[i]) > LONG_TEXT && i >= n->columns;
        str_appendf(out, "<%s%s%s>", tag, i < n->columns ? " scope=\"col\"" : "",
                    n->align[column] == 'r' ? " class=\"r\""
                    : wide                  ? " class=\"w\""
                                            : "");
        put(out, n->cells.items[i]);
        str_appendf(out, "</%s>", tag);
        if (column == n->columns - 1)
            str_append(out, i == n->columns - 1 ? "</tr></thead>\n<tbody>\n" : "</tr>\n");
    }
    str_append(out, "</tbody></table></div>\n");
}

/* gnuplot gives its parts the same ids in every picture: the figure's name goes in front of each id
 * and of each reference to one. The XML declaration and document type do not belong inside HTML. */
static void put_svg(struct str *out, const struct node *n)
{
    static const char *const marks[] = {"id=\"", "id='", "href=\"#", "href='#", "url(#"};
    const char *p = strstr(n->svg, "<svg");
    while (p && *p) {
        size_t step = 1;
        bool word = p > n->svg && (p[-1] == ' ' || p[-1] == ':' || p[-1] == '\'' || p[-1] == '"');
        for (size_t i = 0; word && i < sizeof marks / sizeof *marks; i++)
            if (str_starts_with(p, marks[i])) {
                step = strlen(marks[i]);
                break;
            }
        str_append_n(out, p, step);
        if (step > 1)
            str_appendf(out, "%s-", n->name);
        p += step;
    }
}

static void put_figure(struct str *out, const struct node *n)
{
    str_append(out, "<figure>");
    if (n->svg)
        put_svg(out, n);
    str_append(out, "<figcaption>");
    put(out, n->text);
    str_append(out, "</figcaption></figure>\n");
}

static void put_verdict(struct str *out, const struct node *n)
{
    str_appendf(out, "<div class=\"verdict %s\"><b>", verdict_class(n->verdict));
    put(out, verdict_words(n->verdict));
    str_append(out, "</b><i>");
    put(out, n->label);
    str_append(out, "</i><span>");
    put(out, n->text);
    str_append(out, "</span></div>\n");
}

static void put_element(struct str *out, const char *open, const char *text, const char *close)
{
    str_append(out, open);
    put(out, text);
    str_append(out, close);
}

static void put_node(struct str *out, const struct node *n)
{
    static const char *const open[] = {"<h1>", "<h2>", "<h3>"};
    static const char *const close[] = {"</h1>\n", "</h2>\n", "</h3>\n"};
    switch (n->kind) {
    case NODE_HEADING: put_element(out, open[n->level - 1], n->text, close[n->level - 1]); break;
    case NODE_PARAGRAPH: put_element(out, "<p>", n->text, "</p>\n"); break;
    case NODE_NOTE: put_element(out, "<p class=\"note\">", n->text, "</p>\n"); break;
    case NODE_VERDICT: put_verdict(out, n); break;
    case NODE_LIST:
        if (!n->cells.count)
            break;
        str_append(out, "<ul>\n");
        for (size_t i = 0; i < n->cells.count; i++)
            put_element(out, "<li>", n->cells.items[i], "</li>\n");
        str_append(out, "</ul>\n");
        break;
    case NODE_TABLE: put_table(out, n); break;
    case NODE_FIGURE: put_figure(out, n); break;
    case NODE_CODE: put_element(out, "<pre>", n->text, "</pre>\n"); break;
    }
}

static void render(const struct document *d, const char *title, struct str *out)
{
    str_append(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                    "<title>");
    put(out, title);
    str_appendf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", style);
    for (size_t i = 0; i < d->count; i++)
        put_node(out, &d->items[i]);
    str_append(out, "</main>\n</body>\n</html>\n");
}

const struct reporter_ops reporter_html = {"html", ".html", render};
