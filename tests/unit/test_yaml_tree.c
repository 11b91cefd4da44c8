#include "harness/yaml_tree.h"

#include "common/mem.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* Parse and render: scalars as text (quoted ones in ''), [a b], {k: v}; or the messages. */
static void render(const struct yaml_node *node, struct str *out)
{
    if (node->kind == YAML_SCALAR) {
        str_appendf(out, node->quoted ? "'%s'" : "%s", node->text);
        return;
    }
    bool map = node->kind == YAML_MAPPING;
    str_append_char(out, map ? '{' : '[');
    for (size_t i = 0; i < node->count; i++) {
        if (i)
            str_append(out, map && i % 2 ? ": " : map ? ", " : " ");
        render(node->items[i], out);
    }
    str_append_char(out, map ? '}' : ']');
}

static bool parse(const char *text, size_t len, struct str *out)
{
    struct source source;
    struct diags diags = DIAGS_INIT;
    struct yaml_tree tree = {ARENA_INIT, NULL};
    bool good = yaml_text_check(&text, &len, &diags);
    source_init(&source, "t", text, good ? len : 0);
    good = good && yaml_tree_parse(&source, &tree, &diags);
    if (good)
        render(tree.root, out);
    else
        diags_format(&diags, &source, out);
    yaml_tree_release(&tree);
    source_release(&source);
    diags_release(&diags);
    return good;
}

static void expect_tree(const char *text, const char *tree)
{
    auto_str out = STR_INIT;
    CU_ASSERT(parse(text, strlen(text), &out));
    CU_ASSERT_STR(out.data, tree);
}

static void expect_error_n(const char *text, size_t len, const char *part)
{
    auto_str out = STR_INIT;
    CU_ASSERT_FALSE(parse(text, len, &out));
    if (!strstr(out.data, part))
        printf("  no \"%s\" in: %s\n", part, out.data);
    CU_ASSERT_PTR_NOT_NULL(strstr(out.data, part));
}

static void expect_error(const char *text, const char *part)
{
    expect_error_n(text, strlen(text), part);
}

static void reads_trees(void)
{
    expect_tree("a: 1\nb: [x, 'y', \"z\"]\nc:\n  - d: e\n", "{a: 1, b: [x 'y' 'z'], c: [{d: e}]}");
    expect_tree("\xEF\xBB\xBF"
                "a: 1\n",
                "{a: 1}");
    expect_tree("a: 1\r\nb: 2\r\n", "{a: 1, b: 2}");
    expect_tree("a: |\n  x\n  y\n", "{a: 'x\ny\n'}");
    expect_tree("a: no\nb: 1:30\nc: 010\nd: ~\n", "{a: no, b: 1:30, c: 010, d: ~}");
    expect_tree("a: \"\\ttab\"\n", "{a: '\ttab'}");
    expect_tree("a: {\n\tb: 1}\n", "{a: {b: 1}}"); /* inside {} indentation means nothing */
}

static void expands_aliases(void)
{
    expect_tree("a: &x [1]\nb: *x\nc: [*x, *x]\n", "{a: [1], b: [1], c: [[1] [1]]}");
    expect_tree("a: &x 1\nb: &x 2\nc: *x\n", "{a: 1, b: 2, c: 2}"); /* the latest */
    expect_tree("&k a: 1\nb: *k\n", "{a: 1, b: a}");
    expect_error("x: &x [*x]\n", "t:1:8: error: cyclic alias \"x\"");
    expect_error("a: &x {child: *x}\n", "t:1:15: error: cyclic alias \"x\"");
    expect_error("a: &x [[[{b: *x}]]]\n", "cyclic alias \"x\"");
    expect_error("&x a: *x\nb: *y\n", "undefined alias \"y\"");
    expect_error("a: *later\nb: &later 1\n", "t:1:4: error: undefined alias \"later\"");
    expect_error("? &k [a]\n: 1\n", "a key must be plain text");
    expect_error("a: &k [a]\n*k : 1\n", "a key must be plain text");
}

static void refuses_what_is_not_needed(void)
{
    expect_error("a: 1\n---\nb: 1\n", "a second document");
    expect_error("a: !!int 5\n", "tag \"!!int\" is not supported");
    expect_error("a: !x {b: 1}\n", "tag \"!x\" is not supported");
    expect_error("a: {<<: {b: 1}}\n", "merge key \"<<\"");
    expect_tree("a: {'<<': 1}\n", "{a: {'<<': 1}}");
    expect_error("{[a]: 1}\n", "a key must be plain text");
    expect_error("'': 1\n", "empty key");
    expect_error("", "the file is empty");
    expect_error("# only a comment\n", "the file is empty");
}

