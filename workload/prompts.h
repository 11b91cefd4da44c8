/* The seven fixed prompts that show what a base model has learned: each continued greedily by 16
 * tokens. */
#ifndef WORKLOAD_PROMPTS_H
#define WORKLOAD_PROMPTS_H

#include "workload/model.h"
#include "workload/run.h"
#include "workload/tokenizer.h"

extern const char *const prompts[]; /* ends with NULL */

/* To be called on all ranks. Prints prompt and continuation, one a line, with what cannot be
 * printed made visible. */
int prompts_sample(struct run *run, struct model *model, const struct tokenizer *tokenizer,
                   struct error *err);

#endif
