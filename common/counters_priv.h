/* The rungs of the ladder, a file each. */
#ifndef COMMON_COUNTERS_PRIV_H
#define COMMON_COUNTERS_PRIV_H

#include "common/counters.h"

struct counter {
    struct counter_info info;
    int rung;      /* index into the table of counters.c; valid with a source */
    void *state;   /* of the rung */
    int64_t begin; /* reading at counters_begin */
};

struct counter_rung {
    const char *name;
    /* Set info.source and state, and return true; or append a reason and return false. The reason
     * is left empty for a name that is not of this rung. */
    bool (*open)(struct counter *c, struct str *why);
    int64_t (*read)(struct counter *c); /* since open; COUNTER_NONE: failed */
    void (*close)(struct counter *c);
};

extern const struct counter_rung counter_rung_papi, counter_rung_perf, counter_rung_rusage,
    counter_rung_proc;

#endif
