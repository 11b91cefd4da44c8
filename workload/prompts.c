#include "workload/prompts.h"

#include "common/mem.h"
#include "workload/sample.h"

#include <string.h>

#define CONTINUATION 16

const char *const prompts[] = {
    "The capital of France is",
    "The chemical symbol of gold is",
    "If yesterday was a Friday, then tomorrow is a",
    "The opposite of hot is",
    "The planets of the solar system are:",
    "My favourite colour is",
    "If 5*x + 3 = 13, then x is",
    NULL,
};

static int continue_prompt(struct run *run, struct model *model, const struct tokenizer *tokenizer,
                           const char *prompt, struct token_buffer *tokens, struct error *err)
{
    const int32_t ends[] = {tokenizer_special(tokenizer, SPECIAL_BOS),
                            tokenizer_special(tokenizer, SPECIAL_ASSISTANT_END)};
    const struct sample_stop stop = {ends, 2};
    int32_t out[CONTINUATION];
    int64_t n_out = 0;
    tokens->count = 0;
    vec_push(tokens, ends[0]);
    auto_str text = STR_INIT, shown = STR_INIT;
    if (tokenizer_encode(tokenizer, prompt, strlen(prompt), tokens, err) ||
        sample_greedy(model, tokens->items, (int64_t)tokens->count, CONTINUATION, &stop, out,
                      &n_out, err) ||
        tokenizer_decode(tokenizer, out, (size_t)n_out, &text, err))
        return -err->code;
    for (char *p = text.data; (p = memchr(p, '\n', text.len - (size_t)(p - text.data))); p++)
        *p = ' '; /* one line a prompt */
    str_append_printable(&shown, text.data, text.len);
    return run_print(run, err, "<|bos|>%s%s\n", prompt, shown.data);
}

int prompts_sample(struct run *run, struct model *model, const struct tokenizer *tokenizer,
                   struct error *err)
{
    struct token_buffer tokens = {0};
    for (size_t i = 0; prompts[i] && !err->code; i++)
        continue_prompt(run, model, tokenizer, prompts[i], &tokens, err);
    token_buffer_release(&tokens);
    return -err->code;
}
