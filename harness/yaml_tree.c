#include "harness/yaml_tree.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* ---- the text as such -------------------------------------------------------------------------
 */
static bool is_utf16_or_32(const char *text, size_t len)
{
    if (len < 2)
        return false;
    const unsigned char *b = (const unsigned char *)text;
    if ((b[0] == 0xFF && b[1] == 0xFE) || (b[0] == 0xFE && b[1] == 0xFF))
        return true;
    /* without a mark: every other byte is NUL */
    return len >= 4 && (b[0] == 0) != (b[1] == 0) && (b[2] == 0) != (b[3] == 0);
}

bool yaml_text_check(const char **text, size_t *len, struct diags *diags)
{
    if (*len > YAML_TREE_BYTES_MAX) {
        diags_add(diags, DIAG_NOWHERE, 0, "", "the file is larger than %u bytes",
                  YAML_TREE_BYTES_MAX);
        return false;
    }
    if (is_utf16_or_32(*text, *len)) {
        diags_add(diags, DIAG_NOWHERE, 0, "", "encoding UTF-16 not supported, save as UTF-8");
        return false;
    }
    if (*len >= 3 && !memcmp(*text, "\xEF\xBB\xBF", 3)) {
        *text += 3;
        *len -= 3;
    }
    return true;
}

/* Bytes that no YAML text may hold. libyaml finds them too, but reports every one at line 1,
 * column 1. */
static bool check_bytes(const struct source *source, struct diags *diags)
{
    size_t bad = str_utf8_valid(source->text, source->len);
    for (size_t i = 0; i < bad; i++) {
        unsigned char c = (unsigned char)source->text[i];
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
            struct diag *d =
                diags_add(diags, i, 1, "", "control character 0x%02x, expected text", c);
            if (c)
                diag_hint(d, "inside double quotes it can be written \"\\x%02x\"", c);
            return false;
        }
    }
    if (bad < source->len) {
        struct diag *d = diags_add(diags, bad, 1, "", "byte 0x%02x is not valid UTF-8",
                                   (unsigned char)source->text[bad]);
        diag_hint(d, "save the file as UTF-8");
        return false;
    }
    return true;
}

/* ---- building ---------------------------------------------------------------------------------
 */
struct anchor {
    const char *name;
    struct yaml_node *node; /* the latest of that name */
    bool open;              /* its end has not been seen */
};

struct frame {
    struct yaml_node *node;
    struct yaml_node **items;
    size_t count, cap;
    struct anchor *anchor;
};

struct builder {
    const struct source *source;
    struct diags *diags;
    struct yaml_tree *tree;
    struct frame frames[YAML_TREE_DEPTH_MAX];
    size_t depth;
    size_t flow_depth;
    size_t nodes;
    void *anchors; /* of tsearch, by name */
    struct yaml_node *root;
    size_t documents;
    bool stop;     /* a limit was passed */
    bool doubtful; /* the structure may not be what was meant: judge no further */
};

static size_t offset_of(const struct builder *b, const yaml_mark_t *mark)
{
    return source_offset_of_character(b->source, mark->index);
}

static void give_up(struct builder *b, size_t offset, const char *what)
{
    diags_add(b->diags, offset, 0, "", "%s", what);
    b->stop = true;
}

static struct yaml_node *new_node(struct builder *b, enum yaml_kind kind, const yaml_event_t *event)
{
    struct yaml_node *node = arena_alloc(&b->tree->arena, sizeof *node);
    node->kind = kind;
    node->start = (uint32_t)offset_of(b, &event->start_mark);
    node->end = (uint32_t)offset_of(b, &event->end_mark);
    node->expanded = 1;
    return node;
}

struct yaml_node *yaml_tree_scalar(struct arena *arena, const char *text)
{
    struct yaml_node *node = arena_alloc(arena, sizeof *node);
    node->kind = YAML_SCALAR;
    node->text = arena_strdup(arena, text);
    node->len = strlen(text);
    node->expanded = 1;
    return node;
}

/* Append a node (of `expanded` nodes) to the open collection, or make it the root. */
static void attach(struct builder *b, struct yaml_node *node, size_t offset)
{
    b->nodes += node->expanded;
    if (b->nodes > YAML_TREE_NODES_MAX) {
        give_up(b, offset, "more than 100000 nodes after alias expansion");
        return;
    }
    if (b->depth + node->height > YAML_TREE_DEPTH_MAX) {
        give_up(b, offset, "nested deeper than 64 levels");
        return;
    }
    if (!b->depth) {
        b->root = node;
        return;
    }
    struct frame *f = &b->frames[b->depth - 1];
    mem_grow((void **)&f->items, &f->cap, f->count, sizeof *f->items);
    f->items[f->count++] = node;
}

