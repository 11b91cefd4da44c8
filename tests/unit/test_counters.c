/* The ladder of counters: what is counted is right, what is not is named. */
#include "tests/unit/unit.h"

#include "common/cleanup.h"
#include "common/counters.h"
#include "common/fs.h"
#include "common/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct counters *open_list(const char *list)
{
    auto_strv names = STRV_INIT;
    counters_split(list, &names);
    return counters_open(&names);
}

static void lists_are_split(void)
{
    auto_strv names = STRV_INIT;
    counters_split(" a::B, c ,,a::B,d", &names);
    CU_ASSERT_EQUAL(names.count, 3);
    CU_ASSERT_STR(names.items[0], "a::B");
    CU_ASSERT_STR(names.items[2], "d");
    struct counters *none = open_list("");
    CU_ASSERT_EQUAL(counters_count(none), 0);
    counters_close(none);
    counters_close(NULL);
}

#define PAGES 64

static void touch_pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, PAGES * page, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++)
        ((volatile char *)p)[i * page] = 1;
    munmap(p, PAGES * page);
}

static void *touch_in_thread(void *unused)
{
    touch_pages();
    return unused;
}

/* At least the faults that we make, those of a new thread too. */
static void faults_of_all_threads_are_counted(void)
{
    int64_t values[2];
    pthread_t thread;
    struct counters *c = open_list("rusage::MINOR-FAULTS,perf::PAGE-FAULTS");
    counters_begin(c);
    touch_pages();
    pthread_create(&thread, NULL, touch_in_thread, NULL);
    pthread_join(thread, NULL);
    counters_end(c, values);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_STR(counters_info(c, (size_t)i)->source ? "yes" : "no", "yes");
        CU_ASSERT(values[i] >= 2 * PAGES && values[i] < 100 * PAGES);
    }
    counters_begin(c);
    counters_end(c, values);
    CU_ASSERT(values[0] >= 0 && values[0] < PAGES);
    counters_close(c);
}

static void switches_are_counted(void)
{
    int64_t values[2];
    struct counters *c = open_list("rusage::VOLUNTARY-SWITCHES,perf::CONTEXT-SWITCHES");
    counters_begin(c);
    for (int i = 0; i < 20; i++)
        usleep(200);
    counters_end(c, values);
    CU_ASSERT(values[0] >= 20);
    CU_ASSERT(values[1] >= 20);
    counters_close(c);
}

static void what_nobody_has_is_named(void)
{
    int64_t values[2];
    struct counters *c = open_list("NO_SUCH_EVENT,rusage::NOTHING");
    counters_begin(c);
    counters_end(c, values);
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT(counters_info(c, i)->source == NULL);
        CU_ASSERT(counters_info(c, i)->why && *counters_info(c, i)->why);
        CU_ASSERT_EQUAL(values[i], COUNTER_NONE);
    }
    auto_json *about = counters_describe(c);
    CU_ASSERT_EQUAL(json_object_size(json_at(about, "sources")), 0);
    CU_ASSERT_EQUAL(json_object_size(json_at(about, "unavailable")), 2);
    counters_close(c);
}

static const char *reason(const struct counters *c, size_t i)
{
    return counters_info(c, i)->why ? counters_info(c, i)->why : "";
}

static void paranoid_4_leaves_the_lower_rungs(void)
{
    auto_free char *root = fs_realpath("tests/fixtures/fsroot/perf-paranoid-4");
    static const char why[] = "perf_event_paranoid is 4 and CAP_PERFMON is missing";
    setenv("NCBENCH_FSROOT", root, 1);
    struct counters *c = open_list("PAPI_TOT_INS,perf::CONTEXT-SWITCHES,perf::CPU-MIGRATIONS");
    unsetenv("NCBENCH_FSROOT");
    CU_ASSERT(counters_info(c, 0)->source == NULL);
    CU_ASSERT(strstr(reason(c, 0), why) != NULL);
    CU_ASSERT_STR(counters_info(c, 1)->source, "rusage");
    CU_ASSERT(strstr(reason(c, 1), why) != NULL);
    CU_ASSERT(counters_info(c, 2)->source == NULL);
    CU_ASSERT(strstr(reason(c, 2), "nr_migrations") != NULL);
    auto_json *about = counters_describe(c);
    CU_ASSERT(strstr(json_string_value(
                         json_object_get(json_at(about, "fallbacks"), "perf::CONTEXT-SWITCHES")),
                     why) != NULL);
    counters_close(c);
}

/* With the capability the level does not matter; without perf in the kernel nothing helps. */
static void capabilities_count(void)
{
    auto_free char *root = unit_tmpdir();
    auto_free char *kernel = mem_printf("%s/proc/sys/kernel", root);
    auto_free char *self = mem_printf("%s/proc/self", root);
    auto_free char *level = mem_printf("%s/perf_event_paranoid", kernel);
    auto_free char *status = mem_printf("%s/status", self);
    auto_error struct error err = ERROR_INIT;
    auto_str why = STR_INIT;
    setenv("NCBENCH_FSROOT", root, 1);
    CU_ASSERT(counters_forbidden(&why));
    CU_ASSERT_STR(why.data, "no perf events in this kernel");
    str_clear(&why);
    fs_mkdir_p(kernel, 1, &err);
    fs_mkdir_p(self, 1, &err);
    fs_write_atomic(level, "4\n", 2, 1, &err);
    static const char caps[] = "CapEff:\t0000004000000000\n"; /* CAP_PERFMON alone */
    fs_write_atomic(status, caps, strlen(caps), 1, &err);
    CU_ASSERT(!counters_forbidden(&why));
    static const char none[] = "CapEff:\t0000003fffdfffff\n"; /* all below but CAP_SYS_ADMIN */
    fs_write_atomic(status, none, strlen(none), 1, &err);
    CU_ASSERT(counters_forbidden(&why));
    fs_write_atomic(level, "2\n", 2, 1, &err);
    CU_ASSERT(!counters_forbidden(&why));
    unsetenv("NCBENCH_FSROOT");
    CU_ASSERT_EQUAL(err.code, 0);
}

/* Whatever the machine says that it has: a hardware counter counts, or is not there. */
static void cycles_are_never_zero(void)
{
    int64_t values[2];
    volatile unsigned x = 0;
    struct counters *c = open_list("PAPI_TOT_CYC,PAPI_TOT_INS");
    counters_begin(c);
    for (unsigned i = 0; i < 1000000; i++)
        x = x + i;
    counters_end(c, values);
    for (size_t i = 0; i < 2; i++) {
        bool counted = counters_info(c, i)->source != NULL;
        CU_ASSERT(values[i] == COUNTER_NONE || (counted && values[i] > 1000));
        CU_ASSERT(counted || *reason(c, i));
    }
    counters_close(c);
}

UNIT_MAIN({"lists are split", lists_are_split},
          {"faults of all threads are counted", faults_of_all_threads_are_counted},
          {"switches are counted", switches_are_counted},
          {"what nobody has is named", what_nobody_has_is_named},
          {"perf_event_paranoid 4 leaves the lower rungs", paranoid_4_leaves_the_lower_rungs},
          {"capabilities count", capabilities_count},
          {"cycles are never zero", cycles_are_never_zero})
