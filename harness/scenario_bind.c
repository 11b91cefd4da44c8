/* Pair YAML nodes with keys of the schema. */
#include "harness/scenario_priv.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"

#include <stdlib.h>
#include <string.h>

/* ---- places -----------------------------------------------------------------------------------
 */
void bound_path(const struct bound *bound, struct str *out)
{
    const struct bound *chain[YAML_TREE_DEPTH_MAX + 2];
    size_t n = 0;
    for (; bound && bound->parent && n < YAML_TREE_DEPTH_MAX + 2; bound = bound->parent)
        chain[n++] = bound;
    while (n--) {
        if (chain[n]->node == chain[n]->parent->node)
            continue; /* the short form of its parent */
        if (chain[n]->name)
            str_appendf(out, "%s%s", out->len ? "." : "", chain[n]->name->text);
        else
            str_appendf(out, "[%zu]", chain[n]->index);
    }
}

struct bound *bound_child(const struct bound *parent, const char *name, size_t len)
{
    for (struct bound *c = parent->first; c; c = c->next)
        if (c->name ? c->name->len == len && !memcmp(c->name->text, name, len)
                    : strlen(schema_name(c->key)) == len && !memcmp(schema_name(c->key), name, len))
            return c;
    return NULL;
}

/* The next part of a path: a name, or in brackets an index or the name of an item. False at the end
 * or when malformed. */
struct part {
    const char *name;
    size_t len;
    bool is_item;
    int64_t index; /* of an item; -1: it is given by its name */
};

static bool next_part(const char **path, struct part *part)
{
    const char *p = *path;
    *part = (struct part){0};
    if (*p == '[') {
        size_t n = strcspn(p, "]");
        auto_free char *item = mem_strndup(p + 1, n - 1);
        *part = (struct part){.name = p + 1, .len = n - 1, .is_item = true};
        if (!p[n] || n < 2)
            return false;
        if (!num_parse_i64(item, &part->index))
            part->index = -1;
        *path = p + n + 1;
        return true;
    }
    if (*p == '.')
        p++;
    part->name = p;
    part->len = strcspn(p, ".[");
    *path = p + part->len;
    return part->len > 0;
}

static struct bound *child_of_part(const struct bound *parent, const struct part *part)
{
    if (!part->is_item)
        return bound_child(parent, part->name, part->len);
    struct bound *c = parent->key->type == SCHEMA_LIST ? parent->first : NULL;
    for (int64_t i = 0; c; c = c->next, i++) {
        const struct bound *name = bound_child(c, "name", 4);
        if (part->index >= 0 ? i == part->index
                             : name && name->node->len == part->len &&
                                   !memcmp(name->node->text, part->name, part->len))
            break;
    }
    return c;
}

struct bound *bound_at(const struct loader *l, const char *path)
{
    struct bound *at = l->root;
    struct part part;
    while (next_part(&path, &part)) {
        struct bound *child = child_of_part(at, &part);
        if (!child)
            break;
        at = child;
    }
    return at;
}

/* ---- complaints -------------------------------------------------------------------------------
 */
enum caret { AT_VALUE, AT_KEY };

static struct diag *report(struct loader *l, const struct bound *at, enum caret caret,
                           const char *path, const char *message)
{
    /* a mapping or list as a whole is known by its key */
    bool by_key = at->name && (caret == AT_KEY || at->node->kind != YAML_SCALAR);
    const struct yaml_node *node = by_key ? at->name : at->node;
    bool in_file = !at->define && at->node->end; /* made in memory: no place in the file */
    size_t offset = in_file ? node->start : DIAG_NOWHERE;
    size_t length = node->kind == YAML_SCALAR ? node->end - node->start : 1;
    struct diag *d = diags_add(&l->diags, offset, length, path, "%s", message);
    if (at->define)
        l->usage = true;
    if (d && at->define)
        d->origin = mem_printf("-D %s", at->define);
    return d;
}

static struct diag *report_here(struct loader *l, const struct bound *at, enum caret caret,
                                const char *fmt, va_list ap) __attribute__((format(printf, 4, 0)));
