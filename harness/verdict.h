/* Verdicts: from the blocks of a cell to a word, and to a sentence that a reader can check.
 *
 * The ratio is that of the metric, arm over baseline. Judged is the cost: for rates (larger is
 * better) the ratio turned round. [lo, hi] is the interval of the cost ratio at the level 1 - 2
 * alpha of a look (that of TOST), [from, to] the one at 1 - alpha: equivalence is claimed in one
 * way and may err at alpha, a difference in two, alpha / 2 each. With L = 1/(1 + margin), U = 1 +
 * margin, the first row that holds:
 *
 *   environments differ in what must match        not_comparable      (set by harness/analysis.c)
 *   > 25 % of blocks disturbed, control failed     untrustworthy       (control: analysis.c)
 *   L < lo and hi < U                              equivalent
 *   from > U                                       slower
 *   1 < from <= U                                  slower_size_uncertain
 *   to < L                                         faster
 *   L <= to < 1                                    faster_size_uncertain
 *   otherwise, and with fewer than two blocks      inconclusive */
#ifndef HARNESS_VERDICT_H
#define HARNESS_VERDICT_H

#include "harness/blocks.h"
#include "harness/stats_paired.h"
#include "harness/stats_rank.h"
#include "harness/study.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum verdict_kind {
    VERDICT_EQUIVALENT,
    VERDICT_SLOWER,
    VERDICT_SLOWER_UNCERTAIN,
    VERDICT_FASTER,
    VERDICT_FASTER_UNCERTAIN,
    VERDICT_INCONCLUSIVE,
    VERDICT_NOT_COMPARABLE,
    VERDICT_UNTRUSTWORTHY,
    VERDICT_COUNT,
};

const char *verdict_name(enum verdict_kind v);  /* "slower_size_uncertain": for machines */
const char *verdict_words(enum verdict_kind v); /* "slower, size uncertain": for people */

struct comparison {
    const char *metric; /* borrowed from the caller of comparison_make */
    size_t cell, reference, arm;
    int direction;        /* of the metric: +1 larger is worse */
    struct paired paired; /* of the metric's ratio, arm over reference */
    struct tost tost;
    struct rank_interval hodges_lehmann; /* of the ratio (not its logarithm) */
    struct paired all_blocks;            /* the same with disturbed blocks */
    double p_holm;                       /* NaN outside the family */
    double margin;
    double margin_abs;         /* in the metric's unit, where that one counts; else 0 */
    const char *margin_source; /* "scenario", "default", "option" */
    int look;                  /* looks passed with this many blocks; 0: before the first */
    double median_a, median_b; /* of the metric over the blocks that count */
    size_t disturbed, incomplete, missing, total; /* blocks */
    size_t sessions;                              /* that were merged; 0 or 1: one session */
    size_t more_blocks; /* for inconclusive: about how many more; 0: cannot be said */
    enum verdict_kind verdict;
    char *reason;   /* owned; NULL where the numbers speak */
    char *sentence; /* owned; begins with the arm's name; no full stop */
};

/* margin < 0: as the study says. The verdict is that of the numbers alone. */
void comparison_make(const struct study *s, const struct blocks *b, size_t cell, size_t reference,
                     size_t arm, const char *metric, double margin, struct comparison *out);
/* Overrule it: not_comparable, untrustworthy. reason is copied; the sentence is made anew. */
void comparison_overrule(const struct study *s, struct comparison *c, enum verdict_kind v,
                         const char *reason);
void comparison_release(struct comparison *c);

/* The intervals of the cost ratio: those of the ratio, or turned round for rates. */
struct interval comparison_cost(const struct comparison *c);  /* for equivalence: 1 - 2 alpha */
struct interval comparison_claim(const struct comparison *c); /* of a difference: 1 - alpha */
/* The verdict of the two intervals alone. */
enum verdict_kind verdict_of_intervals(struct interval cost, struct interval claim, double margin);

/* Words: "+0.2 %", "1.002", "95 %"; each appends. */
void verdict_put_ratio(struct str *out, double ratio);
void verdict_put_percent(struct str *out, double share); /* .05 → "5 %", .9558 → "95.6 %" */
void verdict_put_margin(struct str *out, const struct comparison *c); /* "±5 %", "±100 ms" */

/* Would `stop: decided` (or precision, as the study says) end the cell on this comparison? */
bool comparison_decided(const struct study *s, const struct comparison *c);

/* Is the cell finished with these blocks? It is when so many of them count as its last look asks
 * for, or it is at a look and its verdict allows to stop (`stop: decided`: every arm but the
 * control is equivalent or wholly beyond the margin; `stop: precision`: at least 10 blocks and
 * every interval's half-width is below half of the margin). Comparability is not asked. Between
 * looks nothing is computed. */
bool verdict_look(const struct study *s, const struct blocks *b, size_t cell);

#endif
