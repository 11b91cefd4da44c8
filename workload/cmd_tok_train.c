#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "workload/data.h"
#include "workload/tokenizer_split.h"
#include "workload/tokenizer_train.h"
#include "workload/verbs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct tok_train_options {
    int64_t max_chars, doc_cap, vocab_size, val_every;
    char *data, *out;
};

#define FIELD(name) offsetof(struct tok_train_options, name)
const struct option_spec tok_train_options[] = {
    {"data", 0, OPT_STRING, FIELD(data), NULL, 0, 0, "PATH",
     "text to train on: a file, plain or gzip, or a directory of them"},
    {"out", 0, OPT_STRING, FIELD(out), NULL, 0, 0, "DIR",
     "where tokenizer.json goes; without it $NANOCHAT_BASE_DIR/tokenizer"},
    {"max-chars", 0, OPT_INT, FIELD(max_chars), "10000000000", 1, 1e15, "N",
     "stop reading behind this many characters"},
    {"doc-cap", 0, OPT_INT, FIELD(doc_cap), "10000", 1, 1e15, "N",
     "use at most this many characters of a document"},
    {"vocab-size", 0, OPT_INT, FIELD(vocab_size), "65536", 0, 0, "N",
     "tokens, the 256 bytes and 9 special tokens included"},
    {"val-every", 0, OPT_INT, FIELD(val_every), "100", 2, 1e15, "N",
     "leave out every N-th document of a single file: it is validation"},
    {0}};
#undef FIELD

struct corpus {
    int64_t chars;
    struct data_summary seen;
};

/* An invalid byte counts as one character, as it does for --doc-cap. */
static int64_t count_chars(const char *text, size_t len)
{
    int64_t n = 0;
    for (size_t i = 0; i < len; n++) {
        size_t k = str_utf8_sequence(text + i, len - i);
        i += k ? k : 1;
    }
    return n;
}

static int read_corpus(struct bpe_trainer *trainer, const struct tok_train_options *o,
                       struct corpus *corpus, struct error *err)
{
    struct documents *d = NULL;
    if (documents_open(&d, o->data, SPLIT_TRAIN, o->val_every, 0, err))
        return -err->code;
    const char *doc;
    size_t len;
    int rc;
    while (!(rc = documents_next(d, &doc, &len, err)) && doc) {
        len = split_crop(doc, len, o->doc_cap);
        bpe_trainer_add(trainer, doc, len);
        corpus->chars += count_chars(doc, len);
        if (corpus->chars > o->max_chars)
            break;
    }
    documents_summary(d, &corpus->seen);
    documents_close(d);
    return rc;
}

/* The fields of upstream's report, then what else is worth knowing. */
static void print_report(const struct tok_train_options *o, const struct tokenizer *t,
                         const struct bpe_stats *stats, const struct corpus *corpus, double seconds)
{
    const int32_t *bytes = tokenizer_token_bytes(t);
    int64_t vocab = tokenizer_vocab_size(t), n = vocab - SPECIAL_COUNT;
    int32_t least = INT32_MAX, most = 0;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        least = bytes[i] < least ? bytes[i] : least;
        most = bytes[i] > most ? bytes[i] : most;
        sum += bytes[i];
    }
    double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (bytes[i] - mean) * (bytes[i] - mean);
    printf("max_chars: %" PRId64 "\ndoc_cap: %" PRId64 "\nvocab_size: %" PRId64
           "\ntrain_time: %.4f\nnum_special_tokens: %d\ntoken_bytes_min: %d\ntoken_bytes_max: %d\n"
           "token_bytes_mean: %.4f\ntoken_bytes_std: %.4f\n",
           o->max_chars, o->doc_cap, vocab, seconds, SPECIAL_COUNT, least, most, mean,
           sqrt(squares / (double)(n - 1)));
    printf("documents: %" PRId64 "\nempty_documents: %" PRId64 "\nchars: %" PRId64
           "\nbytes: %" PRId64 "\ninvalid_bytes: %" PRId64 "\nchunks: %" PRId64
           "\ndistinct_chunks: %" PRId64 "\nmerges: %" PRId64 "\nsha256: %s\n",
           corpus->seen.documents, corpus->seen.empty_documents, corpus->chars, stats->bytes,
           stats->invalid_bytes, stats->chunks, stats->distinct_chunks, stats->merges,
           tokenizer_hash(t));
}

static int save(const struct tokenizer *t, const char *out, struct error *err)
{
    auto_free char *dir = out ? mem_strdup(out) : fs_below_base("tokenizer");
    if (tokenizer_save(t, dir, err))
        return -err->code;
    printf("saved: %s/tokenizer.json\n", dir);
    return 0;
}

static int train(const struct tok_train_options *o, struct error *err)
{
    if (!o->data)
        return error_set(err, NANOCHAT_EXIT_USAGE, "option --data is required");
    if (o->vocab_size < TOKENIZER_MIN_VOCAB) /* said before anything is read */
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "--vocab-size %" PRId64 " is too small, expected at least %d: 256 bytes, "
                         "%d special tokens and one merge",
                         o->vocab_size, TOKENIZER_MIN_VOCAB, SPECIAL_COUNT);
    double start = clock_mono_s();
    struct bpe_trainer *trainer = bpe_trainer_new();
    struct tokenizer *t = NULL;
    struct corpus corpus = {0};
    struct bpe_stats stats;
    int rc = read_corpus(trainer, o, &corpus, err);
    if (!rc)
        rc = bpe_trainer_finish(trainer, o->vocab_size, &t, &stats, err);
    bpe_trainer_free(trainer);
    if (rc)
        return rc;
    if (stats.stopped_early)
        log_warn("no pair of tokens is left after %" PRId64 " merges: the vocabulary has %" PRId64
                 " tokens instead of %" PRId64,
                 stats.merges, tokenizer_vocab_size(t), o->vocab_size);
    if (stats.invalid_bytes)
        log_warn("%" PRId64 " bytes of the text are not valid UTF-8; they are kept as they are",
                 stats.invalid_bytes);
    print_report(o, t, &stats, &corpus, clock_mono_s() - start);
    rc = save(t, o->out, err);
    tokenizer_free(t);
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = error_set(err, NANOCHAT_EXIT_WRITE, "cannot write standard output");
    return rc;
}

int cmd_tok_train(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    struct tok_train_options o;
    options_defaults(tok_train_options, &o);
    if (options_parse(tok_train_options, &o, argc, argv, NULL, &err) || train(&o, &err))
        error_print(&err, "nanochat");
    options_release(tok_train_options, &o);
    return err.code;
}
