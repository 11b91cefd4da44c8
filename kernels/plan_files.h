/* Plans on disk: PLANS_FOLDER below the base directory has a file for each device name, driver and
 * library version (plan_store.identity), so that a run takes what an earlier one found by timing.
 *
 *     nanochat plans 1
 *     <identity>
 *     <key>=<value in hexadecimal>
 *     …
 *     sha256 <of all lines above>
 *
 * A file is believed whole or not at all: another version or identity, a torn, changed or foreign
 * one holds no plans, which is no error. What was believed is checked by the library before its
 * use. */
#ifndef KERNELS_PLAN_FILES_H
#define KERNELS_PLAN_FILES_H

#include "common/error.h"
#include "common/str.h"
#include "kernels/plan_store.h"

#define PLANS_FOLDER "gemm-plans"

enum { PLAN_FILE_BYTES_MAX = 4 << 20 };

/* The plans of a file's text into a store without any. False: none of them, with *why. */
bool plan_text_read(struct plan_store *s, const char *text, size_t length, const char **why);
/* The file's text of what is worth keeping: stored and timed plans that were not refused. */
void plan_text_write(const struct plan_store *s, struct str *out);
/* SHA-256 over the taken plans, whatever their origin and order: equal in runs that compute with
 * the same ones. hex: 65 bytes. */
void plan_digest(const struct plan_store *s, char *hex);

/* In modes that take stored plans: those of the folder's file. False: there are none, with *why. */
bool plan_files_load(struct plan_store *s, const char *folder, const char **why);
/* In mode auto, and when something was timed: the file, written aside and renamed. Plans that the
 * file has got meanwhile win, so that the first choice stays; refused ones are replaced. */
int plan_files_save(const struct plan_store *s, const char *folder, struct error *err);

#endif
