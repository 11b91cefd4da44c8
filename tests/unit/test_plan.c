#include "harness/plan.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static void load(const char *more, struct scenario *s)
{
    auto_error struct error err = ERROR_INIT;
    auto_free char *text = mem_printf(
        "version: 1\nname: d\nbaseline: a\nworkload: {exec: [x]}\nruntimes:\n"
        "  - {name: a, kind: bare}\n  - {name: b, kind: bare}\n  - {name: c, kind: bare}\n"
        "%s",
        more);
    if (scenario_parse(text, strlen(text), "t", NULL, s, &err))
        printf("  %s\n", err.message);
    CU_ASSERT_EQUAL_FATAL(err.code, 0);
}

static void make(const struct scenario *s, int64_t blocks, struct plan *plan)
{
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(plan_make(s, blocks, plan, &err), 0);
}

/* "abc": the runtimes of a block in their order. */
static char *order_of(const struct scenario *s, const struct plan *plan, size_t cell, int64_t block)
{
    auto_str out = STR_INIT;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->trials[i].cell == cell && plan->trials[i].block == block)
            str_append(&out, s->cells[cell].runtimes[plan->trials[i].runtime].name);
    return str_steal(&out);
}

static void has_complete_blocks(void)
{
    struct scenario s;
    struct plan plan;
    load("matrix: {n: [1, 2]}\nsampling: {looks: [6, 12]}\n", &s);
    make(&s, -1, &plan);
    CU_ASSERT_EQUAL(plan.blocks, 13); /* the discarded one on top */
    CU_ASSERT_EQUAL(plan.count, 13 * 2 * 3);
    for (size_t i = 0; i < plan.count; i++) {
        const struct planned_trial *t = &plan.trials[i];
        CU_ASSERT_EQUAL(t->seq, i);
        CU_ASSERT_EQUAL(t->block, (int64_t)(i / 6)); /* blocks of the cells alternate */
        CU_ASSERT_EQUAL(t->cell, i / 3 % 2);
        CU_ASSERT_EQUAL(t->position, (int)(i % 3));
        CU_ASSERT_EQUAL(t->warmup_block, t->block == 0);
    }
    for (size_t cell = 0; cell < 2; cell++)
        for (int64_t b = 0; b < plan.blocks; b++) {
            auto_free char *order = order_of(&s, &plan, cell, b);
            CU_ASSERT(strlen(order) == 3 && strchr(order, 'a') && strchr(order, 'b') &&
                      strchr(order, 'c'));
        }
    CU_ASSERT_EQUAL(strncmp(plan.trials[3].id, "c01.b00.", 8), 0);
    plan_release(&plan);
    scenario_release(&s);
}

static void is_the_same_every_time(void)
{
    struct scenario s, other;
    struct plan plan, again, longer, wider;
    load("matrix: {n: [1, 2]}\n", &s);
    make(&s, 6, &plan);
    make(&s, 6, &again);
    auto_str a = STR_INIT, b = STR_INIT, c = STR_INIT;
    plan_write(&s, &plan, &a);
    plan_write(&s, &again, &b);
    CU_ASSERT_STR(a.data, b.data);
    make(&s, 24, &longer); /* more blocks do not move the first ones */
    plan_write(&s, &longer, &c);
    CU_ASSERT_EQUAL(strncmp(c.data, a.data, a.len), 0);
    load("matrix: {n: [0, 1, 2]}\n", &other); /* nor do more cells, wherever they come */
    make(&other, 6, &wider);
    for (int64_t block = 0; block < 7; block++)
        for (size_t cell = 0; cell < 2; cell++) {
            auto_free char *x = order_of(&s, &plan, cell, block);
            auto_free char *y = order_of(&other, &wider, cell + 1, block);
            CU_ASSERT_STR(x, y);
        }
    plan_release(&plan);
    plan_release(&again);
    plan_release(&longer);
    plan_release(&wider);
    scenario_release(&s);
    scenario_release(&other);
}

