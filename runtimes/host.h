/* Facts about this machine that decide what a container runtime can do here. Everything is read
 * through fs_sys_read, so that a fixture root (NCBENCH_FSROOT) can stand for any machine. */
#ifndef RUNTIMES_HOST_H
#define RUNTIMES_HOST_H

#include "common/str.h"

#include <stdbool.h>
#include <stdint.h>

#define HOST_UNLIMITED INT64_MAX

/* The soft and hard limit in the row of /proc/self/limits that starts with `label` ("Max open
 * files"). False if the row is not there. */
bool host_limit(const char *label, int64_t *soft, int64_t *hard);
/* As above by the name that podman and setrlimit(2) use: "nofile", "memlock"; false if unknown. */
bool host_ulimit(const char *name, int64_t *soft, int64_t *hard);
/* Is that a name of a limit at all? */
bool host_ulimit_known(const char *name);

/* Is capability number `cap` effective (/proc/self/status)? */
bool host_has_cap(int cap);
#define HOST_CAP_SYS_RESOURCE 24
/* Effective user id, from /proc/self/status. */
int64_t host_uid(void);
int64_t host_gid(void);

/* Does the program at this path need libraries (an ELF program with an interpreter)? It could not
 * be started inside a container that lacks them. */
bool host_program_is_dynamic(const char *path);

enum host_cgroups {
    HOST_CGROUP_NONE,
    HOST_CGROUP_V1,
    HOST_CGROUP_HYBRID, /* v1 controllers, and a cgroup2 beside them */
    HOST_CGROUP_V2,
};
/* From /proc/self/mounts. */
enum host_cgroups host_cgroups(void);
const char *host_cgroups_name(enum host_cgroups version);
/* In hybrid mode: does the cgroup2 tree own controllers? crun refuses such a machine; runc does
 * not. */
bool host_hybrid_owns_controllers(void);
/* Controllers that containers of this user can limit: v1 mounts as root; cgroup.controllers of the
 * root, or of the user's own slice when not root. Space-separated, appended; false if none can be
 * told. */
bool host_controllers(struct str *out);
/* Is `word` one of the space-separated words? */
bool host_words_contain(const char *words, const char *word);

#endif
