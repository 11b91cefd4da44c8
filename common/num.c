#include "common/num.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool num_parse_i64(const char *text, int64_t *out)
{
    bool negative = *text == '-';
    const char *p = text + negative;
    if (!is_digit(*p))
        return false;
    int64_t value = 0;
    for (; is_digit(*p); p++) {
        int digit = *p - '0';
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            (negative ? __builtin_sub_overflow(value, (int64_t)digit, &value)
                      : __builtin_add_overflow(value, (int64_t)digit, &value)))
            return false;
    }
    if (*p)
        return false;
    *out = value;
    return true;
}

/* Length of the decimal number at p: digits [. digits] [e [+-] digits], 0 if there is none. */
static size_t decimal_length(const char *p)
{
    size_t n = p[0] == '-';
    size_t digits = 0;
    for (; is_digit(p[n]); n++)
        digits++;
    if (p[n] == '.')
        for (n++; is_digit(p[n]); n++)
            digits++;
    if (!digits)
        return 0;
    if (p[n] == 'e' || p[n] == 'E') {
        size_t m = n + 1;
        if (p[m] == '+' || p[m] == '-')
            m++;
        if (is_digit(p[m])) {
            while (is_digit(p[m]))
                m++;
            n = m;
        }
    }
    return n;
}

static locale_t c_locale(void)
{
    static locale_t locale;
    if (!locale) {
        locale_t fresh = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (!__sync_bool_compare_and_swap(&locale, (locale_t)0, fresh))
            freelocale(fresh);
    }
    return locale;
}

/* Value of the first n characters, known to be a decimal number. */
static bool parse_decimal(const char *text, size_t n, double *out)
{
    char buf[128];
    if (!n || n >= sizeof buf)
        return false;
    memcpy(buf, text, n);
    buf[n] = '\0';
    double value = strtod_l(buf, NULL, c_locale());
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

bool num_parse_f64(const char *text, double *out)
{
    size_t n = decimal_length(text);
    return n && !text[n] && parse_decimal(text, n, out);
}

static const struct unit {
    const char *name;
    double factor;
} duration_units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}},
  size_units[] = {
      {"B", 1},     {"kB", 1e3},   {"KB", 1e3},      {"MB", 1e6},         {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776.0}};

/* The unit whose name is the run of letters at p, or NULL; *n is the run's length. */
static const struct unit *find_unit(const struct unit *units, size_t count, const char *p,
                                    size_t *n)
{
    *n = 0;
    while ((p[*n] >= 'a' && p[*n] <= 'z') || (p[*n] >= 'A' && p[*n] <= 'Z'))
        ++*n;
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == *n && !memcmp(units[i].name, p, *n))
            return &units[i];
    return NULL;
}

bool num_parse_duration(const char *text, double *seconds)
{
    double total = 0, last_factor = HUGE_VAL;
    if (!*text)
        return false;
    for (const char *p = text; *p;) {
        size_t n = decimal_length(p), m;
        double value;
        if (*p == '-' || !parse_decimal(p, n, &value))
            return false;
        const struct unit *unit =
            find_unit(duration_units, sizeof duration_units / sizeof *duration_units, p + n, &m);
        if (!unit || unit->factor >= last_factor) /* units go from large to small */
            return false;
        total += value * unit->factor;
        last_factor = unit->factor;
        p += n + m;
    }
    *seconds = total;
    return true;
}

bool num_parse_size(const char *text, int64_t *bytes)
{
    size_t n = decimal_length(text), m;
    double value;
    if (*text == '-' || !parse_decimal(text, n, &value))
        return false;
    const struct unit *unit =
        find_unit(size_units, sizeof size_units / sizeof *size_units, text + n, &m);
    if (!unit || text[n + m] || value * unit->factor >= 0x1p63)
        return false;
    *bytes = (int64_t)(value * unit->factor);
    return true;
}

bool num_parse_percent(const char *text, double *ratio)
{
    size_t n = decimal_length(text);
    double value;
    if (!n || strcmp(text + n, "%") != 0 || !parse_decimal(text, n, &value))
        return false;
    *ratio = value / 100;
    return true;
}

/* snprintf follows LC_NUMERIC; put the '.' back. */
static void fix_separator(char *out)
{
    for (; *out; out++)
        if (!is_digit(*out) && *out != '-' && *out != '+' && *out != 'e' && *out != '.') {
            *out = '.';
            size_t tail = strlen(out + 1), skip = 0;
            while ((unsigned char)out[1 + skip] >= 0x80)
                skip++; /* a multi-byte separator */
            memmove(out + 1, out + 1 + skip, tail - skip + 1);
        }
}

char *num_format_f64(char out[static NUM_F64_MAX], double value)
{
    if (!isfinite(value)) {
        memcpy(out, "null", 5);
        return out;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, NUM_F64_MAX, "%.*g", digits, value);
        fix_separator(out);
        double back;
        if (num_parse_f64(out, &back) && back == value)
            break;
    }
    return out;
}

char *num_format_thousands(char *out, size_t size, int64_t value)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%" PRId64, value);
    size_t o = 0;
    for (int i = 0; i < n && o + 2 < size; i++) {
        if (i > (digits[0] == '-') && (n - i) % 3 == 0)
            out[o++] = ',';
        out[o++] = digits[i];
    }
    if (size)
        out[o] = '\0';
    return out;
}

char *num_format_duration(char *out, size_t size, double seconds)
{
    if (seconds < 1e-3)
        snprintf(out, size, "%.0f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(out, size, "%.0f ms", seconds * 1e3);
    else if (seconds < 100)
        snprintf(out, size, "%.1f s", seconds);
    else if (seconds < 3600)
        snprintf(out, size, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    else
        snprintf(out, size, "%d h %02d min", (int)(seconds / 3600), (int)seconds / 60 % 60);
    return out;
}

char *num_format_size(char *out, size_t size, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    while (bytes >= 1024 && u < 4) {
        bytes /= 1024;
        u++;
    }
    snprintf(out, size, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return out;
}
