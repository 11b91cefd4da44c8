#include "tests/unit/unit.h"
#include "workload/progress.h"

#include <math.h>

static void average_without_bias(void)
{
    double smooth = 0;
    for (int64_t step = 0; step < 20; step++) {
        smooth = progress_smooth(smooth, 3.5);
        CU_ASSERT_NEAR(progress_debias(smooth, step), 3.5, 1e-12); /* constant in, constant out */
    }
    smooth = progress_smooth(progress_smooth(0, 11.0), 9.0);
    CU_ASSERT_NEAR(progress_debias(smooth, 1), (0.9 * 0.1 * 11 + 0.1 * 9) / 0.19, 1e-12);
}

static void upstreams_line(void)
{
    auto_str line = STR_INIT;
    struct progress p = {.step = 7,
                         .iterations = 50,
                         .loss = 9.8765432,
                         .lr_multiplier = 0.5,
                         .dt_s = 0.25,
                         .tokens = 524288,
                         .mfu = 0.4567,
                         .total_time_s = 90};
    progress_line(&line, &p);
    CU_ASSERT_STR(line.data, "step 00007/00050 (14.00%) | loss: 9.876543 | lrm: 0.50 | "
                             "dt: 250.00ms | tok/sec: 2,097,152 | mfu: 45.67 | total time: 1.50m");
}

static void never_prints_nan(void)
{
    auto_str line = STR_INIT;
    struct progress p = {.iterations = 0, .loss = 1, .lr_multiplier = 1, .mfu = NAN};
    progress_line(&line, &p);
    CU_ASSERT_STR(line.data, "step 00000/00000 (100.00%) | loss: 1.000000 | lrm: 1.00 | "
                             "dt: 0.00ms | tok/sec: n/a | mfu: n/a | total time: 0.00m");
}

UNIT_MAIN({"average without bias", average_without_bias}, {"upstream's line", upstreams_line},
          {"never prints nan", never_prints_nan})
