#include "workload/stop.h"

#include "common/protocol.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stop_signal;

static void on_signal(int signal)
{
    stop_signal = signal;
}

void stop_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND | SA_RESTART};
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
