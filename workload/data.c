#include "workload/data.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data_source.h"

#include <inttypes.h>
#include <string.h>

#define PREFETCH_MAX ((int64_t)16 << 20)    /* tokens */
#define PREFETCH_DEFAULT ((int64_t)1 << 20) /* tokens */
#define PREFETCH_BATCHES 64
#define STATE_FORMAT "loader/1"

static const struct source_ops *const sources[] = {
    &text_source_ops,
    &packed_source_ops,
    &synthetic_source_ops,
};

/* What the loader knows of a window that it cut: its epoch, and where the stream stands behind this
 * micro-batch of all ranks. */
struct mark {
    int64_t epoch;
    struct source_cursor behind;
};

struct loader {
    struct source *source;
    struct data_config config;
    json_t *identity;
    int64_t window;      /* B*T + 1 */
    int64_t micro_batch; /* number of the next one to hand out */
    int32_t *prefetched; /* n_prefetched windows of `room` */
    struct mark *marks;  /* of the prefetched windows */
    int64_t room, n_prefetched, n_used;
    int32_t *cut; /* one window, for when the prefetched ones are used up */
    struct mark last;
};

static int64_t prefetch_batches(const struct data_config *c)
{
    int64_t tokens = c->B * c->T, wanted = c->prefetch_tokens;
    if (wanted == 0)
        wanted = tokens < PREFETCH_DEFAULT / PREFETCH_BATCHES ? tokens * PREFETCH_BATCHES
                                                              : PREFETCH_DEFAULT;
    if (wanted > PREFETCH_MAX)
        wanted = PREFETCH_MAX;
    return (wanted + tokens - 1) / tokens;
}

int64_t data_prefetch_for(const struct data_config *c, int64_t accumulation)
{
    int64_t batches = prefetch_batches(c);
    return (batches > accumulation ? batches : accumulation) * c->B * c->T;
}

static int check_config(const struct data_config *c, struct error *err)
{
    if (c->B < 1 || c->T < 1 || c->B > INT32_MAX / 2 / c->T)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "batches of %" PRId64 " rows of %" PRId64 " tokens cannot be made", c->B,
                         c->T);
    if (c->world < 1 || c->rank < 0 || c->rank >= c->world)
        return error_set(err, NANOCHAT_EXIT_PLAN, "rank %d of %d does not exist", c->rank,
                         c->world);
    if (c->val_every < 2 || c->val_files < 1)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "every %" PRId64 "th document and %" PRId64
                         " files for validation, expected at least 2 and 1",
                         c->val_every, c->val_files);
    if (c->prefetch_tokens < 0)
        return error_set(err, NANOCHAT_EXIT_PLAN, "%" PRId64 " tokens cannot be prefetched",
                         c->prefetch_tokens);
    return 0;
}

static const struct source_ops *find_source(const char *name)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (name && !strcmp(sources[i]->name, name))
            return sources[i];
    return NULL;
}

char *data_path(const char *source, const char *given)
{
    const struct source_ops *ops = find_source(source);
    if (ops && !ops->needs_path)
        return NULL;
    return given ? mem_strdup(given) : fs_below_base("base_data");
}

int data_tokenizer_open(const char *source, const char *given, struct tokenizer **out,
                        struct error *err)
{
    const struct source_ops *ops = find_source(source);
    *out = NULL;
    if (!ops || ops->tokenizer == SOURCE_TOKENIZER_NONE ||
        (ops->tokenizer == SOURCE_TOKENIZER_MAY && !given))
        return 0; /* an unknown source is loader_open's error */
    auto_free char *path = given ? mem_strdup(given) : fs_below_base("tokenizer");
    if (tokenizer_load(path, out, err) && !given)
        error_hint(err, "`nanochat tok-train` makes one");
    return -err->code;
}

/* Cut this rank's window of the next micro-batch; the stream then stands behind the last rank's. */
static int cut_window(struct loader *l, int32_t *window, struct mark *mark, struct error *err)
{
    const struct source_ops *ops = l->source->ops;
    int64_t before = l->config.rank * l->window;
    int64_t after = (l->config.world - 1 - l->config.rank) * l->window;
    if (ops->read(l->source, NULL, before, err) || ops->read(l->source, window, 1, err))
        return -err->code;
    mark->epoch = ops->epoch(l->source);
    if (ops->read(l->source, window + 1, l->window - 1, err) ||
        ops->read(l->source, NULL, after, err))
        return -err->code;
    mark->behind = ops->tell(l->source);
    return 0;
}

/* Keep the first `left` windows and cut as many behind them as there is room for. */
static int fill(struct loader *l, int64_t left, struct error *err)
{
    l->n_used = 0;
    for (l->n_prefetched = left; l->n_prefetched < l->room; l->n_prefetched++)
        if (cut_window(l, l->prefetched + l->n_prefetched * l->window, &l->marks[l->n_prefetched],
                       err))
            return -err->code;
    return 0;
}

static int allocate(struct loader *l, struct error *err)
{
    void *windows = NULL, *cut = NULL;
    size_t bytes = (size_t)l->window * sizeof(int32_t);
    l->room = prefetch_batches(&l->config);
    if (mem_try_alloc(&windows, (size_t)l->room * bytes, "prefetched tokens", err))
        return -err->code;
    l->prefetched = windows;
    if (mem_try_alloc(&cut, bytes, "a window of tokens", err))
        return -err->code;
    l->cut = cut;
    l->marks = mem_zalloc((size_t)l->room, sizeof *l->marks);
    return 0;
}

