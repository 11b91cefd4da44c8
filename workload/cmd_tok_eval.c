#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data.h"
#include "workload/tok_eval_texts.h"
#include "workload/verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BATCH_DOCUMENTS 1024 /* of a split: as many as a row group of upstream's shards */

struct tok_eval_options {
    char *tokenizer, *data;
    int64_t val_every;
};

#define FIELD(name) offsetof(struct tok_eval_options, name)
const struct option_spec tok_eval_options[] = {
    {"tokenizer", 0, OPT_STRING, FIELD(tokenizer), NULL, 0, 0, "PATH",
     "tokenizer.json or its directory; without it $NANOCHAT_BASE_DIR/tokenizer"},
    {"data", 0, OPT_STRING, FIELD(data), NULL, 0, 0, "PATH",
     "text of which the first 1,024 training and validation documents are measured too"},
    {"val-every", 0, OPT_INT, FIELD(val_every), "100", 2, 1e15, "N",
     "every N-th document of a single file is validation"},
    {0}};
#undef FIELD

struct eval {
    const struct tokenizer *tokenizer;
    struct token_buffer tokens;
};

/* Encode, and make sure that nothing is lost. */
static int measure(struct eval *e, const char *name, const char *text, size_t len,
                   struct error *err)
{
    e->tokens.count = 0;
    auto_str back = STR_INIT;
    if (tokenizer_encode(e->tokenizer, text, len, &e->tokens, err) ||
        tokenizer_decode(e->tokenizer, e->tokens.items, e->tokens.count, &back, err))
        return -err->code;
    if (back.len != len || (len && memcmp(back.data, text, len) != 0))
        BUG("the tokens of %s do not decode to its text", name);
    double tokens = (double)e->tokens.count;
    printf("%-12s %10zu %10zu %12.4f %12.4f\n", name, len, e->tokens.count, (double)len / tokens,
           tokens / (double)len);
    return 0;
}

static int measure_split(struct eval *e, const struct tok_eval_options *o, enum split split,
                         struct error *err)
{
    struct documents *d = NULL;
    if (documents_open(&d, o->data, split, o->val_every, 0, err))
        return -err->code;
    auto_str batch = STR_INIT;
    const char *doc = NULL;
    size_t len;
    int rc = 0;
    for (int i = 0; i < BATCH_DOCUMENTS; i++) {
        rc = documents_next(d, &doc, &len, err);
        if (rc || !doc)
            break;
        str_append_n(&batch, doc, len);
        str_append_char(&batch, '\n');
    }
    documents_close(d);
    const char *name = split == SPLIT_TRAIN ? "train" : "validation";
    if (!rc && !batch.len)
        rc = error_set(err, NANOCHAT_EXIT_DATA, "%s split of %s is empty", name, o->data);
    return rc ? rc : measure(e, name, batch.data, batch.len, err);
}

static int evaluate(struct eval *e, const struct tok_eval_options *o, struct error *err)
{
    printf("vocab_size: %" PRId64 "\nsha256: %s\n\n%-12s %10s %10s %12s %12s\n",
           tokenizer_vocab_size(e->tokenizer), tokenizer_hash(e->tokenizer), "text", "bytes",
           "tokens", "bytes/token", "tokens/byte");
    for (const struct eval_text *t = tok_eval_texts; t->name; t++)
        if (measure(e, t->name, t->text, strlen(t->text), err))
            return -err->code;
    if (o->data && (measure_split(e, o, SPLIT_TRAIN, err) || measure_split(e, o, SPLIT_VAL, err)))
        return -err->code;
    if (fflush(stdout) || ferror(stdout))
        return error_set(err, NANOCHAT_EXIT_WRITE, "cannot write standard output");
    return 0;
}

static int load_and_evaluate(const struct tok_eval_options *o, struct error *err)
{
    auto_free char *path = o->tokenizer ? mem_strdup(o->tokenizer) : fs_below_base("tokenizer");
    struct tokenizer *t = NULL;
    if (tokenizer_load(path, &t, err))
        return -err->code;
    struct eval e = {.tokenizer = t};
    int rc = evaluate(&e, o, err);
    token_buffer_release(&e.tokens);
    tokenizer_free(t);
    return rc;
}

int cmd_tok_eval(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    struct tok_eval_options o;
    options_defaults(tok_eval_options, &o);
    if (options_parse(tok_eval_options, &o, argc, argv, NULL, &err) || load_and_evaluate(&o, &err))
        error_print(&err, "nanochat");
    options_release(tok_eval_options, &o);
    return err.code;
}
