#include "workload/tokenizer_train.h"

#include "common/mem.h"
#include "common/protocol.h"
#include "workload/tokenizer_priv.h"

#include <inttypes.h>
#include <string.h>

/* A distinct chunk. While counting, its bytes lie at bytes[start]; while merging, its tokens at
 * symbols[start]. */
struct chunk {
    uint64_t hash;
    size_t start, len;
    int64_t count;
};

struct pair {
    uint64_t key;
    int64_t count;   /* occurrences, weighted by the chunks' counts */
    uint32_t *where; /* chunks in which it occurs or did occur, perhaps more than once */
    uint32_t n_where, cap_where;
};

/* A pair that had this count when it was pushed. Every pair that occurs has a candidate of at least
 * its present count, so the greatest candidate that is still true is the most frequent pair. */
struct candidate {
    int64_t count;
    uint64_t key;
};

struct bpe_trainer {
    struct split_pattern *pattern;
    struct splitter *splitter;
    struct bpe_stats stats;
    struct chunk *chunks;
    size_t n_chunks, cap_chunks;
    uint32_t *chunk_index; /* 1 + chunk by hash, 0: empty */
    size_t chunk_index_size;
    char *bytes;
    size_t n_bytes, cap_bytes;
    int32_t *symbols;
    struct pair *pairs;
    size_t n_pairs, cap_pairs;
    uint32_t *pair_index; /* 1 + pair by key, 0: empty */
    size_t pair_index_size;
    struct candidate *heap;
    size_t n_heap, cap_heap;
};

struct bpe_trainer *bpe_trainer_new(void)
{
    struct bpe_trainer *t = mem_zalloc(1, sizeof *t);
    t->pattern = split_pattern_new(true);
    t->splitter = splitter_new(t->pattern);
    return t;
}

void bpe_trainer_free(struct bpe_trainer *t)
{
    if (!t)
        return;
    splitter_free(t->splitter);
    split_pattern_free(t->pattern);
    for (size_t i = 0; i < t->n_pairs; i++)
        free(t->pairs[i].where);
    free(t->chunks);
    free(t->chunk_index);
    free(t->bytes);
    free(t->symbols);
    free(t->pairs);
    free(t->pair_index);
    free(t->heap);
    free(t);
}

/* ---- counting chunks ----------------------------------------------------------------------- */

static void grow_chunk_index(struct bpe_trainer *t)
{
    free(t->chunk_index);
    t->chunk_index_size = t->chunk_index_size ? 2 * t->chunk_index_size : 1 << 16;
    t->chunk_index = mem_zalloc(t->chunk_index_size, sizeof *t->chunk_index);
    for (size_t c = 0; c < t->n_chunks; c++) {
        size_t i = hash_spread(t->chunks[c].hash);
        while (t->chunk_index[i & (t->chunk_index_size - 1)])
            i++;
        t->chunk_index[i & (t->chunk_index_size - 1)] = (uint32_t)c + 1;
    }
}

static void count_chunk(struct bpe_trainer *t, const char *bytes, size_t len)
{
    if (2 * (t->n_chunks + 1) > t->chunk_index_size)
        grow_chunk_index(t);
    uint64_t hash = hash_bytes(bytes, len);
    size_t i = hash_spread(hash);
    uint32_t *slot;
    for (; *(slot = &t->chunk_index[i & (t->chunk_index_size - 1)]); i++) {
        struct chunk *c = &t->chunks[*slot - 1];
        if (c->hash == hash && c->len == len && !memcmp(t->bytes + c->start, bytes, len)) {
            c->count++;
            return;
        }
    }
    while (t->cap_bytes < t->n_bytes + len) {
        t->cap_bytes = t->cap_bytes ? 2 * t->cap_bytes : 1 << 20;
        t->bytes = mem_realloc(t->bytes, t->cap_bytes, 1);
    }
    memcpy(t->bytes + t->n_bytes, bytes, len);
    mem_grow((void **)&t->chunks, &t->cap_chunks, t->n_chunks, sizeof *t->chunks);
    t->chunks[t->n_chunks++] = (struct chunk){hash, t->n_bytes, len, 1};
    t->n_bytes += len;
    *slot = (uint32_t)t->n_chunks;
}

