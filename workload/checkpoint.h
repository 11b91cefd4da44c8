/* Checkpoints: a directory per step, written aside, fsynced and renamed as a whole, manifest last.
 *
 *   <dir>/step_<NNNNNN>/model.safetensors           weights, upstream's tensor names, float32
 *                       optim_rank<NNNNN>.safetensors   the optimizer state that a rank owns
 *                       meta.json                   step, model, tokenizer, loader and loop state
 *                       manifest.json               name, bytes and sha256 of the others
 *
 * While it is being written the directory is <dir>/.step_<NNNNNN>.partial; the rename is the
 * commit, so that a kill at any moment leaves either the old checkpoint or the new one. Leftovers
 * of killed runs are removed by the next save. A directory without a manifest is not a checkpoint.
 * Anything truncated, altered, or made for another model, tokenizer or world size is refused with
 * NANOCHAT_EXIT_CHECKPOINT, naming what was expected and what was found; a disk that is full is
 * NANOCHAT_EXIT_WRITE. */
#ifndef WORKLOAD_CHECKPOINT_H
#define WORKLOAD_CHECKPOINT_H

#include "common/fs.h"
#include "workload/optimizer.h"

struct checkpoint_meta {
    int64_t step; /* updates made */
    struct model_config config;
    char tokenizer_hash[SHA256_HEX]; /* "" without a tokenizer */
    int world;
    json_t *loader; /* state of each rank's loader is identical up to the rank: rank 0's */
    json_t *loop;   /* what the training loop wants back (smoothed loss, best val bpb, times …) */
    json_t *user;   /* all options of the run, for people */
};
void checkpoint_meta_release(struct checkpoint_meta *meta);
/* From the text of meta.json; `name` is for messages. */
int checkpoint_parse_meta(const char *text, size_t len, const char *name,
                          struct checkpoint_meta *meta, struct error *err);

/* Collective: all ranks succeed or fail together. optimizer may be NULL (weights only). *bytes: of
 * all files that this rank wrote; *write_s: until the commit. */
int checkpoint_save(const char *dir, struct model *model, struct optimizer *optimizer,
                    struct comm *comm, const struct checkpoint_meta *meta, int64_t *bytes,
                    double *write_s, struct error *err);

/* Path of a step below dir (caller frees); step -1: the highest one. */
int checkpoint_find(const char *dir, int64_t step, char **path, struct error *err);
int checkpoint_read_meta(const char *path, struct checkpoint_meta *meta, struct error *err);
/* Are all files there with the size that the manifest tells? Fast whatever their size. Optimizer
 * files count only with `optimizer`. */
int checkpoint_check_files(const char *path, bool optimizer, struct error *err);
/* Is it a checkpoint of this model, tokenizer and number of ranks? (-1: any number) */
int checkpoint_check_meta(const struct checkpoint_meta *meta, const struct model_config *config,
                          const char *tokenizer_hash, int world, struct error *err);
/* Both verify the file's sha256 before a weight is touched. */
int checkpoint_load_model(const char *path, struct model *model, struct error *err);
/* This rank's part. Not collective. */
int checkpoint_load_optimizer(const char *path, struct optimizer *optimizer, struct comm *comm,
                              struct error *err);

#endif
