/* From bound nodes to typed JSON: every scalar as its key wants it, defaults filled in. */
#include "harness/scenario_priv.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one scalar -------------------------------------------------------------------------------
 */
struct typing {
    struct loader *l;
    const struct bound *bound;
    const struct schema_key *key;
    const struct value *value;
};

/* `"six", expected an integer from 2 to 100000`; with the expression where there was one. */
static struct diag *mistyped(const struct typing *t)
{
    auto_str expected = STR_INIT, what = STR_INIT;
    schema_append_expected(t->key, &expected);
    if (t->bound->dynamic)
        str_appendf(&what, "\"%s\" is ", t->bound->node->text);
    str_appendf(&what, "\"%s\"", t->value->text);
    if (t->bound->dynamic && t->l->scope.cell && t->l->scope.n_axes) {
        size_t cell = (size_t)(t->l->scope.cell - t->l->cells) / t->l->scope.n_axes;
        str_append(&what, " in the cell ");
        cell_describe(t->l, cell, &what);
    }
    return complain(t->l, t->bound, "%s, expected %s", what.data, expected.data);
}

static bool out_of_bounds(const struct schema_key *key, double number)
{
    if (key->min == 0 && key->max == 0)
        return false;
    return number < key->min || number > key->max;
}

static bool is_decimal_comma(const char *text)
{
    size_t comma = strcspn(text, ",");
    return text[comma] && strspn(text, "-0123456789") == comma && text[comma + 1] &&
           strspn(text + comma + 1, "0123456789") == strlen(text + comma + 1);
}

static void hint_number(struct diag *d, const struct value *value)
{
    double number;
    int64_t integer;
    if (is_decimal_comma(value->text))
        diag_hint(d, "the decimal separator is \".\": %.*s.%s", (int)strcspn(value->text, ","),
                  value->text, strchr(value->text, ',') + 1);
    else if (value->quoted && num_parse_f64(value->text, &number))
        diag_hint(d, "quotes make it text: write %s", value->text);
    else if (strspn(value->text, "0123456789_") == strlen(value->text) && *value->text &&
             !num_parse_i64(value->text, &integer))
        diag_hint(d, "plain digits, without \"_\" and at most 9223372036854775807");
}

static json_t *type_int(const struct typing *t)
{
    const struct value *v = t->value;
    int64_t number = 0;
    bool good = true;
    if (v->kind == VALUE_INT)
        number = v->integer;
    else if (v->kind == VALUE_FLOAT && t->bound->dynamic && v->number == floor(v->number) &&
             fabs(v->number) <= 0x1p53)
        number = (int64_t)v->number;
    else
        good = false;
    if (good && !out_of_bounds(t->key, (double)number))
        return json_integer(number);
    hint_number(mistyped(t), v);
    return NULL;
}

static json_t *type_number(const struct typing *t)
{
    const struct value *v = t->value;
    double number = v->kind == VALUE_INT ? (double)v->integer : v->number;
    bool good = (v->kind == VALUE_INT || v->kind == VALUE_FLOAT) && isfinite(number);
    if (good && !out_of_bounds(t->key, number))
        return v->kind == VALUE_INT ? json_integer(v->integer) : json_real(number);
    hint_number(mistyped(t), v);
    return NULL;
}

static json_t *type_bool(const struct typing *t)
{
    if (t->value->kind == VALUE_BOOL)
        return json_boolean(t->value->integer);
    static const char *const yes[] = {"yes", "Yes", "on", "On", "True", "TRUE", "y", "1"};
    static const char *const no[] = {"no", "No", "off", "Off", "False", "FALSE", "n", "0"};
    struct diag *d = mistyped(t);
    for (size_t i = 0; i < 8; i++) {
        if (!strcmp(t->value->text, yes[i]))
            diag_hint(d, "write true");
        if (!strcmp(t->value->text, no[i]))
            diag_hint(d, "write false");
    }
    if (!strcmp(t->value->text, "true") || !strcmp(t->value->text, "false"))
        diag_hint(d, "quotes make it text: write %s", t->value->text);
    return NULL;
}

static void hint_duration(struct diag *d, const char *text)
{
    double number;
    int64_t a, b;
    size_t colon = strcspn(text, ":");
    auto_free char *left = mem_strndup(text, colon);
    if (num_parse_f64(text, &number) && number >= 0)
        diag_hint(d, "a unit is missing: %ss are seconds, %sm minutes", text, text);
    else if (text[colon] && num_parse_i64(left, &a) && num_parse_i64(text + colon + 1, &b))
        diag_hint(d, "write %lldm%llds for minutes and seconds, %lldh%lldm for hours and minutes",
                  (long long)a, (long long)b, (long long)a, (long long)b);
    else if (*text == '-')
        diag_hint(d, "a duration cannot be negative");
    else if (num_parse_duration(text, &number))
        diag_hint(d, "it must be longer than 0");
    else
        diag_hint(d, "units are us, ms, s, m, h, without blanks");
}