static struct diag *report_here(struct loader *l, const struct bound *at, enum caret caret,
                                const char *fmt, va_list ap)
{
    auto_free char *message = mem_vprintf(fmt, ap);
    auto_str path = STR_INIT;
    bound_path(at, &path);
    return report(l, at, caret, path.data, message);
}

struct diag *complain(struct loader *l, const struct bound *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct diag *d = report_here(l, at, AT_VALUE, fmt, ap);
    va_end(ap);
    return d;
}

struct diag *complain_key(struct loader *l, const struct bound *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct diag *d = report_here(l, at, AT_KEY, fmt, ap);
    va_end(ap);
    return d;
}

struct diag *complain_at(struct loader *l, const char *path, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *message = mem_vprintf(fmt, ap);
    va_end(ap);
    return report(l, bound_at(l, path), AT_VALUE, path, message);
}

void complain_missing(struct loader *l, const struct bound *parent, const struct schema_key *key)
{
    auto_str path = STR_INIT, expected = STR_INIT;
    bound_path(parent, &path);
    str_appendf(&path, "%s%s", path.len ? "." : "", schema_name(key));
    schema_append_expected(key, &expected);
    auto_free char *message = mem_printf("is missing, expected %s", expected.data);
    report(l, parent, AT_VALUE, path.data, message);
}

/* ---- binding ----------------------------------------------------------------------------------
 */
void bound_append(struct bound *parent, struct bound *child)
{
    child->index = parent->count++;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    child->parent = parent;
    for (struct bound *b = parent; child->dynamic && b && !b->dynamic; b = b->parent)
        b->dynamic = true;
}

static void append_names(const char *const *names, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++)
        str_appendf(out, "%s%s", i ? ", " : "", names[i]);
}

static void complain_unknown(struct loader *l, const struct bound *map,
                             const struct yaml_node *name)
{
    auto_str path = STR_INIT;
    bound_path(map, &path);
    str_appendf(&path, "%s%s", path.len ? "." : "", name->text);
    struct bound at = {.node = name, .define = map->define};
    struct diag *d = report(l, &at, AT_VALUE, path.data, "unknown key");
    const char *names[64];
    size_t n = schema_child_names(map->key, names, 64);
    const char *near = d ? str_nearest(name->text, names, n) : NULL;
    if (near) {
        diag_hint(d, "did you mean \"%s\"?", near);
        return;
    }
    auto_str list = STR_INIT;
    for (const struct schema_key *key = schema_keys; d && key->path; key++)
        if (!strcmp(schema_name(key), name->text))
            str_appendf(&list, "%s%s", list.len ? ", " : "", key->path);
    if (list.len) {
        diag_hint(d, "it belongs elsewhere: %s", list.data);
        return;
    }
    append_names(names, n, &list);
    diag_hint(d, "keys here: %s", list.data);
}

static bool any_dynamic(const struct yaml_node *node)
{
    if (node->kind == YAML_SCALAR)
        return expr_present(node->text);
    for (size_t i = 0; i < node->count; i++)
        if (any_dynamic(node->items[i]))
            return true;
    return false;
}

static const char *kind_name(const struct yaml_node *node)
{
    return node->kind == YAML_MAPPING ? "a mapping" : node->kind == YAML_SEQUENCE ? "a list" : "";
}

static void complain_kind(struct loader *l, struct bound *bound)
{
    auto_str expected = STR_INIT;
    schema_append_expected(bound->key, &expected);
    const struct yaml_node *node = bound->node;
    bound->bad = true;
    if (node->kind == YAML_SCALAR && !node->len && !node->quoted) {
        struct diag *d = complain(l, bound, "has no value, expected %s", expected.data);
        diag_hint(d, bound->key->type == SCHEMA_MAP || bound->key->type == SCHEMA_LIST
                         ? "indent what belongs to it below, or leave the key out"

                     : bound->key->type == SCHEMA_STRING && !(bound->key->flags & SCHEMA_NON_EMPTY)
                         ? "write \"\" for empty text"
                         : "leave the key out for its default");
    } else if (node->kind == YAML_SCALAR) {
        struct diag *d = complain(l, bound, "\"%s\", expected %s", node->text, expected.data);
        if (bound->key->type == SCHEMA_LIST)
            diag_hint(d, "write [%s]", node->text);
    } else {
        complain(l, bound, "%s, expected %s", kind_name(node), expected.data);
    }
}

