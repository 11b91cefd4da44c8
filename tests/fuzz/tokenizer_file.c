/* libFuzzer target: tokenizer.json as any bytes, and any merges behind a good checksum. The first
 * byte chooses. What is accepted must encode and decode. */
#include "workload/tokenizer_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int build(const uint8_t *data, size_t size, struct tokenizer **out, struct error *err)
{
    struct merge merges[64];
    size_t n = size / 4 < 64 ? size / 4 : 64;
    for (size_t i = 0; i < n; i++)
        merges[i] = (struct merge){data[4 * i] + 256 * (int8_t)data[4 * i + 1],
                                   data[4 * i + 2] + 256 * (int8_t)data[4 * i + 3]};
    return tokenizer_build(merges, (int32_t)n, "fuzz", 7, out, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct tokenizer *t = NULL;
    struct error err = ERROR_INIT;
    int rc = data[0] == 'm' ? build(data + 1, size - 1, &t, &err)
                            : tokenizer_parse((const char *)data, size, "fuzz", &t, &err);
    if (rc && (err.code != 7 || !err.message))
        BUG("an error with code %d", err.code);
    if (!rc) {
        struct token_buffer tokens = {0};
        auto_str back = STR_INIT;
        const char *text = (const char *)data;
        if (tokenizer_encode(t, text, size, &tokens, &err) ||
            tokenizer_decode(t, tokens.items, tokens.count, &back, &err) || back.len != size ||
            memcmp(back.data, text, size) != 0)
            BUG("decode(encode(x)) differs from x");
        token_buffer_release(&tokens);
    }
    tokenizer_free(t);
    error_release(&err);
    return 0;
}
