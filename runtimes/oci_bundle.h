/* config.json of an OCI bundle (runtime-spec 1.0), for runc and crun without a manager. */
#ifndef RUNTIMES_OCI_BUNDLE_H
#define RUNTIMES_OCI_BUNDLE_H

#include "runtimes/runtime.h"

/* The launch as a bundle whose root file system is `root`. Everything that the spec does not set is
 * the host's: network, UTS, limits, /dev/shm (unless ipc: private), CPUs; what is new are the mount
 * and PID namespaces, a read-only root with tmpfs on /tmp and /run, and, not as root, a user
 * namespace that maps this user to 0. Reads the device nodes. 4: a device is none. */
int oci_bundle_config(const struct runtime_launch *launch, const char *root, json_t **out,
                      struct error *err);

/* In that JSON: no limit. */
#define OCI_BUNDLE_UNLIMITED "ncbench:unlimited"
/* It as the file config.json. 8: cannot be written. */
int oci_bundle_write(const struct runtime_launch *launch, const char *root, const char *path,
                     struct error *err);

#endif
