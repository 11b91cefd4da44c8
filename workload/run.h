/* What every verb that computes stands on: event file, device, communicator, signals.
 *
 *     struct run run;
 *     if (!run_begin(&run, argc, argv, &err) && !parse options && !run_connect(&run, &config,
 * &err)) work; return run_end(&run, &err);
 *
 * run_begin writes hello before anything can go wrong with the options: what fails before hello is
 * the runtime's fault, what fails after it ours. */
#ifndef WORKLOAD_RUN_H
#define WORKLOAD_RUN_H

#include "common/counters.h"
#include "kernels/kernels.h"
#include "workload/comm.h"
#include "workload/events.h"

struct run {
    struct comm_config comm_config; /* rank and world, from the environment */
    struct events *events;
    struct device *device; /* NULL before run_connect */
    struct comm *comm;
    struct counters *counters;                 /* of $NANOCHAT_COUNTERS; NULL: none */
    const struct nccl_profiler *nccl_profiler; /* of nccl_profile; NULL: none */
    int threads;                               /* of this rank */
    bool quiet;                                /* run_print says nothing (ranks other than 0) */
    bool tearing_down;
};

struct run_config {
    const char *device_type; /* "": the CPU */
    bool deterministic;
    bool own_attention;
    enum plan_mode plans; /* how a device chooses algorithms of products */
    const char *dtype;    /* of activations; NULL or "auto": the device's own */
    int threads;          /* of this rank; 0: OMP_NUM_THREADS, else this rank's share of the CPUs */
    double comm_timeout_s; /* 0: default */
    const char *comm;      /* back end of comm; NULL: auto */
    bool nccl_profile;     /* NCCL is profiled, which slows it: an event at the end */
};

/* argc, argv: as a verb gets them. */
int run_begin(struct run *run, int argc, char **argv, struct error *err);
/* Phases device_init and comm_init, then the env event. */
int run_connect(struct run *run, const struct run_config *config, struct error *err);
/* The measured peak of one rank in FLOP/s: all ranks measure at the same time, for `seconds`, and
 * the mean is taken. -1 where it cannot be measured. Collective. */
int run_measure_peak(struct run *run, double seconds, double *peak, struct error *err);
/* To standard output, rank 0 only, flushed; a closed or full one is NANOCHAT_EXIT_WRITE. */
int run_print(struct run *run, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Phase teardown begins: the work is done. run_end does it if nobody else did. */
void run_teardown(struct run *run);
/* Closes everything, writes `done`, prints the error. Returns the exit code. */
int run_end(struct run *run, struct error *err);

#endif
