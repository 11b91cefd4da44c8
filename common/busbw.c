#include "common/busbw.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* "AllReduce", "all_reduce" and "all-reduce" are one name, and what it reduces with may follow. */
static bool is_op(const char *name, const char *op)
{
    for (; *op; name++, op++) {
        while (*name == '_' || *name == '-')
            name++;
        if (tolower((unsigned char)*name) != *op)
            return false;
    }
    return !*name || *name == '_';
}

double busbw_factor(const char *op, int64_t n)
{
    static const struct {
        const char *op;
        int times; /* (n-1)/n; 0: the factor is 1 */
    } table[] = {{"allreduce", 2}, {"allgather", 1}, {"reducescatter", 1},
                 {"alltoall", 1},  {"gather", 1},    {"scatter", 1},
                 {"broadcast", 0}, {"reduce", 0},    {"sendrecv", 0}};
    for (size_t i = 0; n >= 2 && i < sizeof table / sizeof *table; i++)
        if (is_op(op, table[i].op))
            return table[i].times ? table[i].times * (double)(n - 1) / (double)n : 1;
    return NAN;
}

double algbw_gb_s(double bytes, double time_us)
{
    return time_us > 0 ? bytes / time_us * 1e-3 : NAN;
}