static void names_duplicates_with_both_lines(void)
{
    expect_error("a: 1\nb: 2\na: 3\n", "t:3:1: error: duplicate key \"a\" (first at line 1)");
    expect_error("{a: 1, a: 2}", "t:1:8: error: duplicate key \"a\" (first at line 1)");
    expect_error("a: 1\n\"a\": 2\n", "duplicate key \"a\"");
    expect_error("x:\n  a: 1\n  b: {c: 1, c: 2}\n", "t:3:13: error: duplicate key \"c\"");
    expect_tree("x: {a: 1}\ny: {a: 1}\n", "{x: {a: 1}, y: {a: 1}}");
    auto_str out = STR_INIT; /* all of them at once */
    CU_ASSERT_FALSE(parse("a: 1\na: 2\na: 3\nb: 1\nb: 2\n", 25, &out));
    CU_ASSERT_PTR_NOT_NULL(strstr(out.data, "t:2:1: error: duplicate key \"a\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(out.data, "t:3:1: error: duplicate key \"a\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(out.data, "t:5:1: error: duplicate key \"b\""));
}

static void finds_tabs(void)
{
    expect_error("a:\n\tb: 1\n", "t:2:1: error: a tab indents");
    expect_error("a:\n  b: 1\n\tc: 2\n", "t:3:1: error: a tab indents");
    expect_error("a:\n  b: 1\n \tc: 2\n", "t:3:2: error: a tab indents");
    expect_error("- a\n\t- b\n", "tab");
    expect_error("a: b\n\tc\n", "t:2:1: error: a tab indents");
    expect_tree("a: b\t# x\n", "{a: b}");
    expect_tree("a:\t1\n", "{a: 1}");
    expect_tree("a: 'b\tc'\n", "{a: 'b\tc'}");
}

static void places_bad_bytes(void)
{
    expect_error("a: 1\nb: \x01\n", "t:2:4: error: control character 0x01");
    expect_error("a: 1\n\xC3\xA4: \xFF\n", "t:2:4: error: byte 0xff is not valid UTF-8");
    expect_error("a: \xC0\x80\n", "byte 0xc0");
    expect_error("a: \xED\xA0\x80\n", "byte 0xed");
    expect_error("a: \xE2\x82", "byte 0xe2");
    expect_error_n("a: 1\nb: x\0y\n", 11, "t:2:5: error: control character 0x00");
    expect_error("a: \"x\\0y\"\n", "t:1:4: error: NUL in string");
    expect_error("a: \"\\0\"\n", "NUL in string");
    expect_error_n("\xFF\xFE"
                   "a\0:\0",
                   6, "UTF-16");
    expect_error_n("a\0:\0 \0", 6, "UTF-16");
    expect_tree("a: \xF0\x9F\x99\x8B\n", "{a: \xF0\x9F\x99\x8B}");
    expect_error("a: \xEF\xBF\xBE\n", "error: "); /* U+FFFE: libyaml's own complaint */
}

static void hints_at_unquoted_expressions(void)
{
    expect_error("a: {n: ${x}}\n", "quote \"${\xE2\x80\xA6}\"");
    expect_error("a: [1, ${x}]\n", "quote \"${\xE2\x80\xA6}\"");
    expect_tree("n: ${x}\n", "{n: ${x}}");
}

static void put_times(struct str *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        str_append(out, text);
}

static void keeps_limits(void)
{
    auto_str text = STR_INIT;
    put_times(&text, "[", 64);
    put_times(&text, "]", 64);
    auto_str deep = STR_INIT;
    CU_ASSERT(parse(text.data, text.len, &deep));
    str_clear(&text);
    put_times(&text, "[", 65);
    put_times(&text, "]", 65);
    expect_error(text.data, "t:1:65: error: nested deeper than 64 levels");
    /* depth through an alias counts as well */
    str_clear(&text);
    str_append(&text, "a: &a ");
    put_times(&text, "[", 40);
    put_times(&text, "]", 40);
    str_append(&text, "\nb: ");
    put_times(&text, "[", 40);
    str_append(&text, "*a");
    put_times(&text, "]", 40);
    expect_error(text.data, "nested deeper than 64 levels");
    str_clear(&text);
    str_append(&text, "[");
    put_times(&text, "a,", 99999);
    str_append(&text, "]");
    auto_str wide = STR_INIT;
    CU_ASSERT(parse(text.data, text.len, &wide));
    str_truncate(&text, text.len - 1);
    str_append(&text, "a]");
    expect_error(text.data, "more than 100000 nodes");
    str_clear(&text);
    put_times(&text, "#", YAML_TREE_BYTES_MAX + 1);
    expect_error(text.data, "larger than 1048576 bytes");
}

