/* The collectors of the env event, and what they share. Each fills the object of its group. */
#ifndef WORKLOAD_ENV_PRIV_H
#define WORKLOAD_ENV_PRIV_H

#include "workload/env.h"

void env_rank(json_t *group, const struct env_context *context);
void env_host(json_t *group, const struct env_context *context);
void env_cpu(json_t *group, const struct env_context *context);
void env_gpu(json_t *group, const struct env_context *context);
void env_threads(json_t *group, const struct env_context *context);
void env_variables(json_t *group, const struct env_context *context);
void env_rlimits(json_t *group, const struct env_context *context);
void env_memory(json_t *group, const struct env_context *context);
void env_shm(json_t *group, const struct env_context *context);
void env_cgroup(json_t *group, const struct env_context *context);
void env_security(json_t *group, const struct env_context *context);
void env_namespaces(json_t *group, const struct env_context *context);
void env_mounts(json_t *group, const struct env_context *context);
void env_counters(json_t *group, const struct env_context *context);
void env_topology(json_t *group, const struct env_context *context);
/* The one group that is a list. */
json_t *env_libraries(const struct env_context *context);

/* The trimmed text of a file of /proc or /sys, or null with the reason. */
void env_put_file(json_t *group, const char *key, const char *path);
/* Append the value of "Key:\tvalue" in a text such as /proc/self/status; false if absent. */
bool env_find_field(const char *text, const char *key, struct str *out);
/* One line of /proc/self/mountinfo, unescaped; owned. */
struct env_mount {
    char *root, *point, *options, *fs_type, *super_options;
};
struct env_mounts_table {
    struct env_mount *items;
    size_t count, cap;
};
void env_mounts_read(struct env_mounts_table *out);
void env_mounts_release(struct env_mounts_table *t);
/* Is path below (or the same as) directory? */
bool env_is_below(const char *path, const char *directory);

#endif
