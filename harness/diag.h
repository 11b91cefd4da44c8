/* Messages about a text file, as compilers give them: where, what, the line itself, a caret, a
 * hint.
 *
 *     demo.yaml:12:11: error: runtimes[1].kind: "podmann" is no runtime, expected bare or podman
 *        12 |     kind: podmann
 *           |           ^~~~~~~
 *     hint: did you mean "podman"?
 *
 * struct source holds the text and finds lines; struct diags collects messages in any order and
 * prints them sorted by position. Positions are byte offsets inside; lines and columns (both from
 * 1, columns in characters, as libyaml and editors count) are worked out when printing. */
#ifndef HARNESS_DIAG_H
#define HARNESS_DIAG_H

#include "common/str.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- source ---------------------------------------------------------------------------------- */
struct source {
    const char *name; /* for messages; borrowed */
    const char *text; /* without the byte-order mark; borrowed */
    size_t len;
    uint32_t *lines; /* offset of the first byte of each line */
    size_t n_lines;
    uint32_t *characters; /* offset of every 64th character; NULL: all bytes are characters */
    size_t n_characters;
};

void source_init(struct source *source, const char *name, const char *text, size_t len);
void source_release(struct source *source);

struct source_position {
    size_t line, column; /* from 1 */
};
struct source_position source_position(const struct source *source, size_t offset);
/* Byte offset of character number `index` (libyaml's mark.index), at most len. */
size_t source_offset_of_character(const struct source *source, size_t index);
/* The bounds of line number `line` (from 1), without its line end. */
void source_line(const struct source *source, size_t line, const char **start, size_t *len);

/* ---- diagnostics ------------------------------------------------------------------------------
 */
#define DIAG_NOWHERE SIZE_MAX /* no position in the file: only the file's name is printed */
#define DIAG_MAX 100          /* more are counted, not kept */

struct diag {
    size_t offset, length; /* of the text that the caret marks; length 0: one character */
    char *origin;          /* in place of the file's name: "-D sampling.seed=x"; NULL: the file */
    char *path;            /* "runtimes[1].kind"; "" for the file as a whole */
    char *message;
    char *hint; /* NULL: none */
    size_t seq;
};

struct diags {
    struct diag *items;
    size_t count, cap;
    size_t dropped;
};

#define DIAGS_INIT                                                                                 \
    {                                                                                              \
        NULL, 0, 0, 0                                                                              \
    }

/* Add one. The same position and path twice is one message: the first stays; nothing is added where
 * one without a path stands (what the YAML itself got wrong). Returns it, so that a
 * hint or an origin can be added; NULL if it was not kept. */
struct diag *diags_add(struct diags *diags, size_t offset, size_t length, const char *path,
                       const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void diag_hint(struct diag *diag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* All messages, sorted by position, the last one without a newline. */
void diags_format(struct diags *diags, const struct source *source, struct str *out);
void diags_release(struct diags *diags);

#endif
