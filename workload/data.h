/* Training data: a source gives documents or tokens, a loader cuts windows of B*T+1 tokens.
 *
 * All documents of a split form one endless token stream in a fixed order (BOS, document, BOS,
 * document … again and again, one epoch after the other). Window number w takes the tokens
 * [w*(B*T+1), (w+1)*(B*T+1)); inputs are its first B*T tokens, targets its last B*T. Micro-batch m
 * of rank r in step s is window (s*accumulation + m)*world + r. So every rank gets the same number
 * of batches by construction, and N ranks see exactly the tokens that one rank with N times the
 * accumulation sees. A rank tokenises (or skips) the others' windows as it passes them.
 *
 * Sources: `text` (plain or gzip; documents split by the rule in docs/architecture.md), `packed`
 * (token files), `synthetic` (seeded Zipf). Adding one: fill struct source_ops, a line in the table
 * of data.c. */
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
    int64_t val_every;       /* text, packed: every val_every-th document (window) is validation */
    int64_t prefetch_tokens; /* tokens to prepare before the first batch; 0: a default */
    const struct tokenizer *tokenizer; /* text; borrowed for the loader's life */
};

struct loader;

/* What a source can say about itself (for events and messages). */
struct data_summary {
    int64_t documents, empty_documents, invalid_bytes, bytes;
};

/* An empty split is NANOCHAT_EXIT_DATA, a plan that cannot work NANOCHAT_EXIT_PLAN. */
int loader_open(struct loader **out, const struct data_config *config, struct error *err);
/* Next micro-batch of this rank: inputs and targets, each int32[B*T]. No allocation once the
 * prefetched tokens suffice. */
int loader_next(struct loader *l, int32_t *inputs, int32_t *targets, struct error *err);
int64_t loader_epoch(const struct loader *l); /* of the last window handed out, from 0 */
/* Exact position, to be stored in a checkpoint; loader_restore continues with the very next
 * micro-batch, on the same world size and B, T, else NANOCHAT_EXIT_CHECKPOINT. */
json_t *loader_state(const struct loader *l);
int loader_restore(struct loader *l, const json_t *state, struct error *err);
/* Identity of the data (source, path, size, content hash or seed): equal between arms. */
json_t *loader_describe(const struct loader *l);
void loader_summary(const struct loader *l, struct data_summary *out);
void loader_close(struct loader *l);

/* Documents one by one, for tokenizer training and evaluation. *doc stays valid until the next
 * call; *len 0 with *doc NULL: the end. */
struct documents;
int documents_open(struct documents **out, const char *path, enum split split, int64_t val_every,
                   struct error *err);
int documents_next(struct documents *d, const char **doc, size_t *len, struct error *err);
void documents_close(struct documents *d);

#endif
