#include "harness/schema.h"

#include "common/num.h"

#include <string.h>

bool schema_is_child(const struct schema_key *parent, const struct schema_key *key)
{
    size_t n = strlen(parent->path);
    if (strncmp(key->path, parent->path, n) != 0)
        return false;
    const char *rest = key->path + n;
    if (!strcmp(rest, "[]"))
        return n > 0;
    if (n && *rest++ != '.')
        return false;
    return *rest && !strpbrk(rest, ".[");
}

const char *schema_name(const struct schema_key *key)
{
    if (str_ends_with(key->path, "[]"))
        return "[]";
    const char *dot = strrchr(key->path, '.');
    return dot ? dot + 1 : key->path;
}

const struct schema_key *schema_child(const struct schema_key *parent, const char *name, size_t len)
{
    const struct schema_key *any = NULL;
    for (const struct schema_key *key = schema_keys; key->path; key++) {
        if (!schema_is_child(parent, key))
            continue;
        const char *own = schema_name(key);
        if (strlen(own) == len && !memcmp(own, name, len))
            return key;
        if (!strcmp(own, "*"))
            any = key;
    }
    return any;
}

size_t schema_child_names(const struct schema_key *parent, const char **names, size_t max)
{
    size_t n = 0;
    for (const struct schema_key *key = schema_keys; key->path && n < max; key++)
        if (schema_is_child(parent, key) && strcmp(schema_name(key), "*") != 0)
            names[n++] = schema_name(key);
    return n;
}

const char *schema_json_name(const struct schema_key *key, const char *name, struct str *out)
{
    str_clear(out);
    str_append(out, name);
    if (key->type == SCHEMA_DURATION)
        str_append(out, "_s");
    else if (key->type == SCHEMA_SIZE)
        str_append(out, "_bytes");
    return out->data;
}

static void append_bounds(const struct schema_key *key, struct str *out)
{
    char low[NUM_F64_MAX], high[NUM_F64_MAX];
    if (!(key->min < key->max)) {
        if (key->min != 0 || key->max != 0)
            str_appendf(out, " equal to %s", num_format_f64(low, key->min));
    } else if (key->max >= 1e15) {
        str_appendf(out, " >= %s", num_format_f64(low, key->min));
    } else {
        str_appendf(out, " from %s to %s", num_format_f64(low, key->min),
                    num_format_f64(high, key->max));
    }
}

static void append_choices(const struct schema_key *key, struct str *out)
{
    size_t n = 0;
    while (key->choices[n])
        n++;
    for (size_t i = 0; i < n; i++)
        str_appendf(out, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", key->choices[i]);
}

void schema_append_expected(const struct schema_key *key, struct str *out)
{
    static const char *const words[] = {
        [SCHEMA_MAP] = "a mapping (key: value)",
        [SCHEMA_LIST] = "a list",
        [SCHEMA_STRING] = "text",
        [SCHEMA_PATH] = "a path",
        [SCHEMA_NAME] = "a name of letters, digits, \"_\", \"-\" and \".\"",
        [SCHEMA_BOOL] = "true or false",
        [SCHEMA_INT] = "an integer",
        [SCHEMA_NUMBER] = "a number",
        [SCHEMA_DURATION] = "a duration with its unit, such as 90s or 1m30s",
        [SCHEMA_SIZE] = "a size with its unit, such as 64MiB or 10MB",
        [SCHEMA_PERCENT] = "a percentage, such as 1%",
        [SCHEMA_AMOUNT] = "a number, or a duration such as 100ms",
        [SCHEMA_CHOICE] = "",
        [SCHEMA_SCALAR] = "text, a number, true or false",
        [SCHEMA_ANY] = "a value",
    };
    if (key->type == SCHEMA_MAP && key->shorthand) {
        const struct schema_key *short_form =
            schema_child(key, key->shorthand, strlen(key->shorthand));
        schema_append_expected(short_form, out);
        str_append(out, ", or ");
    }
    str_append(out, words[key->type]);
    if (key->type == SCHEMA_CHOICE)
        append_choices(key, out);
    else if (key->type == SCHEMA_INT || key->type == SCHEMA_NUMBER)
        append_bounds(key, out);
    if (key->flags & SCHEMA_SHARE)
        str_append(out, ", at most 100%");
}
