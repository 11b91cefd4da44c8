/* What the parts of the tokenizer share: the vocabulary and its two indexes.
 *
 * Ordinary tokens are the 256 bytes and one token a merge, id 256 + number of the merge; the id is
 * the rank. Specials follow. Both indexes are open-addressing tables of a power of two in size. */
#ifndef WORKLOAD_TOKENIZER_PRIV_H
#define WORKLOAD_TOKENIZER_PRIV_H

#include "workload/tokenizer.h"
#include "workload/tokenizer_split.h"

#define TOKENIZER_BYTES 256
/* All tokens' bytes together, far above any real vocabulary (65,536 tokens hold 0.4 MB). */
#define TOKENIZER_MAX_BYTES ((size_t)16 << 20)

struct merge {
    int32_t left, right;
};

struct pair_slot {
    uint64_t key; /* pair_key, UINT64_MAX: empty */
    int32_t id;
};

struct tokenizer {
    struct split_pattern *pattern;
    int32_t n_ordinary; /* 256 + merges */
    struct merge *merges;
    char *bytes;     /* of all ordinary tokens, one behind the other */
    size_t *offsets; /* n_ordinary + 1 */
    int32_t *token_bytes;
    int32_t *by_bytes; /* token id by hash of its bytes, -1: empty */
    size_t by_bytes_mask;
    struct pair_slot *pairs; /* (left, right) -> token whose bytes are left's and right's */
    size_t pairs_mask;
    char hash[SHA256_HEX];
};

/* Polynomial in HASH_BASE modulo 2^64 over the bytes plus one: the hash of a part follows from
 * those of the prefixes. Spread it with hash_spread before using low bits. */
#define HASH_BASE 0x9E3779B97F4A7C15u
static inline uint64_t hash_extend(uint64_t h, unsigned char byte)
{
    return h * HASH_BASE + byte + 1;
}
static inline uint64_t hash_spread(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return h ^ (h >> 32);
}
uint64_t hash_bytes(const char *bytes, size_t len);

static inline uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Build a tokenizer from its merges (copied). `what` names their origin in messages; a merge that
 * names a later token, or bytes that are a token already, are errors with `code`. */
int tokenizer_build(const struct merge *merges, int32_t n, const char *what, int code,
                    struct tokenizer **out, struct error *err);
/* The token that is these bytes (hash: hash_bytes of them), or -1. */
int32_t tokenizer_find(const struct tokenizer *t, const char *bytes, size_t len, uint64_t hash);
/* The token whose bytes are those of left and right together, or -1. */
int32_t tokenizer_pair(const struct tokenizer *t, int32_t left, int32_t right);
/* The content of the tokenizer's file. */
void tokenizer_serialise(const struct tokenizer *t, struct str *out);
/* tokenizer_load of a file's content; name is for messages. */
int tokenizer_parse(const char *text, size_t len, const char *name, struct tokenizer **out,
                    struct error *err);

/* Scratch memory of an encoding thread, kept in its token_buffer. */
struct encoder;
void encoder_free(struct encoder *e);

#endif
