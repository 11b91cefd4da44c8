/* libFuzzer target: the reader of event files takes any bytes. */
#include "harness/events_reader.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rank_events e = {0};
    rank_events_parse((const char *)data, size, &e);
    if (e.bad_lines > e.lines)
        __builtin_trap();
    for (size_t i = 0; i < e.steps.count; i++)
        if (!(e.steps.items[i].t_end_s >= e.steps.items[i].t_start_s))
            __builtin_trap();
    rank_events_release(&e);
    return 0;
}
