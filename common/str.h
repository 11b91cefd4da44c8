/* Growing byte strings and string vectors.
 *
 * struct str is always NUL-terminated (data is "" before the first append and never NULL after
 * STR_INIT), may hold NUL bytes, and is released with str_release. struct strv is a vector of owned
 * strings whose items[count] is always NULL, so that it can be handed to execve. */
#ifndef COMMON_STR_H
#define COMMON_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct str {
    char *data;
    size_t len;
    size_t cap; /* 0: data points at a shared empty string */
};

extern char str_empty_[1];
#define STR_INIT                                                                                   \
    {                                                                                              \
        str_empty_, 0, 0                                                                           \
    }
#define auto_str __attribute__((cleanup(str_release))) struct str

void str_append(struct str *s, const char *text);
void str_append_n(struct str *s, const void *bytes, size_t n);
void str_append_char(struct str *s, char c);
void str_appendf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_vappendf(struct str *s, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void str_reserve(struct str *s, size_t extra); /* room for `extra` more bytes and the NUL */
void str_truncate(struct str *s, size_t len);  /* len <= s->len */
void str_clear(struct str *s);                 /* length 0, memory kept */
char *str_steal(struct str *s);                /* caller frees; s becomes empty */
void str_release(struct str *s);

struct strv {
    char **items; /* NULL before the first push */
    size_t count;
    size_t cap;
};

#define STRV_INIT                                                                                  \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }
#define auto_strv __attribute__((cleanup(strv_release))) struct strv

void strv_push(struct strv *v, const char *s); /* copies */
void strv_push_own(struct strv *v, char *s);   /* takes ownership */
void strv_pushf(struct strv *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strv_extend(struct strv *v, const struct strv *other);
void strv_sort(struct strv *v); /* by bytes */
bool strv_contains(const struct strv *v, const char *s);
bool strv_equal(const struct strv *a, const struct strv *b); /* the same texts in the same order */
/* "NAME=value" vectors: set or replace; look up (NULL if absent). */
void strv_env_set(struct strv *env, const char *name, const char *value);
const char *strv_env_get(const struct strv *env, const char *name);
void strv_clear(struct strv *v);
void strv_release(struct strv *v);

bool str_starts_with(const char *s, const char *prefix);
bool str_ends_with(const char *s, const char *suffix);
/* s without leading and trailing blanks and newlines, in place. */
char *str_trim(char *s);
/* Nearest of `count` candidates to `word` by edit distance, or NULL if none is near enough to be
 * worth suggesting (distance above a third of the word's length, at least 1). */
const char *str_nearest(const char *word, const char *const *candidates, size_t count);
/* Is the text valid UTF-8 (no overlong forms, surrogates, or code points above U+10FFFF)? Returns
 * the offset of the first bad byte, or len when all is valid. */
size_t str_utf8_valid(const char *s, size_t len);
/* Length in bytes (1 to 4) of the valid sequence that begins at s, or 0 if there is none. */
size_t str_utf8_sequence(const char *s, size_t len);
/* A word of a shell: in quotes, where everything is literal; or only where it must be. */
void str_append_quoted(struct str *s, const char *word);
void str_append_word(struct str *s, const char *word);
/* The largest length of at most max bytes at which the valid text can be cut without cutting a
 * sequence; len where it is no longer. */
size_t str_utf8_cut(const char *s, size_t len, size_t max);
/* Append the bytes with every invalid one replaced by U+FFFD, control characters other than tab
 * and newline by \xNN: for showing foreign output. */
void str_append_printable(struct str *s, const char *bytes, size_t len);

#endif