static json_t *type_duration(const struct typing *t)
{
    double seconds;
    if (num_parse_duration(t->value->text, &seconds) &&
        (seconds > 0 || !(t->key->flags & SCHEMA_POSITIVE)))
        return json_real(seconds);
    hint_duration(mistyped(t), t->value->text);
    return NULL;
}

static json_t *type_size(const struct typing *t)
{
    int64_t bytes;
    if (num_parse_size(t->value->text, &bytes) && (bytes > 0 || !(t->key->flags & SCHEMA_POSITIVE)))
        return json_integer(bytes);
    double number;
    struct diag *d = mistyped(t);
    if (num_parse_f64(t->value->text, &number))
        diag_hint(d, "a unit is missing: %sMiB is %s x 2^20 bytes, %sMB is %s x 10^6",
                  t->value->text, t->value->text, t->value->text, t->value->text);
    else
        diag_hint(d, "units are B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, without blanks");
    return NULL;
}

static json_t *type_percent(const struct typing *t)
{
    double ratio, number;
    if (num_parse_percent(t->value->text, &ratio) &&
        (ratio > 0 || (ratio == 0 && !(t->key->flags & SCHEMA_POSITIVE))) &&
        !((t->key->flags & SCHEMA_SHARE) && ratio > 1))
        return json_real(ratio);
    struct diag *d = mistyped(t);
    if (num_parse_f64(t->value->text, &number) && number >= 0) {
        char as_percent[NUM_F64_MAX];
        diag_hint(d, "the sign is missing: %s%%, or %s%% if it is a ratio", t->value->text,
                  num_format_f64(as_percent, number * 100));
    }
    return NULL;
}

/* In the unit of something that other keys name: here only what can be said without them. */
static json_t *type_amount(const struct typing *t)
{
    double number;
    bool plain = t->value->kind == VALUE_INT || t->value->kind == VALUE_FLOAT;
    if (plain)
        number = t->value->kind == VALUE_INT ? (double)t->value->integer : t->value->number;
    else if (!num_parse_duration(t->value->text, &number))
        number = -1;
    if (number > 0)
        return plain ? json_real(number) : json_pack("{s:f}", "duration_s", number);
    mistyped(t);
    return NULL;
}

static json_t *type_choice(const struct typing *t)
{
    size_t n = 0;
    for (; t->key->choices[n]; n++)
        if (!strcmp(t->key->choices[n], t->value->text))
            return json_string(t->value->text);
    struct diag *d = mistyped(t);
    const char *near = d ? str_nearest(t->value->text, t->key->choices, n) : NULL;
    if (near)
        diag_hint(d, "did you mean \"%s\"?", near);
    return NULL;
}

static json_t *type_name(const struct typing *t)
{
    const char *text = t->value->text;
    size_t good = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    size_t len = strlen(text);
    if (len && good == len && *text != '.' && *text != '-' && len <= 32)
        return json_string(text);
    struct diag *d = mistyped(t);
    if (len > 32)
        diag_hint(d, "at most 32 characters");
    return NULL;
}

static json_t *type_path(const struct typing *t)
{
    const char *text = t->value->text;
    if (*text == '/')
        return json_string(text);
    struct diag *d = NULL;
    if (!*text || *text == '~') {
        d = mistyped(t);
        diag_hint(d, "write ${env:HOME} for the home directory");
        return NULL;
    }
    auto_free char *cwd = getcwd(NULL, 0);
    auto_free char *path = mem_printf("%s/%s", cwd ? cwd : "", text);
    return json_string(path);
}

static json_t *type_text(const struct typing *t)
{
    if (*t->value->text || !(t->key->flags & SCHEMA_NON_EMPTY))
        return json_string(t->value->text);
    complain(t->l, t->bound, "\"%s\" is empty, expected text", t->bound->node->text);
    return NULL;
}

static json_t *type_scalar(const struct typing *t)
{
    switch (t->key->type) {
    case SCHEMA_STRING: return type_text(t);
    case SCHEMA_PATH: return type_path(t);
    case SCHEMA_NAME: return type_name(t);
    case SCHEMA_BOOL: return type_bool(t);
    case SCHEMA_INT: return type_int(t);
    case SCHEMA_NUMBER: return type_number(t);
    case SCHEMA_DURATION: return type_duration(t);
    case SCHEMA_SIZE: return type_size(t);
    case SCHEMA_PERCENT: return type_percent(t);
    case SCHEMA_AMOUNT: return type_amount(t);
    case SCHEMA_CHOICE: return type_choice(t);
    case SCHEMA_SCALAR:
    case SCHEMA_ANY: return value_to_json(t->value);
    case SCHEMA_MAP:
    case SCHEMA_LIST: break;
    }
    BUG("%s is no scalar", t->key->path);
}

