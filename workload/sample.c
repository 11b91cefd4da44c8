#include "workload/sample.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <math.h>
#include <string.h>

/* -1 if a logit is NaN. */
static int64_t argmax(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logits[i]))
            return -1;
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

static bool ends(const struct sample_stop *stop, int64_t token)
{
    for (size_t i = 0; stop && i < stop->n; i++)
        if (stop->tokens[i] == token)
            return true;
    return false;
}

int sample_greedy(struct model *m, const int32_t *tokens, int64_t n, int64_t max_new,
                  const struct sample_stop *stop, int32_t *out, int64_t *n_out, struct error *err)
{
    int64_t V = model_get_config(m)->vocab_size;
    if (n < 1)
        return error_set(err, NANOCHAT_EXIT_DATA, "an empty prompt cannot be continued");
    auto_free int32_t *sequence = mem_zalloc((size_t)(n + max_new), sizeof *sequence);
    auto_free float *logits = mem_zalloc((size_t)V, sizeof *logits);
    memcpy(sequence, tokens, (size_t)n * sizeof *sequence);
    *n_out = 0;
    while (*n_out < max_new && n <= model_max_sequence(m)) {
        if (model_logits(m, sequence, 1, n, 1, logits, err))
            return -err->code;
        int64_t next = argmax(logits, V);
        if (next < 0)
            return error_set(err, NANOCHAT_EXIT_NUMERIC, "the model's logits are not a number");
        if (ends(stop, next))
            return 0;
        sequence[n++] = (int32_t)next;
        out[(*n_out)++] = (int32_t)next;
    }
    return 0;
}
