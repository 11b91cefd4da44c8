/* The index of a dictd database: which bytes of the database are entries. A line is
 * HEADWORD TAB OFFSET TAB LENGTH, the numbers in base 64 with the digits A-Z a-z 0-9 + /, the most
 * significant first. */
#ifndef WORKLOAD_DATA_DICTD_H
#define WORKLOAD_DATA_DICTD_H

#include "common/error.h"

#include <stddef.h>

struct dictd_entry {
    size_t offset, len;
};

/* The distinct entries by offset, without those that a headword "00-database-…" names; *out is
 * freed by the caller. A malformed line is NANOCHAT_EXIT_DATA. */
int dictd_read_index(const char *path, struct dictd_entry **out, size_t *n, struct error *err);

#endif
