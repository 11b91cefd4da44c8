/* Container runtimes behind one table of functions.
 *
 * A runtime turns a launch (what to run, where, with which environment and mounts) into an argument
 * vector and an environment, judges how a launch that never said hello failed, and removes what a
 * trial may have left. It never starts the workload itself: the harness does, the same way for all.
 *
 *   life cycle of a session: probe → check (every spec) → prepare → [ argv → (harness runs) →
 * classify → stop ]* → describe → cleanup
 *
 * Required: name, summary, keys, check, argv, classify. The others may be NULL;
 * runtime_registry_check() verifies the table once at start. runtimes/skeleton.c documents every
 * hook for whoever writes the next one; docs/adding-a-runtime.md walks through it.
 *
 * Adapters default to the host's allocation (its limits, its /dev/shm through the host's IPC
 * namespace, its CPUs, its network), so that what differs in a record is the site's or the
 * scenario's doing. */
#ifndef RUNTIMES_RUNTIME_H
#define RUNTIMES_RUNTIME_H

#include "common/error.h"
#include "common/json.h"
#include "common/protocol.h"
#include "common/str.h"

#include <stdbool.h>
#include <stdint.h>

struct mount {
    char *source; /* absolute */
    char *target; /* absolute */
    bool read_only;
    bool optional; /* dropped with a warning when the source is absent */
};

struct mounts {
    struct mount *items;
    size_t count, cap;
};

/* runtimes[] of the scenario, after ${…}; filled by the loader, read-only afterwards. Which keys a
 * kind accepts is in its ops (keys). Strings are owned; NULL or empty: not given. */
struct runtime_spec {
    char *name; /* of the arm */
    char *kind;
    char *image;    /* reference in the runtime's store, or a path */
    char *rootfs;   /* a directory, in place of image; podman: "/" is the host's own */
    char *nanochat; /* where our program lies inside; see runtime_nanochat_path */
    struct mounts mounts;
    struct strv env;         /* "NAME=value", wins over workload.env */
    struct strv differs;     /* items of the comparison that are meant to differ */
    struct strv devices;     /* "/dev/x", CDI names */
    struct strv ulimits;     /* "memlock=unlimited", "nofile=4096:4096" */
    struct strv options;     /* extra arguments for the runtime, before the image */
    struct strv annotations; /* "name=value", of an EDF */
    char *gpus;              /* "all"; NULL or "none": none are asked for (runtimes/gpu.h) */
    char *ipc;               /* "host" (default) | "private" */
    char *network;           /* "host" (default) | "none" */
    char *userns;            /* "keep-id" …; NULL: the runtime's default */
    char *cpuset;            /* "0-3"; NULL: the host's */
    int64_t shm_size_bytes;  /* 0: the host's */
    int64_t memory_bytes;    /* 0: no limit */
    struct strv prefix; /* command: argv template; "{argv}" is replaced by the workload's argv */
    json_t *script;     /* fake: scripted response */
};
void runtime_spec_release(struct runtime_spec *spec);

/* One launch on one node, made by the harness. Borrowed by every hook. */
struct runtime_launch {
    const struct runtime_spec *spec;
    const char *trial_id;  /* unique; names containers */
    const char *trial_dir; /* absolute; mounted at the same path */
    const char *session_dir;
    const struct strv *argv;     /* of the workload: nanochat launch … or a foreign command */
    const struct strv *env;      /* complete environment the workload must see, "NAME=value" */
    const struct mounts *mounts; /* all mounts: the harness's own and the spec's */
    const char *cwd;
};

struct runtime_evidence {
    int wait_status;         /* of the launched process */
    bool hello;              /* did a rank say hello? */
    const char *stderr_tail; /* of the runtime's own standard error; valid UTF-8 */
};

/* An image on its way into a runtime: `ncbench image import`. Never part of a trial. */
struct runtime_import {
    const char *source;    /* absolute path of an OCI archive, else a registry's reference */
    const char *target;    /* absolute path of the file to make; NULL: into the runtime's store */
    const char *cache_dir; /* where a registry's layers are kept; NULL: where the runtime does */
};

