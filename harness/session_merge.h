/* Sessions of one scenario as strata of a new one, for a claim about more than one occasion.
 *
 * The new session's folder holds resolved.json (of the first, with `merged`: which sessions, where,
 * by what), trials.jsonl (all records; each stratum of each session becomes a stratum of its own)
 * and session.json: compare, report, plot, gate and export read it as any other. The sessions
 * themselves are left as they are. */
#ifndef HARNESS_SESSION_MERGE_H
#define HARNESS_SESSION_MERGE_H

#include "common/error.h"
#include "common/str.h"

#include <stdbool.h>

/* paths: two sessions or more. out: the folder to make, or NULL for merged/<time> beside the first
 * session. differ: other scenarios and other programs are allowed. *dir is what was made (caller
 * frees). Exit 2 for a session named twice or two that hold the same trial (a copy, or a merged one
 * and a part of it), also with differ; 3 for cells that do not agree, 7 for scenarios or
 * programs that differ, 8 for what cannot be read or written. */
int session_merge(const struct strv *paths, const char *out, bool differ, char **dir,
                  struct error *err);

#endif
