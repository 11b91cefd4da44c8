#include "harness/expr.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NESTING_MAX = 16, ARGUMENTS_MAX = 16 };

/* ---- values -----------------------------------------------------------------------------------
 */
void value_release(struct value *value)
{
    free(value->text);
    *value = (struct value){0};
}

void value_copy(struct value *dst, const struct value *src)
{
    *dst = *src;
    dst->text = mem_strdup(src->text);
}

void value_of_plain(const char *text, struct value *out)
{
    *out = (struct value){.kind = VALUE_TEXT, .text = mem_strdup(text)};
    if (num_parse_i64(text, &out->integer)) {
        out->kind = VALUE_INT;
    } else if (num_parse_f64(text, &out->number)) {
        out->kind = VALUE_FLOAT;
    } else if (!strcmp(text, "true") || !strcmp(text, "false")) {
        out->kind = VALUE_BOOL;
        out->integer = *text == 't';
    }
}

void expr_error_release(struct expr_error *error)
{
    free(error->message);
    free(error->hint);
    *error = (struct expr_error){0};
}

/* ---- parser -----------------------------------------------------------------------------------
 */
/* A number under way: integer as long as it can be. */
struct number {
    bool is_int;
    int64_t i;
    double f;
};

struct parser {
    const char *text;
    size_t at, end; /* the expression: text[at .. end) */
    int nesting;
    const struct expr_scope *scope;
    struct expr_error *error;
};