/* What the machine offers to this runtime. Absence is a result, not an error. */
struct runtime_probe {
    bool available;
    char *why;        /* if not available: reason and fix, owned */
    json_t *versions; /* {"podman": "4.3.1", …}, owned */
};
void runtime_probe_release(struct runtime_probe *probe);

struct runtime_ops {
    const char *name;        /* the kind as written in scenarios */
    const char *summary;     /* one line for help and docs */
    unsigned flags;          /* RUNTIME_* */
    const char *const *keys; /* spec keys it accepts beyond name kind env differs; ends with NULL */

    void (*probe)(struct runtime_probe *out);
    /* Can this spec be expressed at all (exit 3), and can this machine do it (exit 4)?
     * portable: judge the spec alone. */
    int (*check)(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err);
    /* Import, create, write configuration into session_dir; idempotent. */
    int (*prepare)(const struct runtime_spec *spec, const char *session_dir, struct error *err);
    int (*cleanup)(const struct runtime_spec *spec, const char *session_dir, struct error *err);
    /* Pure: what prepare and cleanup do here, as a command for every node of an allocation, each
     * once a session and in place of them; for runtimes that keep something on the node (their own
     * store), where prepare reaches this one only. Idempotent; what cleanup removes may be absent.
     * RUNTIME_SRUN: srun's options come first. argv left empty: nothing is to do. */
    void (*node_prepare)(const struct runtime_spec *spec, const char *session_dir,
                         struct strv *argv);
    void (*node_cleanup)(const struct runtime_spec *spec, const char *session_dir,
                         struct strv *argv);
    /* Pure: the command that imports an image, and its environment. 3: not from this source. NULL:
     * a kind that imports nothing itself. Whether it makes a file is RUNTIME_IMPORT_FILE. */
    int (*import)(const struct runtime_import *import, struct strv *argv, struct strv *env,
                  struct error *err);
    /* Pure: the command that takes an image out of the store again, unless a container uses it;
     * where import makes no file. */
    void (*forget)(const char *name, struct strv *argv, struct strv *env);
    /* Per trial, timed as the phase "create"; for runtimes that create before they start. */
    int (*create)(const struct runtime_launch *launch, struct error *err);
    /* Pure: launch in, argv and environment of the process to start out. Nothing is started or
     * written; a runtime's client may need this process's HOME and PATH and the host's limits,
     * which are read through fs_sys_read, so that golden tests hold on any machine. */
    int (*argv)(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                struct error *err);
    /* Only called when no hello was seen and the harness itself has no explanation. reason: why in
     * words, appended. */
    enum outcome (*classify)(const struct runtime_evidence *evidence, struct str *reason);
    /* Remove whatever this trial left (containers); absent is success. Timed as "cleanup". */
    int (*stop)(const struct runtime_launch *launch, struct error *err);
    /* Pure: a command that removes what this trial may have left on the node where it is run;
     * absent is success. For trials on several nodes, where stop sees this one only. argv left
     * empty: nothing is to do. */
    void (*remove_argv)(const struct runtime_launch *launch, struct strv *argv);
    /* Is anything of this trial still there? Names it in what. */
    bool (*leftover)(const struct runtime_launch *launch, struct str *what);
    /* Versions, image digest, storage … into obj, for the session and the record. */
    void (*describe)(const struct runtime_spec *spec, const char *session_dir, json_t *obj);
};

#define RUNTIME_NEEDS_IMAGE 1u /* image or rootfs must be given */
#define RUNTIME_CONTAINER 2u   /* a mount source must be named to be seen inside */
#define RUNTIME_FAKE 4u        /* nothing is started */
/* The runtime is a plugin of srun (pyxis and its relatives) and works in a Slurm step only. Its
 * argv() gives the options to add to srun's command line, and nothing else: no program, no "--",
 * not the workload. Its env is what srun must hand to the tasks: launch->env, whole. The launcher
 * composes `srun <its own options> <argv> <workload>` and the environment of srun itself. */
