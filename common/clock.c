#include "common/clock.h"

#include "common/fs.h"
#include "common/num.h"
#include "common/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The kernel adds the offset to the clock inside the namespace, so it is subtracted here. The file
 * is /proc's own, never a fixture's: the clock that we read is the real one. */
static double read_timens_offset(void)
{
    FILE *f = fopen("/proc/self/timens_offsets", "re");
    if (!f)
        return 0;
    char name[32];
    long long seconds, nanoseconds;
    double offset = 0;
    while (fscanf(f, "%31s %lld %lld", name, &seconds, &nanoseconds) == 3)
        if (!strcmp(name, "monotonic"))
            offset = (double)seconds + (double)nanoseconds * 1e-9;
    fclose(f);
    return offset;
}

double clock_timens_offset_s(void)
{
    static double offset;
    static int known;
    if (!known) {
        offset = read_timens_offset();
        known = 1;
    }
    return offset;
}

static double now_s(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

double clock_mono_s(void)
{
    return now_s(CLOCK_MONOTONIC) - clock_timens_offset_s();
}

double clock_process_start_s(void)
{
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f)
        return -1;
    char line[1024];
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = '\0';
    char *p = strrchr(line, ')'); /* the name may hold spaces and parentheses */
    unsigned long long ticks;
    /* field 22, counted from the state (field 3) behind the name */
    if (!p || sscanf(p + 1,
                     " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
                     " %*d %*d %llu",
                     &ticks) != 1)
        return -1;
    double start_boot = (double)ticks / (double)sysconf(_SC_CLK_TCK);
    /* ticks count from boot (CLOCK_BOOTTIME); shift to CLOCK_MONOTONIC */
    return start_boot - (now_s(CLOCK_BOOTTIME) - now_s(CLOCK_MONOTONIC)) - clock_timens_offset_s();
}

char *clock_utc(char out[static CLOCK_UTC_MAX])
{
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(out, CLOCK_UTC_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, CLOCK_UTC_MAX - n, ".%06ldZ", ts.tv_nsec / 1000);
    return out;
}

void clock_sleep_s(double seconds)
{
    struct timespec ts = {.tv_sec = (time_t)seconds,
                          .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&ts, &ts) && errno == EINTR)
        continue;
}
