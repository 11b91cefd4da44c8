#include "common/batch.h"

#include "common/protocol.h"

#include <inttypes.h>
#include <stddef.h>

_Static_assert((int)NANOCHAT_EXIT_PLAN == (int)NCBENCH_EXIT_SCENARIO, "one code in both programs");

static int check_positive(int64_t total, int64_t device_batch, int64_t sequence, int64_t world,
                          struct error *err)
{
    const struct {
        const char *name;
        int64_t value;
    } parts[] = {{"total batch size", total},
                 {"device batch size", device_batch},
                 {"sequence length", sequence},
                 {"number of ranks", world}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].value < 1)
            return error_set(err, NANOCHAT_EXIT_PLAN,
                             "%s %" PRId64 " is not possible, expected at "
                             "least 1",
                             parts[i].name, parts[i].value);
    return 0;
}

int batch_accumulation(int64_t total, int64_t device_batch, int64_t sequence, int64_t world,
                       int64_t *accumulation, struct error *err)
{
    if (check_positive(total, device_batch, sequence, world, err))
        return -err->code;
    int64_t micro;
    if (__builtin_mul_overflow(device_batch, sequence, &micro) ||
        __builtin_mul_overflow(micro, world, &micro))
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "device batch size %" PRId64 " x sequence length %" PRId64 " x %" PRId64
                         " ranks is more tokens than can be counted",
                         device_batch, sequence, world);
    int64_t remainder = total % micro;
    if (!remainder) {
        *accumulation = total / micro;
        return 0;
    }
    error_set(err, NANOCHAT_EXIT_PLAN,
              "total batch size %" PRId64 " is not a multiple of device batch size %" PRId64
              " x sequence length %" PRId64 " x %" PRId64 " rank%s = %" PRId64
              " tokens (remainder %" PRId64 ")",
              total, device_batch, sequence, world, world == 1 ? "" : "s", micro, remainder);
    int64_t below = total - remainder, above;
    if (__builtin_add_overflow(below, micro, &above))
        return error_hint(err, "the nearest valid total is %" PRId64, below);
    if (!below)
        return error_hint(err, "the nearest valid total is %" PRId64, above);
    return error_hint(err, "the nearest valid totals are %" PRId64 " and %" PRId64, below, above);
}
