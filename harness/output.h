/* Results for machines and people: to standard output, or to a file that is replaced atomically. A
 * result that cannot be written whole is an error (8), never a shorter file. */
#ifndef HARNESS_OUTPUT_H
#define HARNESS_OUTPUT_H

#include "common/error.h"
#include "common/str.h"

/* path NULL or "-": standard output. */
int output_write(const char *path, const struct str *text, struct error *err);

#endif
