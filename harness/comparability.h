/* Evidence before speed: did two arms run the same thing under the same conditions?
 *
 * Every rank records from inside what can change speed (its `env` event; the record keeps it). Two
 * arms are compared item by item, trial against trial in every block that counts. The table of
 * items is in comparability_items.c: path in the environment, class, and a name for people.
 *
 *   identity    what was run: must match and cannot be excused
 *   allocation  what it was given: must match, unless the arm's `differs` names the item
 *   treatment   what a runtime *is* (namespaces, seccomp, …): told. Between arms of one kind it
 * must match as an allocation does, but for what changes with every container (namespaces, cgroup
 * path, hostname, security label) */
#ifndef HARNESS_COMPARABILITY_H
#define HARNESS_COMPARABILITY_H

#include "harness/blocks.h"
#include "harness/study.h"

#include <stdbool.h>
#include <stddef.h>

enum item_class { ITEM_IDENTITY, ITEM_ALLOCATION, ITEM_TREATMENT, ITEM_CLASS_COUNT };
const char *item_class_name(enum item_class c);

enum item_rule {
    RULE_EQUAL,        /* the JSON values are equal; null: the reason beside it is the value */
    RULE_ARGV,         /* a list of arguments, the program's own path left out */
    RULE_SIZE,         /* the same, shown as bytes */
    RULE_MEMORY_LIMIT, /* the same; one that is not below the machine's memory is none */
    RULE_VARIABLES,    /* an object of environment variables: each is an item of its own */
    RULE_LIBRARIES,    /* a list of {path, name, build_id}: by name and build id */
    RULE_MOUNTS,     /* an object of mounts: the file system type of each but executable and tmp */
    RULE_NAMESPACES, /* an object of inode numbers: the same as the baseline's, or its own */
    RULE_NAMED,      /* an object: each key is an item of its own */
    RULE_DEVICES,    /* the same; a device that is absent on one side is a difference */
    RULE_GPU_LIMITS, /* a list of GPUs: the limits of each that a rank uses are items of their own
                      */
    RULE_NCCL_CALLS, /* a list of calls: how NCCL did each kind (operation and size) is an item */
};

enum item_source {
    FROM_ENV,    /* a rank's env object: compared rank by rank */
    FROM_RECORD, /* the trial's record */
};

struct comparability_item {
    const char *path; /* dotted */
    enum item_source source;
    enum item_class class;
    enum item_rule rule;
    const char *name;   /* for people: "/dev/shm size" */
    const char *advice; /* what an administrator looks at; NULL: nothing to add */
};
extern const struct comparability_item comparability_items[]; /* ends with {NULL} */

/* The environment object of a rank in a record, or NULL. */
const json_t *record_rank_env(const json_t *record, size_t rank);
size_t record_rank_envs(const json_t *record); /* how many ranks have one */

struct finding {
    enum item_class class;
    char *item;      /* "OMP_NUM_THREADS", "/dev/shm size" */
    char *key;       /* the word for `differs`: a variable's name, else the path's last part */
    char *reference; /* value in the baseline, as text; "not set", "not recorded" */
    char *arm;
    size_t blocks;      /* blocks in which it differs, of `compared` */
    bool strict;        /* must match: all but what a runtime of another kind changes */
    bool excused;       /* listed in runtimes[].differs */
    bool unknown;       /* one side did not record it: told, and not decisive for an allocation */
    const char *advice; /* or NULL */
    size_t last_block;  /* private: the running number of the block it was last seen in */
};

struct comparability {
    struct finding *items; /* worst first */
    size_t count, cap;
    size_t compared; /* blocks with evidence of both arms; 0: nothing could be checked */
    size_t blocks;   /* blocks that count */
    bool comparable; /* true also without evidence: see `compared` */
    char *reason;    /* if not comparable: the worst finding, as words */
};

/* Must this finding match, and does it not? */
bool finding_decisive(const struct finding *f);

void comparability_make(const struct study *s, const struct blocks *b, size_t reference, size_t arm,
                        struct comparability *out);
void comparability_release(struct comparability *c);
/* "OMP_NUM_THREADS differs: 1 in podman, 16 in bare"; appends. */
void finding_put(struct str *out, const struct finding *f, const char *reference, const char *arm);

#endif
