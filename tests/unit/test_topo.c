/* Sets of PUs, topologies of other machines, and where ranks go on them. */
#include "tests/unit/unit.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/pus.h"
#include "common/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define unit_fail(...)                                                                             \
    do {                                                                                           \
        printf("  " __VA_ARGS__);                                                                  \
        putchar('\n');                                                                             \
        CU_FAIL("see the line above");                                                             \
    } while (0)

/* ---- sets ----------------------------------------------------------------------------------- */

static void expect_list(const struct pus *set, const char *expected)
{
    auto_free char *text = pus_text(set);
    CU_ASSERT_STR(text, expected);
}

static void sets_of_pus(void)
{
    auto_pus a = {0};
    expect_list(&a, "none");
    CU_ASSERT_EQUAL(pus_last(&a), -1);
    CU_ASSERT_EQUAL(pus_next(&a, -1), -1);
    const unsigned members[] = {6, 1, 2, 3, 63, 64, 65, 5000};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        pus_add(&a, members[i]);
    expect_list(&a, "1-3,6,63-65,5000");
    CU_ASSERT_EQUAL(pus_count(&a), 8);
    CU_ASSERT_EQUAL(pus_last(&a), 5000);
    CU_ASSERT(pus_has(&a, 64) && !pus_has(&a, 0) && !pus_has(&a, 1u << 20));
    auto_pus b = {0};
    CU_ASSERT(pus_parse("2,6,64\n", &b));
    CU_ASSERT(pus_within(&b, &a) && !pus_within(&a, &b) && !pus_equal(&a, &b));
    pus_and(&a, &b);
    CU_ASSERT(pus_equal(&a, &b));
    expect_list(&a, "2,6,64");
    size_t bytes;
    auto_free cpu_set_t *kernel = pus_affinity(&a, &bytes);
    CU_ASSERT_EQUAL(CPU_COUNT_S(bytes, kernel), 3);
    CU_ASSERT(CPU_ISSET_S(64, bytes, kernel));
}

static void lists_that_are_none(void)
{
    static const char *const bad[] = {"x", "1-", "3-1", "1,,2", "1,", "-1", "1 2", "99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        auto_pus set = {0};
        if (pus_parse(bad[i], &set))
            unit_fail("\"%s\" was taken for a list", bad[i]);
        CU_ASSERT_EQUAL(pus_count(&set), 0);
    }
    auto_pus empty = {0};
    CU_ASSERT(pus_parse("", &empty));
}

/* ---- topologies ----------------------------------------------------------------------------- */

static bool load(const char *from, struct topo *t)
{
    auto_error struct error err = ERROR_INIT;
    if (!topo_hwloc_version()) {
        unit_skip("built without hwloc");
        return false;
    }
    if (topo_load(from, t, &err))
        unit_fail("%s: %s", from, err.message);
    return !err.code;
}

/* "0-3 4-7": the PUs of each rank. */
static void expect_plan(const struct topo *t, enum topo_bind policy, int count,
                        const char *expected, const char *note)
{
    auto_error struct error err = ERROR_INIT;
    struct topo_plan plan;
    auto_str text = STR_INIT;
    CU_ASSERT_EQUAL(topo_plan_make(t, policy, count, NANOCHAT_EXIT_PLAN, &plan, &err), 0);
    for (int r = 0; plan.ranks && r < count; r++) {
        str_append(&text, r ? " " : "");
        pus_list(&plan.ranks[r], &text);
    }
    CU_ASSERT_STR(text.data, expected);
    if (!note != !plan.note || (note && !strstr(plan.note, note)))
        unit_fail("note \"%s\", expected \"%s\"", plan.note ? plan.note : "", note ? note : "");
    topo_plan_release(&plan);
}

static void ranks_get_shares(void)
{
    auto_topo t = {0};
    if (!load("node:2 core:4 pu:2", &t))
        return;
    CU_ASSERT(!t.this_machine);
    expect_list(&t.usable, "0-15");
    expect_plan(&t, TOPO_BIND_CORES, 4, "0-3 4-7 8-11 12-15", NULL);
    expect_plan(&t, TOPO_BIND_CORES, 1, "0-15", NULL);
    expect_plan(&t, TOPO_BIND_NUMA, 4, "0-7 0-7 8-15 8-15", NULL);
    expect_plan(&t, TOPO_BIND_NUMA, 1, "0-7", NULL);
    expect_plan(&t, TOPO_BIND_NONE, 4, "", NULL);
    expect_plan(&t, TOPO_BIND_GPU_LOCAL, 2, "0-7 8-15", "no GPU");
}

