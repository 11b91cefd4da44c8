/* The options of base-train: upstream's names and defaults first, then ours. */
#include "workload/train.h"

#define OPTION(name, letter, type, field, ...)                                                     \
    {                                                                                              \
        name, letter, type, offsetof(struct train_options, field), __VA_ARGS__                     \
    }
#define MANY 9007199254740992.0 /* 2^53: the largest whole number that every reader keeps exact */
#define RATE_MAX 1e30

const struct option_spec train_option_specs[] = {
    OPTION("run", 0, OPT_STRING, run, "dummy", 0, 0, "NAME",
           "name of the run, kept with its results"),
    OPTION("device-type", 0, OPT_STRING, device_type, "", 0, 0, "TYPE", "cpu or cuda; empty: cpu"),
    OPTION("depth", 0, OPT_INT, depth, "20", 1, 1024, "N",
           "layers; width and heads follow from it"),
    OPTION("max-seq-len", 0, OPT_INT, max_seq_len, "2048", 1, 1 << 20, "T", "sequence length"),
    OPTION("num-iterations", 0, OPT_INT, num_iterations, "-1", -1, MANY, "N",
           "steps to train; 0: only evaluate and save; -1: from the next two"),
    OPTION("target-flops", 0, OPT_FLOAT, target_flops, "-1", 0, 0, "X",
           "train for so many FLOPs; -1: from the next one"),
    OPTION("target-param-data-ratio", 0, OPT_FLOAT, target_param_data_ratio, "20", 0, 0, "X",
           "train on so many tokens a parameter; -1: no"),
    OPTION("device-batch-size", 0, OPT_INT, device_batch_size, "32", 0, 0, "B",
           "sequences that a rank computes at once"),
    OPTION("total-batch-size", 0, OPT_INT, total_batch_size, "524288", 0, 0, "N",
           "tokens of a step, all ranks; a multiple of B x T x ranks"),
    OPTION("embedding-lr", 0, OPT_FLOAT, embedding_lr, "0.2", 0, RATE_MAX, "X",
           "learning rate of the embedding (AdamW)"),
    OPTION("unembedding-lr", 0, OPT_FLOAT, unembedding_lr, "0.004", 0, RATE_MAX, "X",
           "learning rate of the head (AdamW)"),
    OPTION("weight-decay", 0, OPT_FLOAT, weight_decay, "0", 0, RATE_MAX, "X",
           "weight decay of AdamW"),
    OPTION("matrix-lr", 0, OPT_FLOAT, matrix_lr, "0.02", 0, RATE_MAX, "X",
           "learning rate of the block matrices (Muon)"),
    OPTION("grad-clip", 0, OPT_FLOAT, grad_clip, "1", 0, RATE_MAX, "X",
           "largest norm of the reduced gradient; 0: no clipping"),
    OPTION("warmup-ratio", 0, OPT_FLOAT, warmup_ratio, "0", 0, 1, "X",
           "part of the steps over which learning rates rise"),
    OPTION("warmdown-ratio", 0, OPT_FLOAT, warmdown_ratio, "0.2", 0, 1, "X",
           "part of the steps over which they fall"),
    OPTION("final-lr-frac", 0, OPT_FLOAT, final_lr_frac, "0", 0, RATE_MAX, "X",
           "what they fall to, relative"),
    OPTION("eval-every", 0, OPT_INT, eval_every, "250", 0, 0, "N",
           "evaluate every N steps and at the end; 0 or -1: never"),
    OPTION("eval-tokens", 0, OPT_INT, eval_tokens, "10485760", 0, 0, "N",
           "tokens of an evaluation, all ranks"),
    OPTION("core-metric-every", 0, OPT_INT, core_metric_every, "-1", -1, 0, "N",
           "0 or -1: never; this version has no CORE evaluation"),
    OPTION("sample-every", 0, OPT_INT, sample_every, "2000", 0, 0, "N",
           "sample from fixed prompts every N steps and at the end; 0 or -1: never"),
    OPTION("model-tag", 0, OPT_STRING, model_tag, "", 0, 0, "NAME",
           "directory of the checkpoints below base_checkpoints; empty: d<depth>"),

    OPTION("data-source", 0, OPT_CHOICE, data_source, "text", 0, 0, "text|packed|synthetic",
           "where tokens come from"),
    OPTION(
        "data", 0, OPT_STRING, data, NULL, 0, 0, "PATH",
        "file or directory of text (plain or gzip) or packed tokens; default base_data below the "
        "base directory"),
    OPTION(
        "tokenizer", 0, OPT_STRING, tokenizer, NULL, 0, 0, "DIR",
        "tokenizer; default tokenizer below the base directory. Packed data needs none: with one, "
        "bits per byte are known"),
    OPTION("vocab-size", 0, OPT_INT, vocab_size, "0", 0, 1 << 30, "N",
           "vocabulary of packed and synthetic data, 0: 65536; with a tokenizer it must be the "
           "tokenizer's, 0: whatever that is"),
    OPTION("val-every", 0, OPT_INT, val_every, "100", 0, MANY, "N",
           "of a single file every N-th document (text) or block of tokens (packed) is validation; "
           "0: 100"),
    OPTION("val-files", 0, OPT_INT, val_files, "1", 1, MANY, "N",
           "of a directory the last N files are validation"),
    OPTION("n-head", 0, OPT_INT, n_head, "0", 0, 1 << 20, "N",
           "attention heads; 0: from the depth"),
    OPTION("n-kv-head", 0, OPT_INT, n_kv_head, "0", 0, 1 << 20, "N",
           "key/value heads (grouped-query attention); 0: as many as heads"),
    OPTION("seed", 0, OPT_INT, seed, "42", 0, MANY, "N", "of the weights and of synthetic data"),
    OPTION("dtype", 0, OPT_CHOICE, dtype, "auto", 0, 0, "auto|float32|bfloat16|fp8|fp8-wgrad",
           "number format of activations; auto: bfloat16 on cuda, float32 on the CPU; fp8 (cuda): "
           "bfloat16 with the products of linear layers and their inputs' gradients in 8 bits; "
           "fp8-wgrad: the weights' gradients too"),
    OPTION("attention", 0, OPT_CHOICE, attention, "auto", 0, 0, "auto|own",
           "on cuda: cuDNN's attention where it has a plan for the shape, else our own kernel; or "
           "always our own"),
    OPTION(
        "gemm-plans", 0, OPT_CHOICE, gemm_plans, "auto", 0, 0, "auto|stored|time|first",
        "on cuda, algorithms of products: auto: those stored in gemm-plans below the base "
        "directory; others are timed, and stored when the run ends. stored: stored ones, else the "
        "first that the library offers; never timed. time: timed in every run. first: the first"),
    OPTION(
        "cuda-graphs", 0, OPT_CHOICE, cuda_graphs, "auto", 0, 0, "auto|on|off",
        "on cuda: launch forward, backward and update as graphs, with the same bits; auto: where "
        "the device was seen to wait for the host in the first steps"),
    OPTION("deterministic", 0, OPT_BOOL, deterministic, NULL, 0, 0, NULL,
           "on cuda: the same bits from run to run; products take the first algorithm offered "
           "(or, with --gemm-plans=stored, the stored one), attention the deterministic graph. The "
           "CPU is so anyway"),
    OPTION("threads", 0, OPT_INT, threads, "0", 0, 1 << 16, "N",
           "threads of a rank; 0: OMP_NUM_THREADS, else a rank's share of the usable CPUs"),
    OPTION("save-every", 0, OPT_INT, save_every, "-1", -1, MANY, "N",
           "save a checkpoint every N steps and at the end; -1: only at the end; 0: never"),
    OPTION("resume-from-step", 0, OPT_INT, resume_from_step, "-1", -1, MANY, "N",
           "go on from the checkpoint of that step; -1: start fresh"),
    OPTION("reset-optimizer", 0, OPT_BOOL, reset_optimizer, NULL, 0, 0, NULL,
           "resume the weights and the data, but with a fresh optimizer state"),
    OPTION("checkpoint-dir", 0, OPT_STRING, checkpoint_dir, NULL, 0, 0, "DIR",
           "where checkpoints go; default base_checkpoints/<model tag> below the base directory"),
    OPTION("comm", 0, OPT_CHOICE, comm, "auto", 0, 0, "auto|shm|tcp|mpi",
           "how ranks talk on the CPU: shared memory of one node, TCP, or MPI where mpirun has "
           "started "
           "them; auto: TCP only when the ranks are on several nodes"),
    OPTION("nccl-profile", 0, OPT_BOOL, nccl_profile, "false", 0, 0, NULL,
           "NCCL (2.27.3 or newer) is profiled; it slows the run: not for comparisons"),
    OPTION("comm-timeout", 0, OPT_DURATION, comm_timeout_s, "60s", 0, 0, "DUR",
           "how long a rank waits for another one in a collective; longer than rank 0 needs to "
           "write a checkpoint"),
    OPTION("peak-time", 0, OPT_DURATION, peak_time_s, "200ms", 0, 0, "DUR",
           "how long to measure the peak that MFU is relative to; 0s: no MFU"),
    OPTION("log-every", 0, OPT_INT, log_every, "1", 0, MANY, "N",
           "print a line every N steps; 0: none"),
    OPTION("debug-nan-at-step", 0, OPT_INT, debug_nan_at_step, "-1", -1, MANY, "N",
           "for tests: put NaN into one weight before that step; -1: never"),
    {0},
};