void bpe_trainer_add(struct bpe_trainer *t, const char *text, size_t len)
{
    const char *chunk;
    size_t n;
    splitter_begin(t->splitter, text, len);
    while (splitter_next(t->splitter, &chunk, &n)) {
        t->stats.chunks++;
        count_chunk(t, chunk, n);
    }
    t->stats.bytes += (int64_t)len;
    t->stats.invalid_bytes += split_invalid_bytes(text, len);
}

/* ---- pairs --------------------------------------------------------------------------------- */

static void grow_pair_index(struct bpe_trainer *t)
{
    free(t->pair_index);
    t->pair_index_size = t->pair_index_size ? 2 * t->pair_index_size : 1 << 14;
    t->pair_index = mem_zalloc(t->pair_index_size, sizeof *t->pair_index);
    for (size_t p = 0; p < t->n_pairs; p++) {
        size_t i = hash_spread(t->pairs[p].key);
        while (t->pair_index[i & (t->pair_index_size - 1)])
            i++;
        t->pair_index[i & (t->pair_index_size - 1)] = (uint32_t)p + 1;
    }
}

/* The pair's entry, made where there is none. Valid until the next call. */
static struct pair *find_pair(struct bpe_trainer *t, uint64_t key)
{
    if (2 * (t->n_pairs + 1) > t->pair_index_size)
        grow_pair_index(t);
    size_t i = hash_spread(key);
    uint32_t *slot;
    for (; *(slot = &t->pair_index[i & (t->pair_index_size - 1)]); i++)
        if (t->pairs[*slot - 1].key == key)
            return &t->pairs[*slot - 1];
    mem_grow((void **)&t->pairs, &t->cap_pairs, t->n_pairs, sizeof *t->pairs);
    t->pairs[t->n_pairs] = (struct pair){.key = key};
    *slot = (uint32_t)++t->n_pairs;
    return &t->pairs[t->n_pairs - 1];
}

static void pair_appears(struct bpe_trainer *t, int32_t left, int32_t right, uint32_t chunk)
{
    struct pair *p = find_pair(t, pair_key(left, right));
    p->count += t->chunks[chunk].count;
    if (p->n_where && p->where[p->n_where - 1] == chunk)
        return;
    if (p->n_where == p->cap_where) {
        p->cap_where = p->cap_where ? 2 * p->cap_where : 4;
        p->where = mem_realloc(p->where, p->cap_where, sizeof *p->where);
    }
    p->where[p->n_where++] = chunk;
}

static void pair_vanishes(struct bpe_trainer *t, int32_t left, int32_t right, uint32_t chunk)
{
    find_pair(t, pair_key(left, right))->count -= t->chunks[chunk].count;
}

/* ---- the heap of candidates: the greatest count first, then the smallest pair ---------------- */

