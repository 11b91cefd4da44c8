/* One text file, plain or gzip (dictd's .dz is gzip), as a sequence of documents.
 *
 * What a document is:
 *   - X.dict or X.dict.dz beside X.index, a dictd database: one entry of the index, in the order of
 *     their offsets. Several headwords of one entry make one document. Entries that a headword
 *     beginning with "00-database-" names are left out, under whatever other names they have.
 *   - a file in whose first MiB a line is exactly "<|endoftext|>": what stands between such lines;
 *   - any other file: a paragraph, that is a run of lines which are not blank.
 * The newline that ends a document is not part of it. Documents may be blank.
 *
 * A file is read as it is needed; only the document at hand is kept in memory. */
#ifndef WORKLOAD_DATA_TEXTFILE_H
#define WORKLOAD_DATA_TEXTFILE_H

#include "common/error.h"

#include <stddef.h>

struct text_file;

/* Unreadable, damaged, or of another kind (parquet, zstd): NANOCHAT_EXIT_DATA. */
int text_file_open(struct text_file **out, const char *path, struct error *err);
/* *doc is NULL at the end, else valid until the next call. */
int text_file_next(struct text_file *f, const char **doc, size_t *len, struct error *err);
void text_file_close(struct text_file *f);

/* "DIR/X.index" for "DIR/X.dict" and "DIR/X.dict.dz" if such a file exists, else NULL; caller
 * frees. */
char *text_file_index_path(const char *path);

#endif
