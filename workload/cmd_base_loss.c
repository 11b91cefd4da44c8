/* base-loss: what a trained model loses on the train and validation splits, and its samples. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "workload/agree.h"
#include "workload/checkpoint.h"
#include "workload/data.h"
#include "workload/evaluate.h"
#include "workload/prompts.h"
#include "workload/run.h"
#include "workload/tokenizer.h"
#include "workload/verbs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct base_loss_options {
    char *device_type, *model_tag;
    int64_t device_batch_size, split_tokens, model_step;
    char *checkpoint_dir, *data_source, *data, *tokenizer;
    int64_t val_every, val_files, seed, threads;
    char *comm;
    double comm_timeout_s;
    bool samples;
};

#define OPTION(name, type, field, ...)                                                             \
    {                                                                                              \
        name, 0, type, offsetof(struct base_loss_options, field), __VA_ARGS__                      \
    }

const struct option_spec base_loss_option_specs[] = {
    OPTION("device-batch-size", OPT_INT, device_batch_size, "32", 1, 1 << 20, "B",
           "sequences that a rank computes at once"),
    OPTION("split-tokens", OPT_INT, split_tokens, "10485760", 1, 1e15, "N",
           "tokens to evaluate of each split, all ranks"),
    OPTION("model-tag", OPT_STRING, model_tag, "", 0, 0, "NAME",
           "which model below base_checkpoints; empty: the deepest d<depth>"),
    OPTION("model-step", OPT_INT, model_step, "-1", -1, 1e15, "N",
           "which of its checkpoints; -1: the last one"),
    OPTION("device-type", OPT_STRING, device_type, "", 0, 0, "TYPE", "cpu or cuda; empty: cpu"),
    OPTION("checkpoint-dir", OPT_STRING, checkpoint_dir, NULL, 0, 0, "DIR",
           "the model's checkpoints, instead of --model-tag"),
    OPTION("data-source", OPT_STRING, data_source, NULL, 0, 0, "WORD",
           "text, packed or synthetic; default: what the model was trained on"),
    OPTION("data", OPT_STRING, data, NULL, 0, 0, "PATH",
           "its file or directory; default: what the model was trained on"),
    OPTION("tokenizer", OPT_STRING, tokenizer, NULL, 0, 0, "DIR",
           "tokenizer; default: what the model was trained with"),
    OPTION("val-every", OPT_INT, val_every, "0", 0, 1e15, "N",
           "of a single file every N-th document or block is validation; 0: as in training"),
    OPTION("val-files", OPT_INT, val_files, "0", 0, 1e15, "N",
           "of a directory the last N files are validation; 0: as in training"),
    OPTION("seed", OPT_INT, seed, "-1", -1, 1e15, "N",
           "of synthetic data; -1: as it was in training"),
    OPTION("threads", OPT_INT, threads, "0", 0, 1 << 16, "N",
           "threads of a rank; 0: OMP_NUM_THREADS, else a rank's share of the usable CPUs"),
    OPTION("comm", OPT_CHOICE, comm, "auto", 0, 0, "auto|shm|tcp|mpi",
           "how ranks talk on the CPU: shared memory of one node, TCP, or MPI"),
    OPTION("comm-timeout", OPT_DURATION, comm_timeout_s, "60s", 0, 0, "DUR",
           "how long a rank waits for another one in a collective"),
    OPTION("samples", OPT_BOOL, samples, "true", 0, 0, NULL,
           "sample from the fixed prompts; needs a tokenizer"),
    {0},
};

struct base_loss {
    const struct base_loss_options *options;
    struct run *run;
    char *path; /* of the checkpoint */
    struct checkpoint_meta meta;
    struct tokenizer *tokenizer; /* NULL: the data needs none */
    struct model *model;
};

/* ---- which model ---------------------------------------------------------------------------- */

/* The name d<number> with the highest number, or NULL; caller frees. */
static char *deepest(const char *dir, struct error *err)
{
    auto_strv names = STRV_INIT;
    if (fs_list_dir(dir, &names, NANOCHAT_EXIT_CHECKPOINT, err))
        return NULL;
    const char *best = NULL;
    int64_t best_depth = -1, depth;
    for (size_t i = 0; i < names.count; i++)
        if (names.items[i][0] == 'd' && num_parse_i64(names.items[i] + 1, &depth) &&
            depth > best_depth) {
            best = names.items[i];
            best_depth = depth;
        }
    if (!best)
        error_set(err, NANOCHAT_EXIT_CHECKPOINT, "no model d<depth> in %s", dir);
    return best ? mem_printf("%s/%s", dir, best) : NULL;
}

static int find_model(struct base_loss *b, struct error *err)
{
    const struct base_loss_options *o = b->options;
    auto_free char *all = fs_below_base("base_checkpoints");
    auto_free char *dir = o->checkpoint_dir ? mem_strdup(o->checkpoint_dir)
                          : *o->model_tag   ? mem_printf("%s/%s", all, o->model_tag)
                                            : deepest(all, err);
    if (!dir || checkpoint_find(dir, o->model_step, &b->path, err) ||
        checkpoint_check_files(b->path, false, err))
        return -err->code;
    return checkpoint_read_meta(b->path, &b->meta, err);
}

/* ---- its data ------------------------------------------------------------------------------- */

/* An option of ours, or else what the training run had. */
static const char *text_of(const struct base_loss *b, const char *own, const char *key)
{
    return own ? own : json_read_str(b->meta.user, key);
}

