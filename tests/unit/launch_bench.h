/* A launch that no runtime runs: what the suites of adapters ask for argument vectors, with fixture
 * machines (tests/fixtures/fsroot) in this one's place. */
#ifndef TESTS_UNIT_LAUNCH_BENCH_H
#define TESTS_UNIT_LAUNCH_BENCH_H

#include "runtimes/runtime.h"

/* tests/fixtures/fsroot/NAME is the machine; NULL: this one again. */
void use_machine(const char *name);

struct bench {
    struct runtime_spec spec;
    struct mounts mounts;
    struct strv argv, env;
    struct runtime_launch launch;
};

/* Arm "arm" of that kind runs `nanochat info`, without mounts or variables. Released by the caller,
 * which also ends use_machine. */
void bench_init(struct bench *b, const char *kind, const char *trial_dir);
void bench_release(struct bench *b);

/* argv, an element a line (free); the started process's environment into env where given. */
char *bench_argv(struct bench *b, struct strv *env);
/* check must fail with that code and a message that holds the fragment. */
void bench_refuses(struct bench *b, bool portable, int code, const char *fragment);

#endif
