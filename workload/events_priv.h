/* hello, apart from the writing of events. */
#ifndef WORKLOAD_EVENTS_PRIV_H
#define WORKLOAD_EVENTS_PRIV_H

#include "common/json.h"

/* The fields of hello; the caller owns the object. */
json_t *events_hello(int rank, double entry_s, int argc, char *const *argv);

#endif
