/* Sets of processing units (or NUMA nodes), by the kernel's numbers: any number of them, with
 * holes, not beginning at 0.
 *
 * struct pus grows as needed; {0} is the empty set; release with pus_release. */
#ifndef COMMON_PUS_H
#define COMMON_PUS_H

#include "common/json.h"
#include "common/str.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pus {
    uint64_t *words;
    size_t n_words;
};

#define auto_pus __attribute__((cleanup(pus_release))) struct pus

void pus_add(struct pus *set, unsigned pu);
bool pus_has(const struct pus *set, unsigned pu);
int pus_count(const struct pus *set);
/* The smallest member above `after` (-1: of all), or -1. */
int pus_next(const struct pus *set, int after);
int pus_last(const struct pus *set); /* the largest, or -1 */
bool pus_equal(const struct pus *a, const struct pus *b);
bool pus_within(const struct pus *a, const struct pus *b); /* is a a subset of b? */
void pus_and(struct pus *set, const struct pus *other);
void pus_or(struct pus *set, const struct pus *other);
void pus_copy(struct pus *to, const struct pus *from);
void pus_release(struct pus *set);

/* Append "0-3,6"; nothing for the empty set. */
void pus_list(const struct pus *set, struct str *out);
char *pus_text(const struct pus *set); /* the same, owned; "none" for the empty set */
/* The kernel's list form; a trailing newline is allowed. False: not understood, *out is empty. */
bool pus_parse(const char *text, struct pus *out);
json_t *pus_json(const struct pus *set); /* [0, 1, 6] */

/* The PUs that this thread may use. 0, or an errno. Works beyond 1024. */
int pus_usable(struct pus *out);
/* As an argument of sched_setaffinity; *bytes is its size. Caller frees with free(). */
cpu_set_t *pus_affinity(const struct pus *set, size_t *bytes);

#endif
