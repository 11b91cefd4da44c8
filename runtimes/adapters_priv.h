/* The adapters' tables, for the registry; and what adapters share beyond runtimes/runtime.h. */
#ifndef RUNTIMES_ADAPTERS_PRIV_H
#define RUNTIMES_ADAPTERS_PRIV_H

#include "runtimes/runtime.h"

extern const struct runtime_ops runtime_bare;
extern const struct runtime_ops runtime_podman;
extern const struct runtime_ops runtime_docker;
extern const struct runtime_ops runtime_charliecloud;
extern const struct runtime_ops runtime_crun;
extern const struct runtime_ops runtime_enroot;
extern const struct runtime_ops runtime_apptainer;
extern const struct runtime_ops runtime_pyxis;
extern const struct runtime_ops runtime_cscs_ce;
extern const struct runtime_ops runtime_skybox;
extern const struct runtime_ops runtime_command;
extern const struct runtime_ops runtime_fake;
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
