/* Encoding as tiktoken does it: a chunk that is a token is that token; otherwise the two
 * neighbouring parts that together make the token of lowest id are joined, the leftmost first among
 * equals, until no two make a token. */
#include "common/mem.h"
#include "workload/tokenizer_priv.h"

#include <string.h>

/* Up to this length the lowest pair is searched for; longer chunks keep a heap. */
#define SHORT_CHUNK 64

/* Direct-mapped cache of chunks that are no token: one cache line an entry. */
#define CACHE_BITS 14
#define CACHE_BYTES 30
#define CACHE_TOKENS 8
struct cache_entry {
    uint8_t len, count; /* len 0: empty */
    char bytes[CACHE_BYTES];
    int32_t tokens[CACHE_TOKENS];
};
_Static_assert(sizeof(struct cache_entry) == 64, "one cache line an entry");

/* A part of a long chunk: its token, and its neighbours' indexes (-1: none). */
struct part {
    int32_t token, pair; /* token -1: joined into the part before; pair: with the next, or -1 */
    int64_t before, after;
};

struct candidate {
    int32_t id;
    int64_t part;
};

struct encoder {
    const struct tokenizer *tokenizer; /* whose tokens are in the cache */
    struct splitter *splitter;
    struct cache_entry *cache;
    struct part *parts;
    size_t parts_cap;
    struct candidate *heap; /* binary heap, smallest (id, part) first */
    size_t heap_count, heap_cap;
};

static struct encoder *encoder_new(const struct tokenizer *t)
{
    struct encoder *e = mem_zalloc(1, sizeof *e);
    e->tokenizer = t;
    e->splitter = splitter_new(t->pattern);
    e->cache = mem_zalloc((size_t)1 << CACHE_BITS, sizeof *e->cache);
    return e;
}

void encoder_free(struct encoder *e)
{
    if (!e)
        return;
    splitter_free(e->splitter);
    free(e->cache);
    free(e->parts);
    free(e->heap);
    free(e);
}

/* Join within at most SHORT_CHUNK bytes; returns the number of tokens. */
static size_t encode_short(const struct tokenizer *t, const char *bytes, size_t len,
                           int32_t *tokens)
{
    int32_t pairs[SHORT_CHUNK];
    size_t n = len;
    for (size_t i = 0; i < n; i++)
        tokens[i] = (unsigned char)bytes[i];
    for (size_t i = 0; i + 1 < n; i++)
        pairs[i] = tokenizer_pair(t, tokens[i], tokens[i + 1]);
    for (;;) {
        size_t best = n;
        int32_t lowest = INT32_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            if (pairs[i] >= 0 && pairs[i] < lowest) {
                lowest = pairs[i];
                best = i;
            }
        }
        if (best == n)
            return n;
        tokens[best] = lowest;
        n--;
        memmove(tokens + best + 1, tokens + best + 2, (n - best - 1) * sizeof *tokens);
        if (best + 1 < n)
            memmove(pairs + best + 1, pairs + best + 2, (n - best - 1) * sizeof *pairs);
        if (best > 0)
            pairs[best - 1] = tokenizer_pair(t, tokens[best - 1], tokens[best]);
        if (best + 1 < n)
            pairs[best] = tokenizer_pair(t, tokens[best], tokens[best + 1]);
    }
}

static bool candidate_before(const struct candidate *a, const struct candidate *b)
{
    return a->id != b->id ? a->id < b->id : a->part < b->part;
}

static void heap_push(struct encoder *e, struct candidate c)
{
    mem_grow((void **)&e->heap, &e->heap_cap, e->heap_count, sizeof *e->heap);
    size_t i = e->heap_count++;
    while (i > 0 && candidate_before(&c, &e->heap[(i - 1) / 2])) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = c;
}

static struct candidate heap_pop(struct encoder *e)
{
    struct candidate top = e->heap[0], last = e->heap[--e->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= e->heap_count)
            break;
        if (child + 1 < e->heap_count && candidate_before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!candidate_before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    if (e->heap_count)
        e->heap[i] = last;
    return top;
}

static void set_pair(struct encoder *e, int64_t part)
{
    if (part < 0)
        return;
    struct part *p = &e->parts[part];
    p->pair = p->after < 0 ? -1 : tokenizer_pair(e->tokenizer, p->token, e->parts[p->after].token);
    if (p->pair >= 0)
        heap_push(e, (struct candidate){p->pair, part});
}

static void join_with_next(struct encoder *e, int64_t part)
{
    struct part *p = &e->parts[part], *next = &e->parts[p->after];
    p->token = p->pair;
    p->after = next->after;
    next->token = next->pair = -1;
    if (p->after >= 0)
        e->parts[p->after].before = part;
    set_pair(e, part);
    set_pair(e, p->before);
}

/* Join in a chunk of any length, in O(n log n). */
static void encode_long(struct encoder *e, const char *bytes, size_t len, struct token_buffer *out)
{
    if (e->parts_cap < len) {
        e->parts = mem_realloc(e->parts, len, sizeof *e->parts);
        e->parts_cap = len;
    }
    e->heap_count = 0;
    for (size_t i = 0; i < len; i++)
        e->parts[i] = (struct part){(unsigned char)bytes[i], -1, (int64_t)i - 1,
                                    i + 1 < len ? (int64_t)i + 1 : -1};
    for (size_t i = 0; i < len; i++)
        set_pair(e, (int64_t)i);
    while (e->heap_count) {
        struct candidate c = heap_pop(e);
        if (e->parts[c.part].pair == c.id) /* else overtaken by another join */
            join_with_next(e, c.part);
    }
    for (int64_t i = 0; i >= 0; i = e->parts[i].after)
        vec_push(out, e->parts[i].token);
}

static void append(struct token_buffer *out, const int32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vec_push(out, tokens[i]);
}

static void encode_chunk(struct encoder *e, const char *bytes, size_t len, struct token_buffer *out)
{
    uint64_t hash = hash_bytes(bytes, len);
    int32_t id = tokenizer_find(e->tokenizer, bytes, len, hash);
    if (id >= 0) {
        vec_push(out, id);
        return;
    }
    if (len > SHORT_CHUNK) {
        encode_long(e, bytes, len, out);
        return;
    }
    struct cache_entry *entry = &e->cache[hash_spread(hash) >> (64 - CACHE_BITS)];
    if (entry->len == len && !memcmp(entry->bytes, bytes, len)) {
        append(out, entry->tokens, entry->count);
        return;
    }
    int32_t tokens[SHORT_CHUNK];
    size_t n = encode_short(e->tokenizer, bytes, len, tokens);
    append(out, tokens, n);
    if (len <= CACHE_BYTES && n <= CACHE_TOKENS) {
        entry->len = (uint8_t)len;
        entry->count = (uint8_t)n;
        memcpy(entry->bytes, bytes, len);
        memcpy(entry->tokens, tokens, n * sizeof *tokens);
    }
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                     struct token_buffer *out, struct error *err)
{
    (void)err; /* small allocations do not fail */
    if (out->encoder && out->encoder->tokenizer != t) {
        encoder_free(out->encoder);
        out->encoder = NULL;
    }
    if (!out->encoder)
        out->encoder = encoder_new(t);
    splitter_begin(out->encoder->splitter, text, len);
    const char *chunk;
    size_t n;
    while (splitter_next(out->encoder->splitter, &chunk, &n))
        encode_chunk(out->encoder, chunk, n, out);
    return 0;
}
