#include "workload/graphs.h"

#include <string.h>

static const char *const names[] = {
    [GRAPHS_AUTO] = "auto", [GRAPHS_ON] = "on", [GRAPHS_OFF] = "off"};

static void decide(struct graphs *g, bool use, const char *why)
{
    g->verdict = use ? GRAPHS_USED : GRAPHS_UNUSED;
    g->why = why;
}

void graphs_open(struct graphs *g, const char *mode, const char *impossible)
{
    *g = (struct graphs){.decided_by = -1, .why = "too few steps to decide"};
    for (int i = GRAPHS_AUTO; i <= GRAPHS_OFF; i++)
        if (!strcmp(mode, names[i]))
            g->mode = (enum graphs_mode)i;
    if (g->mode == GRAPHS_OFF)
        decide(g, false, "not wanted");
    else if (impossible)
        decide(g, false, impossible);
}

const char *graphs_mode_name(const struct graphs *g)
{
    return names[g->mode];
}

static double median3(const double *x)
{
    const double low = x[0] < x[1] ? x[0] : x[1], high = x[0] < x[1] ? x[1] : x[0];
    return x[2] < low ? low : x[2] > high ? high : x[2];
}

bool graphs_step(struct graphs *g, double queue_s, double device_s)
{
    if (g->verdict != GRAPHS_UNDECIDED)
        return false;
    const int measured = g->steps++ - 1; /* not the first */
    if (g->mode == GRAPHS_ON) {
        if (measured == 0)
            decide(g, true, "wanted");
        return measured == 0;
    }
    if (measured >= 0)
        g->share[measured] = device_s > 0 ? queue_s / device_s : 0;
    if (measured + 1 < GRAPHS_MEASURED)
        return false;
    g->decided_by = median3(g->share);
    if (g->decided_by >= GRAPHS_SHARE)
        decide(g, true, "the device waits for the host");
    else
        decide(g, false, "the host is ahead of the device");
    return true;
}