static int identify(struct loader *l, struct error *err)
{
    l->identity = json_object();
    json_put_str(l->identity, "source", l->source->ops->name);
    if (l->config.path) {
        json_put_str(l->identity, "path", l->config.path);
        if (data_identity(l->config.path, l->identity, err))
            return -err->code;
        json_put_int(l->identity, "val_every", l->config.val_every);
        json_put_int(l->identity, "val_files", l->config.val_files);
    }
    l->source->ops->describe(l->source, l->identity);
    return 0;
}

int loader_open(struct loader **out, const struct data_config *config, struct error *err)
{
    struct data_config c = *config;
    const struct source_ops *ops = find_source(c.source);
    if (!ops)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "data source \"%s\" does not exist, expected text, packed or synthetic",
                         c.source ? c.source : "");
    if (!c.val_every)
        c.val_every = DATA_VAL_EVERY;
    if (!c.val_files)
        c.val_files = DATA_VAL_FILES;
    if (!ops->needs_path)
        c.path = NULL;
    if (check_config(&c, err))
        return -err->code;
    struct loader *l = mem_zalloc(1, sizeof *l);
    l->config = c;
    l->window = c.B * c.T + 1;
    if (ops->open(&l->source, &c, err) || identify(l, err) || allocate(l, err) || fill(l, 0, err)) {
        loader_close(l);
        return -err->code;
    }
    l->config.path = l->config.source = NULL; /* the caller's strings may go now */
    *out = l;
    return 0;
}

void loader_close(struct loader *l)
{
    if (!l)
        return;
    if (l->source)
        l->source->ops->close(l->source);
    json_decref(l->identity);
    free(l->prefetched);
    free(l->marks);
    free(l->cut);
    free(l);
}

int loader_prepare(struct loader *l, int64_t batches, struct error *err)
{
    int64_t left = l->n_prefetched - l->n_used;
    if (left >= batches || left == l->room)
        return 0;
    memmove(l->prefetched, l->prefetched + l->n_used * l->window,
            (size_t)(left * l->window) * sizeof *l->prefetched);
    memmove(l->marks, l->marks + l->n_used, (size_t)left * sizeof *l->marks);
    return fill(l, left, err);
}

int loader_next(struct loader *l, int32_t *inputs, int32_t *targets, struct error *err)
{
    const int32_t *window = l->cut;
    if (l->n_used < l->n_prefetched) {
        window = l->prefetched + l->n_used * l->window;
        l->last = l->marks[l->n_used++];
    } else if (cut_window(l, l->cut, &l->last, err)) {
        return -err->code;
    }
    size_t bytes = (size_t)(l->window - 1) * sizeof *inputs;
    memcpy(inputs, window, bytes);
    memcpy(targets, window + 1, bytes);
    l->micro_batch++;
    return 0;
}

int64_t loader_epoch(const struct loader *l)
{
    return l->last.epoch;
}

json_t *loader_describe(const struct loader *l)
{
    return json_deep_copy(l->identity);
}

void loader_summary(const struct loader *l, struct data_summary *out)
{
    l->source->ops->summary(l->source, out);
}

/* ---- state --------------------------------------------------------------------------------- */

/* What must be the same for a place to mean the same. Not the path: data may be moved. */
static json_t *state_plan(const struct loader *l)
{
    json_t *plan = json_deep_copy(l->identity);
    json_object_del(plan, "path");
    json_put_str(plan, "split", split_name(l->config.split));
    json_put_int(plan, "world", l->config.world);
    json_put_int(plan, "B", l->config.B);
    json_put_int(plan, "T", l->config.T);
    return plan;
}

json_t *loader_state(const struct loader *l)
{
    const struct source_cursor *c = &l->last.behind;
    json_t *state = json_object(), *cursor = json_object();
    json_put_str(state, "format", STATE_FORMAT);
    json_put(state, "plan", state_plan(l));
    json_put_int(state, "micro_batch", l->micro_batch);
    json_put_int(cursor, "epoch", c->epoch);
    json_put_int(cursor, "file", c->file);
    json_put_int(cursor, "document", c->document);
    json_put_int(cursor, "offset", c->offset);
    json_put(state, "cursor", cursor);
    return state;
}

static int check_plan(const struct loader *l, const json_t *found, struct error *err)
{
    auto_json *plan = state_plan(l);
    const char *key;
    json_t *expected;
    json_object_foreach(plan, key, expected)
    {
        const json_t *value = json_object_get(found, key);
        if (value && json_equal(value, expected))
            continue;
        auto_str have = STR_INIT, want = STR_INIT;
        if (value)
            json_write(&have, value, 0);
        json_write(&want, expected, 0);
        return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                         "the place in the data was stored with %s %s, this run has %s", key,
                         value ? have.data : "absent", want.data);
    }
    return 0;
}

int loader_restore(struct loader *l, const json_t *state, struct error *err)
{
    struct source_cursor c;
    int64_t micro_batch;
    const char *format = json_read_str(state, "format");
    if (!format || strcmp(format, STATE_FORMAT) != 0 ||
        !json_read_i64(state, "micro_batch", &micro_batch) || micro_batch < 0 ||
        !json_read_i64(state, "cursor.epoch", &c.epoch) || c.epoch < 0 ||
        !json_read_i64(state, "cursor.file", &c.file) ||
        !json_read_i64(state, "cursor.document", &c.document) ||
        !json_read_i64(state, "cursor.offset", &c.offset))
        return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                         "the stored place in the data is malformed, expected %s", STATE_FORMAT);
    if (check_plan(l, json_at(state, "plan"), err) || l->source->ops->seek(l->source, &c, err))
        return -err->code;
    l->micro_batch = micro_batch;
    l->last = (struct mark){c.epoch, c};
    return fill(l, 0, err);
}
