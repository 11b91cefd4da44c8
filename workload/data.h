/* Training data: a source gives tokens, a loader cuts windows of B*T+1 tokens from them.
 *
 * All documents of a split form one endless token stream in a fixed order (BOS, document, BOS,
 * document … again and again, one epoch after the other). Window number w takes the tokens
 * [w*(B*T+1), (w+1)*(B*T+1)); inputs are its first B*T tokens, targets its last B*T. Micro-batch m
 * of rank r in step s is window (s*accumulation + m)*world + r. So every rank gets the same number
 * of batches by construction, N ranks see exactly the tokens that one rank with N times the
 * accumulation sees, and no token is ever dropped: a window may hold the end of one file or epoch
 * and the beginning of the next. A split of N tokens an epoch is passed for the first time in
 * window floor(N / (B*T+1)). A rank tokenises (or skips) the others' windows as it passes them.
 *
 * Sources:
 *   text       a text file, plain or gzip, or a directory of them. What a document is: see
 *              data_textfile.h. Empty ones are skipped.
 *   packed     a token file or a directory of them (data_packed.h): the tokens as they are.
 *   synthetic  token of rank k with a probability in proportion to 1/(k+1), independent of each
 *              other, from seed, split and place alone.
 * Validation: the last val_files files of a directory. Of a single text file every val_every-th
 * document that is not empty, of a single packed file every val_every-th block of 1,024 tokens; of
 * synthetic data another stream.
 *
 * Adding a source: fill struct source_ops (data_source.h), a line in the table of data.c. */
#ifndef WORKLOAD_DATA_H
#define WORKLOAD_DATA_H

#include "common/error.h"
#include "common/json.h"
#include "workload/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

enum split { SPLIT_TRAIN, SPLIT_VAL };

struct data_config {
    const char *source; /* "text" | "packed" | "synthetic" */
    const char *path;   /* file or directory; NULL for synthetic */
    enum split split;
    int64_t B, T; /* batch rows and sequence length of one rank's micro-batch */
    int rank, world;
    int64_t seed;            /* synthetic */
    int64_t vocab_size;      /* synthetic, and checked against packed files */
    int64_t val_every;       /* single files: every val_every-th is validation; 0: 100 */
    int64_t val_files;       /* directories: how many files are validation; 0: 1 */
    int64_t prefetch_tokens; /* tokens of this rank to have ready before a batch, rounded up to
                                micro-batches, at most 16 Mi; 0: 64 micro-batches, at most 1 Mi */
    const struct tokenizer *tokenizer; /* text; borrowed for the loader's life */
};

struct loader;

/* What was seen of the first epoch so far (for events and messages); all 0 where a source has no
 * documents. bytes are those of the documents. */
struct data_summary {
    int64_t documents, empty_documents, invalid_bytes, bytes;
};

/* The usual prefetch_tokens, or those of one step of so many micro-batches where they are more. */
int64_t data_prefetch_for(const struct data_config *c, int64_t accumulation);

/* The path of such data, or base_data below the base directory where none is given; NULL where the
 * source has none. Caller frees. */
char *data_path(const char *source, const char *given);
/* *out: the tokenizer that such data needs (text), or that was named for it (packed); NULL where it
 * has none (synthetic). given NULL: `tokenizer` below the base directory. */
int data_tokenizer_open(const char *source, const char *given, struct tokenizer **out,
                        struct error *err);

/* An empty split is NANOCHAT_EXIT_DATA, a plan that cannot work NANOCHAT_EXIT_PLAN. */
int loader_open(struct loader **out, const struct data_config *config, struct error *err);
/* To be called between timed steps: see to it that the next `batches` micro-batches are prefetched,
 * as far as prefetch_tokens has room for them. Reads nothing while enough are left, else as many as
 * there is room for. */
int loader_prepare(struct loader *l, int64_t batches, struct error *err);
/* Next micro-batch of this rank: inputs and targets, each int32[B*T]. No allocation, no reading and
 * no tokenising as long as the prefetched tokens suffice. */
int loader_next(struct loader *l, int32_t *inputs, int32_t *targets, struct error *err);
int64_t loader_epoch(const struct loader *l); /* of the last window's first token, from 0 */
/* Exact position, to be stored in a checkpoint; loader_restore continues with the very next
 * micro-batch, on the same data, split, tokenizer, world size, B and T, else
 * NANOCHAT_EXIT_CHECKPOINT. All ranks have the same state after the same number of micro-batches,
 * and any rank can restore it. The state is the caller's. */
json_t *loader_state(const struct loader *l);
int loader_restore(struct loader *l, const json_t *state, struct error *err);
/* Identity of the data (source, path, size, content hash or seed): equal between arms. The object
 * is the caller's. */
json_t *loader_describe(const struct loader *l);
void loader_summary(const struct loader *l, struct data_summary *out);
void loader_close(struct loader *l);

/* Documents one by one, for tokenizer training and evaluation. *doc stays valid until the next
 * call; *len 0 with *doc NULL: the end. */
struct documents;
/* val_every and val_files as in struct data_config. */
int documents_open(struct documents **out, const char *path, enum split split, int64_t val_every,
                   int64_t val_files, struct error *err);
int documents_next(struct documents *d, const char **doc, size_t *len, struct error *err);
void documents_summary(const struct documents *d, struct data_summary *out);
void documents_close(struct documents *d);

#endif
