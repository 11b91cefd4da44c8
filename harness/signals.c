#include "harness/signals.h"

#include <errno.h>
#include <time.h>

static bool is_ignored(int sig)
{
    struct sigaction old;
    return sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

void interrupt_open(struct interrupt *i)
{
    static const int ours[] = {SIGINT, SIGTERM, SIGHUP};
    *i = (struct interrupt){0};
    sigemptyset(&i->waited);
    sigaddset(&i->waited, SIGCHLD);
    for (size_t n = 0; n < sizeof ours / sizeof *ours; n++)
        if (!is_ignored(ours[n]))
            sigaddset(&i->waited, ours[n]);
    signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would reap behind our back */
    sigprocmask(SIG_BLOCK, &i->waited, &i->before);
}

void interrupt_close(struct interrupt *i)
{
    sigprocmask(SIG_SETMASK, &i->before, NULL);
}

static void take(struct interrupt *i, int sig)
{
    if (sig == SIGCHLD)
        return;
    if (!i->signal)
        i->signal = sig;
    i->count++;
}

void interrupt_wait(struct interrupt *i, double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    const struct timespec none = {0, 0};
    int sig = sigtimedwait(&i->waited, NULL, &left);
    while (sig > 0) { /* the first, then all that are pending */
        take(i, sig);
        sig = sigtimedwait(&i->waited, NULL, &none);
    }
}
