/* ${…}: small expressions in scenario values.
 *
 *   ${name}          a variable or a matrix name
 *   ${a + 2 * (b)}   + - * / // % on numbers, parentheses, min() max() ceil() floor()
 *   ${env:HOME}      a variable of ncbench's own environment; unset is an error
 *   $$               a dollar
 *
 * A text that is one lone ${…} takes the type of its value; in any other text values are put in as
 * text. Integers stay integers under + - * // % min max and where / leaves no remainder; // and %
 * round towards minus infinity. No shell anywhere. */
#ifndef HARNESS_EXPR_H
#define HARNESS_EXPR_H

#include "common/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum value_kind { VALUE_TEXT, VALUE_INT, VALUE_FLOAT, VALUE_BOOL };

struct value {
    enum value_kind kind;
    bool quoted;     /* text that was quoted: never read as a number or word */
    int64_t integer; /* VALUE_INT; VALUE_BOOL: 0 or 1 */
    double number;   /* VALUE_FLOAT */
    char *text;      /* owned; always set: the value as text, in its own spelling */
};
void value_release(struct value *value);
void value_copy(struct value *dst, const struct value *src);
/* A plain scalar typed by its looks: integer, decimal, true/false, else text. */
void value_of_plain(const char *text, struct value *out);

struct expr_error {
    size_t offset, length; /* of the culprit in the text */
    char *message;         /* owned */
    char *hint;            /* owned or NULL */
};
void expr_error_release(struct expr_error *error);

struct expr_scope {
    /* The value of a name, borrowed; NULL if there is none (error->message may say why; else "no
     * such name" is said, with the nearest of names()). */
    const struct value *(*lookup)(void *ctx, const char *name, struct expr_error *error);
    const char *(*nearest)(void *ctx, const char *name); /* or NULL */
    void *ctx;
};

/* Can ${…} refer to it: letters, digits and "_", not a digit first? */
bool expr_is_name(const char *text);
/* Does the text hold a '$'? */
bool expr_present(const char *text);
/* Expand; false with *error filled. */
bool expr_expand(const char *text, const struct expr_scope *scope, struct value *out,
                 struct expr_error *error);
/* The next name that an expression of the text uses, for ordering variables (function names
 * included). Start with a zeroed cursor; false when there are no more. */
struct expr_cursor {
    size_t at;
    bool inside; /* of ${…} */
};
bool expr_next_name(const char *text, struct expr_cursor *cursor, struct str *name);

#endif
