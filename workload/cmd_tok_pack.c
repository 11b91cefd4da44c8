/* Text to token files, once, so that training does not tokenise: the streams that the text source
 * makes of the same data, written by data_packed.h. */
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data.h"
#include "workload/data_packed.h"
#include "workload/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LAST_FILE 999999 /* as names of one length can count */

struct tok_pack_options {
    char *data, *out, *tokenizer;
    int64_t val_every, val_files, file_tokens;
};

#define FIELD(name) offsetof(struct tok_pack_options, name)
const struct option_spec tok_pack_options[] = {
    {"data", 0, OPT_STRING, FIELD(data), NULL, 0, 0, "PATH",
     "text: a file, plain or gzip, or a directory of them"},
    {"out", 0, OPT_STRING, FIELD(out), NULL, 0, 0, "DIR",
     "directory to make: train_NNNNNN.tokens, and validation.tokens, the last by name"},
    {"tokenizer", 0, OPT_STRING, FIELD(tokenizer), NULL, 0, 0, "PATH",
     "tokenizer.json or its directory; without it $NANOCHAT_BASE_DIR/tokenizer"},
    {"val-every", 0, OPT_INT, FIELD(val_every), "100", 2, 1e15, "N",
     "every N-th document of a single file is validation"},
    {"val-files", 0, OPT_INT, FIELD(val_files), "1", 1, 1e9, "N",
     "the last N files of a directory are validation"},
    {"file-tokens", 0, OPT_INT, FIELD(file_tokens), "16777216", 1, 1e9, "N",
     "tokens of a training file; so many are held in memory"},
    {0}};
#undef FIELD

struct packer {
    const struct tok_pack_options *options;
    struct tokenizer *tokenizer;
    const char *out, *dir;      /* the directory to be, and where it is made */
    struct token_buffer tokens; /* not written yet */
    int64_t files, written;     /* training files; tokens in all files */
};

static int write_file(struct packer *p, const char *path, size_t n, struct error *err)
{
    if (packed_write(path, p->tokens.items, n, tokenizer_vocab_size(p->tokenizer), err))
        return -err->code;
    memmove(p->tokens.items, p->tokens.items + n, (p->tokens.count - n) * sizeof *p->tokens.items);
    p->tokens.count -= n;
    p->written += (int64_t)n;
    return 0;
}

static int write_train(struct packer *p, size_t n, struct error *err)
{
    if (p->files > LAST_FILE)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "more than %d training files: their order is that of their names; give a "
                         "larger --file-tokens",
                         LAST_FILE + 1);
    auto_free char *path = mem_printf("%s/train_%06" PRId64 ".tokens", p->dir, p->files);
    p->files++;
    return write_file(p, path, n, err);
}

static int write_validation(struct packer *p, size_t n, struct error *err)
{
    auto_free char *path = mem_printf("%s/validation.tokens", p->dir);
    return write_file(p, path, n, err);
}

/* The tokens of one document behind those that wait; whole training files are written. */
static int add_document(struct packer *p, enum split split, const char *doc, size_t len,
                        struct error *err)
{
    const size_t file_tokens = (size_t)p->options->file_tokens;
    vec_push(&p->tokens, tokenizer_special(p->tokenizer, SPECIAL_BOS));
    if (tokenizer_encode(p->tokenizer, doc, len, &p->tokens, err))
        return -err->code;
    while (split == SPLIT_TRAIN && p->tokens.count >= file_tokens)
        if (write_train(p, file_tokens, err))
            return -err->code;
    return 0;
}

static int pack_documents(struct packer *p, enum split split, struct documents *d,
                          struct error *err)
{
    const char *doc;
    size_t len;
    do {
        if (documents_next(d, &doc, &len, err) || (doc && add_document(p, split, doc, len, err)))
            return -err->code;
    } while (doc);
    if (!p->tokens.count)
        return 0;
    return split == SPLIT_TRAIN ? write_train(p, p->tokens.count, err)
                                : write_validation(p, p->tokens.count, err);
}

static int pack_split(struct packer *p, enum split split, struct error *err)
{
    const struct tok_pack_options *o = p->options;
    const char *name = split == SPLIT_TRAIN ? "train" : "validation";
    const int64_t before = p->written;
    struct documents *d = NULL;
    struct data_summary seen;
    if (documents_open(&d, o->data, split, o->val_every, o->val_files, err))
        return -err->code;
    int rc = pack_documents(p, split, d, err);
    documents_summary(d, &seen);
    documents_close(d);
    if (!rc && p->written == before)
        rc = error_set(err, NANOCHAT_EXIT_DATA, "%s split of %s is empty", name, o->data);
    if (!rc)
        printf("%s: %" PRId64 " documents, %" PRId64 " tokens\n", name, seen.documents,
               p->written - before);
    return rc;
}

/* Aside first: a directory that was cut short would take its last file for validation. */
static int pack_aside(struct packer *p, const char *aside, struct error *err)
{
    struct error ignored = ERROR_INIT;
    p->dir = aside;
    fs_remove_tree(aside, NANOCHAT_EXIT_WRITE, &ignored); /* of a run that was killed */
    error_release(&ignored);
    if (fs_mkdir_p(aside, NANOCHAT_EXIT_WRITE, err) || pack_split(p, SPLIT_TRAIN, err) ||
        pack_split(p, SPLIT_VAL, err))
        return -err->code;
    if (rename(aside, p->out))
        return error_errno(err, NANOCHAT_EXIT_WRITE, errno, "cannot rename %s to %s", aside,
                           p->out);
    return 0;
}

static int pack(const struct tok_pack_options *o, struct error *err)
{
    if (!o->data || !o->out)
        return error_set(err, NANOCHAT_EXIT_USAGE, "option --%s is required",
                         o->data ? "out" : "data");
    auto_free char *out = mem_strdup(o->out);
    for (size_t n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
        out[n - 1] = '\0'; /* as a shell completes it */
    if (fs_exists(out)) {
        error_set(err, NANOCHAT_EXIT_WRITE, "%s exists already", out);
        error_hint(err, "remove it, or choose another --out");
        return -err->code;
    }
    auto_free char *path = o->tokenizer ? mem_strdup(o->tokenizer) : fs_below_base("tokenizer");
    auto_free char *aside = mem_printf("%s.incomplete", out);
    struct packer p = {.options = o, .out = out};
    const double start_s = clock_mono_s();
    if (tokenizer_load(path, &p.tokenizer, err))
        return -err->code;
    int rc = pack_aside(&p, aside, err);
    if (rc) {
        struct error ignored = ERROR_INIT;
        fs_remove_tree(aside, NANOCHAT_EXIT_WRITE, &ignored);
        error_release(&ignored);
    } else {
        printf("vocab_size: %" PRId64 "\ntokenizer: %s\nfiles: %" PRId64
               "\ntime: %.4f\nsaved: %s\n",
               tokenizer_vocab_size(p.tokenizer), tokenizer_hash(p.tokenizer), p.files + 1,
               clock_mono_s() - start_s, out);
        if (fflush(stdout) || ferror(stdout))
            rc = error_set(err, NANOCHAT_EXIT_WRITE, "cannot write standard output");
    }
    token_buffer_release(&p.tokens);
    tokenizer_free(p.tokenizer);
    return rc;
}

int cmd_tok_pack(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    struct tok_pack_options o;
    options_defaults(tok_pack_options, &o);
    if (options_parse(tok_pack_options, &o, argc, argv, NULL, &err) || pack(&o, &err))
        error_print(&err, "nanochat");
    options_release(tok_pack_options, &o);
    return err.code;
}
