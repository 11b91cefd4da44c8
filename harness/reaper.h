/* Ending a trial so that nothing survives.
 *
 * The harness is a child subreaper: whatever a trial's processes leave behind is re-parented to it,
 * not to PID 1, and can be collected. A process belongs to a trial when it descends from the
 * harness or when its environment holds the trial's marker (NCBENCH_TRIAL_ID=<id>) and it is ours:
 * setsid and double forks do not hide it. A zombie has ended; that PID 1 has not collected it yet
 * is no survival.
 *
 * These functions look at the real /proc always, never at a fixture: they act on what they find. */
#ifndef HARNESS_REAPER_H
#define HARNESS_REAPER_H

#include "common/error.h"
#include "common/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A process that we started. */
struct reaper_child {
    pid_t pid;
    bool reaped;
    int status;      /* wait status, once reaped */
    double reaped_s; /* clock_mono_s */
};

struct process {
    pid_t pid, parent;
    char state;
    unsigned long long start_ticks; /* with pid: the identity of the process */
    char name[32];
};

struct processes {
    struct process *items;
    size_t count, cap;
};

/* What belongs to a trial. */
struct reaper_scope {
    const char *marker;             /* "NAME=value" in the environment; NULL: by descent only */
    bool prefix;                    /* value is only how it begins: all trials of a session */
    unsigned long long since_ticks; /* a descendant that is older is not the trial's: this program
                                       may have been exec'ed by a shell that has children */
};
/* Now, as /proc tells starting times; for since_ticks. */
unsigned long long reaper_now_ticks(void);

/* Become a subreaper. */
int reaper_init(struct error *err);
/* Collect whatever has ended, ours and orphans; never waits. True if anything was collected. */
bool reaper_collect(struct reaper_child *children, size_t count);
/* The live processes within the scope. out is emptied first. */
void reaper_find(const struct reaper_scope *scope, struct processes *out);
/* Signal each, unless its pid belongs to another process by now. */
void reaper_signal(const struct processes *found, int sig);
/* KILL and collect until none is left or the seconds have passed. True: all gone; else `left` names
 * the survivors ("sleep (pid 4711)"). */
bool reaper_kill_all(const struct reaper_scope *scope, double seconds, struct str *left);
void processes_release(struct processes *p);

/* Parse the text of /proc/<pid>/stat; false if it is none. */
bool process_parse_stat(const char *text, struct process *out);

#endif
