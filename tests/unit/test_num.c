#include "common/num.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

static void integers(void)
{
    int64_t v = -1;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"42", 42},
                {"-7", -7},
                {"007", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      "0x10",
                                      "1_000",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "1e3",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CU_ASSERT_TRUE(num_parse_i64(good[i].text, &v));
        CU_ASSERT_EQUAL(v, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        v = 99;
        CU_ASSERT_FALSE(num_parse_i64(bad[i], &v));
        CU_ASSERT_EQUAL(v, 99);
    }
}

static void floats(void)
{
    double v;
    static const char *const bad[] = {"",    ".",     "e5", "nan",  "inf", "0x1p3",
                                      "1,5", "1e999", " 1", "1.5.", "1e",  "infinity"};
    CU_ASSERT_TRUE(num_parse_f64("1e-5", &v));
    CU_ASSERT_EQUAL(v, 1e-5);
    CU_ASSERT_TRUE(num_parse_f64("-.5", &v));
    CU_ASSERT_EQUAL(v, -0.5);
    CU_ASSERT_TRUE(num_parse_f64("19.95", &v));
    CU_ASSERT_EQUAL(v, 19.95);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT_FALSE(num_parse_f64(bad[i], &v));
}

/* yaml's base-60 integers turned 1:30 into 90 in docker/compose#103: units are required here. */
static void durations(void)
{
    static const struct {
        const char *text;
        double seconds;
    } good[] = {{"90s", 90},    {"1m30s", 90},    {"1.5h", 5400}, {"100ms", 0.1},
                {"20us", 2e-5}, {"1h2m3s", 3723}, {"0s", 0}};
    static const char *const bad[] = {"",    "90",     "1:30", "-1s",  "1m 30s", "30s1m",
                                      "1mm", "1.5.5s", "s",    "1s1s", "1S",     "1d"};
    double v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CU_ASSERT_TRUE(num_parse_duration(good[i].text, &v));
        CU_ASSERT_NEAR(v, good[i].seconds, 1e-12 * (1 + good[i].seconds));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT_FALSE(num_parse_duration(bad[i], &v));
}

static void sizes_and_percentages(void)
{
    int64_t n;
    double r;
    CU_ASSERT_TRUE(num_parse_size("10MB", &n));
    CU_ASSERT_EQUAL(n, 10000000);
    CU_ASSERT_TRUE(num_parse_size("10MiB", &n));
    CU_ASSERT_EQUAL(n, 10485760);
    CU_ASSERT_TRUE(num_parse_size("1.5KiB", &n));
    CU_ASSERT_EQUAL(n, 1536);
    static const char *const bad[] = {"10", "10 mb", "10mb", "-1MB", "MB", "1MBs", "99999999TiB"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT_FALSE(num_parse_size(bad[i], &n));
    CU_ASSERT_TRUE(num_parse_percent("1%", &r));
    CU_ASSERT_NEAR(r, 0.01, 1e-15);
    CU_ASSERT_TRUE(num_parse_percent("0.5%", &r));
    CU_ASSERT_FALSE(num_parse_percent("1", &r));
    CU_ASSERT_FALSE(num_parse_percent("%", &r));
    CU_ASSERT_FALSE(num_parse_percent("1 %", &r));
}

static void doubles_round_trip(void)
{
    char buf[NUM_F64_MAX];
    static const double values[] = {0.1,           1.0 / 3, 1e-300, 5e-324, 1.7976931348623157e308,
                                    123456789.125, -0.0,    1e22,   0.02};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double back = 0;
        CU_ASSERT_TRUE(num_parse_f64(num_format_f64(buf, values[i]), &back));
        CU_ASSERT_EQUAL(back, values[i]);
    }
    CU_ASSERT_STR(num_format_f64(buf, 0.1), "0.1");
    CU_ASSERT_STR(num_format_f64(buf, NAN), "null");
    CU_ASSERT_STR(num_format_f64(buf, -INFINITY), "null");
    srand(1);
    for (int i = 0; i < 20000; i++) {
        double v = ldexp((double)rand() / RAND_MAX - 0.5, rand() % 600 - 300), back = 0;
        CU_ASSERT_TRUE(num_parse_f64(num_format_f64(buf, v), &back));
        CU_ASSERT_EQUAL(back, v);
    }
}

/* 19.95 was read as 19 and written as 19,95 in json-c/json-c#930. */
static void ignore_the_locale(void)
{
    locale_t german = newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
    if (!german) {
        unit_skip("the locale de_DE.UTF-8 is not there");
        return;
    }
    locale_t before = uselocale(german);
    char buf[NUM_F64_MAX], comma[16];
    double v = 0;
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    CU_ASSERT_STR(comma, "0,5"); /* the locale is in force */
    CU_ASSERT_STR(num_format_f64(buf, 19.95), "19.95");
    CU_ASSERT_TRUE(num_parse_f64("19.95", &v));
    CU_ASSERT_EQUAL(v, 19.95);
    CU_ASSERT_FALSE(num_parse_f64("19,95", &v));
    uselocale(before);
    freelocale(german);
}

static void for_people(void)
{
    char buf[32];
    CU_ASSERT_STR(num_format_thousands(buf, sizeof buf, 1234567), "1,234,567");
    CU_ASSERT_STR(num_format_thousands(buf, sizeof buf, -1234), "-1,234");
    CU_ASSERT_STR(num_format_thousands(buf, sizeof buf, 999), "999");
    CU_ASSERT_STR(num_format_duration(buf, sizeof buf, 245), "4 min 05 s");
    CU_ASSERT_STR(num_format_duration(buf, sizeof buf, 0.45), "450 ms");
    CU_ASSERT_STR(num_format_size(buf, sizeof buf, 64.0 * 1048576), "64.0 MiB");
}

UNIT_MAIN({"integers", integers}, {"floats", floats}, {"durations", durations},
          {"sizes and percentages", sizes_and_percentages},
          {"doubles round trip", doubles_round_trip}, {"ignore the locale", ignore_the_locale},
          {"for people", for_people})