static bool is_key_next(const struct builder *b)
{
    return b->depth && b->frames[b->depth - 1].node->kind == YAML_MAPPING &&
           b->frames[b->depth - 1].count % 2 == 0;
}

static int anchor_order(const void *a, const void *b)
{
    return strcmp(((const struct anchor *)a)->name, ((const struct anchor *)b)->name);
}

/* Redefining a name is allowed: later aliases mean the latest. */
static struct anchor *define_anchor(struct builder *b, const yaml_char_t *name,
                                    struct yaml_node *node, bool open)
{
    if (!name)
        return NULL;
    struct anchor *a = arena_alloc(&b->tree->arena, sizeof *a);
    a->name = arena_strdup(&b->tree->arena, (const char *)name);
    struct anchor *known = *(struct anchor **)tsearch(a, &b->anchors, anchor_order);
    known->node = node;
    known->open = open;
    return known;
}

static void refuse_tag(struct builder *b, const yaml_char_t *tag, const struct yaml_node *node)
{
    if (!tag)
        return;
    static const char standard[] = "tag:yaml.org,2002:"; /* written "!!" */
    const char *name = (const char *)tag;
    bool short_form = str_starts_with(name, standard);
    struct diag *d = diags_add(b->diags, node->start, 0, "", "tag \"%s%s\" is not supported",
                               short_form ? "!!" : "", name + (short_form ? strlen(standard) : 0));
    diag_hint(d, "types follow from the key; quote a value that is text");
}

/* Does blank space with a tab in it stand before `at` on its line, and nothing but it and the
 * marks "-", "?" and ":" that open a nested block? */
static bool tab_indents(const struct source *source, size_t at, size_t *tab)
{
    size_t i = at;
    bool found = false;
    while (i > 0 && source->text[i - 1] != '\n' && source->text[i - 1] != '\r') {
        char c = source->text[--i];
        if (c == '\t') {
            found = true;
            *tab = i;
        } else if (c != ' ') {
            return false;
        }
    }
    return found;
}

static void report_tab(struct builder *b, size_t tab)
{
    b->doubtful = true;
    struct diag *d = diags_add(b->diags, tab, 1, "", "a tab indents this line, expected spaces");
    diag_hint(d, "YAML allows no tab in indentation; replace it by spaces");
}

/* libyaml takes some tabs at the start of a line as mere white space, and the line then belongs to
 * something else than it looks. Inside [] and {} indentation has no meaning. */
static void refuse_tabs(struct builder *b, const struct yaml_node *node)
{
    size_t tab;
    if (b->flow_depth)
        return;
    if (tab_indents(b->source, node->start, &tab))
        report_tab(b, tab);
    if (node->kind != YAML_SCALAR || node->quoted)
        return;
    for (size_t i = node->start; i < node->end && i < b->source->len; i++) {
        char before = i ? b->source->text[i - 1] : '\n';
        bool text = !strchr(" \t\r\n", b->source->text[i]);
        if (text && strchr(" \t", before) && i > node->start && tab_indents(b->source, i, &tab))
            report_tab(b, tab);
    }
}

static void check_key(struct builder *b, const struct yaml_node *node)
{
    if (!node->quoted && !strcmp(node->text, "<<")) {
        struct diag *d =
            diags_add(b->diags, node->start, 2, "", "merge key \"<<\" is not supported");
        diag_hint(d, "write the keys out, or use an alias for the whole mapping");
    } else if (!node->len) {
        diags_add(b->diags, node->start, 1, "", "empty key, expected a name");
    }
}

static void on_scalar(struct builder *b, const yaml_event_t *event)
{
    struct yaml_node *node = new_node(b, YAML_SCALAR, event);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->len = event->data.scalar.length;
    node->text = arena_strndup(&b->tree->arena, (const char *)event->data.scalar.value, node->len);
    if (strlen(node->text) != node->len)
        diags_add(b->diags, node->start, node->end - node->start, "",
                  "NUL in string, expected text without \\0");
    refuse_tag(b, event->data.scalar.tag, node);
    refuse_tabs(b, node);
    if (is_key_next(b))
        check_key(b, node);
    define_anchor(b, event->data.scalar.anchor, node, false);
    attach(b, node, node->start);
}

