#include "common/json.h"

#include "common/fs.h"
#include "common/num.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

void json_cleanup_(json_t **j)
{
    json_decref(*j);
}

void json_put(json_t *obj, const char *key, json_t *value)
{
    if (!value)
        BUG("no JSON value for \"%s\"", key);
    if (json_object_get(obj, key))
        BUG("duplicate JSON key \"%s\"", key);
    if (json_object_set_new(obj, key, value))
        BUG("cannot set JSON key \"%s\"", key);
}

void json_put_str(json_t *obj, const char *key, const char *value)
{
    if (!value) {
        json_put(obj, key, json_null());
        return;
    }
    json_t *string = json_string(value);
    if (!string) { /* invalid UTF-8 */
        auto_str clean = STR_INIT;
        str_append_printable(&clean, value, strlen(value));
        string = json_string(clean.data);
    }
    json_put(obj, key, string);
}

json_t *json_strings(const struct strv *v)
{
    json_t *array = json_array();
    for (size_t i = 0; i < v->count; i++) {
        auto_json *holder = json_object();
        json_put_str(holder, "x", v->items[i]);
        json_array_append(array, json_object_get(holder, "x"));
    }
    return array;
}

void json_put_int(json_t *obj, const char *key, int64_t value)
{
    json_put(obj, key, json_integer(value));
}

void json_put_bool(json_t *obj, const char *key, bool value)
{
    json_put(obj, key, json_boolean(value));
}

void json_put_f64(json_t *obj, const char *key, double value)
{
    json_put(obj, key, isfinite(value) ? json_real(value) : json_null());
}

void json_put_null(json_t *obj, const char *key, const char *why)
{
    json_put(obj, key, json_null());
    auto_str why_key = STR_INIT;
    str_appendf(&why_key, "%s_why", key);
    json_put_str(obj, why_key.data, why);
}

const json_t *json_at(const json_t *obj, const char *path)
{
    while (obj && *path) {
        size_t n = strcspn(path, ".");
        char key[128];
        if (n >= sizeof key)
            return NULL;
        memcpy(key, path, n);
        key[n] = '\0';
        obj = json_object_get(obj, key);
        path += n + (path[n] == '.');
    }
    return obj;
}

bool json_read_f64(const json_t *obj, const char *path, double *out)
{
    const json_t *v = json_at(obj, path);
    if (!json_is_number(v))
        return false;
    *out = json_number_value(v);
    return true;
}

bool json_read_i64(const json_t *obj, const char *path, int64_t *out)
{
    const json_t *v = json_at(obj, path);
    if (!json_is_integer(v))
        return false;
    *out = json_integer_value(v);
    return true;
}

bool json_read_bool(const json_t *obj, const char *path, bool *out)
{
    const json_t *v = json_at(obj, path);
    if (!json_is_boolean(v))
        return false;
    *out = json_is_true(v);
    return true;
}

const char *json_read_str(const json_t *obj, const char *path)
{
    return json_string_value(json_at(obj, path));
}

static void newline(struct str *out, int indent, int depth)
{
    if (indent)
        str_appendf(out, "\n%*s", indent * depth, "");
}

static void write_string(struct str *out, const json_t *value)
{
    const char *s = json_string_value(value);
    size_t n = json_string_length(value);
    str_append_char(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            str_appendf(out, "\\%c", c);
        else if (c == '\n')
            str_append(out, "\\n");
        else if (c == '\t')
            str_append(out, "\\t");
        else if (c < 0x20)
            str_appendf(out, "\\u%04x", c);
        else
            str_append_char(out, (char)c);
    }
    str_append_char(out, '"');
}

/* jansson's own dump prints 17 digits always ("0.10000000000000001"); ours the shortest form. */
static void write_value(struct str *out, const json_t *value, int indent, int depth)
{
    char buf[NUM_F64_MAX];
    size_t i;
    json_t *item;
    const char *key;
    bool first = true;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        str_append_char(out, '{');
        json_object_foreach((json_t *)value, key, item)
        {
            if (!first)
                str_append_char(out, ',');
            newline(out, indent, depth + 1);
            json_t *name = json_string(key);
            write_string(out, name);
            json_decref(name);
            str_append(out, indent ? ": " : ":");
            write_value(out, item, indent, depth + 1);
            first = false;
        }
        if (!first)
            newline(out, indent, depth);
        str_append_char(out, '}');
        break;
    case JSON_ARRAY:
        str_append_char(out, '[');
        json_array_foreach(value, i, item)
        {
            if (i)
                str_append_char(out, ',');
            newline(out, indent, depth + 1);
            write_value(out, item, indent, depth + 1);
        }
        if (json_array_size(value))
            newline(out, indent, depth);
        str_append_char(out, ']');
        break;
    case JSON_STRING: write_string(out, value); break;
    case JSON_INTEGER: str_appendf(out, "%" PRId64, (int64_t)json_integer_value(value)); break;
    case JSON_REAL:
        num_format_f64(buf, json_real_value(value));
        str_append(out, buf);
        if (!strpbrk(buf, ".en")) /* a real stays a real when read back */
            str_append(out, ".0");
        break;
    case JSON_TRUE: str_append(out, "true"); break;
    case JSON_FALSE: str_append(out, "false"); break;
    case JSON_NULL: str_append(out, "null"); break;
    }
}

void json_write(struct str *out, const json_t *value, int indent)
{
    write_value(out, value, indent, 0);
}

int json_parse(const char *text, size_t len, const char *name, int code, json_t **out,
               struct error *err)
{
    json_error_t why;
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!value)
        return error_set(err, code, "%s:%d:%d: not valid JSON: %s", name, why.line, why.column,
                         why.text);
    *out = value;
    return 0;
}

int json_read_file(const char *path, int code, json_t **out, struct error *err)
{
    auto_str text = STR_INIT;
    if (fs_read_file(path, &text, code, err))
        return -err->code;
    return json_parse(text.data, text.len, path, code, out, err);
}

int json_write_file(const char *path, const json_t *value, int code, struct error *err)
{
    auto_str text = STR_INIT;
    json_write(&text, value, 2);
    str_append_char(&text, '\n');
    return fs_write_atomic(path, text.data, text.len, code, err);
}

int json_append_line(int fd, const char *path, const json_t *value, int code, struct error *err)
{
    auto_str line = STR_INIT;
    json_write(&line, value, 0);
    str_append_char(&line, '\n');
    ssize_t n;
    do
        n = write(fd, line.data, line.len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_errno(err, code, errno, "cannot write %s", path);
    if ((size_t)n != line.len)
        return error_errno(err, code, ENOSPC, "cannot write %s", path);
    return 0;
}
