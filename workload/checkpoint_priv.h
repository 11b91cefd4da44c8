/* Names inside a checkpoint, shared by its writer and its reader. */
#ifndef WORKLOAD_CHECKPOINT_PRIV_H
#define WORKLOAD_CHECKPOINT_PRIV_H

#define CHECKPOINT_FORMAT "nanochat-checkpoint/1.0"
#define CHECKPOINT_MODEL "model.safetensors"
#define CHECKPOINT_META "meta.json"
#define CHECKPOINT_MANIFEST "manifest.json"
#define CHECKPOINT_OPTIM_FMT "optim_rank%05d.safetensors"
#define CHECKPOINT_OPTIM_PREFIX "optim_rank"
#define CHECKPOINT_DIR_PREFIX "step_"
#define CHECKPOINT_DIR_FMT "step_%06lld"
#define CHECKPOINT_PARTIAL_SUFFIX ".partial"

#endif
