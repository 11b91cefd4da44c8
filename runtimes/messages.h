/* What runtimes print when they fail, as tables: exit code and fixed fragments of the text to an
 * outcome. The text decides before the code, because programs use the same codes; fragments and
 * never whole lines, because versions, paths and ids are in them. */
#ifndef RUNTIMES_MESSAGES_H
#define RUNTIMES_MESSAGES_H

#include "runtimes/runtime.h"

/* Matches when the exit code is `rc` (0: any but success) and `first` is in the text with `then`
 * somewhere behind it on the same or a later line (NULL: not asked). The first match wins. */
struct message_rule {
    int rc;
    const char *first, *then;
    enum outcome outcome;
};

/* The text without terminal sequences, blank lines, and warnings that mean nothing for a trial. */
void messages_clean(const char *text, struct str *out);
/* "exit RC: " and the line that tells most: the first that holds one of the markers (in their
 * order; NULL ends them; the line begins at the marker), else the last line. */
void messages_reason(struct str *reason, int rc, const char *text, const char *const *markers);
/* The outcome of the first rule that matches the (cleaned) text, or OUTCOME_COUNT. Rules end with
 * one whose first is NULL and rc is 0. */
enum outcome messages_match(const struct message_rule *rules, int rc, const char *text);

/* How a kind's classify is made: a signal first; then its rules; then 128+n as a signal inside; any
 * other end is OUTCOME_RUNTIME_FAILED. */
enum outcome messages_classify(const struct message_rule *rules, const char *const *markers,
                               const struct runtime_evidence *evidence, struct str *reason);

#endif
