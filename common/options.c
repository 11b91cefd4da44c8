#include "common/options.h"

#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"

#include <stdlib.h>
#include <string.h>

#define FIELD(type, out, spec) ((type *)(void *)((char *)(out) + (spec)->offset))

static bool same_name(const char *spec, const char *given, size_t n)
{
    size_t i = 0;
    for (; i < n && spec[i]; i++) {
        char a = spec[i] == '_' ? '-' : spec[i];
        char b = given[i] == '_' ? '-' : given[i];
        if (a != b)
            return false;
    }
    return i == n && !spec[i];
}

static const struct option_spec *find_long(const struct option_spec *specs, const char *name,
                                           size_t n)
{
    for (; specs->name; specs++)
        if (same_name(specs->name, name, n))
            return specs;
    return NULL;
}

static const struct option_spec *find_letter(const struct option_spec *specs, char letter)
{
    for (; specs->name; specs++)
        if (specs->letter == letter)
            return specs;
    return NULL;
}

static bool parse_bool(const char *value, bool *out)
{
    static const char *const yes[] = {"true", "True", "1", "yes"};
    static const char *const no[] = {"false", "False", "0", "no"};
    for (size_t i = 0; i < 4; i++) {
        if (!strcmp(value, yes[i]))
            return *out = true, true;
        if (!strcmp(value, no[i]))
            return *out = false, true;
    }
    return false;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = choices;; p++) {
        size_t m = strcspn(p, "|");
        if (m == n && !memcmp(p, value, n))
            return true;
        p += m;
        if (!*p)
            return false;
    }
}

static int bad_value(const struct option_spec *spec, const char *value, struct error *err)
{
    static const char *const expected[] = {
        [OPT_BOOL] = "true or false",
        [OPT_INT] = "an integer",
        [OPT_FLOAT] = "a number",
        [OPT_DURATION] = "a duration with its unit, such as 90s or 1m30s",
        [OPT_SIZE] = "a size with its unit, such as 64MiB or 10MB",
        [OPT_PERCENT] = "a percentage, such as 1%",
        [OPT_CHOICE] = "one of",
    };
    if (spec->type == OPT_CHOICE)
        return error_set(err, NCBENCH_EXIT_USAGE, "option --%s: \"%s\", expected one of %s",
                         spec->name, value, spec->metavar);
    return error_set(err, NCBENCH_EXIT_USAGE, "option --%s: \"%s\", expected %s", spec->name, value,
                     expected[spec->type]);
}

static int check_range(const struct option_spec *spec, double value, const char *text,
                       struct error *err)
{
    if (!(spec->min < spec->max) || (value >= spec->min && value <= spec->max))
        return 0;
    char low[NUM_F64_MAX], high[NUM_F64_MAX];
    return error_set(err, NCBENCH_EXIT_USAGE, "option --%s: %s is out of range, expected %s to %s",
                     spec->name, text, num_format_f64(low, spec->min),
                     num_format_f64(high, spec->max));
}

static int set_string(char **field, const char *value)
{
    free(*field);
    *field = mem_strdup(value);
    return 0;
}

static int set_value(const struct option_spec *spec, void *out, const char *value,
                     struct error *err)
{
    bool ok = true;
    switch (spec->type) {
    case OPT_BOOL: ok = parse_bool(value, FIELD(bool, out, spec)); break;
    case OPT_INT:
        ok = num_parse_i64(value, FIELD(int64_t, out, spec));
        if (ok)
            return check_range(spec, (double)*FIELD(int64_t, out, spec), value, err);
        break;
    case OPT_FLOAT:
        ok = num_parse_f64(value, FIELD(double, out, spec));
        if (ok)
            return check_range(spec, *FIELD(double, out, spec), value, err);
        break;
    case OPT_DURATION: ok = num_parse_duration(value, FIELD(double, out, spec)); break;
    case OPT_SIZE: ok = num_parse_size(value, FIELD(int64_t, out, spec)); break;
    case OPT_PERCENT: ok = num_parse_percent(value, FIELD(double, out, spec)); break;
    case OPT_CHOICE:
        if (is_choice(spec->metavar, value))
            return set_string(FIELD(char *, out, spec), value);
        ok = false;
        break;
    case OPT_STRING: return set_string(FIELD(char *, out, spec), value);
    case OPT_LIST: strv_push(FIELD(struct strv, out, spec), value); break;
    case OPT_NONE: BUG("option without a type");
    }
    return ok ? 0 : bad_value(spec, value, err);
}

