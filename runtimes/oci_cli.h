/* What podman and docker have in common on their command line: keys, options that a trial must not
 * have, limits, devices, and the arguments for them. */
#ifndef RUNTIMES_OCI_CLI_H
#define RUNTIMES_OCI_CLI_H

#include "runtimes/runtime.h"

/* Does the container get a /dev/shm of its own? */
bool oci_private_ipc(const struct runtime_spec *spec);
/* ipc, network, shm_size, options, ulimits, bytes of mounts: exit 3. */
int oci_check_spec(const struct runtime_spec *spec, const struct mounts *mounts, struct error *err);
/* Devices that are paths must exist: exit 4. Other names are the caller's. */
int oci_check_device_nodes(const struct runtime_spec *spec, struct error *err);
/* No limit above the hard one of this process, unless it may raise it: exit 4. */
int oci_check_ulimits(const struct runtime_spec *spec, struct error *err);

/* --network, --ipc, --shm-size, --cpuset-cpus, --memory */
void oci_append_namespaces(const struct runtime_spec *spec, struct strv *argv);
/* --env, --mount, --device; GPUs by CDI */
void oci_append_view(const struct runtime_launch *launch, struct strv *argv);

/* "NAME=SOFT[:HARD]", each a number, "unlimited" or -1. Exit 3. */
struct oci_ulimit {
    char name[16];
    int64_t soft, hard; /* HOST_UNLIMITED for none */
};
int oci_ulimit_parse(const char *text, struct oci_ulimit *out, struct error *err);
void oci_append_ulimit(const struct oci_ulimit *ulimit, struct strv *argv);

#endif
