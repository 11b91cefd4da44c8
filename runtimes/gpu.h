/* `gpus: all` of a runtime: how NVIDIA's GPUs get into a container, and what a machine lacks for
 * it.
 *
 *   podman, docker, skybox   CDI: the device nvidia.com/gpu=all
 *   crun                     the device nodes, and the driver's libraries as mounts
 *   charliecloud             the driver's libraries as mounts (ch-run has the host's /dev)
 *   apptainer                --nv
 *   enroot, pyxis, cscs-ce   NVIDIA_VISIBLE_DEVICES, on which enroot's hook 98-nvidia.sh acts
 *
 * The machine is read through fs_sys_*, so that a fixture root can stand for any. */
#ifndef RUNTIMES_GPU_H
#define RUNTIMES_GPU_H

#include "runtimes/runtime.h"

#define GPU_CDI_KIND "nvidia.com/gpu"
#define GPU_CDI_ALL GPU_CDI_KIND "=all"

bool gpu_asked(const struct runtime_spec *spec);

/* What a kind needs of this machine, beyond the driver's device nodes, which all do. */
#define GPU_NEEDS_CDI 1u
#define GPU_NEEDS_LIBRARIES 2u
#define GPU_NEEDS_HOOK 4u
/* 0 where no GPUs are asked for. 4: names everything that is missing. */
int gpu_check_host(const struct runtime_spec *spec, unsigned needs, struct error *err);
/* Does a CDI specification in /etc/cdi or /var/run/cdi name this kind ("nvidia.com/gpu")? */
bool gpu_cdi_has(const char *kind);

/* The nodes of all GPUs and of the driver, sorted; nothing where no GPUs are asked for. */
void gpu_device_nodes(const struct runtime_spec *spec, struct strv *out);
/* The driver's libraries for computing, read-only at the host's paths, where a loader finds them
 * without being told; nothing where no GPUs are asked for. */
void gpu_library_mounts(const struct runtime_spec *spec, struct mounts *out);
/* "NAME=value" for enroot's hook, without those that the launch sets itself; nothing where no GPUs
 * are asked for. */
void gpu_hook_env(const struct runtime_launch *launch, struct strv *out);

#endif
