/* Ranks of a communicator for unit tests: forked, with what became of each of them in memory that
 * they share with the test. */
#ifndef TESTS_UNIT_COMM_RANKS_H
#define TESTS_UNIT_COMM_RANKS_H

#include "workload/comm.h"

#include <sys/types.h>

#define RANKS_MAX 4

struct rank_outcome {
    int code; /* exit code, or -signal */
    double seconds;
    char message[512];
};
typedef int rank_function(struct comm *c, struct error *err);

/* [RANKS_MAX], written by the ranks; valid once ranks_prepare was called. */
extern struct rank_outcome *ranks;
/* Of ranks_config; "shm" unless a test says otherwise. */
extern const char *ranks_backend;

/* Run a test with its ranks over tcp. */
void ranks_over_tcp(void (*test)(void));
/* Forget the last ranks and take another port for the next ones. */
void ranks_prepare(void);
/* Of one of `world` ranks on one node, at the current port, with a deadline of 20 s. */
struct comm_config ranks_config(int rank, int world);
/* Open a communicator, call the function, close it; the process ends with the error's code. */
void ranks_main(const struct comm_config *config, rank_function *run) __attribute__((noreturn));
/* The same in a process of its own. */
pid_t ranks_start(const struct comm_config *config, rank_function *run);
void ranks_reap(pid_t pid, struct rank_outcome *out);
/* Prepare, start, reap: all ranks but the `absent` one (-1: none). */
void ranks_run_timeout(int world, rank_function *run, double timeout_s, int absent);
void ranks_run(int world, rank_function *run);

/* Assertions on the outcomes. */
void ranks_expect_message(int rank, const char *part);
void ranks_expect_all_fine(int world);

/* Numbers that differ by rank and index, a buffer of a rank's (owned by the caller), their sum in
 * rank order, and the error of an element that is wrong. */
float ranks_value(int rank, int64_t i);
float *ranks_values(const struct comm *c, int64_t n);
float ranks_sum(int world, int64_t i);
int ranks_wrong(struct error *err, const char *op, int64_t at, double got, double expected);
/* A rank_function: all_reduce of many sizes, bitwise the sum in rank order. */
int ranks_all_reduce(struct comm *c, struct error *err);
/* A rank_function: leaves at once. */
int ranks_nothing(struct comm *c, struct error *err);

#endif
