/* A root file system of the session's own, for runtimes that need mount points to be there (runc,
 * crun, charliecloud) and would otherwise make them in the user's directory.
 *
 *   a directory     copied by hard links: the same bytes, the same page cache, no space. Across
 *                   file systems it is a copy.
 *   .sqsh .sqfs .squashfs   unpacked by unsquashfs
 *   .tar .tar.gz …  unpacked by tar
 *
 * It is mounted read-only, because a hard link would carry a write to the original. */
#ifndef RUNTIMES_ROOT_VIEW_H
#define RUNTIMES_ROOT_VIEW_H

#include "runtimes/runtime.h"

/* Exit 3 unless exactly one of image (an absolute path) and rootfs (absolute, not /) is given; exit
 * 4 unless portable: it is not there, or its unpacker is not. */
int root_view_check(const struct runtime_spec *spec, bool portable, struct error *err);
/* "<session>/<kind>/<12 hex>/root"; caller frees. Pure. */
char *root_view_path(const struct runtime_spec *spec, const char *session_dir);
/* Make it, once a session; idempotent; two at once wait for each other. */
int root_view_prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err);
int root_view_remove(const struct runtime_spec *spec, const char *session_dir, struct error *err);
/* Make what the targets of the mounts need: a directory, or an empty file where the source is one.
 * Symbolic links inside lead inside. */
int root_view_mount_points(const char *root, const struct mounts *mounts, struct error *err);
/* The same for one absolute path. */
int root_view_mount_point(const char *root, const char *target, bool directory, struct error *err);
/* Source, kind of source, and its digest where it is one file. */
void root_view_describe(const struct runtime_spec *spec, json_t *obj);

#endif
