/* Command lines from tables: one table drives parsing, --help and the man page.
 *
 * A verb declares a struct with one field an option and a table of `struct option_spec` that ends
 * with {0}. Long options take "--name value" or "--name=value"; '-' and '_' are the same in names.
 * Booleans may be given bare or as =true / =false (also =True, =1 as upstream's scripts have them).
 * "--" ends the options. Unknown options, missing or malformed values and values out of range are
 * errors with EXIT code 2 that name the option, the value, what was expected and the nearest name.
 *
 *     struct train_options { int64_t depth; double lr; char *run; bool sync; struct strv defs; };
 *     static const struct option_spec specs[] = {
 *         {"depth", 'd', OPT_INT, offsetof(struct train_options, depth), "20", 1, 1024, "N",
 *          "number of layers"},
 *         …
 *         {0}};
 *     struct train_options o;
 *     options_defaults(specs, &o);
 *     if (options_parse(specs, &o, argc, argv, &rest, err)) …
 *     options_release(specs, &o);
 *
 * Tables are linked to verbs by `struct verb` (common/verb.h). */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "common/error.h"
#include "common/json.h"
#include "common/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPT_NONE = 0,
    OPT_BOOL,     /* bool */
    OPT_INT,      /* int64_t, within min..max when min < max */
    OPT_FLOAT,    /* double, within min..max when min < max */
    OPT_STRING,   /* char *, owned; default NULL when def is NULL */
    OPT_LIST,     /* struct strv; may be repeated */
    OPT_DURATION, /* double, seconds; the unit is required */
    OPT_SIZE,     /* int64_t, bytes; the unit is required */
    OPT_PERCENT,  /* double, ratio; "1%" */
    OPT_CHOICE,   /* char *, owned; one of the words of `metavar`, separated by '|' */
};

struct option_spec {
    const char *name; /* with '-' */
    char letter;      /* 0: none */
    enum option_type type;
    size_t offset;
    const char *def; /* as text; shown in the help; NULL: false, 0, or no value */
    double min, max; /* bounds of OPT_INT and OPT_FLOAT, inclusive; both 0: none */
    const char *metavar;
    const char *help;
};

/* Fill the struct with the defaults. A default that does not parse is a BUG. */
void options_defaults(const struct option_spec *specs, void *out);
/* argv[0] is the first argument, not the program. Operands (and what follows "--") are appended to
 * `operands`, copied; NULL: an operand is an error. */
int options_parse(const struct option_spec *specs, void *out, int argc, char *const *argv,
                  struct strv *operands, struct error *err);
/* Was the option of that name given in the last options_parse? (For "set explicitly" rules.) */
bool options_given(const struct option_spec *specs, int argc, char *const *argv, const char *name);
/* Frees OPT_STRING, OPT_CHOICE and OPT_LIST fields. */
void options_release(const struct option_spec *specs, void *out);
/* All options and their values as an object, names with '_' (new reference): what a run was asked
 * for, to be kept with its results. An OPT_STRING without a value is null. */
json_t *options_to_json(const struct option_spec *specs, const void *out);
/* Append the table as help text, aligned, wrapped at 80 columns. */
void options_help(const struct option_spec *specs, struct str *out);

#endif
