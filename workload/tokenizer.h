/* Byte-level BPE in nanochat's form: GPT-4 style splitting with digits in groups of at most two,
 * nine special tokens behind the merges.
 *
 * A tokenizer is immutable after loading and may be used by several threads, each with its own
 * struct token_buffer. decode(encode(x)) == x for every byte string, valid UTF-8 or not. */
#ifndef WORKLOAD_TOKENIZER_H
#define WORKLOAD_TOKENIZER_H

#include "common/error.h"
#include "common/fs.h"
#include "common/str.h"

#include <stdint.h>

struct tokenizer;

enum special_token {
    SPECIAL_BOS,
    SPECIAL_USER_START,
    SPECIAL_USER_END,
    SPECIAL_ASSISTANT_START,
    SPECIAL_ASSISTANT_END,
    SPECIAL_PYTHON_START,
    SPECIAL_PYTHON_END,
    SPECIAL_OUTPUT_START,
    SPECIAL_OUTPUT_END,
    SPECIAL_COUNT,
};

/* Starts as {0}; released with token_buffer_release, before its tokenizer is freed. Set count to 0
 * to use it again. */
struct token_buffer {
    int32_t *items;
    size_t count, cap;
    struct encoder *encoder; /* scratch memory of tokenizer_encode */
};
void token_buffer_release(struct token_buffer *b);

/* path: a tokenizer file, or a directory that holds tokenizer.json (its format is told in
 * tokenizer_file.c). Absent or unreadable: NANOCHAT_EXIT_DATA. Corrupt, or made with another split
 * pattern: NANOCHAT_EXIT_CHECKPOINT. */
int tokenizer_load(const char *path, struct tokenizer **out, struct error *err);
/* Write DIR/tokenizer.json atomically, making DIR where needed; NANOCHAT_EXIT_WRITE. */
int tokenizer_save(const struct tokenizer *t, const char *dir, struct error *err);
void tokenizer_free(struct tokenizer *t);

int64_t tokenizer_vocab_size(const struct tokenizer *t); /* specials included */
int32_t tokenizer_special(const struct tokenizer *t, enum special_token token);
const char *special_token_text(enum special_token token); /* "<|bos|>" */
/* sha256 of the file's content: identifies the tokenizer in checkpoints and events. */
const char *tokenizer_hash(const struct tokenizer *t);
/* Raw bytes of each token, 0 for specials: int32[vocab_size], for bits per byte. */
const int32_t *tokenizer_token_bytes(const struct tokenizer *t);

/* Append the tokens of text (ordinary text: special tokens' names are not recognised). */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                     struct token_buffer *out, struct error *err);
/* Append the bytes of tokens; specials as their names. An id outside the vocabulary is an error
 * (NANOCHAT_EXIT_DATA). */
int tokenizer_decode(const struct tokenizer *t, const int32_t *tokens, size_t n, struct str *out,
                     struct error *err);

#endif
