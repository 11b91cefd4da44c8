#include "common/batch.h"
#include "tests/unit/unit.h"

#include <string.h>

static void divides_exactly(void)
{
    auto_error struct error err = ERROR_INIT;
    int64_t n = 0;
    CU_ASSERT(batch_accumulation(524288, 32, 2048, 1, &n, &err) == 0);
    CU_ASSERT(n == 8);
    CU_ASSERT(batch_accumulation(524288, 32, 2048, 8, &n, &err) == 0);
    CU_ASSERT(n == 1);
    CU_ASSERT(batch_accumulation(1, 1, 1, 1, &n, &err) == 0);
    CU_ASSERT(n == 1);
}

static void expect(int64_t total, int64_t b, int64_t t, int64_t world, const char *message,
                   const char *hint)
{
    auto_error struct error err = ERROR_INIT;
    int64_t n = -7;
    CU_ASSERT(batch_accumulation(total, b, t, world, &n, &err) == -3);
    CU_ASSERT(err.code == 3);
    CU_ASSERT(n == -7);
    CU_ASSERT_STR(err.message, message);
    CU_ASSERT_STR(err.hint, hint);
}

/* karpathy/nanochat#532: a bare assertion */
static void shows_product_remainder_and_neighbours(void)
{
    expect(524288, 6, 512, 1,
           "total batch size 524288 is not a multiple of device batch size 6 x sequence length 512 "
           "x 1 rank = 3072 tokens (remainder 2048)",
           "the nearest valid totals are 522240 and 525312");
    expect(524289, 32, 2048, 4,
           "total batch size 524289 is not a multiple of device batch size 32 x sequence length "
           "2048 x 4 ranks = 262144 tokens (remainder 1)",
           "the nearest valid totals are 524288 and 786432");
}

static void never_offers_zero(void)
{
    expect(100, 1, 64, 2,
           "total batch size 100 is not a multiple of device batch size 1 x sequence length 64 x 2 "
           "ranks = 128 tokens (remainder 100)",
           "the nearest valid total is 128");
}

static void refuses_what_is_not_positive(void)
{
    expect(0, 1, 1, 1, "total batch size 0 is not possible, expected at least 1", NULL);
    expect(-64, 1, 1, 1, "total batch size -64 is not possible, expected at least 1", NULL);
    expect(64, 0, 1, 1, "device batch size 0 is not possible, expected at least 1", NULL);
    expect(64, 1, -1, 1, "sequence length -1 is not possible, expected at least 1", NULL);
    expect(64, 1, 1, 0, "number of ranks 0 is not possible, expected at least 1", NULL);
}

static void survives_overflow(void)
{
    expect(64, INT64_MAX, 2, 1,
           "device batch size 9223372036854775807 x sequence length 2 x 1 ranks is more tokens "
           "than can be counted",
           NULL);
    expect(INT64_MAX, 1, 1LL << 62, 1,
           "total batch size 9223372036854775807 is not a multiple of device batch size 1 x "
           "sequence length 4611686018427387904 x 1 rank = 4611686018427387904 tokens (remainder "
           "4611686018427387903)",
           "the nearest valid total is 4611686018427387904");
}

UNIT_MAIN({"divides exactly", divides_exactly},
          {"shows product, remainder and neighbours", shows_product_remainder_and_neighbours},
          {"never offers zero", never_offers_zero},
          {"refuses what is not positive", refuses_what_is_not_positive},
          {"survives overflow", survives_overflow})
