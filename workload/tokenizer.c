#include "workload/tokenizer.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/tokenizer_priv.h"

#include <inttypes.h>
#include <string.h>

static const char *const special_texts[SPECIAL_COUNT] = {
    [SPECIAL_BOS] = "<|bos|>",
    [SPECIAL_USER_START] = "<|user_start|>",
    [SPECIAL_USER_END] = "<|user_end|>",
    [SPECIAL_ASSISTANT_START] = "<|assistant_start|>",
    [SPECIAL_ASSISTANT_END] = "<|assistant_end|>",
    [SPECIAL_PYTHON_START] = "<|python_start|>",
    [SPECIAL_PYTHON_END] = "<|python_end|>",
    [SPECIAL_OUTPUT_START] = "<|output_start|>",
    [SPECIAL_OUTPUT_END] = "<|output_end|>",
};

const char *special_token_text(enum special_token token)
{
    return special_texts[token];
}

void token_buffer_release(struct token_buffer *b)
{
    free(b->items);
    encoder_free(b->encoder);
    *b = (struct token_buffer){0};
}

int64_t tokenizer_vocab_size(const struct tokenizer *t)
{
    return (int64_t)t->n_ordinary + SPECIAL_COUNT;
}

int32_t tokenizer_special(const struct tokenizer *t, enum special_token token)
{
    return t->n_ordinary + (int32_t)token;
}

const char *tokenizer_hash(const struct tokenizer *t)
{
    return t->hash;
}

const int32_t *tokenizer_token_bytes(const struct tokenizer *t)
{
    return t->token_bytes;
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    split_pattern_free(t->pattern);
    free(t->merges);
    free(t->bytes);
    free(t->offsets);
    free(t->token_bytes);
    free(t->by_bytes);
    free(t->pairs);
    free(t);
}

uint64_t hash_bytes(const char *bytes, size_t len)
{
    uint64_t h = 0;
    for (size_t i = 0; i < len; i++)
        h = hash_extend(h, (unsigned char)bytes[i]);
    return h;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *bytes, size_t len, uint64_t hash)
{
    for (size_t i = hash_spread(hash);; i++) {
        int32_t id = t->by_bytes[i & t->by_bytes_mask];
        if (id < 0)
            return -1;
        size_t start = t->offsets[id];
        if (t->offsets[id + 1] - start == len && !memcmp(t->bytes + start, bytes, len))
            return id;
    }
}

int32_t tokenizer_pair(const struct tokenizer *t, int32_t left, int32_t right)
{
    uint64_t key = pair_key(left, right);
    for (size_t i = hash_spread(key);; i++) {
        const struct pair_slot *slot = &t->pairs[i & t->pairs_mask];
        if (slot->key == key)
            return slot->id;
        if (slot->key == UINT64_MAX)
            return -1;
    }
}

static size_t power_of_two_above(size_t n)
{
    size_t size = 64;
    while (size < n)
        size *= 2;
    return size;
}

/* Lay out the bytes of every token: those of the left part, then those of the right. */
static int fill_bytes(struct tokenizer *t, const char *what, int code, struct error *err)
{
    t->offsets = mem_alloc(((size_t)t->n_ordinary + 1) * sizeof *t->offsets);
    for (int32_t id = 0; id <= TOKENIZER_BYTES; id++)
        t->offsets[id] = (size_t)id;
    for (int32_t id = TOKENIZER_BYTES; id < t->n_ordinary; id++) {
        struct merge m = t->merges[id - TOKENIZER_BYTES];
        if (m.left < 0 || m.right < 0 || m.left >= id || m.right >= id)
            return error_set(err, code, "%s: merge %d joins %d and %d, expected earlier tokens",
                             what, id - TOKENIZER_BYTES, m.left, m.right);
        size_t len = t->offsets[m.left + 1] - t->offsets[m.left] + t->offsets[m.right + 1] -
                     t->offsets[m.right];
        t->offsets[id + 1] = t->offsets[id] + len;
        if (t->offsets[id + 1] > TOKENIZER_MAX_BYTES)
            return error_set(err, code, "%s: the tokens hold more than %zu bytes", what,
                             TOKENIZER_MAX_BYTES);
    }
    t->bytes = mem_alloc(t->offsets[t->n_ordinary]);
    for (int32_t id = 0; id < TOKENIZER_BYTES; id++)
        t->bytes[id] = (char)id;
    for (int32_t id = TOKENIZER_BYTES; id < t->n_ordinary; id++) {
        const struct merge *m = &t->merges[id - TOKENIZER_BYTES];
        size_t left = t->offsets[m->left + 1] - t->offsets[m->left];
        size_t right = t->offsets[m->right + 1] - t->offsets[m->right];
        memcpy(t->bytes + t->offsets[id], t->bytes + t->offsets[m->left], left);
        memcpy(t->bytes + t->offsets[id] + left, t->bytes + t->offsets[m->right], right);
    }
    return 0;
}

