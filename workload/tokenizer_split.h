/* Splitting text into chunks before byte pair encoding: GPT-4 style, digits in groups of at most
 * two. No merge ever crosses the border of a chunk, so pattern and merges belong together: the
 * tokenizer file names the pattern by id and sha256.
 *
 * Alternatives, in order:
 *   1. an apostrophe and s, d, m, t, ll, ve or re, in either case;
 *   2. at most one character that is no CR, LF, letter or number, then letters;
 *   3. one or two numbers (\p{N});
 *   4. at most one space, then characters that are neither white space, letter nor number, then any
 *      CR and LF;
 *   5. white space that ends in one CR or LF;
 *   6. white space up to, not including, the character before a non-space;
 *   7. white space.
 * Every valid text is covered: concatenated, the chunks are the text.
 *
 * Invalid UTF-8: each maximal run of bytes that belong to no valid sequence is one chunk, and the
 * valid text on either side is split as if it stood alone. */
#ifndef WORKLOAD_TOKENIZER_SPLIT_H
#define WORKLOAD_TOKENIZER_SPLIT_H

#include "common/fs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPLIT_PATTERN_ID "gpt4-digits2"

/* sha256 of the expression's text. */
void split_pattern_hash(char out[static SHA256_HEX]);

/* The compiled expression: immutable, shared by threads. */
struct split_pattern;
/* try_jit false leaves out the just-in-time compiler, which gives the same chunks faster; so does a
 * system that forbids executable memory. */
struct split_pattern *split_pattern_new(bool try_jit);
void split_pattern_free(struct split_pattern *p);

/* One thread's place in one text. The pattern must outlive it. */
struct splitter;
struct splitter *splitter_new(const struct split_pattern *pattern);
void splitter_free(struct splitter *s);
void splitter_begin(struct splitter *s, const char *text, size_t len);
/* The next chunk, a part of the text given to splitter_begin; false at the end. */
bool splitter_next(struct splitter *s, const char **chunk, size_t *len);

/* Number of bytes that belong to no valid UTF-8 sequence. */
int64_t split_invalid_bytes(const char *text, size_t len);
/* Bytes of the first `chars` characters of text, or len if it has no more. An invalid byte counts
 * as one character. */
size_t split_crop(const char *text, size_t len, int64_t chars);

#endif
