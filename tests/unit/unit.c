#include "tests/unit/unit.h"

#include "common/error.h"
#include "common/fs.h"
#include "common/mem.h"

#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *skip_reason;
static char *tmpdirs[64];
static size_t n_tmpdirs;

void unit_skip(const char *why)
{
    skip_reason = why;
}

bool unit_has_subreaper(void)
{
    int set;
    if (prctl(PR_GET_CHILD_SUBREAPER, &set, 0, 0, 0) == 0)
        return true;
    unit_skip("no PR_SET_CHILD_SUBREAPER here (as under qemu-user)");
    return false;
}

const char *unit_fixture(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "tests/fixtures/%s", name);
    return path;
}

static void remove_tmpdirs(void)
{
    for (size_t i = 0; i < n_tmpdirs; i++) {
        struct error err = ERROR_INIT;
        fs_remove_tree(tmpdirs[i], 1, &err);
        error_release(&err);
        free(tmpdirs[i]);
    }
    n_tmpdirs = 0;
}

char *unit_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = mem_printf("%s/ncbench-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(dir) || n_tmpdirs == sizeof tmpdirs / sizeof *tmpdirs)
        BUG("cannot make a temporary directory");
    tmpdirs[n_tmpdirs++] = mem_strdup(dir);
    return dir;
}

void unit_write(const char *path, const void *bytes, size_t len)
{
    struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(fs_write_atomic(path, bytes, len, 1, &err), 0);
    error_release(&err);
}

char *unit_file(const char *dir, const char *name, const char *text)
{
    char *path = mem_printf("%s/%s", dir, name);
    unit_write(path, text, strlen(text));
    return path;
}

int unit_port(void)
{
    static int held = -1;
    const int on = 1;
    struct sockaddr_in a = {.sin_family = AF_INET}; /* any address, any port */
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(fd, (struct sockaddr *)&a, sizeof a) || getsockname(fd, (struct sockaddr *)&a, &size))
        BUG("cannot bind a port");
    if (held >= 0)
        close(held);
    held = fd;
    return ntohs(a.sin_port);
}

void unit_near(const char *file, int line, const char *what, double actual, double expected,
               double tolerance)
{
    char text[320];
    snprintf(text, sizeof text, "%s = %.9g, expected %.9g within %.3g", what, actual, expected,
             tolerance);
    CU_assertImplementation(fabs(actual - expected) <= tolerance, (unsigned)line, text, file, "",
                            CU_FALSE);
}

void unit_str(const char *file, int line, const char *what, const char *actual,
              const char *expected)
{
    int same = actual && expected ? !strcmp(actual, expected) : actual == expected;
    char *text = same ? NULL
                      : mem_printf("%s = \"%s\", expected \"%s\"", what, actual ? actual : "(null)",
                                   expected ? expected : "(null)");
    CU_assertImplementation(same, (unsigned)line, text ? text : what, file, "", CU_FALSE);
    free(text);
}

static void print_failures(void)
{
    for (CU_pFailureRecord f = CU_get_failure_list(); f; f = f->pNext)
        printf("  %s:%u: %s\n", f->strFileName ? f->strFileName : "?", f->uiLineNumber,
               f->strCondition ? f->strCondition : "?");
}

/* CUnit counts assertions; we count tests, one registry run each. */
static int run_one(CU_pSuite suite, const struct unit_test *test)
{
    CU_pTest handle = CU_add_test(suite, test->name, test->run);
    if (!handle)
        return 1;
    skip_reason = NULL;
    CU_run_test(suite, handle); /* counts anew */
    int failed = CU_get_number_of_failures() > 0;
    if (!failed && !skip_reason && CU_get_number_of_asserts() == 0) {
        printf("not ok %s\n  it asserts nothing\n", test->name);
        failed = 1;
    } else if (failed) {
        printf("not ok %s\n", test->name);
        print_failures();
    } else if (skip_reason) {
        printf("skip %s: %s\n", test->name, skip_reason);
    } else {
        printf("ok %s\n", test->name);
    }
    return failed ? 1 : skip_reason ? 2 : 0;
}

int unit_run(const char *suite_name, const struct unit_test *tests, int argc, char **argv)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CU_set_error_action(CUEA_IGNORE);
    CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
    int counts[3] = {0, 0, 0};
    for (; tests->name; tests++)
        if (argc < 2 || strstr(tests->name, argv[1]))
            counts[run_one(suite, tests)]++;
    printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1], counts[2]);
    CU_cleanup_registry();
    remove_tmpdirs();
    return counts[1] > 0;
}

void unit_in_small_stack(void *(*run)(void *))
{
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    CU_ASSERT_EQUAL_FATAL(pthread_attr_setstacksize(&attr, 128 << 10), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, &attr, run, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
}
