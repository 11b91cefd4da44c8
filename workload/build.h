/* What this build of nanochat is, for the event file and `nanochat info`. */
#ifndef WORKLOAD_BUILD_H
#define WORKLOAD_BUILD_H

#include "common/json.h"

/* {config, compiler, blas, openmp (the version's date, as _OPENMP), sanitizer}; new reference. */
json_t *build_json(void);

#endif