static int64_t number_of(const struct base_loss *b, int64_t own, int64_t none, const char *key)
{
    int64_t value = own;
    if (own == none)
        json_read_i64(b->meta.user, key, &value);
    return value;
}

static const char *source_of(const struct base_loss *b)
{
    const char *source = text_of(b, b->options->data_source, "data_source");
    return source ? source : "text";
}

static int open_tokenizer(struct base_loss *b, struct error *err)
{
    const char *given = text_of(b, b->options->tokenizer, "tokenizer");
    if (data_tokenizer_open(source_of(b), given, &b->tokenizer, err) || !b->tokenizer)
        return -err->code;
    const char *hash = tokenizer_hash(b->tokenizer);
    if (!strcmp(hash, b->meta.tokenizer_hash))
        return 0;
    return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                     "the model was trained with tokenizer %.16s, %s is %.16s",
                     b->meta.tokenizer_hash[0] ? b->meta.tokenizer_hash : "none",
                     given ? given : "the tokenizer", hash);
}

static int evaluate_split(struct base_loss *b, enum split split, struct evaluation *out,
                          struct error *err)
{
    const struct base_loss_options *o = b->options;
    auto_free char *path = data_path(source_of(b), text_of(b, o->data, "data"));
    const struct data_config config = {
        .source = source_of(b),
        .path = path,
        .split = split,
        .B = o->device_batch_size,
        .T = b->meta.config.sequence_len,
        .rank = comm_rank(b->run->comm),
        .world = comm_world(b->run->comm),
        .seed = number_of(b, o->seed, -1, "seed"),
        .vocab_size = b->meta.config.vocab_size,
        .val_every = number_of(b, o->val_every, 0, "val_every"),
        .val_files = number_of(b, o->val_files, 0, "val_files"),
        .tokenizer = b->tokenizer,
    };
    struct evaluator *e = NULL;
    const int32_t *bytes = b->tokenizer ? tokenizer_token_bytes(b->tokenizer) : NULL;
    evaluator_open(&e, &config, o->split_tokens, bytes, err);
    if (!agree(b->run->comm, "opening the data", err))
        evaluator_run(e, b->model, b->run->comm, out, err);
    evaluator_close(e);
    return -err->code;
}

/* ---- the verb ------------------------------------------------------------------------------- */

static int report(struct base_loss *b, const char *split, const struct evaluation *e,
                  struct error *err)
{
    json_t *fields = json_object();
    json_put_int(fields, "step", b->meta.step);
    json_put_str(fields, "split", split);
    json_put_f64(fields, "loss", e->loss);
    if (isfinite(e->bpb))
        json_put_f64(fields, "bpb", e->bpb);
    else
        json_put_null(fields, "bpb", "no tokenizer: the bytes of the tokens are not known");
    json_put_int(fields, "tokens", e->tokens);
    json_put_f64(fields, "time_s", e->time_s);
    if (events_put(b->run->events, EVENT_EVAL, fields, err))
        return -err->code;
    if (!isfinite(e->loss))
        return error_set(err, NANOCHAT_EXIT_NUMERIC, "the %s loss is not finite", split);
    if (isfinite(e->bpb))
        return run_print(b->run, err, "%s bpb: %.4f\n", split, e->bpb);
    return run_print(b->run, err, "%s loss: %.6f (no tokenizer, so no bpb)\n", split, e->loss);
}

static int open_model(struct base_loss *b, struct error *err)
{
    const struct model_config *config = &b->meta.config;
    if (!find_model(b, err) && !open_tokenizer(b, err) &&
        !model_create(&b->model, b->run->device, config, b->options->device_batch_size,
                      config->sequence_len, err))
        checkpoint_load_model(b->path, b->model, err);
    return agree(b->run->comm, "loading the model", err);
}

static int base_loss_run(struct base_loss *b, struct error *err)
{
    const struct base_loss_options *o = b->options;
    const struct run_config config = {.device_type = o->device_type,
                                      .threads = (int)o->threads,
                                      .comm = o->comm,
                                      .comm_timeout_s = o->comm_timeout_s};
    static const struct {
        enum split split;
        const char *name;
    } splits[] = {{SPLIT_TRAIN, "train"}, {SPLIT_VAL, "val"}};
    if (run_connect(b->run, &config, err) || open_model(b, err) ||
        run_print(b->run, err, "Checkpoint: %s\n", b->path))
        return -err->code;
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        struct evaluation e;
        if (evaluate_split(b, splits[i].split, &e, err) || report(b, splits[i].name, &e, err))
            return -err->code;
    }
    if (!o->samples || !b->tokenizer)
        return 0;
    return prompts_sample(b->run, b->model, b->tokenizer, err);
}

static void base_loss_close(struct base_loss *b)
{
    if (b->model)
        model_free(b->model);
    if (b->tokenizer)
        tokenizer_free(b->tokenizer);
    checkpoint_meta_release(&b->meta);
    free(b->path);
}

int cmd_base_loss(int argc, char **argv)
{
    struct run run;
    struct base_loss_options options;
    struct error err = ERROR_INIT;
    struct base_loss b = {.options = &options, .run = &run};
    options_defaults(base_loss_option_specs, &options);
    if (!run_begin(&run, argc, argv, &err) &&
        !options_parse(base_loss_option_specs, &options, argc, argv, NULL, &err))
        base_loss_run(&b, &err);
    run_teardown(&run);
    base_loss_close(&b);
    int code = run_end(&run, &err);
    options_release(base_loss_option_specs, &options);
    error_release(&err);
    return code;
}