static void more_ranks_than_pus(void)
{
    auto_error struct error err = ERROR_INIT;
    auto_topo t = {0};
    struct topo_plan plan;
    if (!load("node:1 core:2 pu:1", &t))
        return;
    topo_plan_make(&t, TOPO_BIND_CORES, 3, NANOCHAT_EXIT_PLAN, &plan, &err);
    CU_ASSERT_EQUAL(err.code, NANOCHAT_EXIT_PLAN);
    CU_ASSERT_STR(err.message, "cannot bind 3 ranks to cores: 2 usable PUs (0-1)");
}

/* Every PU once, whatever the number of ranks. */
static void shares_are_disjoint(void)
{
    auto_topo t = {0};
    if (!load("pack:2 numa:1 l3:2 core:3 pu:2", &t))
        return;
    for (int count = 1; count <= 24; count++) {
        auto_error struct error err = ERROR_INIT;
        struct topo_plan plan;
        auto_pus all = {0};
        int sum = 0;
        CU_ASSERT_EQUAL(topo_plan_make(&t, TOPO_BIND_CORES, count, 3, &plan, &err), 0);
        for (int r = 0; r < count; r++) {
            sum += pus_count(&plan.ranks[r]);
            CU_ASSERT(pus_count(&plan.ranks[r]) > 0);
            pus_or(&all, &plan.ranks[r]);
        }
        if (sum != pus_count(&all))
            unit_fail("%d ranks: shares overlap", count);
        topo_plan_release(&plan);
    }
}

static void nodes_without_memory_are_left_out(void)
{
    auto_topo t = {0}, empty = {0};
    if (!load("pack:2 [numa(memory=0)] core:2 pu:2", &empty))
        return;
    expect_plan(&empty, TOPO_BIND_NUMA, 2, "0-3 4-7", "no NUMA node has memory");
    if (load("tests/fixtures/topo/half-memory.xml", &t))
        expect_plan(&t, TOPO_BIND_NUMA, 2, "4-7 4-7", NULL);
}

static void a_restricted_set_is_respected(void)
{
    auto_topo t = {0};
    if (!load("node:2 core:2 pu:2", &t))
        return;
    pus_release(&t.usable);
    CU_ASSERT(pus_parse("5-7", &t.usable));
    expect_plan(&t, TOPO_BIND_CORES, 2, "5 6-7", NULL);
    expect_plan(&t, TOPO_BIND_NUMA, 2, "5-7 5-7", NULL);
    pus_release(&t.usable);
    CU_ASSERT(pus_parse("1", &t.usable));
    expect_plan(&t, TOPO_BIND_NUMA, 1, "1", NULL);
}

static void cpu_0_is_offline(void)
{
    auto_free char *root = fs_realpath("tests/fixtures/fsroot/cpu0-offline");
    auto_topo t = {0};
    setenv("HWLOC_FSROOT", root, 1);
    if (load(NULL, &t)) {
        expect_list(&t.pus, "1-3,6");
        CU_ASSERT(!t.this_machine);
        expect_plan(&t, TOPO_BIND_CORES, 4, "1 2 3 6", NULL);
        expect_plan(&t, TOPO_BIND_CORES, 2, "1-2 3,6", NULL);
        expect_plan(&t, TOPO_BIND_NUMA, 2, "1-3,6 1-3,6", NULL);
    }
    unsetenv("HWLOC_FSROOT");
}

