/* Verbs of a program: a static table in main.c, a line a verb, drives dispatch, --help and the man
 * page.
 *
 * A verb's function gets the arguments behind its name, prints its own error once (error_print) and
 * returns the exit code. A verb is in the table only when it works. */
#ifndef COMMON_VERB_H
#define COMMON_VERB_H

#include "common/options.h"

struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const struct option_spec *options; /* NULL: none */
    const char *operands;              /* "FILE...", "" */
    const char *summary;               /* one line */
    const char *description;           /* paragraphs for the man page; NULL: summary only */
};

struct program {
    const char *name;
    const char *version;
    const char *summary;
    const struct verb *verbs; /* ends with {0} */
    const char *exit_codes;   /* lines "0  done\n…" for help and man page */
};

/* Dispatch argv (of main): --help, --version [--json] (with the optional libraries), `help [VERB]`,
 * `VERB --help`, `man` (prints the man page in mdoc) and the verbs. Returns the exit code. Unknown
 * verb: 2 with the nearest name. */
int verb_main(const struct program *program, int argc, char **argv);

#endif