static void *hostile_in_small_stack(void *unused)
{
    (void)unused;
    auto_str brackets = STR_INIT, dashes = STR_INIT, braces = STR_INIT;
    put_times(&brackets, "[", 1000000);
    put_times(&dashes, "- ", 200000);
    put_times(&braces, "{a: ", 200000);
    expect_error(brackets.data, "nested deeper");
    expect_error(dashes.data, "nested deeper");
    expect_error(braces.data, "nested deeper");
    auto_str bomb = STR_INIT;
    str_append(&bomb, "a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (char c = 'b'; c <= 'i'; c++) {
        str_appendf(&bomb, "%c: &%c [", c, c);
        for (int i = 0; i < 9; i++)
            str_appendf(&bomb, "*%c,", c - 1);
        str_append(&bomb, "]\n");
    }
    expect_error(bomb.data, "t:6:8: error: more than 100000 nodes after alias expansion");
    return NULL;
}

static void needs_little_stack(void)
{
    unit_in_small_stack(hostile_in_small_stack);
}

/* ---- source and diagnostics --------------------------------------------------------------------
 */
static void counts_lines_and_columns(void)
{
    struct source s;
    const char *text = "ab\r\nc\xC3\xA4"
                       "d\rx\n\ny";
    source_init(&s, "t", text, strlen(text));
    static const struct {
        size_t offset, line, column;
    } table[] = {{0, 1, 1}, {1, 1, 2},  {4, 2, 1},  {5, 2, 2},  {7, 2, 3},
                 {9, 3, 1}, {11, 4, 1}, {12, 5, 1}, {13, 5, 2}, {99, 5, 2}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct source_position p = source_position(&s, table[i].offset);
        CU_ASSERT_EQUAL(p.line, table[i].line);
        CU_ASSERT_EQUAL(p.column, table[i].column);
    }
    CU_ASSERT_EQUAL(source_offset_of_character(&s, 6), 7);
    CU_ASSERT_EQUAL(source_offset_of_character(&s, 1000), s.len);
    source_release(&s);
    /* past the first step of the index */
    auto_str wide = STR_INIT;
    put_times(&wide, "\xC3\xA4", 200);
    source_init(&s, "t", wide.data, wide.len);
    CU_ASSERT_EQUAL(source_offset_of_character(&s, 130), 260);
    source_release(&s);
}

static void puts_carets_below(void)
{
    struct source s;
    const char *text = "a:\t\t\xE6\x97\xA5 90\n";
    source_init(&s, "f", text, strlen(text));
    struct diags diags = DIAGS_INIT;
    diag_hint(diags_add(&diags, 8, 2, "a.b", "late"), "try %s", "this");
    diags_add(&diags, 4, 3, "a", "early");
    CU_ASSERT_PTR_NULL(diags_add(&diags, 4, 1, "a", "again"));
    diags_add(&diags, DIAG_NOWHERE, 0, "", "no place");
    auto_str out = STR_INIT;
    diags_format(&diags, &s, &out);
    CU_ASSERT_STR(out.data, "f:1:5: error: a: early\n"
                            "    1 | a:\t\t\xE6\x97\xA5 90\n"
                            "      |   \t\t^~\n"
                            "f:1:7: error: a.b: late\n"
                            "    1 | a:\t\t\xE6\x97\xA5 90\n"
                            "      |   \t\t   ^~\n"
                            "hint: try this\n"
                            "f: error: no place");
    diags_release(&diags);
    source_release(&s);
}

static void keeps_the_first_hundred(void)
{
    struct source s;
    auto_str text = STR_INIT;
    put_times(&text, "x\n", 150);
    source_init(&s, "f", text.data, text.len);
    struct diags diags = DIAGS_INIT;
    for (size_t i = 0; i < 150; i++)
        diags_add(&diags, 2 * i, 1, "", "bad");
    auto_str out = STR_INIT;
    diags_format(&diags, &s, &out);
    CU_ASSERT_PTR_NOT_NULL(strstr(out.data, "f:100:1: error: bad"));
    CU_ASSERT_PTR_NULL(strstr(out.data, "f:101:1"));
    CU_ASSERT_PTR_NOT_NULL(strstr(out.data, "and 50 more errors"));
    diags_release(&diags);
    source_release(&s);
}

UNIT_MAIN({"reads trees", reads_trees}, {"expands aliases", expands_aliases},
          {"refuses what is not needed", refuses_what_is_not_needed},
          {"names duplicates with both lines", names_duplicates_with_both_lines},
          {"finds tabs", finds_tabs}, {"places bad bytes", places_bad_bytes},
          {"hints at unquoted expressions", hints_at_unquoted_expressions},
          {"keeps limits", keeps_limits}, {"needs little stack", needs_little_stack},
          {"counts lines and columns", counts_lines_and_columns},
          {"puts carets below", puts_carets_below},
          {"keeps the first hundred", keeps_the_first_hundred})