static void bind_mapping(struct loader *l, struct bound *bound)
{
    const struct yaml_node *node = bound->node;
    for (size_t i = 0; i < node->count; i += 2) {
        const struct yaml_node *name = node->items[i];
        const struct schema_key *key = schema_child(bound->key, name->text, name->len);
        if (!key)
            complain_unknown(l, bound, name);
        else
            bound_append(bound, bind_node(l, key, node->items[i + 1], bound, name, bound->define));
    }
}

struct bound *bind_node(struct loader *l, const struct schema_key *key,
                        const struct yaml_node *node, struct bound *parent,
                        const struct yaml_node *name, const char *define)
{
    struct bound *bound = arena_alloc(&l->arena, sizeof *bound);
    *bound =
        (struct bound){.key = key, .node = node, .name = name, .parent = parent, .define = define};
    bound->index = parent ? parent->count : 0;
    l->n_bound++;
    if (key->type == SCHEMA_ANY) {
        bound->dynamic = any_dynamic(node);
    } else if (key->type == SCHEMA_MAP && node->kind == YAML_MAPPING) {
        bind_mapping(l, bound);
    } else if (key->type == SCHEMA_MAP && key->shorthand && node->kind == YAML_SCALAR) {
        const struct schema_key *only = schema_child(key, key->shorthand, strlen(key->shorthand));
        bound_append(bound, bind_node(l, only, node, bound, NULL, define));
    } else if (key->type == SCHEMA_LIST && node->kind == YAML_SEQUENCE) {
        const struct schema_key *item = schema_child(key, "[]", 2);
        for (size_t i = 0; i < node->count; i++)
            bound_append(bound, bind_node(l, item, node->items[i], bound, NULL, define));
    } else if (key->type == SCHEMA_MAP || key->type == SCHEMA_LIST || node->kind != YAML_SCALAR ||
               (!node->len && !node->quoted)) {
        complain_kind(l, bound);
    } else {
        bound->dynamic = !(key->flags & SCHEMA_LITERAL) && expr_present(node->text);
    }
    if ((key->flags & SCHEMA_NON_EMPTY) && !bound->bad && !node->count && !node->len) {
        bound->bad = true;
        complain(l, bound, "is empty, expected at least one %s",
                 node->kind == YAML_SCALAR ? "character" : "item");
    }
    return bound;
}

/* ---- -D key=value -----------------------------------------------------------------------------
 */
