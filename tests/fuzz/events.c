/* libFuzzer target: the reader of event files, a rank's own and shared ones, takes any bytes. */
#include "harness/events_reader.h"

#include <stdint.h>

static void check(const struct rank_events *e)
{
    if (e->bad_lines > e->lines)
        __builtin_trap();
    for (size_t i = 0; i < e->steps.count; i++)
        if (!(e->steps.items[i].t_end_s >= e->steps.items[i].t_start_s))
            __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rank_events e = {0};
    struct trial_events shared = {0};
    rank_events_parse((const char *)data, size, &e);
    check(&e);
    rank_events_release(&e);
    trial_events_parse_shared((const char *)data, size, &shared);
    for (size_t i = 0; i < shared.count; i++)
        check(&shared.items[i]);
    trial_events_release(&shared);
    return 0;
}
