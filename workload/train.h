/* Base training: nanochat's loop.
 *
 *   plan      what follows from the options alone (batch rule, dimensions): refused at once, exit 3
 *   open      tokenizer, data, model, optimizer; a checkpoint to resume from
 *   step      the timed region: data, forward, backward, reduction, update
 *   between   evaluation, samples, checkpoints, the printed line, events
 *
 * The loop makes iterations + 1 turns; the last one only evaluates, samples and saves. In a step
 * nothing is allocated, written or printed. The loss of a step is the mean over the batch of all
 * ranks; one that is not finite ends the run at that step on all ranks (NANOCHAT_EXIT_NUMERIC). */
#ifndef WORKLOAD_TRAIN_H
#define WORKLOAD_TRAIN_H

#include "common/options.h"
#include "workload/run.h"

struct train_options {
    /* upstream's, in its order */
    char *run, *device_type;
    int64_t depth, max_seq_len, num_iterations;
    double target_flops, target_param_data_ratio;
    int64_t device_batch_size, total_batch_size;
    double embedding_lr, unembedding_lr, weight_decay, matrix_lr, grad_clip;
    double warmup_ratio, warmdown_ratio, final_lr_frac;
    int64_t eval_every, eval_tokens, core_metric_every, sample_every;
    char *model_tag;
    /* ours */
    char *data_source, *data, *tokenizer;
    int64_t vocab_size, val_every, val_files;
    int64_t n_head, n_kv_head;
    int64_t seed;
    char *dtype, *attention, *gemm_plans, *cuda_graphs;
    bool deterministic;
    int64_t threads;
    int64_t save_every, resume_from_step;
    bool reset_optimizer;
    char *checkpoint_dir;
    char *comm;
    bool nccl_profile;
    double comm_timeout_s, peak_time_s;
    int64_t log_every;
    int64_t debug_nan_at_step;
};
extern const struct option_spec train_option_specs[];

/* The whole of base-train between run_begin and run_end. */
int train_run(struct run *run, const struct train_options *options, struct error *err);

#endif