static bool candidate_before(const struct candidate *a, const struct candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void heap_push(struct bpe_trainer *t, struct candidate c)
{
    mem_grow((void **)&t->heap, &t->cap_heap, t->n_heap, sizeof *t->heap);
    size_t i = t->n_heap++;
    while (i > 0 && candidate_before(&c, &t->heap[(i - 1) / 2])) {
        t->heap[i] = t->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    t->heap[i] = c;
}

static struct candidate heap_pop(struct bpe_trainer *t)
{
    struct candidate top = t->heap[0], last = t->heap[--t->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= t->n_heap)
            break;
        if (child + 1 < t->n_heap && candidate_before(&t->heap[child + 1], &t->heap[child]))
            child++;
        if (!candidate_before(&t->heap[child], &last))
            break;
        t->heap[i] = t->heap[child];
        i = child;
    }
    if (t->n_heap)
        t->heap[i] = last;
    return top;
}

/* The most frequent pair, or false when none is left. */
static bool best_pair(struct bpe_trainer *t, uint64_t *key)
{
    while (t->n_heap) {
        struct candidate c = heap_pop(t);
        int64_t now = find_pair(t, c.key)->count;
        if (now <= 0)
            continue;
        if (now == c.count) {
            *key = c.key;
            return true;
        }
        if (now < c.count) /* a greater count has a candidate of its own */
            heap_push(t, (struct candidate){now, c.key});
    }
    return false;
}

/* ---- merging ------------------------------------------------------------------------------- */

static void count_first_pairs(struct bpe_trainer *t)
{
    t->symbols = mem_alloc(t->n_bytes * sizeof *t->symbols);
    for (size_t i = 0; i < t->n_bytes; i++)
        t->symbols[i] = (unsigned char)t->bytes[i];
    free(t->bytes);
    t->bytes = NULL;
    for (size_t c = 0; c < t->n_chunks; c++) {
        const int32_t *s = t->symbols + t->chunks[c].start;
        for (size_t i = 0; i + 1 < t->chunks[c].len; i++)
            pair_appears(t, s[i], s[i + 1], (uint32_t)c);
    }
    for (size_t p = 0; p < t->n_pairs; p++)
        heap_push(t, (struct candidate){t->pairs[p].count, t->pairs[p].key});
}

/* Join left, right to id within a chunk, with the counts of the pairs that this touches. The pair
 * before an occurrence is read from what is already written, the pair behind it from what is still
 * to come: so each step's loss and gain are those of the sequence as it stands. */
static void merge_chunk(struct bpe_trainer *t, uint32_t chunk, struct merge m, int32_t id)
{
    struct chunk *c = &t->chunks[chunk];
    int32_t *s = t->symbols + c->start;
    size_t n = c->len, written = 0;
    for (size_t i = 0; i < n;) {
        if (i + 1 == n || s[i] != m.left || s[i + 1] != m.right) {
            s[written++] = s[i++];
            continue;
        }
        pair_vanishes(t, m.left, m.right, chunk);
        if (written) {
            pair_vanishes(t, s[written - 1], m.left, chunk);
            pair_appears(t, s[written - 1], id, chunk);
        }
        if (i + 2 < n) {
            pair_vanishes(t, m.right, s[i + 2], chunk);
            pair_appears(t, id, s[i + 2], chunk);
        }
        s[written++] = id;
        i += 2;
    }
    c->len = written;
}

/* New pairs all hold the new token; each gets its candidate when the merge is complete. */
static void push_new_pairs(struct bpe_trainer *t, size_t first)
{
    for (size_t p = first; p < t->n_pairs; p++)
        if (t->pairs[p].count > 0)
            heap_push(t, (struct candidate){t->pairs[p].count, t->pairs[p].key});
}

static void apply_merge(struct bpe_trainer *t, struct merge m, int32_t id)
{
    size_t first_new = t->n_pairs;
    struct pair *p = find_pair(t, pair_key(m.left, m.right));
    uint32_t *where = p->where;
    uint32_t n = p->n_where;
    p->where = NULL;
    p->n_where = p->cap_where = 0;
    for (uint32_t i = 0; i < n; i++)
        merge_chunk(t, where[i], m, id);
    free(where);
    push_new_pairs(t, first_new);
}

int bpe_trainer_finish(struct bpe_trainer *t, int64_t vocab_size, struct tokenizer **out,
                       struct bpe_stats *stats, struct error *err)
{
    if (vocab_size < TOKENIZER_MIN_VOCAB || vocab_size > INT32_MAX / 4)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "a vocabulary of %" PRId64 " tokens cannot be made, expected %d to %d",
                         vocab_size, TOKENIZER_MIN_VOCAB, INT32_MAX / 4);
    size_t wanted = (size_t)vocab_size - TOKENIZER_BYTES - SPECIAL_COUNT;
    struct merge *merges = NULL;
    size_t n = 0, cap = 0;
    count_first_pairs(t);
    uint64_t key;
    while (n < wanted && best_pair(t, &key)) {
        struct merge m = {(int32_t)(key >> 32), (int32_t)(uint32_t)key};
        mem_grow((void **)&merges, &cap, n, sizeof *merges);
        merges[n] = m;
        apply_merge(t, m, TOKENIZER_BYTES + (int32_t)n++);
    }
    t->stats.distinct_chunks = (int64_t)t->n_chunks;
    t->stats.merges = (int64_t)n;
    t->stats.stopped_early = n < wanted;
    if (stats)
        *stats = t->stats;
    int rc =
        n ? tokenizer_build(merges, (int32_t)n, "the learnt merges", NANOCHAT_EXIT_PLAN, out, err)
          : error_set(err, NANOCHAT_EXIT_DATA, "no byte pairs to merge");
    free(merges);
    return rc;
}
