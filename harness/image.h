/* `ncbench image`: the local build as a container image, with no registry.
 *
 *   image_root_build   nanochat, the CUDA back end that lies beside it (../lib/nanochat-cuda.so),
 *                      and the closure of their shared libraries as a directory; not the driver's
 *                      libcuda, which the runtime puts in
 *   image_oci_write    that directory as an OCI archive, reproducible to the byte
 *   image_oci_layout   the same as an OCI layout directory, for skopeo, umoci, enroot's load
 *   image_squashfs     it as one file: enroot, pyxis, apptainer, charliecloud
 *   image_sif          the same for apptainer, by apptainer itself
 *   image_store_*      podman's store: load, list, remove
 *
 * The libraries keep their paths, symbolic links included, so that the dynamic loader inside takes
 * the very files that bare metal uses. Reproducible: names sorted, owner 0, all times
 * SOURCE_DATE_EPOCH (0 without it), no compression; the same build gives the same digest. */
#ifndef HARNESS_IMAGE_H
#define HARNESS_IMAGE_H

#include "common/error.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/str.h"

#include <stdbool.h>
#include <stdint.h>

#define IMAGE_DEFAULT_NAME "localhost/ncbench/nanochat:latest"
/* Labels of our images; also the marker by which `image rm` knows its own. */
#define IMAGE_LABEL_SHA256 "ncbench.nanochat.sha256"
#define IMAGE_LABEL_VERSION "ncbench.version"
/* Inside the root: what it was made of. Also marks a directory as ours to replace. */
#define IMAGE_MANIFEST "etc/ncbench-image.json"
/* Where nanochat, at RUNTIME_IMAGE_NANOCHAT, looks for its CUDA back end. */
#define IMAGE_CUDA "/usr/local/lib/nanochat-cuda.so"
#define IMAGE_NCCL_PROFILER "/usr/local/lib/nanochat-nccl-profiler.so"

/* `ncbench image import`: an OCI archive or a registry's image into a runtime, timed apart from
 * trials.
 *
 * A file has its origin beside it (FILE.source: the runtime, the source, an archive's hash). One
 * that is there is taken for this import if that is the same, and else refused.
 *
 * cold: what the runtime has of it is removed first, and layers of a registry go to an empty cache
 * (layers that other images share stay in a store). Of an archive only its caller knows the name in
 * the store: if none of that name was there, the import is not known to be cold. Two jobs that
 * import the same thing wait for each other; a file is made aside and renamed, so that there is a
 * whole one or none: an earlier one stays where the import fails. */
struct image_import_request {
    const char *kind;   /* of a runtime */
    const char *source; /* path of an OCI archive, or a reference */
    const char *output; /* for a kind that makes a file; NULL else */
    const char *name;   /* in the store, of an archive's image: for cold alone; NULL: not given */
    bool cold;
};
struct image_imported {
    char *source, *target; /* absolute; owned; target NULL: the store */
    bool archive, present; /* present: the file was there, nothing was imported */
    bool removed;          /* cold, a store: an image of that name was there */
    double lock_wait_s, import_s;
    int64_t bytes; /* of the file; -1: a store */
};
/* 2: an option that this kind does not take, or needs; 3: it cannot; 4: it failed, or another file
 * is there; 8: no lock. */
int image_import(const struct image_import_request *request, struct image_imported *out,
                 struct error *err);
void image_imported_release(struct image_imported *imported);

struct image_root {
    char *dir;                    /* owned */
    char sha256[SHA256_HEX];      /* of nanochat */
    char cuda_sha256[SHA256_HEX]; /* of the CUDA back end; empty without one */
    size_t libraries;             /* the dynamic loader counts */
    int64_t bytes;                /* nanochat, the CUDA back end and libraries */
};
void image_root_release(struct image_root *root);

/* Shared libraries of an ELF program, the dynamic loader included, as absolute paths in the
 * loader's own words (LD_LIBRARY_PATH is not consulted). Empty for a static program. 4: not an ELF
 * program of this machine, or a library is missing. */
int image_closure(const char *program, struct strv *libraries, struct error *err);
/* Make dir (which must not exist) a root file system; cuda: with the CUDA back end beside nanochat
 * and its libraries, if there is one. 8: cannot be written. */
int image_root_build(const char *nanochat, bool cuda, const char *dir, struct image_root *out,
                     struct error *err);
/* As image_root_build, aside, then in place of `dir`, which must be absent, empty, or an earlier
 * build (4: it is not). */
int image_root_replace(const char *nanochat, bool cuda, const char *dir, struct image_root *out,
                       struct error *err);

/* Write the OCI archive `path` of a root; name becomes its reference. digest: "sha256:…" of the
 * manifest, owned by the caller. work: a directory for intermediate files. The architecture is that
 * of nanochat's ELF header; 4: one that has no name here. */
int image_oci_write(const struct image_root *root, const char *name, const char *work,
                    const char *path, char **digest, struct error *err);
/* The same image as a layout directory, which must be absent or an earlier layout (4: it is not).
 */
int image_oci_layout(const struct image_root *root, const char *name, const char *dir,
                     char **digest, struct error *err);
/* Put the host's /bin/sh and its libraries into a root: enroot and pyxis start every program by a
 * shell. */
int image_root_add_shell(struct image_root *root, struct error *err);
/* Write a root as a squashfs, reproducible to the byte; made aside, then in place of path, under a
 * lock (path.lock) that two jobs take in turn. sha256: of the file. 4: mksquashfs is missing or
 * failed. */
int image_squashfs(const struct image_root *root, const char *path, char sha256[static SHA256_HEX],
                   struct error *err);
/* Write a root as a SIF, as image_squashfs does, by `apptainer build`, else by singularity's. The
 * two labels go into it, and the root is left as it was. What the builder leaves behind goes into
 * `work`, which must exist. From apptainer 1.5 on, and only then, the same root gives the same
 * bytes: the builders before that put the hour and a random number in. 4: there is no builder, or
 * it failed. */
struct image_sif {
    char sha256[SHA256_HEX]; /* of the file */
    char builder[64];        /* "apptainer 1.4.5" */
};
int image_sif(const struct image_root *root, const char *work, const char *path,
              struct image_sif *out, struct error *err);
/* Seconds since 1970 that all files get: SOURCE_DATE_EPOCH, else 0. 2: it is not a number. */
int image_epoch(int64_t *out, struct error *err);

/* podman load; an older image of that name that nothing else uses goes. 4: podman is missing or
 * failed, or its store gave the image another digest. */
int image_store_load(const char *archive, const char *name, const char *digest, struct error *err);
/* Our images: [{"name", "id", "digest", "size_bytes", "created", "nanochat_sha256"}, …]. */
int image_store_list(json_t **out, struct error *err);
/* Only images that carry our label. */
int image_store_remove(const char *name, struct error *err);

#endif