#define RUNTIME_SRUN 8u
/* Variables travel as lines of a file somewhere on the way, so that no value may hold a newline:
 * exit 3. */
#define RUNTIME_ENV_LINES 16u
/* Variables that are set to the empty string would be unset: exit 3. */
#define RUNTIME_ENV_NOT_EMPTY 32u
/* An entry of launch->env without "=" passes that variable on from the environment of the client:
 * srun's tasks learn only there which node they are on. */
#define RUNTIME_ENV_NAMES 64u
/* The program gets the variables that are written down before the client starts and no others (a
 * file of the trial, a prefix of their names): SLURM_NODEID does not reach it, so no trial on
 * several nodes, exit 3. */
#define RUNTIME_ENV_FIXED 128u
/* The workload's processes are children of a daemon: what the kernel sums up of our own children
 * (CPU time, memory) is the client's. */
#define RUNTIME_DAEMON 256u
/* The quickstart asks for it: `ncbench doctor` warns where it is absent. */
#define RUNTIME_QUICKSTART 512u
/* Importing makes a file, not an entry of a store. */
#define RUNTIME_IMPORT_FILE 1024u

extern const struct runtime_ops *const runtime_registry[]; /* ends with NULL */
const struct runtime_ops *runtime_find(const char *kind);  /* NULL if there is none */
/* BUG if a required hook is missing. */
void runtime_registry_check(void);

/* The path by which a workload of ours is started inside: spec->nanochat where given, else
 * RUNTIME_IMAGE_NANOCHAT for images and root directories (where `ncbench image build` puts it),
 * else host_path (bare, a prefix command, rootfs "/"). Borrowed from its arguments. */
#define RUNTIME_IMAGE_NANOCHAT "/usr/local/bin/nanochat"
const char *runtime_nanochat_path(const struct runtime_spec *spec, const char *host_path);

/* Can this kind hand these variables ("NAME=value") to the program as they are? Exit 3 if not, with
 * the name of the variable. */
int runtime_env_check(const struct runtime_ops *ops, const struct strv *env, struct error *err);
/* What srun's own messages mean when no rank said hello, whatever ran in the step: execve() errno,
 * "Unable to allocate resources", an option that this srun lacks. OUTCOME_COUNT: nothing that srun
 * said; then the runtime's classify decides. reason: appended unless OUTCOME_COUNT. */
enum outcome runtime_classify_srun(const struct runtime_evidence *evidence, struct str *reason);

/* ---- what adapters share ------------------------------------------------------------------ */
/* "SRC:DST[:ro]" or "SRC"; `\:` is a colon that belongs to a path. */
int mount_parse(const char *text, struct mount *out, struct error *err);
void mounts_add(struct mounts *m, const char *source, const char *target, bool read_only);
void mounts_release(struct mounts *m);
/* What every adapter's check asks of mounts. 3: a path is relative, or source and target differ
 * though nothing is mounted (in_place); 4 unless portable: a source that is not optional is absent,
 * or it is a file and the target a directory (it ends in '/'). kind is for the message. */
int mounts_check(const struct mounts *m, const char *kind, bool in_place, bool portable,
                 struct error *err);
/* No path may hold one of the characters. 3. */
int mounts_check_bytes(const struct mounts *m, const char *kind, const char *characters,
                       struct error *err);
/* No path may hold what encoding/csv of Go changes (mount_append_csv): CR LF becomes LF. 3. */
int mounts_check_csv(const struct mounts *m, const char *kind, struct error *err);
/* Drop optional mounts whose source is absent; one warning each. */
void mounts_drop_absent(struct mounts *m, struct strv *warnings);
/* CSV quoting for podman's and docker's --mount. */
void mount_append_csv(struct str *out, const struct mount *m);

#endif
