/* libFuzzer target: any bytes survive splitting, encoding and decoding, with a tokenizer that was
 * trained on the first half of them; splitting covers the text with chunks that are not empty. */
#include "workload/tokenizer_split.h"
#include "workload/tokenizer_train.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_split(const char *text, size_t len)
{
    struct split_pattern *pattern = split_pattern_new(len % 2);
    struct splitter *s = splitter_new(pattern);
    const char *chunk, *at = text;
    size_t n;
    splitter_begin(s, text, len);
    for (; splitter_next(s, &chunk, &n); at += n)
        if (chunk != at || n == 0 || n > (size_t)(text + len - at))
            BUG("chunk of %zu bytes at %td, expected at %td", n, chunk - text, at - text);
    if (at != text + len)
        BUG("the chunks end at %td of %zu", at - text, len);
    if (split_invalid_bytes(text, len) > (int64_t)len || split_crop(text, len, 3) > len)
        BUG("more invalid or cropped bytes than there are");
    splitter_free(s);
    split_pattern_free(pattern);
}

static void round_trip(const struct tokenizer *t, const char *text, size_t len)
{
    struct token_buffer tokens = {0};
    auto_str back = STR_INIT;
    struct error err = ERROR_INIT;
    if (tokenizer_encode(t, text, len, &tokens, &err) ||
        tokenizer_decode(t, tokens.items, tokens.count, &back, &err))
        BUG("%s", err.message);
    if (back.len != len || (len && memcmp(back.data, text, len) != 0))
        BUG("decode(encode(x)) differs from x");
    token_buffer_release(&tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    check_split(text, size);
    struct bpe_trainer *trainer = bpe_trainer_new();
    bpe_trainer_add(trainer, text, size / 2);
    struct tokenizer *t = NULL;
    struct error err = ERROR_INIT;
    if (!bpe_trainer_finish(trainer, 400, &t, NULL, &err))
        round_trip(t, text, size);
    error_release(&err);
    tokenizer_free(t);
    bpe_trainer_free(trainer);
    return 0;
}