static void on_alias(struct builder *b, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    size_t at = offset_of(b, &event->start_mark), length = strlen(name) + 1;
    struct anchor key = {.name = name};
    void *found = tfind(&key, &b->anchors, anchor_order);
    const struct anchor *a = found ? *(struct anchor **)found : NULL;
    if (!a) {
        diags_add(b->diags, at, length, "", "undefined alias \"%s\", expected an anchor &%s before",
                  name, name);
    } else if (a->open) {
        struct source_position p = source_position(b->source, a->node->start);
        diags_add(b->diags, at, length, "",
                  "cyclic alias \"%s\", its anchor (line %zu) is still open here", name, p.line);
    }
    if (!a || a->open) {
        struct yaml_node *node = new_node(b, YAML_SCALAR, event);
        node->text = "";
        attach(b, node, at);
        return;
    }
    if (is_key_next(b) && a->node->kind != YAML_SCALAR) {
        b->doubtful = true;
        diags_add(b->diags, at, length, "", "a key must be plain text");
    }
    attach(b, a->node, at);
}

static void on_start(struct builder *b, const yaml_event_t *event, enum yaml_kind kind)
{
    bool sequence = kind == YAML_SEQUENCE;
    struct yaml_node *node = new_node(b, kind, event);
    if (is_key_next(b)) {
        /* mostly an unquoted ${…} in flow style: {a: 1, ${x}: 2} */
        b->doubtful = true;
        struct diag *d = diags_add(b->diags, node->start, 1, "", "a key must be plain text");
        if (node->start && b->source->text[node->start - 1] == '$')
            diag_hint(d, "quote \"${…}\" inside {…} and […]");
    }
    refuse_tag(b, sequence ? event->data.sequence_start.tag : event->data.mapping_start.tag, node);
    refuse_tabs(b, node);
    if (b->depth == YAML_TREE_DEPTH_MAX) {
        give_up(b, node->start, "nested deeper than 64 levels");
        return;
    }
    int flow = sequence ? event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE
                        : event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
    b->flow_depth += flow || b->flow_depth;
    const yaml_char_t *anchor =
        sequence ? event->data.sequence_start.anchor : event->data.mapping_start.anchor;
    b->frames[b->depth++] =
        (struct frame){.node = node, .anchor = define_anchor(b, anchor, node, true)};
}

struct named {
    const struct yaml_node *key;
    size_t index;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->key->text, y->key->text);
    return order ? order : x->index < y->index ? -1 : 1;
}

/* Sorted, not compared pairwise and not hashed: no input makes this quadratic. */
static void refuse_duplicates(struct builder *b, const struct yaml_node *map)
{
    size_t pairs = map->count / 2;
    auto_free struct named *names = mem_zalloc(pairs ? pairs : 1, sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < pairs; i++)
        if (map->items[2 * i]->kind == YAML_SCALAR)
            names[n++] = (struct named){map->items[2 * i], i};
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (strcmp(names[i].key->text, names[first].key->text) != 0) {
            first = i;
            continue;
        }
        const struct yaml_node *key = names[i].key;
        diags_add(b->diags, key->start, key->end - key->start, "",
                  "duplicate key \"%s\" (first at line %zu)", key->text,
                  source_position(b->source, names[first].key->start).line);
    }
}

static void on_end(struct builder *b, const yaml_event_t *event)
{
    struct frame *f = &b->frames[--b->depth];
    struct yaml_node *node = f->node;
    node->end = (uint32_t)offset_of(b, &event->end_mark);
    node->count = f->count;
    node->items = arena_alloc(&b->tree->arena, f->count * sizeof *node->items);
    if (f->count)
        memcpy(node->items, f->items, f->count * sizeof *node->items);
    free(f->items);
    f->items = NULL;
    for (size_t i = 0; i < node->count; i++) {
        if (node->items[i]->height + 1 > node->height)
            node->height = node->items[i]->height + 1;
        node->expanded += node->items[i]->expanded;
    }
    if (f->anchor && f->anchor->node == node)
        f->anchor->open = false;
    if (b->flow_depth)
        b->flow_depth--;
    if (node->kind == YAML_MAPPING)
        refuse_duplicates(b, node);
    b->nodes -= node->expanded - 1; /* its items were counted when they came */
    attach(b, node, node->start);
}

