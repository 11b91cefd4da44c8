/* The simulation behind `ncbench selftest --full`, and whether its rules can fail. */
#include "harness/selftest.h"
#include "harness/selftest_sim.h"
#include "tests/unit/unit.h"

#include <string.h>

static void does_not_depend_on_jobs(void)
{
    struct error err = ERROR_INIT;
    struct selftest_tally one, three;
    for (size_t i = 0; i < selftest_row_count; i += 5) {
        CU_ASSERT_EQUAL(selftest_row_run(&selftest_rows[i], 7, 40, 1, &one, &err), 0);
        CU_ASSERT_EQUAL(selftest_row_run(&selftest_rows[i], 7, 40, 3, &three, &err), 0);
        CU_ASSERT_EQUAL(memcmp(&one, &three, sizeof one), 0);
        CU_ASSERT_EQUAL(one.sessions, 40);
    }
    error_release(&err);
}

/* The rows must differ in what they are about: noise as asked for, looks as asked for. */
static void rows_are_what_they_say(void)
{
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < selftest_row_count; i++) {
        const struct selftest_row *row = &selftest_rows[i];
        struct selftest_tally t;
        CU_ASSERT_EQUAL(selftest_row_run(row, 20261130, 60, 1, &t, &err), 0);
        double blocks = (double)t.blocks / 60, most = row->looks == 3 ? 24 : 6 * row->looks;
        CU_ASSERT_TRUE(blocks >= 6 && blocks <= most);
        CU_ASSERT_TRUE(!row->never || blocks == most);
        /* the mean of an sd from 6 blocks is 5 % below sigma */
        CU_ASSERT_NEAR((double)t.sd_nano * 1e-9 / 60, row->noise * .97, row->noise * .2);
        bool holds = false;
        selftest_row_rule(row, &t, &holds);
        CU_ASSERT_TRUE(holds);
    }
    error_release(&err);
}

static const struct selftest_row *find_row(double effect, int looks, bool never)
{
    for (size_t i = 0; i < selftest_row_count; i++)
        if (selftest_rows[i].effect == effect && selftest_rows[i].looks == looks &&
            selftest_rows[i].never == never)
            return &selftest_rows[i];
    return NULL;
}

static bool holds(const struct selftest_row *row, const struct selftest_tally *t)
{
    bool out = true;
    CU_ASSERT_PTR_NOT_NULL(selftest_row_rule(row, t, &out));
    return out;
}

static void rules_can_fail(void)
{
    struct selftest_tally t = {.sessions = 20000};
    const struct selftest_row *row = find_row(0, 1, false);
    t.verdicts[VERDICT_SLOWER_UNCERTAIN] = 600;
    t.verdicts[VERDICT_FASTER] = 500;
    CU_ASSERT_TRUE(holds(row, &t));
    t.verdicts[VERDICT_FASTER] = 501;
    CU_ASSERT_FALSE(holds(row, &t));
    t = (struct selftest_tally){.sessions = 20000};
    row = find_row(.01, 3, false);
    t.verdicts[VERDICT_EQUIVALENT] = 1100;
    CU_ASSERT_TRUE(holds(row, &t));
    t.verdicts[VERDICT_EQUIVALENT] = 1101;
    CU_ASSERT_FALSE(holds(row, &t));
    t = (struct selftest_tally){.sessions = 20000};
    row = find_row(.03, 1, false);
    t.verdicts[VERDICT_SLOWER] = 19800;
    CU_ASSERT_TRUE(holds(row, &t));
    t.verdicts[VERDICT_SLOWER] = 19799;
    CU_ASSERT_FALSE(holds(row, &t));
    row = find_row(.005, 1, true);
    t.covered = 17800;
    CU_ASSERT_TRUE(holds(row, &t));
    t.covered = 17799;
    CU_ASSERT_FALSE(holds(row, &t));
    t.covered = 18201;
    CU_ASSERT_FALSE(holds(row, &t));
    /* few sessions: three standard errors */
    t = (struct selftest_tally){.sessions = 100};
    row = find_row(0, 1, false);
    t.verdicts[VERDICT_SLOWER] = 12;
    CU_ASSERT_TRUE(holds(row, &t));
    t.verdicts[VERDICT_SLOWER] = 13;
    CU_ASSERT_FALSE(holds(row, &t));
}

/* One look at noise far above the margin: a claim of a difference at the level of TOST's interval
 * would be false in one session of ten. */
static void one_look_with_much_noise(void)
{
    const struct selftest_row row = {.05, 0, 1, false};
    struct error err = ERROR_INIT;
    struct selftest_tally t;
    CU_ASSERT_EQUAL(selftest_row_run(&row, 11, 3000, 2, &t, &err), 0);
    CU_ASSERT_TRUE(selftest_share_different(&t) < .05 + 3 * .004);
    CU_ASSERT_TRUE(selftest_share_different(&t) > .05 - 3 * .004);
    error_release(&err);
}

UNIT_MAIN({"does not depend on jobs", does_not_depend_on_jobs},
          {"rows are what they say", rows_are_what_they_say}, {"rules can fail", rules_can_fail},
          {"one look with much noise", one_look_with_much_noise})
