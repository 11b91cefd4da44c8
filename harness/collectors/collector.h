/* Collectors: what the harness observes around a trial, from outside.
 *
 * One table a collector; the trial opens all of them before it starts anything, ticks them while it
 * waits, stops them when everything is gone, and lets each write its part of the record. What is
 * unavailable is null with a reason, never a zero. Adding one is a file and a line in collectors.c.
 * All reads go through fs_sys_read, so that NCBENCH_FSROOT can stand for any machine. */
#ifndef HARNESS_COLLECTORS_COLLECTOR_H
#define HARNESS_COLLECTORS_COLLECTOR_H

#include "common/json.h"
#include "harness/reaper.h"

/* What a collector may need to know of the trial. */
struct collector_context {
    double gpu_interval_s; /* between samples of the GPUs; 0: none are wanted */
};

struct collector_ops {
    const char *name;
    /* just before the first process is started */
    void *(*start)(const struct collector_context *context);
    /* now and then while the trial runs; processes: those of the trial */
    void (*tick)(void *state, const struct processes *processes);
    void (*stop)(void *state);               /* all are gone */
    void (*emit)(void *state, json_t *into); /* keys of the record */
    void (*free)(void *state);
};

extern const struct collector_ops collector_host;   /* host[]: load, steal, PSI, CPU of others */
extern const struct collector_ops collector_rusage; /* rusage: of all processes of the trial */
extern const struct collector_ops collector_cgroup; /* cgroup: OOM kills, throttling */
extern const struct collector_ops collector_nvml;   /* gpu_telemetry */

#define COLLECTORS_MAX 8
struct collectors {
    void *states[COLLECTORS_MAX];
};
void collectors_start(struct collectors *c, const struct collector_context *context);
void collectors_tick(struct collectors *c, const struct processes *processes);
void collectors_stop(struct collectors *c);
/* Into a fresh object. */
json_t *collectors_emit(struct collectors *c);
void collectors_free(struct collectors *c);

#endif
