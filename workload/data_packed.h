/* Token files. All numbers are little-endian:
 *
 *   offset  bytes  what
 *        0      8  "NCTOKENS"
 *        8      4  version, 1
 *       12      4  bytes a token: 2 (uint16) or 4 (uint32)
 *       16      8  vocabulary size: every token is below it
 *       24      8  number of tokens
 *       32         the tokens, up to the end of the file
 *
 * The file holds the stream as it is to be read, BOS tokens included. */
#ifndef WORKLOAD_DATA_PACKED_H
#define WORKLOAD_DATA_PACKED_H

#include "common/error.h"

#include <stddef.h>
#include <stdint.h>

#define PACKED_MAGIC "NCTOKENS"
#define PACKED_VERSION 1
#define PACKED_HEADER 32
/* Of a single file every val_every-th block of this many tokens is validation. */
#define PACKED_BLOCK 1024

/* Write a token file atomically, with 2 bytes a token where the vocabulary allows it, else 4. A
 * token outside the vocabulary: NANOCHAT_EXIT_DATA; NANOCHAT_EXIT_WRITE. */
int packed_write(const char *path, const int32_t *tokens, size_t n, int64_t vocab_size,
                 struct error *err);

#endif
