/* What a data source gives to the loader: one endless stream of tokens that can be read, skipped
 * and taken up again at a remembered place. Private to data*.c. */
#ifndef WORKLOAD_DATA_SOURCE_H
#define WORKLOAD_DATA_SOURCE_H

#include "workload/data.h"

#define DATA_VAL_EVERY 100
#define DATA_VAL_FILES 1

/* A place in a stream. What each number means is the source's own affair; all 0 is the start. */
struct source_cursor {
    int64_t epoch, file, document, offset;
};

/* Embedded as the first member of each source's own struct. */
struct source {
    const struct source_ops *ops;
};

enum source_tokenizer { SOURCE_TOKENIZER_NONE, SOURCE_TOKENIZER_MAY, SOURCE_TOKENIZER_MUST };

struct source_ops {
    const char *name;
    bool needs_path;
    enum source_tokenizer tokenizer; /* MAY: one that is named gives bytes a token */
    /* The config's numbers are checked and its defaults filled in. An empty split is
     * NANOCHAT_EXIT_DATA. */
    int (*open)(struct source **out, const struct data_config *config, struct error *err);
    /* The next n tokens; tokens NULL: skip them. */
    int (*read)(struct source *s, int32_t *tokens, int64_t n, struct error *err);
    int64_t (*epoch)(const struct source *s); /* of the last token read, from 0 */
    struct source_cursor (*tell)(const struct source *s);
    int (*seek)(struct source *s, const struct source_cursor *cursor, struct error *err);
    /* Adds to obj what identifies the data. */
    void (*describe)(const struct source *s, json_t *obj);
    void (*summary)(const struct source *s, struct data_summary *out);
    void (*close)(struct source *s);
};

extern const struct source_ops text_source_ops;      /* data_text.c */
extern const struct source_ops packed_source_ops;    /* data_packed.c */
extern const struct source_ops synthetic_source_ops; /* data_synthetic.c */

/* The files of a data path. A path to a file is that file. Of a directory they are the regular
 * files in it, by name, without hidden ones, those that end in ".tmp", and the ".index" files that
 * belong to a dictd database. */
struct data_files {
    struct strv paths; /* released with strv_release */
    bool directory;
};
int data_files_list(struct data_files *out, const char *path, struct error *err);
/* Keep the files of one split: of a directory the last val_files are validation, the others train;
 * a single file is kept for both. An empty split is NANOCHAT_EXIT_DATA. */
int data_files_select(struct data_files *files, const char *path, enum split split,
                      int64_t val_files, struct error *err);
/* "train" or "validation". */
const char *split_name(enum split split);
int split_is_empty(struct error *err, enum split split, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What a data path holds, cheaply: sha256 over the files' names, sizes and samples of their content
 * (content_rule says which). Put into obj as files, bytes, content_sha256, content_rule. Covers
 * both splits and the indexes of dictd databases. */
int data_identity(const char *path, json_t *obj, struct error *err);

/* Place of the document that documents_next gives next, and going back to such a place. */
void documents_tell(const struct documents *d, int64_t *file, int64_t *document);
int documents_seek(struct documents *d, int64_t file, int64_t document, struct error *err);

#endif