static int index_bytes(struct tokenizer *t, const char *what, int code, struct error *err)
{
    size_t size = power_of_two_above(2 * (size_t)t->n_ordinary);
    t->by_bytes = mem_alloc(size * sizeof *t->by_bytes);
    memset(t->by_bytes, 0xFF, size * sizeof *t->by_bytes);
    t->by_bytes_mask = size - 1;
    for (int32_t id = 0; id < t->n_ordinary; id++) {
        const char *bytes = t->bytes + t->offsets[id];
        size_t len = t->offsets[id + 1] - t->offsets[id];
        uint64_t hash = hash_bytes(bytes, len);
        int32_t twin = tokenizer_find(t, bytes, len, hash);
        if (twin >= 0)
            return error_set(err, code, "%s: tokens %d and %d are the same bytes", what, twin, id);
        size_t i = hash_spread(hash);
        while (t->by_bytes[i & t->by_bytes_mask] >= 0)
            i++;
        t->by_bytes[i & t->by_bytes_mask] = id;
    }
    return 0;
}

static void insert_pair(struct tokenizer *t, int32_t left, int32_t right, int32_t id)
{
    uint64_t key = pair_key(left, right);
    size_t i = hash_spread(key);
    while (t->pairs[i & t->pairs_mask].key != UINT64_MAX)
        i++;
    t->pairs[i & t->pairs_mask] = (struct pair_slot){key, id};
}

/* Count, or insert, every way to write token id as two tokens: encoding joins whatever two parts
 * make a token, not only the pair that training joined. Hashes of both parts follow from those of
 * the prefixes, so that a long token takes time in proportion to its length. */
static size_t token_pairs(struct tokenizer *t, int32_t id, const uint64_t *powers, bool insert)
{
    const char *bytes = t->bytes + t->offsets[id];
    size_t len = t->offsets[id + 1] - t->offsets[id], count = 0;
    uint64_t whole = hash_bytes(bytes, len), prefix = 0;
    for (size_t cut = 1; cut < len; cut++) {
        prefix = hash_extend(prefix, (unsigned char)bytes[cut - 1]);
        int32_t left = tokenizer_find(t, bytes, cut, prefix);
        if (left < 0)
            continue;
        uint64_t suffix = whole - prefix * powers[len - cut];
        int32_t right = tokenizer_find(t, bytes + cut, len - cut, suffix);
        if (right < 0)
            continue;
        count++;
        if (insert)
            insert_pair(t, left, right, id);
    }
    return count;
}

static void index_pairs(struct tokenizer *t)
{
    size_t longest = 1, count = 0;
    for (int32_t id = 0; id < t->n_ordinary; id++)
        if (t->offsets[id + 1] - t->offsets[id] > longest)
            longest = t->offsets[id + 1] - t->offsets[id];
    auto_free uint64_t *powers = mem_alloc((longest + 1) * sizeof *powers);
    powers[0] = 1;
    for (size_t i = 1; i <= longest; i++)
        powers[i] = powers[i - 1] * HASH_BASE;
    for (int32_t id = TOKENIZER_BYTES; id < t->n_ordinary; id++)
        count += token_pairs(t, id, powers, false);
    size_t size = power_of_two_above(2 * count + 1);
    t->pairs = mem_alloc(size * sizeof *t->pairs);
    memset(t->pairs, 0xFF, size * sizeof *t->pairs);
    t->pairs_mask = size - 1;
    for (int32_t id = TOKENIZER_BYTES; id < t->n_ordinary; id++)
        token_pairs(t, id, powers, true);
}

static void fill_token_bytes(struct tokenizer *t)
{
    t->token_bytes = mem_zalloc((size_t)tokenizer_vocab_size(t), sizeof *t->token_bytes);
    for (int32_t id = 0; id < t->n_ordinary; id++)
        t->token_bytes[id] = (int32_t)(t->offsets[id + 1] - t->offsets[id]);
}

int tokenizer_build(const struct merge *merges, int32_t n, const char *what, int code,
                    struct tokenizer **out, struct error *err)
{
    struct tokenizer *t = mem_zalloc(1, sizeof *t);
    t->n_ordinary = TOKENIZER_BYTES + n;
    t->merges = mem_alloc((size_t)n * sizeof *t->merges);
    if (n)
        memcpy(t->merges, merges, (size_t)n * sizeof *t->merges);
    if (fill_bytes(t, what, code, err) || index_bytes(t, what, code, err)) {
        tokenizer_free(t);
        return -err->code;
    }
    index_pairs(t);
    fill_token_bytes(t);
    t->pattern = split_pattern_new(true);
    auto_str content = STR_INIT;
    tokenizer_serialise(t, &content);
    sha256_hex(content.data, content.len, t->hash);
    *out = t;
    return 0;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *tokens, size_t n, struct str *out,
                     struct error *err)
{
    int64_t vocab = tokenizer_vocab_size(t);
    for (size_t i = 0; i < n; i++) {
        int32_t id = tokens[i];
        if (id < 0 || id >= vocab)
            return error_set(err, NANOCHAT_EXIT_DATA,
                             "token %zu is %d, outside the vocabulary of %" PRId64, i, id, vocab);
        if (id >= t->n_ordinary)
            str_append(out, special_texts[id - t->n_ordinary]);
        else
            str_append_n(out, t->bytes + t->offsets[id], t->offsets[id + 1] - t->offsets[id]);
    }
    return 0;
}
