/* hello, apart from the writing of events. */
#ifndef WORKLOAD_EVENTS_PRIV_H
#define WORKLOAD_EVENTS_PRIV_H

#include "common/counters.h"
#include "common/json.h"

/* The fields of hello; the caller owns the object. */
json_t *events_hello(int rank, double entry_s, int argc, char *const *argv);
/* Before there are threads. Never NULL. */
struct counters *events_migrations_open(void);
/* cpu_migrations of `done`: what was counted since. */
void events_put_migrations(json_t *done, struct counters *c);

#endif