/* ---- libyaml's own complaints -----------------------------------------------------------------
 */
/* An unquoted ${…} in flow style is a syntax error: `{` opens a mapping there. */
static bool has_open_expression(const struct source *source, size_t line, size_t column_end)
{
    const char *text;
    size_t len;
    source_line(source, line, &text, &len);
    for (size_t i = 0; i + 1 < len && i < column_end; i++)
        if (text[i] == '$' && text[i + 1] == '{')
            return true;
    return false;
}

static bool line_starts_with_tab(const struct source *source, size_t line, size_t *tab)
{
    const char *text;
    size_t len;
    source_line(source, line, &text, &len);
    for (size_t i = 0; i < len && (text[i] == ' ' || text[i] == '\t'); i++)
        if (text[i] == '\t') {
            *tab = (size_t)(text - source->text) + i;
            return true;
        }
    return false;
}

static void report_syntax(struct builder *b, const yaml_parser_t *parser)
{
    if (parser->error == YAML_READER_ERROR) { /* what check_bytes let through, such as U+FFFE */
        size_t at = parser->problem_offset < b->source->len ? parser->problem_offset : 0;
        diags_add(b->diags, at, 1, "", "%s (value 0x%x)", parser->problem,
                  (unsigned)parser->problem_value);
        return;
    }
    size_t at = offset_of(b, &parser->problem_mark), tab;
    size_t line = source_position(b->source, at).line;
    if (line_starts_with_tab(b->source, line, &tab)) {
        report_tab(b, tab);
        return;
    }
    const char *text;
    size_t len;
    source_line(b->source, line, &text, &len);
    auto_str message = STR_INIT;
    str_appendf(&message, "%s", parser->problem ? parser->problem : "not valid YAML");
    if (parser->context) {
        size_t from = offset_of(b, &parser->context_mark);
        str_appendf(&message, " (%s that starts at line %zu)", parser->context,
                    source_position(b->source, from).line);
    }
    struct diag *d = diags_add(b->diags, at, 1, "", "%s", message.data);
    if (has_open_expression(b->source, line, at + 1 - (size_t)(text - b->source->text)))
        diag_hint(d, "quote \"${…}\" inside {…} and […]");
    else if (parser->problem && strstr(parser->problem, "mapping values are not allowed"))
        diag_hint(d, "check the indentation; quote a value that holds \": \"");
}

static void on_event(struct builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++b->documents > 1)
            give_up(b, offset_of(b, &event->start_mark), "a second document, expected one");
        break;
    case YAML_SCALAR_EVENT: on_scalar(b, event); break;
    case YAML_ALIAS_EVENT: on_alias(b, event); break;
    case YAML_SEQUENCE_START_EVENT: on_start(b, event, YAML_SEQUENCE); break;
    case YAML_MAPPING_START_EVENT: on_start(b, event, YAML_MAPPING); break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: on_end(b, event); break;
    default: break;
    }
}

static void build(struct builder *b, yaml_parser_t *parser)
{
    for (bool done = false; !done && !b->stop;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            b->doubtful = true;
            report_syntax(b, parser);
            return;
        }
        on_event(b, &event);
        done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
}

static void keep_anchor(void *anchor)
{
    (void)anchor; /* lives in the arena */
}

bool yaml_tree_parse(const struct source *source, struct yaml_tree *tree, struct diags *diags)
{
    *tree = (struct yaml_tree){ARENA_INIT, NULL};
    size_t before = diags->count + diags->dropped;
    if (!check_bytes(source, diags))
        return false;
    auto_free struct builder *b = mem_zalloc(1, sizeof *b);
    b->source = source;
    b->diags = diags;
    b->tree = tree;
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        BUG("libyaml cannot start");
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)source->text, source->len);
    build(b, &parser);
    yaml_parser_delete(&parser);
    tdestroy(b->anchors, keep_anchor);
    for (size_t i = 0; i < b->depth; i++)
        free(b->frames[i].items);
    if (!b->root && diags->count + diags->dropped == before)
        diags_add(diags, DIAG_NOWHERE, 0, "", "the file is empty, expected a scenario");
    if (!b->stop && !b->doubtful)
        tree->root = b->root;
    return diags->count + diags->dropped == before;
}

void yaml_tree_release(struct yaml_tree *tree)
{
    arena_release(&tree->arena);
    tree->root = NULL;
}
