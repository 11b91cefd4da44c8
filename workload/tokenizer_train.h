/* Training byte pair encoding: which merges a text wants.
 *
 * Texts are split into chunks (tokenizer_split.h), equal chunks are counted once with their number.
 * Then, again and again, the pair of neighbouring tokens that occurs most often, counted over all
 * chunks with their numbers, becomes a new token (256, 257, …) and is joined in every chunk, left
 * to right without overlaps. Among pairs of equal count the one with the smallest (left, right) ids
 * is taken. Training ends early when no pair is left. */
#ifndef WORKLOAD_TOKENIZER_TRAIN_H
#define WORKLOAD_TOKENIZER_TRAIN_H

#include "workload/tokenizer.h"

/* The smallest vocabulary that holds one merge: 256 bytes, 9 specials, 1. */
#define TOKENIZER_MIN_VOCAB (256 + SPECIAL_COUNT + 1)

struct bpe_stats {
    int64_t bytes, chunks, distinct_chunks, invalid_bytes;
    int64_t merges;
    bool stopped_early; /* fewer merges than asked: no pair was left */
};

struct bpe_trainer;
struct bpe_trainer *bpe_trainer_new(void);
void bpe_trainer_free(struct bpe_trainer *t);
/* Count the chunks of one document. */
void bpe_trainer_add(struct bpe_trainer *t, const char *text, size_t len);
/* Learn the merges; once a trainer. vocab_size counts the specials; below TOKENIZER_MIN_VOCAB:
 * NANOCHAT_EXIT_PLAN. Nothing to merge: NANOCHAT_EXIT_DATA. stats may be NULL. */
int bpe_trainer_finish(struct bpe_trainer *t, int64_t vocab_size, struct tokenizer **out,
                       struct bpe_stats *stats, struct error *err);

#endif
