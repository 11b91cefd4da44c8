#include "common/str.h"

#include "common/error.h"
#include "common/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char str_empty_[1] = "";

void str_reserve(struct str *s, size_t extra)
{
    size_t need = s->len + extra + 1;
    if (need <= s->cap)
        return;
    size_t cap = s->cap + s->cap / 2;
    if (cap < need)
        cap = need < 32 ? 32 : need;
    s->data = mem_realloc(s->cap ? s->data : NULL, cap, 1);
    s->cap = cap;
    s->data[s->len] = '\0';
}

void str_append_n(struct str *s, const void *bytes, size_t n)
{
    if (!n)
        return;
    str_reserve(s, n);
    memcpy(s->data + s->len, bytes, n);
    s->len += n;
    s->data[s->len] = '\0';
}

void str_append(struct str *s, const char *text)
{
    str_append_n(s, text, strlen(text));
}

void str_append_char(struct str *s, char c)
{
    str_append_n(s, &c, 1);
}

void str_vappendf(struct str *s, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    const size_t room = s->cap ? s->cap - s->len : 0; /* with the NUL */
    int n = vsnprintf(room ? s->data + s->len : NULL, room, fmt, ap);
    if (n < 0)
        BUG("bad format \"%s\"", fmt);
    if ((size_t)n >= room) {
        str_reserve(s, (size_t)n);
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    s->len += (size_t)n;
}

void str_appendf(struct str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    str_vappendf(s, fmt, ap);
    va_end(ap);
}

void str_truncate(struct str *s, size_t len)
{
    if (len > s->len)
        BUG("str_truncate to %zu of %zu", len, s->len);
    if (len == s->len)
        return;
    s->len = len;
    s->data[len] = '\0';
}

void str_clear(struct str *s)
{
    str_truncate(s, 0);
}

char *str_steal(struct str *s)
{
    char *out = s->cap ? s->data : mem_strdup("");
    *s = (struct str)STR_INIT;
    return out;
}

void str_release(struct str *s)
{
    if (s->cap)
        free(s->data);
    *s = (struct str)STR_INIT;
}

void strv_push_own(struct strv *v, char *s)
{
    if (v->count + 1 >= v->cap)
        mem_grow((void **)&v->items, &v->cap, v->count + 1, sizeof *v->items);
    v->items[v->count++] = s;
    v->items[v->count] = NULL;
}

void strv_push(struct strv *v, const char *s)
{
    strv_push_own(v, mem_strdup(s));
}

void strv_pushf(struct strv *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    strv_push_own(v, mem_vprintf(fmt, ap));
    va_end(ap);
}

void strv_extend(struct strv *v, const struct strv *other)
{
    for (size_t i = 0; i < other->count; i++)
        strv_push(v, other->items[i]);
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void strv_sort(struct strv *v)
{
    if (v->count > 1)
        qsort(v->items, v->count, sizeof *v->items, compare_strings);
}

bool strv_contains(const struct strv *v, const char *s)
{
    for (size_t i = 0; i < v->count; i++)
        if (!strcmp(v->items[i], s))
            return true;
    return false;
}

bool strv_equal(const struct strv *a, const struct strv *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count; i++)
        equal = !strcmp(a->items[i], b->items[i]);
    return equal;
}

static size_t env_find(const struct strv *env, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < env->count; i++)
        if (!strncmp(env->items[i], name, len) && env->items[i][len] == '=')
            return i;
    return env->count;
}

void strv_env_set(struct strv *env, const char *name, const char *value)
{
    size_t i = env_find(env, name);
    char *entry = mem_printf("%s=%s", name, value);
    if (i == env->count) {
        strv_push_own(env, entry);
        return;
    }
    free(env->items[i]);
    env->items[i] = entry;
}

const char *strv_env_get(const struct strv *env, const char *name)
{
    size_t i = env_find(env, name);
    return i == env->count ? NULL : env->items[i] + strlen(name) + 1;
}

void strv_clear(struct strv *v)
{
    for (size_t i = 0; i < v->count; i++)
        free(v->items[i]);
    v->count = 0;
    if (v->items)
        v->items[0] = NULL;
}

void strv_release(struct strv *v)
{
    strv_clear(v);
    free(v->items);
    *v = (struct strv)STRV_INIT;
}

bool str_starts_with(const char *s, const char *prefix)
{
    return !strncmp(s, prefix, strlen(prefix));
}

bool str_ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcmp(s + n - m, suffix);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

char *str_trim(char *s)
{
    while (is_space(*s))
        s++;
    size_t n = strlen(s);
    while (n && is_space(s[n - 1]))
        s[--n] = '\0';
    return s;
}

/* Levenshtein distance with one row; words are short. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t n = strlen(b);
    size_t row[65];
    if (n > 64 || strlen(a) > 64)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *str_nearest(const char *word, const char *const *candidates, size_t count)
{
    size_t limit = strlen(word) / 3;
    if (limit < 1)
        limit = 1;
    const char *best = NULL;
    size_t best_distance = limit + 1;
    for (size_t i = 0; i < count; i++) {
        size_t d = edit_distance(word, candidates[i]);
        if (d < best_distance) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}

/* Length of the valid UTF-8 sequence at s (1..4), or 0. Table 3-7 of the Unicode standard. */
static size_t utf8_sequence(const unsigned char *s, size_t len)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xC2 && s[0] <= 0xDF   ? 2
               : s[0] >= 0xE0 && s[0] <= 0xEF ? 3
               : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4
                                              : 0;
    if (!n || n > len)
        return 0;
    unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (s[i] < 0x80 || s[i] > 0xBF)
            return 0;
    return n;
}

size_t str_utf8_sequence(const char *s, size_t len)
{
    return len ? utf8_sequence((const unsigned char *)s, len) : 0;
}

size_t str_utf8_valid(const char *s, size_t len)
{
    size_t i = 0;
    while (i < len) {
        uint64_t word;
        if (len - i >= sizeof word) { /* ASCII, eight bytes at a time */
            memcpy(&word, s + i, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                i += sizeof word;
                continue;
            }
        }
        size_t n = utf8_sequence((const unsigned char *)s + i, len - i);
        if (!n)
            return i;
        i += n;
    }
    return len;
}

void str_append_quoted(struct str *s, const char *word)
{
    str_append_char(s, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            str_append(s, "'\\''");
        else
            str_append_char(s, *word);
    }
    str_append_char(s, '\'');
}

void str_append_word(struct str *s, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./_-";
    if (*word && strspn(word, plain) == strlen(word))
        str_append(s, word);
    else
        str_append_quoted(s, word);
}

size_t str_utf8_cut(const char *s, size_t len, size_t max)
{
    if (len <= max)
        return len;
    while (max > 0 && ((unsigned char)s[max] & 0xc0) == 0x80)
        max--;
    return max;
}

void str_append_printable(struct str *s, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence((const unsigned char *)bytes + i, len - i);
        unsigned char c = (unsigned char)bytes[i];
        if (!n)
            str_append(s, "\xEF\xBF\xBD");
        else if ((c < 0x20 && c != '\t' && c != '\n') || c == 0x7F)
            str_appendf(s, "\\x%02x", c);
        else
            str_append_n(s, bytes + i, n);
        i += n ? n : 1;
    }
}
