/* Whether a training run uses graphs of the device (--cuda-graphs).
 *
 * The first step chooses plans. `on` captures in the third. `auto` measures in the three steps
 * after the first how long the host takes to queue forward and backward, and how long the device
 * then takes for them: with less than GRAPHS_SHARE of it the host is ahead of the device, and a
 * graph would gain nothing but some microseconds between kernels; else the device waits for the
 * host, and the graphs are captured in the fifth step. The middle one of the three shares decides.
 */
#ifndef WORKLOAD_GRAPHS_H
#define WORKLOAD_GRAPHS_H

#include "common/json.h"

#include <stdbool.h>

#define GRAPHS_SHARE 0.7

enum { GRAPHS_MEASURED = 3 };

enum graphs_mode { GRAPHS_AUTO, GRAPHS_ON, GRAPHS_OFF };
enum graphs_verdict { GRAPHS_UNDECIDED, GRAPHS_USED, GRAPHS_UNUSED };

struct graphs {
    enum graphs_mode mode;
    enum graphs_verdict verdict;
    int steps;                     /* seen */
    double share[GRAPHS_MEASURED]; /* of the device's time, that the host queued */
    double decided_by;             /* the share; -1: it was not asked */
    const char *why;               /* the verdict; static storage, or the device's */
};

/* "auto", "on", "off"; impossible: why the device has none, or NULL. */
void graphs_open(struct graphs *g, const char *mode, const char *impossible);
/* A step that ran op by op. True: this one decided. */
bool graphs_step(struct graphs *g, double queue_s, double device_s);
const char *graphs_mode_name(const struct graphs *g);

#endif