static void a_machine_without_sys(void)
{
    auto_free char *dir = unit_tmpdir();
    auto_error struct error err = ERROR_INIT;
    auto_topo t = {0};
    auto_pus usable = {0};
    setenv("HWLOC_FSROOT", dir, 1);
    CU_ASSERT_EQUAL(topo_load(NULL, &t, &err), 0);
    unsetenv("HWLOC_FSROOT");
    CU_ASSERT(t.hwloc == NULL && t.why != NULL);
    CU_ASSERT_EQUAL(pus_usable(&usable), 0);
    CU_ASSERT(pus_equal(&t.pus, &usable) && pus_equal(&t.usable, &usable));
    auto_free char *list = pus_text(&usable);
    expect_plan(&t, TOPO_BIND_CORES, 1, list, NULL);
    expect_plan(&t, TOPO_BIND_NUMA, 1, list, "NUMA nodes are not known");
    expect_plan(&t, TOPO_BIND_GPU_LOCAL, 1, list, "");
    auto_str xml = STR_INIT;
    CU_ASSERT(topo_export(&t, &xml, &err) != 0 && err.code == NCBENCH_EXIT_ENVIRONMENT);
}

static void shares_without_a_tree(void)
{
    struct topo t = {.why = "a test"};
    CU_ASSERT(pus_parse("1-3,6,1030-1032", &t.usable));
    expect_plan(&t, TOPO_BIND_CORES, 3, "1-2 3,6 1030-1032", NULL);
    expect_plan(&t, TOPO_BIND_CORES, 7, "1 2 3 6 1030 1031 1032", NULL);
    topo_release(&t);
}

static void more_than_1024_pus(void)
{
    auto_topo t = {0};
    if (!load("node:8 core:128 pu:2", &t))
        return;
    CU_ASSERT_EQUAL(pus_count(&t.pus), 2048);
    expect_plan(&t, TOPO_BIND_CORES, 4, "0-511 512-1023 1024-1535 1536-2047", NULL);
}

static void gpus_and_what_is_near_them(void)
{
    auto_topo t = {0};
    struct topo_devices d;
    if (!load("tests/fixtures/topo/two-gpus.xml", &t))
        return;
    topo_devices(&t, &d);
    int gpus = 0;
    for (size_t i = 0; i < d.count; i++)
        gpus += d.items[i].is_gpu;
    CU_ASSERT_EQUAL(gpus, 3);
    topo_devices_release(&d);
    expect_plan(&t, TOPO_BIND_GPU_LOCAL, 3, "4-7 0-1 2-3", NULL);
    expect_plan(&t, TOPO_BIND_GPU_LOCAL, 1, "4-7", NULL);
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    expect_plan(&t, TOPO_BIND_GPU_LOCAL, 2, "0-3 4-7", NULL);
    setenv("CUDA_VISIBLE_DEVICES", "GPU-3a2b", 1);
    expect_plan(&t, TOPO_BIND_GPU_LOCAL, 2, "0-3 4-7", "locality unknown");
    unsetenv("CUDA_VISIBLE_DEVICES");
    pus_release(&t.usable);
    CU_ASSERT(pus_parse("0-2", &t.usable));
    expect_plan(&t, TOPO_BIND_GPU_LOCAL, 1, "0-2", "no PU near it may be used");
}

static void what_is_no_topology(void)
{
    static const char *const bad[] = {
        "node:2 core", "nonsense", "tests/nosuch.xml", "tests", "core:0", "Makefile", ""};
    if (!topo_hwloc_version()) {
        unit_skip("built without hwloc");
        return;
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        auto_error struct error err = ERROR_INIT;
        auto_topo t = {0};
        CU_ASSERT(topo_load(bad[i], &t, &err));
        CU_ASSERT_EQUAL(err.code, NCBENCH_EXIT_ENVIRONMENT);
        if (!err.message || !strstr(err.message, bad[i]))
            unit_fail("\"%s\": %s", bad[i], err.message ? err.message : "taken");
    }
}

UNIT_MAIN({"sets of PUs", sets_of_pus}, {"lists that are none", lists_that_are_none},
          {"ranks get shares", ranks_get_shares}, {"more ranks than PUs", more_ranks_than_pus},
          {"shares are disjoint", shares_are_disjoint},
          {"nodes without memory are left out", nodes_without_memory_are_left_out},
          {"a restricted set is respected", a_restricted_set_is_respected},
          {"CPU 0 is offline", cpu_0_is_offline}, {"a machine without /sys", a_machine_without_sys},
          {"shares without a tree", shares_without_a_tree},
          {"more than 1024 PUs", more_than_1024_pus},
          {"GPUs and what is near them", gpus_and_what_is_near_them},
          {"what is no topology", what_is_no_topology})
