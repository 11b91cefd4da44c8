/* The batch rule that both programs check: a step's tokens are cut into micro-batches of
 * device_batch rows of `sequence` tokens, the same number on every rank. It is here so that
 * `ncbench check` refuses a plan with the very text that nanochat would print after the launch. */
#ifndef COMMON_BATCH_H
#define COMMON_BATCH_H

#include "common/error.h"

#include <stdint.h>

/* How many micro-batches each rank accumulates in a step: total / (device_batch * sequence *
 * world), which must come out exactly. Pure. Error: exit 3 (the code of an impossible plan in both
 * programs) with the product, the remainder and the nearest valid totals. */
int batch_accumulation(int64_t total, int64_t device_batch, int64_t sequence, int64_t world,
                       int64_t *accumulation, struct error *err);

#endif
