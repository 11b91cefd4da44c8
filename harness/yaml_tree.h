/* YAML text to a tree whose nodes know where they stand.
 *
 * On libyaml's event API, without recursion. What YAML allows and a scenario does not need is
 * refused here, with its position: a second document, tags, merge keys, keys that are not plain
 * text, duplicate keys, tabs that indent, aliases to an open or unknown anchor, NUL, any encoding
 * but UTF-8, and everything beyond the limits below. A byte-order mark and CRLF line ends are fine.
 *
 * An alias is the anchored node itself: the tree is a graph without cycles whose size after
 * expansion is bounded, so that walking it as a tree is safe. */
#ifndef HARNESS_YAML_TREE_H
#define HARNESS_YAML_TREE_H

#include "common/arena.h"
#include "harness/diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_TREE_BYTES_MAX (1u << 20)
#define YAML_TREE_DEPTH_MAX 64
#define YAML_TREE_NODES_MAX 100000 /* aliases expanded, keys included */

enum yaml_kind { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };

struct yaml_node {
    enum yaml_kind kind;
    bool quoted;         /* scalar: in any style but plain */
    uint32_t start, end; /* byte offsets in the source */
    const char *text;    /* scalar: its characters, NUL-terminated, no NUL inside */
    size_t len;
    struct yaml_node **items; /* sequence: count items; mapping: count keys and values in turn */
    size_t count;
    size_t expanded; /* nodes below and including this one, aliases expanded */
    unsigned height; /* levels below this one */
};

struct yaml_tree {
    struct arena arena;
    struct yaml_node *root; /* NULL when the structure could not be read */
};

/* Parse source->text. Problems are added to diags; true when there were none. With problems that
 * leave the structure clear (a duplicate key, an undefined alias …) there is a root all the same,
 * so that everything else can be judged too. Release the tree in either case. */
bool yaml_tree_parse(const struct source *source, struct yaml_tree *tree, struct diags *diags);
void yaml_tree_release(struct yaml_tree *tree);

/* A plain scalar made in memory, positioned nowhere. The text is copied. */
struct yaml_node *yaml_tree_scalar(struct arena *arena, const char *text);

/* Drop a UTF-8 byte-order mark; detect UTF-16 and UTF-32. False (with a message in diags) when the
 * text is not UTF-8 or too large. Call before source_init on what *text and *len then are. */
bool yaml_text_check(const char **text, size_t *len, struct diags *diags);

#endif
