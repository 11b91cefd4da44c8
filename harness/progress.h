/* The live line of a running session, on standard error: one line that is redrawn on a terminal,
 * one plain line a finished trial elsewhere. */
#ifndef HARNESS_PROGRESS_H
#define HARNESS_PROGRESS_H

#include "harness/plan.h"
#include "harness/record.h"
#include "harness/scenario.h"

#include <stdbool.h>

enum progress_mode { PROGRESS_NONE, PROGRESS_PLAIN, PROGRESS_LIVE };

struct progress {
    enum progress_mode mode;
    bool colour;
    const struct scenario *scenario; /* borrowed */
    double started_s, trial_started_s;
    size_t done, total; /* trials; total shrinks when a cell is decided early */
    double spent_s;     /* on finished trials */
    size_t finished;    /* by this process */
    double drawn_s;
    bool open; /* a live line is on the screen */
};

/* choice: auto | plain | none. */
void progress_init(struct progress *p, const char *choice, const struct scenario *s);
void progress_trial_start(struct progress *p);
/* Matches trial_context.progress; user is the struct progress. */
void progress_tick(void *user, const struct planned_trial *trial, int64_t step);
void progress_trial_end(struct progress *p, const struct record *record);
/* A line of its own among the live ones. */
void progress_say(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_close(struct progress *p);

#endif
