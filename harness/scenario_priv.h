/* Inside the scenario loader.
 *
 *   text ─yaml_tree─▶ nodes ─bind─▶ bound tree ─resolve, once a cell─▶ JSON ─fill─▶ struct scenario
 *
 * bind   pairs each node with its key of the schema; unknown keys and wrong shapes end here. -D
 *        texts replace parts of the bound tree.
 * scope  variables and matrix names, evaluated for one cell at a time.
 * matrix the cells.
 * resolve types every scalar by its key, fills in defaults, asks for what is missing.
 * fill   copies JSON into the structs and checks what concerns more than one key.
 *
 * Errors go to loader.diags in any order; a part in error is left out (NULL) so that it is reported
 * once. Recursion is bounded by YAML_TREE_DEPTH_MAX. */
#ifndef HARNESS_SCENARIO_PRIV_H
#define HARNESS_SCENARIO_PRIV_H

#include "common/json.h"
#include "harness/diag.h"
#include "harness/expr.h"
#include "harness/scenario.h"
#include "harness/schema.h"
#include "harness/yaml_tree.h"

#define SCENARIO_CELLS_MAX 10000
#define SCENARIO_EXCLUDE_MAX 1000
/* Cells times the values that each of them holds: bounds memory and time. */
#define SCENARIO_VALUES_MAX 4000000

struct bound {
    const struct schema_key *key;
    const struct yaml_node *node;
    const struct yaml_node *name; /* of the key in its mapping; NULL in lists and at the root */
    struct bound *parent, *first, *last, *next;
    size_t count, index;
    const char *define; /* the -D text that gave it; NULL: the file */
    bool bad;           /* reported already */
    bool dynamic;       /* ${…} in it or below */
    json_t *cached;     /* its value when not dynamic; borrowed from loader.kept */
};

enum var_state { VAR_NEW, VAR_ACTIVE, VAR_DONE, VAR_FAILED, VAR_NEEDS_MATRIX };

struct var {
    const char *name;
    struct bound *bound;
    struct value value;
    enum var_state state;
    unsigned generation; /* state and value hold only for this one */
};

struct axis {
    const char *name;
    struct bound *bound;
};

struct scope {
    struct var *vars; /* sorted by name */
    size_t n_vars;
    struct axis *axes; /* matrix, then zip, then what only include names */
    size_t n_axes;
    const struct value *cell; /* n_axes values; NULL outside cells */
    unsigned generation;
    bool needs_matrix; /* the last failure was a matrix name outside cells */
};

struct loader {
    struct source source;
    struct diags diags;
    struct arena arena;
    struct bound *root;
    struct scope scope;
    json_t *kept;            /* array: owns the cached values */
    struct bound **defaults; /* by place in schema_keys, made when needed */
    struct value *cells;     /* n_cells x n_axes */
    size_t n_cells;
    size_t n_bound;
    bool usage; /* the error is one of -D: exit 2 */
    char *usage_message, *usage_hint;
};

/* ---- bind -------------------------------------------------------------------------------------
 */
/* Bind a node to a key, complaining about what does not fit. parent may be NULL. */
struct bound *bind_node(struct loader *l, const struct schema_key *key,
                        const struct yaml_node *node, struct bound *parent,
                        const struct yaml_node *name, const char *define);
struct bound *bound_child(const struct bound *parent, const char *name, size_t len);
void bound_append(struct bound *parent, struct bound *child);
/* "runtimes[1].mounts[0].source". */
void bound_path(const struct bound *bound, struct str *out);
/* The bound at a path, or its nearest ancestor that exists. */
struct bound *bound_at(const struct loader *l, const char *path);
/* Apply "key=value"; false with l->usage set when it cannot. */
bool define_apply(struct loader *l, const char *define);

/* Report at a bound; returns the diagnostic (or NULL) for a hint. */
struct diag *complain(struct loader *l, const struct bound *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, with the caret at the key. */
struct diag *complain_key(struct loader *l, const struct bound *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Report about a path, at the nearest bound of it. */
struct diag *complain_at(struct loader *l, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Report that `key` is missing below parent. */
void complain_missing(struct loader *l, const struct bound *parent, const struct schema_key *key);

/* ---- scope ------------------------------------------------------------------------------------
 */
void scope_init(struct loader *l);
void scope_release(struct scope *scope);
/* Move to a cell's values (NULL: outside cells); variables are evaluated anew when used. */
void scope_enter(struct loader *l, const struct value *cell);
/* Evaluate every variable, so that unused ones are judged too. */
void scope_check_vars(struct loader *l);
/* The scalar's value, ${…} done; false when that failed (and was reported). */
bool scope_value(struct loader *l, const struct bound *bound, struct value *out);

/* ---- resolve ----------------------------------------------------------------------------------
 */
/* The JSON of a key (bound: NULL if it is not given); NULL: absent or in error. New reference. */
json_t *resolve(struct loader *l, const struct schema_key *key, struct bound *bound);

/* ---- matrix -----------------------------------------------------------------------------------
 */
/* Find the axes (before scope values are used), then fill l->cells. */
void matrix_axes(struct loader *l);
void matrix_cells(struct loader *l);
json_t *value_to_json(const struct value *value);
/* "ranks=1, seq=256". */
void cell_describe(const struct loader *l, size_t cell, struct str *out);

/* ---- fill -------------------------------------------------------------------------------------
 */
bool scenario_fill(struct loader *l, json_t *doc, struct scenario *s);
bool cell_fill(struct loader *l, const struct scenario *s, const json_t *doc, size_t index,
               struct cell *cell);
void cell_release(struct cell *cell, size_t n_runtimes);

#endif
