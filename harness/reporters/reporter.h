/* Reporters render a document. Each is one file and one line in the table of registry.c. */
#ifndef HARNESS_REPORTERS_REPORTER_H
#define HARNESS_REPORTERS_REPORTER_H

#include "harness/document.h"

struct reporter_ops {
    const char *name;      /* "html": the word in scenarios and options */
    const char *extension; /* ".html" */
    void (*render)(const struct document *d, const char *title, struct str *out);
};

extern const struct reporter_ops *const reporters[]; /* ends with NULL */
const struct reporter_ops *reporter_find(const char *name);

extern const struct reporter_ops reporter_markdown, reporter_html, reporter_text;

#endif
