/* A thousand ranks: what it costs the harness to read what they wrote. Numbers are printed; what is
 * asserted is that nothing is lost, and a bound on memory that only a fault could pass. */
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "harness/events_reader.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RANKS = 1000, STEPS = 60, COMMS = 4 };

static long peak_kib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static int64_t write_rank(const char *dir, int rank)
{
    char path[512];
    snprintf(path, sizeof path, "%s/" EVENTS_FILE_FMT, dir, rank);
    FILE *f = fopen(path, "w");
    if (!f)
        return 0;
    fprintf(f, "{\"event\":\"hello\",\"t_s\":1,\"rank\":%d,\"world\":%d,\"entry_s\":1}\n", rank,
            RANKS);
    for (int s = 0; s < STEPS; s++) {
        for (int c = 0; c < COMMS; c++)
            fprintf(f,
                    "{\"event\":\"comm\",\"t_s\":%d.5,\"step\":%d,\"seq\":%d,\"op\":"
                    "\"reduce_scatter\",\"bytes\":%d,\"time_us\":%d.25}\n",
                    s + 2, s, s * COMMS + c, 1024 << c, 100 + rank);
        fprintf(f,
                "{\"event\":\"step\",\"t_s\":%d,\"step\":%d,\"epoch\":0,\"t_start_s\":%d.0,"
                "\"t_end_s\":%d.25,\"data_wait_s\":0.001,\"fwd_s\":0.1,\"bwd_s\":0.1,\"comm_s\":0."
                "01,\"opt_s\":0.01,\"loss\":4.5,\"grad_norm\":1,\"tokens\":2048000}\n",
                s + 3, s, s + 2, s + 2);
    }
    fprintf(f, "{\"event\":\"done\",\"t_s\":99,\"exit_code\":0}\n");
    long size = ftell(f);
    return fclose(f) ? 0 : size;
}

static void a_thousand_ranks(void)
{
    char dir[] = "/tmp/ncbench-scale-XXXXXX";
    int64_t bytes = 0;
    struct trial_events events = {0};
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    for (int r = 0; r < RANKS; r++)
        bytes += write_rank(dir, r);
    long before = peak_kib();
    double begin = clock_mono_s();
    CU_ASSERT_EQUAL(trial_events_load(dir, &events, &err), 0);
    double seconds = clock_mono_s() - begin;
    long grown = peak_kib() - before;
    printf("  %d ranks: %d files of events (with .out and .err: %d), %.1f MiB read in %.2f s, "
           "memory +%.1f MiB\n",
           RANKS, RANKS, 3 * RANKS, (double)bytes / 1048576, seconds, (double)grown / 1024);
    CU_ASSERT_EQUAL(events.count, RANKS);
    for (size_t i = 0; i < events.count; i++) {
        CU_ASSERT_EQUAL(events.items[i].rank, (int)i);
        CU_ASSERT_EQUAL(events.items[i].steps.count, STEPS);
        CU_ASSERT_EQUAL(events.items[i].comms.count, COMMS);
        CU_ASSERT_EQUAL(events.items[i].bad_lines, 0);
    }
    CU_ASSERT(grown < 512 * 1024);
    trial_events_release(&events);
    CU_ASSERT_EQUAL(fs_remove_tree(dir, 1, &err), 0);
}

UNIT_MAIN({"events of a thousand ranks", a_thousand_ranks})
