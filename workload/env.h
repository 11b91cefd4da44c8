/* The `env` event: what a rank sees from inside that can change its speed.
 *
 * `ncbench compare` holds the events of the arms against each other before any number, so every
 * item is here that a container runtime may change without being asked. An item that cannot be had
 * is null with a reason ("<key>_why"); "unlimited" is such a reason. Everything under /proc, /sys
 * and the cgroup tree is read below $NCBENCH_FSROOT.
 *
 * Each group is an object of the event, filled by one collector of the table in env.c; a new item
 * is a line in its group's file, a new group one file and one line in the table. Groups:
 *
 *   rank         rank, world, comm_id, comm_backend
 *   host         hostname, kernel_release, clocksource, governor (of the usable PUs)
 *   cpu          usable_pus "0-3", n_usable_pus, cpubind "0-3", membind "0", membind_policy,
 *                bind_policy, bind_requested "0-3", bind_held (read back and the same), bind_note
 *   gpu          name, uuid, pci (bus id), driver, gemm; the CPU as device has none of them
 *   threads      omp_max_threads, omp_proc_bind, omp_places, blas_name, blas_config, blas_threads
 *   environment  the variables whose names are on the allow-list; secrets read "redacted"
 *   rlimits      memlock_bytes, memlock_hard_bytes, nofile, nofile_hard, stack_bytes, … nproc, …
 *   memory       total_bytes, available_bytes, thp, thp_disabled (PR_GET_THP_DISABLE)
 *   shm          size_bytes, free_bytes (of /dev/shm)
 *   cgroup       version (v1 v2 hybrid), path, cpu_max_pus (effective: the tightest of the path),
 *                memory_max_bytes, cpuset_cpus, cpuset_mems
 *   security     cap_effective, cap_bounding, seccomp, no_new_privs, lsm, uid
 *   namespaces   cgroup ipc mnt net pid time user uts (inode numbers), timens_offset_s
 *   mounts       {what: path, mount_point, fs_type, options, root} for executable, trial_dir,
 *                tmp and what events_path told
 *   topology     xml (name of hwloc's XML in the trial's directory), export_s
 *   counters     sources {name: rung}, unavailable {name: why} (common/counters.h)
 *   libraries    [{path, name (asked for by it), build_id, sha256}], sorted by path */
#ifndef WORKLOAD_ENV_H
#define WORKLOAD_ENV_H

#include "common/counters.h"
#include "common/json.h"
#include "workload/comm.h"

struct env_context {
    const struct comm *comm;         /* NULL: not open */
    struct device *device;           /* NULL: not open */
    int local_rank;                  /* only 0 reads the libraries' files for their checksums */
    const json_t *paths;             /* object: what -> path; NULL: none */
    const struct counters *counters; /* NULL: none asked for */
};

/* The fields of the event; the caller owns the object. Never fails. */
json_t *env_collect(const struct env_context *context);

#endif
