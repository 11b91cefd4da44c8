/* The one table of scenario keys.
 *
 * Each key of a scenario is a line: where it stands, its type, unit, default, bounds and help. The
 * table drives reading (harness/scenario_bind.c, scenario_resolve.c), `ncbench check`, the command
 * line of nanochat (`option`), and docs/configuration.md (schema_reference).
 *
 * Paths: "runtimes[].mounts[].source"; "[]" is any item of a list, "*" any key of a mapping. */
#ifndef HARNESS_SCHEMA_H
#define HARNESS_SCHEMA_H

#include "common/str.h"

#include <stdbool.h>
#include <stddef.h>

enum schema_type {
    SCHEMA_MAP,
    SCHEMA_LIST,
    SCHEMA_STRING, /* the bytes as written */
    SCHEMA_PATH,   /* a string, made absolute against the working directory */
    SCHEMA_NAME,   /* letters, digits, "_", "-", ".": safe as part of a file name */
    SCHEMA_BOOL,   /* true | false */
    SCHEMA_INT,    /* plain decimal */
    SCHEMA_NUMBER,
    SCHEMA_DURATION, /* seconds inside; "90s" */
    SCHEMA_SIZE,     /* bytes inside; "64MiB" */
    SCHEMA_PERCENT,  /* ratio inside; "1%" */
    SCHEMA_AMOUNT,   /* a duration, size or plain number, by the metric */
    SCHEMA_CHOICE,   /* one of choices */
    SCHEMA_SCALAR,   /* a variable: typed by its looks */
    SCHEMA_ANY,      /* any tree, typed by its looks */
};

enum schema_flag {
    SCHEMA_REQUIRED = 1 << 0,
    SCHEMA_PER_CELL = 1 << 1,  /* may depend on the matrix; inherited by what is below */
    SCHEMA_OPTIONAL = 1 << 2,  /* a mapping that stays absent when it is not given */
    SCHEMA_LITERAL = 1 << 3,   /* no ${…} inside */
    SCHEMA_NON_EMPTY = 1 << 4, /* a list or text that must not be empty */
    SCHEMA_FLAG = 1 << 5,      /* option without a value when true */
    SCHEMA_POSITIVE = 1 << 6,  /* > 0 */
    SCHEMA_SHARE = 1 << 7,     /* a percentage of a whole */
};

struct schema_key {
    const char *path;
    enum schema_type type;
    unsigned flags;
    const char *def; /* as YAML; NULL: none */
    double min, max; /* numbers, inclusive; both 0: no bounds */
    const char *const *choices;
    const char *shorthand; /* MAP: a scalar in its place means this key of it */
    const char *option;    /* nanochat's, "--depth" */
    const char *since;     /* NULL: 0.1 */
    const char *help;
};

/* The table; ends with an entry without a path. Parents come before their children. */
extern const struct schema_key schema_keys[];

/* The root: a MAP with the path "". */
extern const struct schema_key schema_root;

/* The key of a mapping, or of the items of a list (name "[]"); NULL if there is none. The name need
 * not end with NUL. */
const struct schema_key *schema_child(const struct schema_key *parent, const char *name,
                                      size_t len);
/* Is `key` directly below `parent`? */
bool schema_is_child(const struct schema_key *parent, const struct schema_key *key);
/* Last part of the path: "source", "*", "[]". */
const char *schema_name(const struct schema_key *key);
/* Name in JSON, with the unit: "trial" -> "trial_s"; into out. Returns out. */
const char *schema_json_name(const struct schema_key *key, const char *name, struct str *out);
/* Names of the keys below, for suggestions; at most max. Returns how many. */
size_t schema_child_names(const struct schema_key *parent, const char **names, size_t max);
/* "a duration with its unit, such as 90s or 1m30s". */
void schema_append_expected(const struct schema_key *key, struct str *out);
/* docs/configuration.md. */
void schema_reference(struct str *out);

#endif