void options_defaults(const struct option_spec *specs, void *out)
{
    for (; specs->name; specs++) {
        switch (specs->type) {
        case OPT_BOOL: *FIELD(bool, out, specs) = false; break;
        case OPT_INT:
        case OPT_SIZE: *FIELD(int64_t, out, specs) = 0; break;
        case OPT_FLOAT:
        case OPT_DURATION:
        case OPT_PERCENT: *FIELD(double, out, specs) = 0; break;
        case OPT_STRING:
        case OPT_CHOICE: *FIELD(char *, out, specs) = NULL; break;
        case OPT_LIST: *FIELD(struct strv, out, specs) = (struct strv)STRV_INIT; break;
        case OPT_NONE: BUG("option --%s has no type", specs->name);
        }
        struct error err = ERROR_INIT;
        if (specs->def && set_value(specs, out, specs->def, &err))
            BUG("default of --%s: %s", specs->name, err.message);
    }
}

static int unknown_option(const struct option_spec *specs, const char *name, size_t n,
                          struct error *err)
{
    const char *names[128];
    size_t count = 0;
    for (; specs->name && count < 128; specs++)
        names[count++] = specs->name;
    char *given = mem_strndup(name, n);
    for (char *p = given; *p; p++)
        if (*p == '_')
            *p = '-';
    error_set(err, NCBENCH_EXIT_USAGE, "unknown option --%s", given);
    const char *near = str_nearest(given, names, count);
    if (near)
        error_hint(err, "did you mean --%s?", near);
    free(given);
    return -err->code;
}

/* One long option at argv[0] ("--name…"); *used is how many arguments it took. */
static int parse_long(const struct option_spec *specs, void *out, int argc, char *const *argv,
                      int *used, struct error *err)
{
    const char *name = argv[0] + 2;
    size_t n = strcspn(name, "=");
    const struct option_spec *spec = find_long(specs, name, n);
    *used = 1;
    if (!spec)
        return unknown_option(specs, name, n, err);
    if (name[n] == '=')
        return set_value(spec, out, name + n + 1, err);
    if (spec->type == OPT_BOOL) {
        *FIELD(bool, out, spec) = true;
        return 0;
    }
    if (argc < 2)
        return error_set(err, NCBENCH_EXIT_USAGE, "option --%s needs a value", spec->name);
    *used = 2;
    return set_value(spec, out, argv[1], err);
}

/* "-x", "-x value", "-xvalue". */
static int parse_short(const struct option_spec *specs, void *out, int argc, char *const *argv,
                       int *used, struct error *err)
{
    const struct option_spec *spec = find_letter(specs, argv[0][1]);
    *used = 1;
    if (!spec)
        return error_set(err, NCBENCH_EXIT_USAGE, "unknown option %s", argv[0]);
    if (spec->type == OPT_BOOL) {
        if (argv[0][2])
            return error_set(err, NCBENCH_EXIT_USAGE, "option -%c takes no value", spec->letter);
        *FIELD(bool, out, spec) = true;
        return 0;
    }
    if (argv[0][2])
        return set_value(spec, out, argv[0] + 2, err);
    if (argc < 2)
        return error_set(err, NCBENCH_EXIT_USAGE, "option -%c needs a value", spec->letter);
    *used = 2;
    return set_value(spec, out, argv[1], err);
}

int options_parse(const struct option_spec *specs, void *out, int argc, char *const *argv,
                  struct strv *operands, struct error *err)
{
    bool options_ended = false;
    for (int i = 0, used; i < argc; i += used) {
        const char *arg = argv[i];
        used = 1;
        if (!options_ended && !strcmp(arg, "--")) {
            options_ended = true;
        } else if (options_ended || arg[0] != '-' || !arg[1]) {
            if (!operands)
                return error_set(err, NCBENCH_EXIT_USAGE, "unexpected argument \"%s\"", arg);
            strv_push(operands, arg);
        } else if (arg[1] == '-' ? parse_long(specs, out, argc - i, argv + i, &used, err)
                                 : parse_short(specs, out, argc - i, argv + i, &used, err)) {
            return -err->code;
        }
    }
    return 0;
}

