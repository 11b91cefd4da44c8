/* The list of adapters, for the registry; and what adapters share beyond runtimes/runtime.h. */
#ifndef RUNTIMES_ADAPTERS_PRIV_H
#define RUNTIMES_ADAPTERS_PRIV_H

#include "runtimes/runtime.h"

/* Every kind of a scenario, in the order of `ncbench doctor`: a table runtime_<name>. The one line
 * to add for a new one. */
#define RUNTIMES(X)                                                                                \
    X(bare)                                                                                        \
    X(podman)                                                                                      \
    X(docker)                                                                                      \
    X(charliecloud)                                                                                \
    X(crun)                                                                                        \
    X(apptainer)                                                                                   \
    X(enroot)                                                                                      \
    X(pyxis)                                                                                       \
    X(cscs_ce)                                                                                     \
    X(skybox)                                                                                      \
    X(command)                                                                                     \
    X(fake)

#define RUNTIME_DECLARE(name) extern const struct runtime_ops runtime_##name;
RUNTIMES(RUNTIME_DECLARE)
#undef RUNTIME_DECLARE
/* Compiled and tested so that it cannot rot, but no kind of a scenario. */
extern const struct runtime_ops runtime_skeleton;

/* BUG if a required hook is missing. */
void runtime_ops_check(const struct runtime_ops *ops);

/* For runtimes that start the program directly: what a process that ended before it said hello
 * means, by its wait status alone. */
enum outcome classify_direct(const struct runtime_evidence *evidence, struct str *reason);
/* The outcome of an exit by a signal, or OUTCOME_COUNT when it ended by itself. */
enum outcome classify_signal(int wait_status, struct str *reason);

#endif