static bool usage_error(struct loader *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static bool usage_error(struct loader *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    free(l->usage_message);
    l->usage_message = mem_vprintf(fmt, ap);
    va_end(ap);
    l->usage = true;
    return false;
}

/* Plain text, except what opens as a list, a mapping or a quoted string. */
static struct yaml_node *define_value(struct loader *l, const char *define, const char *text)
{
    if (!*text || !strchr("[{\"'", *text))
        return yaml_tree_scalar(&l->arena, *text ? text : "");
    struct source source;
    struct diags diags = DIAGS_INIT;
    struct yaml_tree tree;
    source_init(&source, "-D", text, strlen(text));
    bool good = yaml_tree_parse(&source, &tree, &diags);
    if (!good)
        usage_error(l, "-D %s: %s", define, diags.count ? diags.items[0].message : "not YAML");
    diags_release(&diags);
    source_release(&source);
    struct yaml_node *root = tree.root;
    arena_join(&l->arena, &tree.arena); /* it lives as long as the loader */
    return good ? root : NULL;
}

static void replace_child(struct bound *parent, struct bound *old, struct bound *fresh)
{
    if (!old) {
        bound_append(parent, fresh);
        return;
    }
    fresh->index = old->index;
    fresh->next = old->next;
    for (struct bound **p = &parent->first; *p; p = &(*p)->next)
        if (*p == old) {
            *p = fresh;
            break;
        }
    if (parent->last == old)
        parent->last = fresh;
    for (struct bound *b = parent; fresh->dynamic && b && !b->dynamic; b = b->parent)
        b->dynamic = true;
}

static bool no_such_key(struct loader *l, const char *define, const struct bound *map,
                        const struct part *part)
{
    if (part->is_item)
        return usage_error(l, "-D %s: there is no item [%.*s], the list has %zu", define,
                           (int)part->len, part->name, map->count);
    auto_free char *name = mem_strndup(part->name, part->len);
    const char *names[256];
    size_t n = schema_child_names(map->key, names, 64);
    const struct bound *vars = map == l->root ? bound_child(map, "vars", 4) : NULL;
    for (const struct bound *v = vars ? vars->first : NULL; v && n < 256; v = v->next)
        names[n++] = v->name->text;
    usage_error(l, "-D %s: there is no key or variable \"%s\"", define, name);
    const char *near = str_nearest(name, names, n);
    const struct bound *matrix = map == l->root ? bound_child(map, "matrix", 6) : NULL;
    if (matrix && bound_child(matrix, name, strlen(name)))
        l->usage_hint = mem_printf("it is a matrix name: -D matrix.%s=[…]", name);
    else if (near)
        l->usage_hint = mem_printf("did you mean \"%s\"?", near);
    return false;
}

/* Walk to the parent of the key that the path names, making mappings on the way; part: the last. */
static struct bound *define_parent(struct loader *l, const char *define, const char *path,
                                   struct part *part)
{
    struct bound *at = l->root;
    for (;;) {
        if (!next_part(&path, part)) {
            usage_error(l, "-D %s: expected key=value, such as sampling.seed=7", define);
            return NULL;
        }
        bool last = !*path;
        const struct schema_key *key = part->is_item ? schema_child(at->key, "[]", 2)
                                                     : schema_child(at->key, part->name, part->len);
        struct bound *child = child_of_part(at, part);
        bool is_var = !child && !strcmp(at->key->path, "vars");
        if (!key || at->bad || (part->is_item && !child) || is_var) {
            no_such_key(l, define, at, part);
            return NULL;
        }
        if (last)
            return at;
        if (!child) {
            struct yaml_node *name =
                yaml_tree_scalar(&l->arena, arena_strndup(&l->arena, part->name, part->len));
            struct yaml_node *map = yaml_tree_scalar(&l->arena, "");
            map->kind = YAML_MAPPING;
            child = bind_node(l, key, map, at, name, define);
            bound_append(at, child);
        }
        at = child;
    }
}

bool define_apply(struct loader *l, const char *define)
{
    const char *equal = strchr(define, '=');
    if (!equal || equal == define)
        return usage_error(l, "-D %s: expected key=value, such as sampling.seed=7", define);
    const char *kept = arena_strdup(&l->arena, define);
    auto_free char *path = mem_strndup(define, (size_t)(equal - define));
    const struct bound *vars = bound_child(l->root, "vars", 4);
    if (vars && !strpbrk(path, ".[") && bound_child(vars, path, strlen(path))) {
        char *full = mem_printf("vars.%s", path);
        free(path);
        path = full;
    }
    struct part part;
    struct bound *parent = define_parent(l, kept, path, &part);
    struct yaml_node *value = parent ? define_value(l, kept, equal + 1) : NULL;
    if (!value)
        return false;
    const struct schema_key *key = part.is_item ? schema_child(parent->key, "[]", 2)
                                                : schema_child(parent->key, part.name, part.len);
    struct yaml_node *name =
        part.is_item ? NULL
                     : yaml_tree_scalar(&l->arena, arena_strndup(&l->arena, part.name, part.len));
    struct bound *old = child_of_part(parent, &part);
    if (!*(equal + 1))
        value->quoted = true; /* nothing behind "=": empty text */
    replace_child(parent, old, bind_node(l, key, value, parent, name, kept));
    return true;
}