static void draws_all_orders_alike(void)
{
    static const char *const orders[] = {"abc", "acb", "bac", "bca", "cab", "cba"};
    size_t counts[6] = {0};
    struct scenario s;
    struct plan plan;
    load("", &s);
    make(&s, 3000, &plan);
    for (size_t i = 0; i + 2 < plan.count; i += 3) {
        char order[4] = "";
        for (size_t k = 0; k < 3; k++)
            order[k] = *s.cells[0].runtimes[plan.trials[i + k].runtime].name;
        for (size_t k = 0; k < 6; k++)
            counts[k] += !strcmp(orders[k], order);
    }
    for (size_t k = 0; k < 6; k++) /* 500 expected; sd 20 */
        CU_ASSERT(counts[k] > 400 && counts[k] < 600);
    plan_release(&plan);
    scenario_release(&s);
}

static void follows_the_seed(void)
{
    struct scenario s;
    struct plan one, two;
    load("sampling: {seed: 1}\n", &s);
    make(&s, 12, &one);
    s.sampling.seed = 2;
    make(&s, 12, &two);
    size_t different = 0;
    for (size_t i = 0; i < one.count; i++)
        different += one.trials[i].runtime != two.trials[i].runtime;
    CU_ASSERT(different > 0);
    plan_release(&one);
    plan_release(&two);
    scenario_release(&s);
}

static void knows_other_orders(void)
{
    struct scenario s;
    struct plan plan;
    load("sampling: {order: abba, discard_first_block: false}\n", &s);
    make(&s, 4, &plan);
    CU_ASSERT_EQUAL(plan.blocks, 4);
    CU_ASSERT_FALSE(plan.trials[0].warmup_block);
    for (int64_t block = 0; block < 4; block++) {
        auto_free char *order = order_of(&s, &plan, 0, block);
        CU_ASSERT_STR(order, block % 2 ? "cba" : "abc");
    }
    plan_release(&plan);
    s.sampling.order = ORDER_SEQUENTIAL;
    make(&s, 4, &plan);
    for (int64_t block = 0; block < 4; block++) {
        auto_free char *order = order_of(&s, &plan, 0, block);
        CU_ASSERT_STR(order, "abc");
    }
    plan_release(&plan);
    scenario_release(&s);
}

static void names_trials(void)
{
    struct scenario s;
    char id[PLAN_ID_MAX];
    load("", &s);
    plan_trial_id(&s, 0, 7, 1, 1, id);
    CU_ASSERT_STR(id, "c00.b07.b");
    plan_trial_id(&s, 0, 107, 2, 3, id);
    CU_ASSERT_STR(id, "c00.b107.c.a3");
    scenario_release(&s);
}

static void refuses_too_many(void)
{
    struct scenario s;
    struct plan plan;
    auto_error struct error err = ERROR_INIT, usage = ERROR_INIT;
    load("", &s);
    CU_ASSERT_EQUAL(plan_make(&s, 100000000, &plan, &err), -NCBENCH_EXIT_SCENARIO);
    CU_ASSERT_EQUAL(plan_make(&s, 0, &plan, &usage), -NCBENCH_EXIT_USAGE);
    scenario_release(&s);
}

static void writes_lines(void)
{
    struct scenario s;
    struct plan plan;
    auto_str out = STR_INIT;
    load("matrix: {n: [1]}\nsampling: {order: sequential}\n", &s);
    make(&s, 1, &plan);
    plan_write(&s, &plan, &out);
    char *end = strchr(out.data, '\n');
    CU_ASSERT_PTR_NOT_NULL_FATAL(end);
    *end = '\0';
    CU_ASSERT_STR(out.data,
                  "{\"trial\":\"c00.b00.a\",\"seq\":0,\"cell\":\"c00\",\"values\":{\"n\":1},"
                  "\"block\":0,\"position\":0,\"runtime\":\"a\",\"baseline\":true,"
                  "\"warmup_block\":true,\"argv\":[\"x\"]}");
    plan_release(&plan);
    scenario_release(&s);
}

UNIT_MAIN({"has complete blocks", has_complete_blocks},
          {"is the same every time", is_the_same_every_time},
          {"draws all orders alike", draws_all_orders_alike},
          {"follows the seed", follows_the_seed}, {"knows other orders", knows_other_orders},
          {"names trials", names_trials}, {"refuses too many", refuses_too_many},
          {"writes lines", writes_lines})