static bool fail(struct parser *p, size_t offset, size_t length, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static bool fail(struct parser *p, size_t offset, size_t length, const char *fmt, ...)
{
    if (p->error->message)
        return false;
    va_list ap;
    va_start(ap, fmt);
    p->error->message = mem_vprintf(fmt, ap);
    va_end(ap);
    p->error->offset = offset;
    p->error->length = length;
    return false;
}

static void hint(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void hint(struct parser *p, const char *fmt, ...)
{
    if (p->error->hint)
        return;
    va_list ap;
    va_start(ap, fmt);
    p->error->hint = mem_vprintf(fmt, ap);
    va_end(ap);
}

static double as_float(const struct number *n)
{
    return n->is_int ? (double)n->i : n->f;
}

static struct number from_float(double f)
{
    return (struct number){.is_int = false, .f = f};
}

static struct number from_int(int64_t i)
{
    return (struct number){.is_int = true, .i = i};
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(char c)
{
    return is_name_start(c) || (c >= '0' && c <= '9');
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end && strchr(" \t\r\n", p->text[p->at]))
        p->at++;
}

static bool accept(struct parser *p, const char *token)
{
    skip_blanks(p);
    size_t n = strlen(token);
    if (p->end - p->at < n || memcmp(p->text + p->at, token, n) != 0)
        return false;
    p->at += n;
    return true;
}

static char *take_name(struct parser *p)
{
    size_t n = 0;
    while (p->at + n < p->end && is_name(p->text[p->at + n]))
        n++;
    char *name = mem_strndup(p->text + p->at, n);
    p->at += n;
    return name;
}

static const struct value *look_up(struct parser *p, const char *name, size_t at)
{
    const struct value *value = p->scope->lookup(p->scope->ctx, name, p->error);
    if (value)
        return value;
    if (p->error->message) {
        p->error->offset = at;
        p->error->length = strlen(name);
        return NULL;
    }
    fail(p, at, strlen(name), "\"%s\" is neither in vars nor in the matrix", name);
    const char *near = p->scope->nearest ? p->scope->nearest(p->scope->ctx, name) : NULL;
    if (near)
        hint(p, "did you mean \"%s\"?", near);
    else
        hint(p, "the environment is read with ${env:%s}", name);
    return NULL;
}

static bool name_value(struct parser *p, struct number *out)
{
    size_t at = p->at;
    auto_free char *name = take_name(p);
    const struct value *value = look_up(p, name, at);
    if (!value)
        return false;
    if (value->kind == VALUE_INT)
        *out = from_int(value->integer);
    else if (value->kind == VALUE_FLOAT)
        *out = from_float(value->number);
    else
        return fail(p, at, strlen(name), "\"%s\" is \"%s\", expected a number here", name,
                    value->text);
    return true;
}

static bool literal(struct parser *p, struct number *out)
{
    size_t n = 0;
    while (p->at + n < p->end &&
           (is_name(p->text[p->at + n]) || p->text[p->at + n] == '.' ||
            (n && strchr("+-", p->text[p->at + n]) && strchr("eE", p->text[p->at + n - 1]))))
        n++;
    auto_free char *text = mem_strndup(p->text + p->at, n);
    if (num_parse_i64(text, &out->i))
        out->is_int = true;
    else if (num_parse_f64(text, &out->f))
        out->is_int = false;
    else
        return fail(p, p->at, n, "\"%s\" is no number", text);
    p->at += n;
    return true;
}

static bool sum(struct parser *p, struct number *out);

/* min(a, b, …), max(a, b, …), ceil(a), floor(a); the name is already taken. */
static bool call(struct parser *p, const char *name, size_t at, struct number *out)
{
    bool is_min = !strcmp(name, "min"), is_max = !strcmp(name, "max");
    bool is_ceil = !strcmp(name, "ceil"), is_floor = !strcmp(name, "floor");
    if (!is_min && !is_max && !is_ceil && !is_floor)
        return fail(p, at, strlen(name), "no function \"%s\", expected min, max, ceil or floor",
                    name);
    size_t count = 0;
    do {
        struct number next;
        if (!sum(p, &next))
            return false;
        if (!count || (is_min && as_float(&next) < as_float(out)) ||
            (is_max && as_float(&next) > as_float(out)))
            *out = next;
        count++;
    } while (accept(p, ","));
    if (!accept(p, ")"))
        return fail(p, p->at, 1, "expected \")\" or \",\"");
    if ((is_ceil || is_floor) && count != 1)
        return fail(p, at, strlen(name), "%s takes one number", name);
    if ((is_ceil || is_floor) && !out->is_int) {
        double rounded = is_ceil ? ceil(out->f) : floor(out->f);
        if (!(fabs(rounded) < 0x1p63))
            return fail(p, at, strlen(name), "the result is out of range");
        *out = from_int((int64_t)rounded);
    }
    return true;
}

static bool nested(struct parser *p, bool (*rule)(struct parser *, struct number *),
                   struct number *out)
{
    if (++p->nesting > NESTING_MAX)
        return fail(p, p->at, 1, "nested deeper than %d levels", NESTING_MAX);
    bool good = rule(p, out);
    p->nesting--;
    return good;
}

static bool primary(struct parser *p, struct number *out)
{
    skip_blanks(p);
    if (p->at >= p->end)
        return fail(p, p->at, 1, "expected a name or a number");
    char c = p->text[p->at];
    if (c == '(') {
        p->at++;
        if (!nested(p, sum, out))
            return false;
        return accept(p, ")") || fail(p, p->at, 1, "expected \")\"");
    }
    if (is_name_start(c)) {
        size_t at = p->at;
        auto_free char *name = take_name(p);
        if (!accept(p, "(")) {
            p->at = at;
            return name_value(p, out);
        }
        if (++p->nesting > NESTING_MAX)
            return fail(p, p->at, 1, "nested deeper than %d levels", NESTING_MAX);
        bool good = call(p, name, at, out);
        p->nesting--;
        return good;
    }
    if ((c >= '0' && c <= '9') || c == '.')
        return literal(p, out);
    return fail(p, p->at, 1, "expected a name or a number");
}

static bool unary(struct parser *p, struct number *out)
{
    bool negative = false;
    size_t at = p->at;
    while (accept(p, "-"))
        negative = !negative;
    if (!primary(p, out))
        return false;
    if (negative && out->is_int && __builtin_sub_overflow((int64_t)0, out->i, &out->i))
        return fail(p, at, 1, "the result is out of range");
    if (negative)
        out->f = -out->f;
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static bool int_operation(const char *op, int64_t a, int64_t b, struct number *out, bool *overflow)
{
    *out = from_int(0);
    *overflow = false;
    if (b == -1 && strcmp(op, "*") != 0) { /* INT64_MIN / -1 */
        if (!strcmp(op, "%"))
            return true;
        *overflow = __builtin_sub_overflow((int64_t)0, a, &out->i);
        return true;
    }
    if (!strcmp(op, "*"))
        *overflow = __builtin_mul_overflow(a, b, &out->i);
    else if (!strcmp(op, "//"))
        out->i = floor_div(a, b);
    else if (!strcmp(op, "%"))
        out->i = a - floor_div(a, b) * b;
    else if (a % b == 0)
        out->i = a / b;
    else
        *out = from_float((double)a / (double)b);
    return true;
}

static double float_operation(const char *op, double a, double b)
{
    if (!strcmp(op, "*"))
        return a * b;
    if (!strcmp(op, "//"))
        return floor(a / b);
    if (!strcmp(op, "%"))
        return a - floor(a / b) * b;
    return a / b;
}

static bool product(struct parser *p, struct number *out)
{
    static const char *const ops[] = {"*", "//", "/", "%"};
    if (!unary(p, out))
        return false;
    for (;;) {
        const char *op = NULL;
        for (size_t i = 0; i < 4 && !op; i++)
            if (accept(p, ops[i]))
                op = ops[i];
        if (!op)
            return true;
        size_t at = p->at - strlen(op);
        struct number right, left = *out;
        if (!unary(p, &right))
            return false;
        if (*op != '*' && as_float(&right) == 0)
            return fail(p, at, strlen(op), "division by zero");
        bool overflow = false;
        if (left.is_int && right.is_int)
            int_operation(op, left.i, right.i, out, &overflow);
        else
            *out = from_float(float_operation(op, as_float(&left), as_float(&right)));
        if (overflow || (!out->is_int && !isfinite(out->f)))
            return fail(p, at, strlen(op), "the result is out of range");
    }
}

static bool sum(struct parser *p, struct number *out)
{
    if (!product(p, out))
        return false;
    for (;;) {
        bool plus = accept(p, "+");
        if (!plus && !accept(p, "-"))
            return true;
        size_t at = p->at - 1;
        struct number right;
        if (!product(p, &right))
            return false;
        bool overflow = false;
        if (out->is_int && right.is_int)
            overflow = plus ? __builtin_add_overflow(out->i, right.i, &out->i)
                            : __builtin_sub_overflow(out->i, right.i, &out->i);
        else
            *out = from_float(plus ? as_float(out) + as_float(&right)
                                   : as_float(out) - as_float(&right));
        if (overflow || (!out->is_int && !isfinite(out->f)))
            return fail(p, at, 1, "the result is out of range");
    }
}

/* ---- texts ------------------------------------------------------------------------------------
 */
static void value_of_number(const struct number *n, struct value *out)
{
    *out = (struct value){0};
    if (n->is_int) {
        out->kind = VALUE_INT;
        out->integer = n->i;
        out->text = mem_printf("%" PRId64, n->i);
    } else {
        char text[NUM_F64_MAX];
        out->kind = VALUE_FLOAT;
        out->number = n->f;
        out->text = mem_strdup(num_format_f64(text, n->f));
    }
}

static bool environment(struct parser *p, struct value *out)
{
    size_t at = p->at;
    auto_free char *name = mem_strndup(p->text + p->at, p->end - p->at);
    const char *value = getenv(str_trim(name));
    if (!value)
        return fail(p, at, p->end - at, "environment variable \"%s\" is not set", name);
    if (str_utf8_valid(value, strlen(value)) != strlen(value))
        return fail(p, at, p->end - at, "environment variable \"%s\" is not valid UTF-8", name);
    *out = (struct value){.kind = VALUE_TEXT, .text = mem_strdup(value)};
    return true;
}

/* The expression between the braces: a lone name keeps its type and spelling. */
static bool expression(struct parser *p, struct value *out)
{
    if (accept(p, "env:"))
        return environment(p, out);
    skip_blanks(p);
    size_t start = p->at;
    if (p->at < p->end && is_name_start(p->text[p->at])) {
        auto_free char *name = take_name(p);
        skip_blanks(p);
        if (p->at == p->end) {
            const struct value *value = look_up(p, name, start);
            if (value)
                value_copy(out, value);
            return value != NULL;
        }
        p->at = start;
    }
    struct number n;
    if (!sum(p, &n))
        return false;
    skip_blanks(p);
    if (p->at < p->end)
        return fail(p, p->at, p->end - p->at, "\"%.*s\" is not understood, expected an operator",
                    (int)(p->end - p->at), p->text + p->at);
    value_of_number(&n, out);
    return true;
}

bool expr_is_name(const char *text)
{
    if (!is_name_start(*text))
        return false;
    while (is_name(*text))
        text++;
    return !*text;
}

bool expr_present(const char *text)
{
    return strchr(text, '$') != NULL;
}

/* One ${…} at text[at]; *next is behind its brace. */
static bool expand_one(const char *text, size_t at, size_t *next, const struct expr_scope *scope,
                       struct value *out, struct expr_error *error)
{
    struct parser p = {.text = text, .at = at + 2, .scope = scope, .error = error};
    const char *close = strchr(text + at, '}');
    if (!close)
        return fail(&p, at, 2, "\"${\" without its \"}\"");
    p.end = (size_t)(close - text);
    *next = p.end + 1;
    return expression(&p, out);
}

bool expr_expand(const char *text, const struct expr_scope *scope, struct value *out,
                 struct expr_error *error)
{
    auto_str result = STR_INIT;
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t plain = strcspn(text + i, "$");
        str_append_n(&result, text + i, plain);
        i += plain;
        if (i == len)
            break;
        if (text[i + 1] == '$') {
            str_append_char(&result, '$');
            i += 2;
            continue;
        }
        struct parser here = {.error = error};
        if (text[i + 1] != '{') {
            fail(&here, i, 1, "a lone \"$\", expected ${…}");
            hint(&here, "write $$ for a dollar, ${env:NAME} for the environment");
            return false;
        }
        size_t start = i;
        struct value value = {0};
        if (!expand_one(text, i, &i, scope, &value, error))
            return false;
        if (!start && i == len) { /* a lone ${…} keeps its type */
            *out = value;
            return true;
        }
        str_append(&result, value.text);
        value_release(&value);
    }
    *out = (struct value){.kind = VALUE_TEXT, .text = str_steal(&result)};
    return true;
}

bool expr_next_name(const char *text, struct expr_cursor *cursor, struct str *name)
{
    for (; text[cursor->at]; cursor->at++) {
        const char *p = text + cursor->at;
        if (!cursor->inside) {
            if (p[0] != '$' || !p[1])
                continue;
            cursor->inside = p[1] == '{' && strncmp(p + 2, "env:", 4) != 0;
            cursor->at++;
        } else if (*p == '}') {
            cursor->inside = false;
        } else if (is_name_start(*p) && !is_name(p[-1])) {
            size_t n = 0;
            while (is_name(p[n]))
                n++;
            str_clear(name);
            str_append_n(name, p, n);
            cursor->at += n;
            return true;
        }
    }
    return false;
}
