#include "kernels/peaks.h"

#include <ctype.h>
#include <stdbool.h>
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

static bool is_word_part(char c)
{
    return isalnum((unsigned char)c);
}

/* As a whole word: an "RTX A4000" is no A40 and an L40 no L4. */
static bool names(const char *device, const char *text)
{
    for (const char *at = device; (at = strstr(at, text)); at++)
        if ((at == device || !is_word_part(at[-1])) && !is_word_part(at[strlen(text)]))
            return true;
    return false;
}

/* Cut-down relatives that bear the name of another chip, and slices of one. */
static bool is_variant(const char *device)
{
    return names(device, "laptop") || names(device, "d") || names(device, "max") ||
           names(device, "mig");
}

double peak_bf16_flops(const char *device_name, const char **row)
{
    char lower[256];
    size_t n = 0;
    for (; device_name[n] && n + 1 < sizeof lower; n++)
        lower[n] = (char)tolower((unsigned char)device_name[n]);
    lower[n] = '\0';
    *row = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !is_variant(lower); i++)
        if (names(lower, rows[i].text)) {
            *row = rows[i].text;
            return rows[i].flops;
        }
    return -1;
}
