#include "tests/unit/unit.h"
#include "workload/horizon.h"

/* nanochat's own table for ratio 20 and 524,288 tokens a step. */
static void published_horizons(void)
{
    static const struct {
        int64_t depth, steps;
    } rows[] = {{4, 1400},   {8, 3520},   {12, 7080},  {16, 12800}, {20, 21400},
                {24, 33600}, {26, 41275}, {30, 60225}, {32, 71680}, {34, 84575}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        auto_error struct error err = ERROR_INIT;
        const struct model_config config = model_config_for_depth(rows[i].depth, 2048, 65536);
        const struct horizon h = {-1, -1, 20};
        int64_t steps = -1;
        CU_ASSERT_EQUAL(horizon_iterations(&h, &config, 524288, &steps, &err), 0);
        CU_ASSERT_EQUAL(steps, rows[i].steps);
    }
}

static void precedence(void)
{
    auto_error struct error err = ERROR_INIT;
    const struct model_config config = model_config_for_depth(20, 2048, 65536);
    struct horizon h = {0, 3.917670e19, 20};
    int64_t steps = -1;
    CU_ASSERT_EQUAL(horizon_iterations(&h, &config, 524288, &steps, &err), 0);
    CU_ASSERT_EQUAL(steps, 0); /* none is a number of steps too */
    h.num_iterations = 7;
    CU_ASSERT_EQUAL(horizon_iterations(&h, &config, 524288, &steps, &err), 0);
    CU_ASSERT_EQUAL(steps, 7);
    h.num_iterations = -1;
    CU_ASSERT_EQUAL(horizon_iterations(&h, &config, 524288, &steps, &err), 0);
    CU_ASSERT_EQUAL(steps, 21400);
    h.target_flops = 1.51 * model_config_flops_per_token(&config) * 524288; /* rounded, not cut */
    CU_ASSERT_EQUAL(horizon_iterations(&h, &config, 524288, &steps, &err), 0);
    CU_ASSERT_EQUAL(steps, 2);
}

static void none_or_too_many(void)
{
    const struct model_config config = model_config_for_depth(4, 2048, 65536);
    int64_t steps = -1;
    auto_error struct error none = ERROR_INIT;
    const struct horizon empty = {-1, -1, -1};
    CU_ASSERT_EQUAL(horizon_iterations(&empty, &config, 524288, &steps, &none), -3);
    CU_ASSERT_STR(none.hint, "use --num-iterations, --target-flops or --target-param-data-ratio");
    auto_error struct error many = ERROR_INIT;
    const struct horizon endless = {-1, 1e300, -1};
    CU_ASSERT_EQUAL(horizon_iterations(&endless, &config, 64, &steps, &many), -3);
    auto_error struct error tokens = ERROR_INIT; /* the steps can be counted, their tokens not */
    const struct horizon long_run = {(int64_t)1 << 53, -1, -1};
    CU_ASSERT_EQUAL(horizon_iterations(&long_run, &config, 524288, &steps, &tokens), -3);
    CU_ASSERT_EQUAL(steps, -1);
}

UNIT_MAIN({"published horizons", published_horizons}, {"precedence", precedence},
          {"none or too many", none_or_too_many})
