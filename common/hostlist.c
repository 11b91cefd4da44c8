#include "common/hostlist.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct expansion {
    const char *text; /* the whole, for messages */
    struct strv *names;
    size_t first; /* names that were there already */
    int code;
    struct error *err;
};

static int bad(const struct expansion *x, const char *what)
{
    return error_set(x->err, x->code, "node list \"%s\": %s", x->text, what);
}

static int expand(struct expansion *x, const char *prefix, const char *rest, size_t len);

/* "003" or "001-003" at p, up to ',' or ']'. */
static int read_range(struct expansion *x, const char *p, const char *end, long *low, long *high,
                      int *width)
{
    char *after;
    if (!isdigit((unsigned char)*p))
        return bad(x, "expected a number within [ ]");
    *low = *high = strtol(p, &after, 10);
    *width = *p == '0' ? (int)(after - p) : 0;
    if (after < end && *after == '-') {
        p = after + 1;
        if (!isdigit((unsigned char)*p))
            return bad(x, "expected a number behind -");
        *high = strtol(p, &after, 10);
    }
    if (after != end)
        return bad(x, "expected numbers and ranges within [ ]");
    if (*high < *low || *high - *low >= HOSTLIST_MAX)
        return bad(x, *high < *low ? "a range that goes down" : "too many nodes");
    return 0;
}

static int expand_brackets(struct expansion *x, const char *prefix, const char *inside,
                           const char *close, const char *rest, size_t len)
{
    for (const char *p = inside; p <= close;) {
        const char *end = p;
        long low = 0, high = 0;
        int width = 0;
        while (end < close && *end != ',')
            end++;
        if (read_range(x, p, end, &low, &high, &width))
            return -x->code;
        for (long n = low; n <= high; n++) {
            auto_free char *next = mem_printf("%s%0*ld", prefix, width, n);
            if (expand(x, next, rest, len))
                return -x->code;
        }
        p = end + 1;
    }
    return 0;
}

/* One name, perhaps with brackets; prefix: what is known of it already. Each pair of brackets is a
 * level, so the depth is bounded by the length of the text. */
static int expand(struct expansion *x, const char *prefix, const char *rest, size_t len)
{
    const char *open = memchr(rest, '[', len);
    if (!open) {
        if (memchr(rest, ']', len))
            return bad(x, "] without [");
        if (!*prefix && !len)
            return bad(x, "an empty name");
        if (x->names->count - x->first >= HOSTLIST_MAX)
            return bad(x, "too many nodes");
        strv_pushf(x->names, "%s%.*s", prefix, (int)len, rest);
        return 0;
    }
    const char *close = memchr(open, ']', len - (size_t)(open - rest));
    if (!close)
        return bad(x, "[ without ]");
    auto_free char *so_far = mem_printf("%s%.*s", prefix, (int)(open - rest), rest);
    return expand_brackets(x, so_far, open + 1, close, close + 1, len - (size_t)(close + 1 - rest));
}

int hostlist_expand(const char *text, struct strv *names, int code, struct error *err)
{
    struct expansion x = {text, names, names->count, code, err};
    for (const char *p = text;;) {
        size_t n = 0;
        for (int depth = 0; p[n] && (depth > 0 || p[n] != ','); n++)
            depth += p[n] == '[' ? 1 : p[n] == ']' ? -1 : 0;
        if (expand(&x, "", p, n))
            return -code;
        if (!p[n])
            return 0;
        p += n + 1;
    }
}
