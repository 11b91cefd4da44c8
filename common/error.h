/* Errors as values.
 *
 * A function that can fail returns int and takes `struct error *err` as its last parameter, which
 * is never NULL. On success it returns 0 and leaves err alone. On failure it returns a negative
 * number and has filled err with
 *
 *   code      the exit code that the program should end with (common/protocol.h, EXIT_*),
 *   message   what failed: names the object, the value and what was expected; lower case, no full
 *             stop, one line (or several for a list of scenario errors),
 *   hint      optional: what to do about it.
 *
 * Callers add context on the way up with error_wrap() and return what it returns. The message is
 * printed once, in the verb, with error_print().
 *
 *     if (fs_read_file(path, &text, err))
 *         return error_wrap(err, "reading the tokenizer");
 *
 * Life cycle: struct error err = ERROR_INIT; … error_release(&err). An error that is set again
 * keeps the first message (the cause) and drops the second. */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include <stdbool.h>

struct error {
    int code;      /* 0: no error; else the exit code */
    char *message; /* owned */
    char *hint;    /* owned, may be NULL */
};

#define ERROR_INIT                                                                                 \
    {                                                                                              \
        0, NULL, NULL                                                                              \
    }
#define auto_error __attribute__((cleanup(error_release)))

/* Set the error; returns -code, so that `return error_set(…)` works. code must be > 0. */
int error_set(struct error *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_set, with ": " and the text of errnum behind the message. */
int error_errno(struct error *err, int code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Put "context: " before the message of an error that is set; returns -code. */
int error_wrap(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Add or replace the hint. Returns -code. */
int error_hint(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "PROGRAM: error: MESSAGE", then "PROGRAM: hint: HINT" if there is one, on standard error. */
void error_print(const struct error *err, const char *program);

/* Move src into dst (released first); src becomes empty. */
void error_move(struct error *dst, struct error *src);

void error_release(struct error *err);

/* A broken invariant: prints file, line and text on standard error and aborts. */
void bug_(const char *file, int line, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
#define BUG(...) bug_(__FILE__, __LINE__, __VA_ARGS__)

#endif
