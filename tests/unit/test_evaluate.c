#include "tests/unit/unit.h"
#include "workload/evaluate.h"

#include <math.h>

/* Special tokens (0 bytes) and ignored targets (-1) count neither in nats nor in bytes; a lone
 * invalid byte counts as the one byte that it is. */
static void counts_bytes_of_targets(void)
{
    static const int32_t token_bytes[] = {1, 3, 0, 7};
    static const int32_t targets[] = {0, 1, 2, -1, 3, 1};
    static const float losses[] = {1.5F, 2.0F, 100.0F, 50.0F, 0.25F, 4.0F};
    double nats = 0, bytes = 0;
    evaluate_count_bytes(losses, targets, 6, token_bytes, &nats, &bytes);
    CU_ASSERT_NEAR(nats, 7.75, 1e-12);
    CU_ASSERT_NEAR(bytes, 14, 0);
    evaluate_count_bytes(losses, targets, 1, token_bytes, &nats, &bytes); /* adds */
    CU_ASSERT_NEAR(nats, 9.25, 1e-12);
    CU_ASSERT_NEAR(bytes, 15, 0);
}

static void too_few_tokens_are_refused(void)
{
    auto_error struct error err = ERROR_INIT;
    const struct data_config data = {.source = "synthetic",
                                     .split = SPLIT_VAL,
                                     .B = 2,
                                     .T = 16,
                                     .world = 4,
                                     .vocab_size = 256,
                                     .val_every = 100};
    struct evaluator *e = NULL;
    CU_ASSERT_EQUAL(evaluator_open(&e, &data, 127, NULL, &err), -3);
    CU_ASSERT_STR(err.message,
                  "127 tokens to evaluate are less than one batch of 128 (device batch "
                  "size 2 x sequence length 16 x 4 ranks)");
}

UNIT_MAIN({"counts bytes of targets", counts_bytes_of_targets},
          {"too few tokens are refused", too_few_tokens_are_refused})
