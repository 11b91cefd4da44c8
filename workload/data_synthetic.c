/* Source `synthetic`: Zipf-distributed tokens. The token at a place is a function of seed, split
 * and place, so that any window costs the same and nothing is stored. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data_source.h"

#include <inttypes.h>

/* Walker's alias method: column c, chosen evenly, is token c below the threshold, else its alias.
 */
struct column {
    uint32_t threshold; /* of 2^32; a full column is its own alias */
    int32_t alias;
};

struct synthetic_source {
    struct source base;
    int64_t seed, vocab_size;
    uint64_t key;
    struct column *columns;
    int64_t place;
};

/* The output function of SplitMix64: a bijection that mixes all bits. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Only additions, multiplications and divisions of doubles in a fixed order: the same table on
 * every machine. */
static void fill_columns(struct column *columns, int64_t n)
{
    auto_free double *height = mem_alloc((size_t)n * sizeof *height);
    auto_free int64_t *low = mem_alloc((size_t)n * sizeof *low);
    auto_free int64_t *high = mem_alloc((size_t)n * sizeof *high);
    double total = 0;
    for (int64_t k = n - 1; k >= 0; k--)
        total += 1 / (double)(k + 1);
    int64_t n_low = 0, n_high = 0;
    for (int64_t k = 0; k < n; k++) {
        height[k] = (double)n / (double)(k + 1) / total; /* 1 on average */
        if (height[k] < 1)
            low[n_low++] = k;
        else
            high[n_high++] = k;
    }
    while (n_low && n_high) {
        int64_t l = low[--n_low], h = high[n_high - 1];
        columns[l] = (struct column){(uint32_t)(height[l] * 4294967296.0), (int32_t)h};
        height[h] = height[h] + height[l] - 1;
        if (height[h] < 1) {
            n_high--;
            low[n_low++] = h;
        }
    }
    while (n_high--)
        columns[high[n_high]] = (struct column){UINT32_MAX, (int32_t)high[n_high]};
    while (n_low-- > 0) /* only by rounding */
        columns[low[n_low]] = (struct column){UINT32_MAX, (int32_t)low[n_low]};
}

static int synthetic_open(struct source **out, const struct data_config *c, struct error *err)
{
    if (c->vocab_size < 2 || c->vocab_size > INT32_MAX)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "synthetic data of %" PRId64 " different tokens, expected 2 to %d",
                         c->vocab_size, INT32_MAX);
    void *columns = NULL;
    if (mem_try_alloc(&columns, (size_t)c->vocab_size * sizeof(struct column),
                      "the table of synthetic tokens", err))
        return -err->code;
    struct synthetic_source *s = mem_zalloc(1, sizeof *s);
    s->base.ops = &synthetic_source_ops;
    s->seed = c->seed;
    s->vocab_size = c->vocab_size;
    s->key = mix(mix((uint64_t)c->seed + 1) + (c->split == SPLIT_VAL ? 2 : 1));
    s->columns = columns;
    fill_columns(s->columns, s->vocab_size);
    *out = &s->base;
    return 0;
}

static int32_t token_at(const struct synthetic_source *s, int64_t place)
{
    uint64_t x = mix(s->key + (uint64_t)place * 0x9E3779B97F4A7C15u);
    int32_t column = (int32_t)(((x >> 32) * (uint64_t)s->vocab_size) >> 32);
    const struct column *c = &s->columns[column];
    return (uint32_t)x < c->threshold ? column : c->alias;
}

static int synthetic_read(struct source *base, int32_t *tokens, int64_t n, struct error *err)
{
    struct synthetic_source *s = (struct synthetic_source *)base;
    (void)err;
    for (int64_t i = 0; tokens && i < n; i++)
        tokens[i] = token_at(s, s->place + i);
    s->place += n;
    return 0;
}

static int64_t synthetic_epoch(const struct source *base)
{
    (void)base; /* nothing is ever repeated */
    return 0;
}

static struct source_cursor synthetic_tell(const struct source *base)
{
    return (struct source_cursor){.offset = ((const struct synthetic_source *)base)->place};
}

static int synthetic_seek(struct source *base, const struct source_cursor *c, struct error *err)
{
    if (c->offset < 0)
        return error_set(err, NANOCHAT_EXIT_CHECKPOINT, "token %" PRId64 " does not exist",
                         c->offset);
    ((struct synthetic_source *)base)->place = c->offset;
    return 0;
}

static void synthetic_describe(const struct source *base, json_t *obj)
{
    const struct synthetic_source *s = (const struct synthetic_source *)base;
    json_put_int(obj, "seed", s->seed);
    json_put_int(obj, "vocab_size", s->vocab_size);
}

static void synthetic_summary(const struct source *base, struct data_summary *out)
{
    (void)base;
    *out = (struct data_summary){0};
}

static void synthetic_close(struct source *base)
{
    struct synthetic_source *s = (struct synthetic_source *)base;
    free(s->columns);
    free(s);
}

const struct source_ops synthetic_source_ops = {
    .name = "synthetic",
    .needs_path = false,
    .tokenizer = SOURCE_TOKENIZER_NONE,
    .open = synthetic_open,
    .read = synthetic_read,
    .epoch = synthetic_epoch,
    .tell = synthetic_tell,
    .seek = synthetic_seek,
    .describe = synthetic_describe,
    .summary = synthetic_summary,
    .close = synthetic_close,
};
