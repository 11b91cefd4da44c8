/* The harness's own signals, taken synchronously: INT, TERM and HUP are blocked for the length of a
 * session and asked for where it waits, so that nothing is interrupted between two steps of ending
 * a trial. A signal that was ignored when the program started (nohup) stays ignored. */
#ifndef HARNESS_SIGNALS_H
#define HARNESS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct interrupt {
    int signal; /* the first that came; 0: none */
    int count;  /* how many came; two mean: at once */
    sigset_t waited, before;
};

void interrupt_open(struct interrupt *i);
void interrupt_close(struct interrupt *i); /* restores the mask */
/* Wait until a child changes state, a signal comes, or the seconds have passed. */
void interrupt_wait(struct interrupt *i, double seconds);
/* Take what is pending, without waiting. */
static inline void interrupt_poll(struct interrupt *i)
{
    interrupt_wait(i, 0);
}

#endif
