/* Texts that tok-eval measures a tokenizer on: five kinds, written for this program. They are part
 * of the measurement: changing one makes its figures incomparable. */
#ifndef WORKLOAD_TOK_EVAL_TEXTS_H
#define WORKLOAD_TOK_EVAL_TEXTS_H

struct eval_text {
    const char *name, *text;
};

/* Ends with {0}. */
extern const struct eval_text tok_eval_texts[];

#endif