static json_t *resolve_scalar(struct loader *l, const struct schema_key *key,
                              const struct bound *bound)
{
    struct value value = {0};
    if (!scope_value(l, bound, &value))
        return NULL;
    json_t *out = NULL;
    size_t len = strlen(value.text);
    if (str_utf8_valid(value.text, len) == len)
        out = type_scalar(&(struct typing){l, bound, key, &value});
    else
        complain(l, bound, "is not valid UTF-8 after ${…}");
    value_release(&value);
    return out;
}

/* ---- trees ------------------------------------------------------------------------------------
 */
/* Free-form values (a fake's script): plain scalars by their looks. Depth is bounded by the tree.
 */
static json_t *resolve_any(struct loader *l, const struct bound *bound,
                           const struct yaml_node *node)
{
    struct bound at = *bound;
    at.node = node;
    if (node->kind == YAML_SCALAR) {
        at.dynamic = expr_present(node->text);
        json_t *scalar = resolve_scalar(l, bound->key, &at);
        return scalar ? scalar : json_null();
    }
    json_t *out = node->kind == YAML_SEQUENCE ? json_array() : json_object();
    for (size_t i = 0; i < node->count; i += node->kind == YAML_SEQUENCE ? 1 : 2)
        if (node->kind == YAML_SEQUENCE)
            json_array_append_new(out, resolve_any(l, bound, node->items[i]));
        else
            json_object_set_new(out, node->items[i]->text,
                                resolve_any(l, bound, node->items[i + 1]));
    return out;
}

/* The schema's own default, as a bound of its own; NULL if there is none. */
static struct bound *default_of(struct loader *l, const struct schema_key *key)
{
    if (!key->def)
        return NULL;
    struct bound **slot = &l->defaults[key - schema_keys];
    struct bound *made = *slot;
    if (made)
        return made;
    struct source source;
    struct diags diags = DIAGS_INIT;
    struct yaml_tree tree;
    source_init(&source, key->path, key->def, strlen(key->def));
    if (!yaml_tree_parse(&source, &tree, &diags))
        BUG("default of %s: %s", key->path, diags.items[0].message);
    *slot = bind_node(l, key, tree.root, NULL, NULL, NULL);
    arena_join(&l->arena, &tree.arena);
    source_release(&source);
    return *slot;
}

static void put(json_t *object, const struct schema_key *key, const char *name, json_t *value)
{
    auto_str json_name = STR_INIT;
    if (value)
        json_object_set_new(object, schema_json_name(key, name, &json_name), value);
}

/* Keys in the order of the schema; free names in the order of the file. */
static json_t *resolve_map(struct loader *l, const struct schema_key *key, struct bound *bound)
{
    json_t *out = json_object();
    for (const struct schema_key *child = schema_keys; child->path; child++) {
        if (!schema_is_child(key, child))
            continue;
        const char *name = schema_name(child);
        if (!strcmp(name, "*")) {
            for (struct bound *b = bound ? bound->first : NULL; b; b = b->next)
                put(out, child, b->name->text, resolve(l, child, b));
            continue;
        }
        struct bound *given = bound ? bound_child(bound, name, strlen(name)) : NULL;
        if (!given && (child->flags & SCHEMA_REQUIRED) && bound)
            complain_missing(l, bound, child);
        else
            put(out, child, name, resolve(l, child, given));
    }
    if (!bound && !json_object_size(out)) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *resolve_list(struct loader *l, struct bound *bound)
{
    json_t *out = json_array();
    for (struct bound *b = bound->first; b; b = b->next) {
        json_t *item = resolve(l, b->key, b);
        if (item)
            json_array_append_new(out, item);
    }
    return out;
}

static json_t *resolve_fresh(struct loader *l, const struct schema_key *key, struct bound *bound)
{
    switch (key->type) {
    case SCHEMA_MAP:
        if (!bound && (key->flags & SCHEMA_OPTIONAL))
            return NULL;
        return resolve_map(l, key, bound);
    case SCHEMA_LIST: return bound ? resolve_list(l, bound) : NULL;
    case SCHEMA_ANY: return bound ? resolve_any(l, bound, bound->node) : NULL;
    default: return bound ? resolve_scalar(l, key, bound) : NULL;
    }
}

json_t *resolve(struct loader *l, const struct schema_key *key, struct bound *bound)
{
    if (!bound)
        bound = default_of(l, key);
    if (!bound)
        return resolve_fresh(l, key, NULL);
    if (bound->bad)
        return NULL;
    if (bound->cached)
        return json_incref(bound->cached);
    json_t *value = resolve_fresh(l, key, bound);
    if (!bound->dynamic && value) {
        bound->cached = value;
        json_array_append(l->kept, value);
    } else if (!bound->dynamic) {
        bound->bad = true; /* once is enough */
    }
    return value;
}
