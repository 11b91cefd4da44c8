/* One suite a program, on CUnit: a table of tests and main by UNIT_MAIN.
 *
 *     static void parses_integers(void) { CU_ASSERT(num_parse_i64("12", &v)); }
 *     UNIT_MAIN({"parses integers", parses_integers}, …)
 *
 * The program prints one line a failed assertion and ends with "N passed, N failed, N skipped" (by
 * test, not by assertion); exit 0 if none failed. A test that cannot run here calls
 * unit_skip("why") and returns. Run with a word as argument: only tests whose name holds it. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <CUnit/CUnit.h>
#include <stdbool.h>
#include <stddef.h>

struct unit_test {
    const char *name;
    void (*run)(void);
};

int unit_run(const char *suite, const struct unit_test *tests, int argc, char **argv);
void unit_skip(const char *why);
/* Can a process adopt orphans? Where it cannot, the test is skipped, with the reason. */
bool unit_has_subreaper(void);
/* A path below tests/fixtures; static storage, valid until the next call. */
const char *unit_fixture(const char *name);
/* A fresh temporary directory, removed at exit. Owned by the caller (free). */
char *unit_tmpdir(void);
/* Write a file, or one of a text in a directory (its path: free); fatal if that fails. */
void unit_write(const char *path, const void *bytes, size_t len);
char *unit_file(const char *dir, const char *name, const char *text);
/* A TCP port that nobody listens at, kept from other programs until the next call or exit: who
 * binds it with SO_REUSEADDR may listen there. */
int unit_port(void);
/* Run a function on a stack of 128 KiB, which deep recursion overruns. */
void unit_in_small_stack(void *(*run)(void *));

#define CU_ASSERT_NEAR(actual, expected, tolerance)                                                \
    unit_near(__FILE__, __LINE__, #actual, (actual), (expected), (tolerance))
void unit_near(const char *file, int line, const char *what, double actual, double expected,
               double tolerance);
/* Compare strings, printing both on failure; NULL equals only NULL. */
#define CU_ASSERT_STR(actual, expected) unit_str(__FILE__, __LINE__, #actual, (actual), (expected))
void unit_str(const char *file, int line, const char *what, const char *actual,
              const char *expected);

#define UNIT_MAIN(...)                                                                             \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        static const struct unit_test tests[] = {__VA_ARGS__, {NULL, NULL}};                       \
        return unit_run(__FILE__, tests, argc, argv);                                              \
    }

#endif
