#include "workload/stop.h"

#include "common/protocol.h"

#include <signal.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t stop_second; /* of the first signal, since the start; see now() */

static int now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int)(t.tv_sec & 0x3fffffff);
}

static void on_signal(int signal_number)
{
    int at = now();
    if (!stop_signal) {
        stop_signal = signal_number;
        stop_second = at;
    } else if (at - stop_second >= STOP_TWICE_S) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
}

void stop_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

int stop_requested(void)
{
    return stop_signal;
}

int stop_error(int signal, const char *done, struct error *err)
{
    const char *name = signal == SIGINT ? "SIGINT" : "SIGTERM";
    return error_set(err, NANOCHAT_EXIT_PEER, "ended by %s after %s", name, done);
}
