/* The documents of one split, in order: file by file, document by document. */
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/data_source.h"
#include "workload/data_textfile.h"
#include "workload/tokenizer_split.h"

#include <inttypes.h>

struct documents {
    struct data_files files; /* of this split */
    enum split split;
    int64_t val_every;
    struct text_file *open;
    size_t file;      /* the open one, or the next to open */
    int64_t document; /* number in its file of the next one that is not empty, both splits */
    struct data_summary summary;
};

static bool is_empty(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] != ' ' && (text[i] < '\t' || text[i] > '\r'))
            return false;
    return true;
}

int documents_open(struct documents **out, const char *path, enum split split, int64_t val_every,
                   int64_t val_files, struct error *err)
{
    struct documents *d = mem_zalloc(1, sizeof *d);
    d->split = split;
    d->val_every = val_every ? val_every : DATA_VAL_EVERY;
    if (!val_files)
        val_files = DATA_VAL_FILES;
    int rc = 0;
    if (d->val_every < 2 || val_files < 1)
        rc = error_set(err, NANOCHAT_EXIT_PLAN,
                       "every %" PRId64 "th document and %" PRId64
                       " files for validation, expected at least 2 and 1",
                       d->val_every, val_files);
    if (rc || data_files_list(&d->files, path, err) ||
        data_files_select(&d->files, path, split, val_files, err)) {
        documents_close(d);
        return -err->code;
    }
    *out = d;
    return 0;
}

void documents_close(struct documents *d)
{
    if (!d)
        return;
    text_file_close(d->open);
    strv_release(&d->files.paths);
    free(d);
}

/* A directory is split by files, a single file by documents. */
static bool in_split(const struct documents *d, int64_t document)
{
    if (d->files.directory)
        return true;
    bool validation = document % d->val_every == d->val_every - 1;
    return validation == (d->split == SPLIT_VAL);
}

static void count_document(struct documents *d, const char *doc, size_t len)
{
    d->summary.documents++;
    d->summary.bytes += (int64_t)len;
    d->summary.invalid_bytes += split_invalid_bytes(doc, len);
}

int documents_next(struct documents *d, const char **doc, size_t *len, struct error *err)
{
    for (;;) {
        if (d->file == d->files.paths.count) {
            *doc = NULL;
            *len = 0;
            return 0;
        }
        if (!d->open && text_file_open(&d->open, d->files.paths.items[d->file], err))
            return -err->code;
        if (text_file_next(d->open, doc, len, err))
            return -err->code;
        if (!*doc) {
            text_file_close(d->open);
            d->open = NULL;
            d->file++;
            d->document = 0;
        } else if (is_empty(*doc, *len)) {
            d->summary.empty_documents++;
        } else if (in_split(d, d->document++)) {
            count_document(d, *doc, *len);
            return 0;
        }
    }
}

void documents_tell(const struct documents *d, int64_t *file, int64_t *document)
{
    *file = (int64_t)d->file;
    *document = d->document;
}

int documents_seek(struct documents *d, int64_t file, int64_t document, struct error *err)
{
    if (file < 0 || (uint64_t)file > d->files.paths.count || document < 0)
        return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                         "document %" PRId64 " of file %" PRId64 " does not exist", document, file);
    text_file_close(d->open);
    d->open = NULL;
    d->file = (size_t)file;
    d->document = 0;
    if (document && (size_t)file < d->files.paths.count &&
        text_file_open(&d->open, d->files.paths.items[d->file], err))
        return -err->code;
    while (d->document < document) {
        const char *doc;
        size_t len;
        if (d->open && text_file_next(d->open, &doc, &len, err))
            return -err->code;
        if (!d->open || !doc)
            return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                             "document %" PRId64 " of file %" PRId64 " does not exist", document,
                             file);
        d->document += !is_empty(doc, len);
    }
    return 0;
}

void documents_summary(const struct documents *d, struct data_summary *out)
{
    *out = d->summary;
}
