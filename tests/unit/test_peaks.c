#include "kernels/peaks.h"

#include "tests/unit/unit.h"

static void names(void)
{
    static const struct {
        const char *name, *row;
        double flops;
    } cases[] = {
        {"NVIDIA H200", "h200", 989e12},           {"NVIDIA H200 NVL", "h200 nvl", 836e12},
        {"NVIDIA GH200 120GB", "gh200", 989e12}, /* a row of its own, not "h200" inside it */
        {"NVIDIA H100 80GB HBM3", "h100", 989e12}, {"NVIDIA H100 PCIe", "h100 pcie", 756e12},
        {"NVIDIA A100-SXM4-80GB", "a100", 312e12}, {"NVIDIA GB200", "gb200", 2.5e15},
        {"NVIDIA L40S", "l40s", 362e12},           {"NVIDIA L4", "l4", 121e12},
        {"NVIDIA A40-48Q", "a40", 149.7e12},       {"NVIDIA GeForce RTX 4090", "4090", 165.2e12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *row;
        CU_ASSERT_EQUAL(peak_bf16_flops(cases[i].name, &row), cases[i].flops);
        CU_ASSERT_STR(row, cases[i].row);
    }
}

static void unknown(void)
{
    /* The name of a known GPU inside another name is no evidence. */
    static const char *const others[] = {"Some Future GPU",
                                         "NVIDIA RTX A4000",
                                         "NVIDIA RTX A3000 Laptop GPU",
                                         "NVIDIA L40",
                                         "NVIDIA H100 80GB HBM3 MIG 1g.10gb", /* a slice */
                                         "NVIDIA H20",
                                         "NVIDIA GeForce RTX 4090 D",
                                         "NVIDIA GeForce RTX 4090 Laptop GPU",
                                         ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *row = "";
        CU_ASSERT_EQUAL(peak_bf16_flops(others[i], &row), -1);
        CU_ASSERT_PTR_NULL(row);
    }
}

UNIT_MAIN({"names", names}, {"an unknown GPU has no peak", unknown})