bool options_given(const struct option_spec *specs, int argc, char *const *argv, const char *name)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const struct option_spec *spec = NULL;
        bool value_follows = false;
        if (!strncmp(argv[i], "--", 2)) {
            size_t n = strcspn(argv[i] + 2, "=");
            spec = find_long(specs, argv[i] + 2, n);
            value_follows = spec && spec->type != OPT_BOOL && !argv[i][2 + n];
        } else if (argv[i][0] == '-' && argv[i][1]) {
            spec = find_letter(specs, argv[i][1]);
            value_follows = spec && spec->type != OPT_BOOL && !argv[i][2];
        }
        if (spec && !strcmp(spec->name, name))
            return true;
        i += value_follows;
    }
    return false;
}

void options_release(const struct option_spec *specs, void *out)
{
    for (; specs->name; specs++) {
        if (specs->type == OPT_STRING || specs->type == OPT_CHOICE) {
            free(*FIELD(char *, out, specs));
            *FIELD(char *, out, specs) = NULL;
        } else if (specs->type == OPT_LIST) {
            strv_release(FIELD(struct strv, out, specs));
        }
    }
}

/* A file name need not be UTF-8, JSON must. */
static json_t *text_to_json(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();
    if (value)
        return value;
    auto_str clean = STR_INIT;
    str_append_printable(&clean, text, strlen(text));
    return json_string(clean.data);
}

static json_t *value_to_json(const struct option_spec *spec, const void *out)
{
    void *field = (char *)(uintptr_t)out + spec->offset;
    json_t *list;
    switch (spec->type) {
    case OPT_BOOL: return json_boolean(*(bool *)field);
    case OPT_INT:
    case OPT_SIZE: return json_integer(*(int64_t *)field);
    case OPT_FLOAT:
    case OPT_DURATION:
    case OPT_PERCENT: return json_real(*(double *)field);
    case OPT_STRING:
    case OPT_CHOICE: return text_to_json(*(char **)field);
    case OPT_LIST:
        list = json_array();
        for (size_t i = 0; i < ((struct strv *)field)->count; i++)
            json_array_append_new(list, text_to_json(((struct strv *)field)->items[i]));
        return list;
    case OPT_NONE: break;
    }
    BUG("option --%s has no type", spec->name);
}

json_t *options_to_json(const struct option_spec *specs, const void *out)
{
    json_t *obj = json_object();
    for (; specs->name; specs++) {
        auto_str name = STR_INIT;
        str_append(&name, specs->name);
        for (char *p = name.data; *p; p++)
            if (*p == '-')
                *p = '_';
        json_put(obj, name.data, value_to_json(specs, out));
    }
    return obj;
}

/* Append text wrapped at 80 columns, continuation lines indented by `indent`. */
static void append_wrapped(struct str *out, const char *text, size_t column, size_t indent)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column + n > 80 && column > indent) {
            str_appendf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        str_append_n(out, text, n);
        column += n;
        text += n;
        if (*text) {
            text++;
            if (column < 80) {
                str_append_char(out, ' ');
                column++;
            }
        }
    }
}

static const char *metavar_of(const struct option_spec *spec)
{
    static const char *const by_type[] = {
        [OPT_INT] = "N",        [OPT_FLOAT] = "X",   [OPT_STRING] = "TEXT",  [OPT_LIST] = "TEXT",
        [OPT_DURATION] = "DUR", [OPT_SIZE] = "SIZE", [OPT_PERCENT] = "PCT%", [OPT_CHOICE] = "WORD",
    };
    return spec->metavar ? spec->metavar : by_type[spec->type];
}

void options_help(const struct option_spec *specs, struct str *out)
{
    const size_t indent = 30;
    for (; specs->name; specs++) {
        size_t start = out->len;
        str_append(out, "  ");
        if (specs->letter)
            str_appendf(out, "-%c, ", specs->letter);
        str_appendf(out, "--%s", specs->name);
        if (specs->type != OPT_BOOL)
            str_appendf(out, " %s", metavar_of(specs));
        size_t column = out->len - start;
        if (column + 2 > indent) {
            str_appendf(out, "\n%*s", (int)indent, "");
        } else {
            str_appendf(out, "%*s", (int)(indent - column), "");
        }
        auto_str text = STR_INIT;
        str_append(&text, specs->help);
        if (specs->def && *specs->def)
            str_appendf(&text, " (default %s)", specs->def);
        append_wrapped(out, text.data, indent, indent);
        str_append_char(out, '\n');
    }
}
