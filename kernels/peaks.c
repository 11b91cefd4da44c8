#include "kernels/peaks.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *text;
    double flops;
} rows[] = {
    {"gb200", 2.5e15},     {"grace blackwell", 2.5e15},
    {"b200", 2.25e15},     {"b100", 1.8e15},
    {"gh200", 989e12},     {"h200 nvl", 836e12},
    {"h200 pcie", 836e12}, {"h200", 989e12},
    {"h100 nvl", 835e12},  {"h100 pcie", 756e12},
    {"h100", 989e12},      {"h800 nvl", 989e12},
    {"h800", 756e12},      {"a100", 312e12},
    {"a800", 312e12},      {"a40", 149.7e12},
    {"a30", 165e12},       {"l40s", 362e12},
    {"l4", 121e12},        {"5090", 209.5e12},
    {"4090", 165.2e12},    {"3090", 71e12},
};

double peak_bf16_flops(const char *device_name, const char **row)
{
    char lower[256];
    size_t n = 0;
    for (; device_name[n] && n + 1 < sizeof lower; n++)
        lower[n] = (char)tolower((unsigned char)device_name[n]);
    lower[n] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(lower, rows[i].text)) {
            *row = rows[i].text;
            return rows[i].flops;
        }
    *row = NULL;
    return -1;
}
