/* Checkpoints: a directory per step, written aside, fsynced, renamed, manifest last.
 *
 *   <dir>/step_<NNNNNN>/model.safetensors        weights, upstream's tensor names, float32
 *                       optim_rank<NNNNN>.safetensors
 *                       meta.json                  step, config, tokenizer hash, loader and loop
 * state manifest.json              name, bytes and sha256 of every file: written last
 *
 * A directory without a manifest is not a checkpoint. Anything truncated, altered, or made for
 * another model, tokenizer or world size is refused with NANOCHAT_EXIT_CHECKPOINT, naming what was
 * expected and what was found. */
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

/* Collective. optimizer may be NULL (weights only). *bytes, *write_s: what this rank wrote. */
int checkpoint_save(const char *dir, struct model *model, struct optimizer *optimizer,
                    struct comm *comm, const struct checkpoint_meta *meta, int64_t *bytes,
                    double *write_s, struct error *err);
/* step -1: the highest complete one below dir. */
int checkpoint_find(const char *dir, int64_t step, char **path, struct error *err);
int checkpoint_read_meta(const char *path, struct checkpoint_meta *meta, struct error *err);
int checkpoint_load_model(const char *path, struct model *model, struct error *err);
int checkpoint_load_optimizer(const char *path, struct optimizer *optimizer, struct comm *comm,
                              struct error *err);

#endif
