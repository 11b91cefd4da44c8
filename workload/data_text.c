/* Source `text`: documents, each behind a BOS token, tokenised one by one as they are reached. */
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data_source.h"

#include <inttypes.h>
#include <string.h>

struct text_source {
    struct source base;
    const struct tokenizer *tokenizer;
    struct documents *documents;
    enum split split;
    int64_t val_every;
    struct token_buffer tokens; /* of the document at hand */
    size_t used;
    struct source_cursor place;  /* of that document; offset is not used */
    struct data_summary summary; /* of the first epoch */
};

static void text_close(struct source *base)
{
    struct text_source *s = (struct text_source *)base;
    documents_close(s->documents);
    token_buffer_release(&s->tokens);
    free(s);
}

static int text_open(struct source **out, const struct data_config *c, struct error *err)
{
    if (!c->tokenizer || !c->path)
        return error_set(err, NANOCHAT_EXIT_PLAN, "text data needs a path and a tokenizer");
    struct text_source *s = mem_zalloc(1, sizeof *s);
    s->base.ops = &text_source_ops;
    s->tokenizer = c->tokenizer;
    s->split = c->split;
    s->val_every = c->val_every;
    if (documents_open(&s->documents, c->path, c->split, c->val_every, c->val_files, err)) {
        text_close(&s->base);
        return -err->code;
    }
    *out = &s->base;
    return 0;
}

static int empty_split(const struct text_source *s, struct error *err)
{
    struct data_summary seen;
    documents_summary(s->documents, &seen);
    if (s->split == SPLIT_VAL)
        return split_is_empty(err, s->split,
                              "not one document in %" PRId64 " (every %" PRId64
                              "th is kept for validation)",
                              s->val_every, s->val_every);
    return split_is_empty(err, s->split, "no document found, %" PRId64 " empty ones",
                          seen.empty_documents);
}

/* The next document's text; at the end of an epoch the first one of the next. */
static int next_text(struct text_source *s, const char **doc, size_t *len, struct error *err)
{
    documents_tell(s->documents, &s->place.file, &s->place.document);
    if (documents_next(s->documents, doc, len, err))
        return -err->code;
    if (s->place.epoch == 0)
        documents_summary(s->documents, &s->summary);
    if (*doc)
        return 0;
    s->place = (struct source_cursor){.epoch = s->place.epoch + 1};
    if (documents_seek(s->documents, 0, 0, err) || documents_next(s->documents, doc, len, err))
        return -err->code;
    return *doc ? 0 : empty_split(s, err);
}

static int next_document(struct text_source *s, struct error *err)
{
    const char *doc;
    size_t len;
    if (next_text(s, &doc, &len, err))
        return -err->code;
    s->used = 0;
    s->tokens.count = 0;
    vec_push(&s->tokens, tokenizer_special(s->tokenizer, SPECIAL_BOS));
    return tokenizer_encode(s->tokenizer, doc, len, &s->tokens, err);
}

static int text_read(struct source *base, int32_t *tokens, int64_t n, struct error *err)
{
    struct text_source *s = (struct text_source *)base;
    while (n) {
        if (s->used == s->tokens.count && next_document(s, err))
            return -err->code;
        size_t left = s->tokens.count - s->used;
        size_t take = (uint64_t)n < left ? (size_t)n : left;
        if (tokens) {
            memcpy(tokens, s->tokens.items + s->used, take * sizeof *tokens);
            tokens += take;
        }
        s->used += take;
        n -= (int64_t)take;
    }
    return 0;
}

static int64_t text_epoch(const struct source *base)
{
    return ((const struct text_source *)base)->place.epoch;
}

static struct source_cursor text_tell(const struct source *base)
{
    const struct text_source *s = (const struct text_source *)base;
    struct source_cursor c = s->place;
    c.offset = (int64_t)s->used;
    return c;
}

static int text_seek(struct source *base, const struct source_cursor *c, struct error *err)
{
    struct text_source *s = (struct text_source *)base;
    s->place = *c;
    s->used = s->tokens.count = 0;
    if (documents_seek(s->documents, c->file, c->document, err))
        return -err->code;
    if (!c->offset)
        return 0;
    if (next_document(s, err))
        return -err->code;
    if (s->place.epoch != c->epoch || c->offset < 0 || (uint64_t)c->offset > s->tokens.count)
        return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                         "token %" PRId64 " of document %" PRId64 " does not exist", c->offset,
                         c->document);
    s->used = (size_t)c->offset;
    return 0;
}

static void text_describe(const struct source *base, json_t *obj)
{
    const struct text_source *s = (const struct text_source *)base;
    json_put_str(obj, "tokenizer_sha256", tokenizer_hash(s->tokenizer));
}

static void text_summary(const struct source *base, struct data_summary *out)
{
    *out = ((const struct text_source *)base)->summary;
}

const struct source_ops text_source_ops = {
    .name = "text",
    .needs_path = true,
    .tokenizer = SOURCE_TOKENIZER_MUST,
    .open = text_open,
    .read = text_read,
    .epoch = text_epoch,
    .tell = text_tell,
    .seek = text_seek,
    .describe = text_describe,
    .summary = text_summary,
    .close = text_close,
};
