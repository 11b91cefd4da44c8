/* The podman adapter, in three files:
 *
 *   podman.c           what a scenario may say, and the argument vector (pure)
 *   podman_host.c      what needs the program: is it there, is the image, stop, describe
 *   podman_classify.c  what its exit codes and messages mean
 *
 * podman reads a containers.conf that the session owns (CONTAINERS_CONF replaces every other one),
 * written by prepare into <session_dir>/podman/. The user's own files are not touched. */
#ifndef RUNTIMES_PODMAN_PRIV_H
#define RUNTIMES_PODMAN_PRIV_H

#include "runtimes/adapters_priv.h"

/* "<session_dir>/podman/containers.conf"; caller frees. */
char *podman_conf_path(const char *session_dir);
/* The environment of podman itself, which is not the workload's. session_dir NULL: without our
 * containers.conf; trial_id NULL: without the marker. */
void podman_client_env(const char *session_dir, const char *trial_id, struct strv *env);
/* An init that forwards signals and reaps (catatonit, tini, dumb-init), or NULL: then the program
 * is PID 1 itself. Caller frees. */
char *podman_init_path(void);

void podman_probe(struct runtime_probe *out);
/* The part of check that judges this machine: exit 4. */
int podman_check_host(const struct runtime_spec *spec, struct error *err);
int podman_prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err);
void podman_remove_argv(const struct runtime_launch *launch, struct strv *argv);
int podman_stop(const struct runtime_launch *launch, struct error *err);
bool podman_leftover(const struct runtime_launch *launch, struct str *what);
void podman_describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj);
enum outcome podman_classify(const struct runtime_evidence *evidence, struct str *reason);

#endif
