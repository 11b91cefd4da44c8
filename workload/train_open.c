/* From options to a run that is ready for its first step. */
#include "workload/train_priv.h"

#include "common/batch.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "workload/agree.h"
#include "workload/horizon.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB_DEFAULT 65536

/* What can be refused before anything is opened. */
static int plan(struct train *t, struct error *err)
{
    const struct train_options *o = t->options;
    if (o->reset_optimizer && o->resume_from_step < 0)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "--reset-optimizer needs --resume-from-step: there is no state to reset");
    if (o->deterministic && plan_mode_of(o->gemm_plans) == PLANS_TIME)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "--gemm-plans=time with --deterministic: timing may choose otherwise in "
                         "the next run");
    t->B = o->device_batch_size;
    t->T = o->max_seq_len;
    return batch_accumulation(o->total_batch_size, t->B, t->T, t->run->comm_config.world,
                              &t->accumulation, err);
}

static char *checkpoint_dir(const struct train_options *o)
{
    if (o->checkpoint_dir)
        return mem_strdup(o->checkpoint_dir);
    char *base = fs_below_base("base_checkpoints");
    char *dir = *o->model_tag ? mem_printf("%s/%s", base, o->model_tag)
                              : mem_printf("%s/d%" PRId64, base, o->depth);
    free(base);
    return dir;
}

static int shape(struct train *t, struct error *err)
{
    const struct train_options *o = t->options;
    int64_t vocab = o->vocab_size ? o->vocab_size : VOCAB_DEFAULT;
    if (t->tokenizer) {
        vocab = tokenizer_vocab_size(t->tokenizer);
        if (o->vocab_size && o->vocab_size != vocab)
            return error_set(err, NANOCHAT_EXIT_CHECKPOINT,
                             "the tokenizer has %" PRId64 " tokens, --vocab-size says %" PRId64,
                             vocab, o->vocab_size);
    }
    t->config = model_config_for_depth(o->depth, o->max_seq_len, vocab);
    if (o->n_head)
        t->config.n_head = t->config.n_kv_head = o->n_head;
    if (o->n_kv_head)
        t->config.n_kv_head = o->n_kv_head;
    if (model_config_check(&t->config, err))
        return -err->code;
    t->flops_per_token = model_config_flops_per_token(&t->config);
    const struct horizon horizon = {o->num_iterations, o->target_flops, o->target_param_data_ratio};
    return horizon_iterations(&horizon, &t->config, o->total_batch_size, &t->iterations, err);
}

static const char *tokenizer_hash_of(const struct train *t)
{
    return t->tokenizer ? tokenizer_hash(t->tokenizer) : "";
}

/* Is there a checkpoint to resume from, and is it this run's? Cheap: before data and weights. */
static int find_checkpoint(struct train *t, char **path, struct checkpoint_meta *meta,
                           struct error *err)
{
    const struct train_options *o = t->options;
    if (o->resume_from_step < 0)
        return 0;
    if (checkpoint_find(t->checkpoint_dir, o->resume_from_step, path, err) ||
        checkpoint_check_files(*path, !o->reset_optimizer, err) ||
        checkpoint_read_meta(*path, meta, err) ||
        checkpoint_check_meta(meta, &t->config, tokenizer_hash_of(t), t->run->comm_config.world,
                              err))
        return error_wrap(err, "cannot resume from step %" PRId64, o->resume_from_step);
    if (meta->step > t->iterations)
        return error_set(err, NANOCHAT_EXIT_PLAN,
                         "cannot resume from step %" PRId64 ": the run has %" PRId64 " steps only",
                         meta->step, t->iterations);
    return 0;
}

static int open_data(struct train *t, struct error *err)
{
    const struct train_options *o = t->options;
    char *path = data_path(o->data_source, o->data);
    struct data_config config = {
        .source = o->data_source,
        .path = path,
        .split = SPLIT_TRAIN,
        .B = t->B,
        .T = t->T,
        .rank = comm_rank(t->run->comm),
        .world = comm_world(t->run->comm),
        .seed = o->seed,
        .vocab_size = t->config.vocab_size,
        .val_every = o->val_every,
        .val_files = o->val_files,
        .tokenizer = t->tokenizer,
    };
    config.prefetch_tokens = data_prefetch_for(&config, t->accumulation);
    if (!loader_open(&t->loader, &config, err) && o->eval_every > 0) {
        config.split = SPLIT_VAL;
        evaluator_open(&t->evaluator, &config, o->eval_tokens,
                       t->tokenizer ? tokenizer_token_bytes(t->tokenizer) : NULL, err);
    }
    free(path);
    return -err->code;
}

static int data_init(struct train *t, char **checkpoint, struct checkpoint_meta *meta,
                     struct error *err)
{
    struct events *events = t->run->events;
    if (events_phase_begin(events, PHASE_DATA_INIT, err))
        return -err->code;
    if (!data_tokenizer_open(t->options->data_source, t->options->tokenizer, &t->tokenizer, err) &&
        !shape(t, err) && !find_checkpoint(t, checkpoint, meta, err))
        open_data(t, err);
    if (agree(t->run->comm, "opening the data", err))
        return -err->code;
    return events_phase_end(events, PHASE_DATA_INIT, err);
}

int train_check_memory(const struct train *t, const struct device_memory *memory, struct error *err)
{
    return model_check_memory(t->run->device, &t->config, t->B, t->T, memory,
                              t->run->comm_config.local_world,
                              optimizer_bytes(&t->config, comm_world(t->run->comm)), err);
}

/* Foreseen for all ranks of this node, before any of them takes its part. */
static int check_memory(struct train *t, struct error *err)
{
    struct device_memory memory;
    t->run->device->ops->memory(t->run->device, &memory);
    train_check_memory(t, &memory, err);
    return agree(t->run->comm, "looking for memory", err);
}

static int make_model(struct train *t, struct error *err)
{
    const struct train_options *o = t->options;
    struct device_info info;
    t->run->device->ops->info(t->run->device, &info);
    const struct optimizer_config config = {
        .ns_bf16 = strcmp(info.dtype, "float32") != 0,
        .embedding_lr = o->embedding_lr,
        .unembedding_lr = o->unembedding_lr,
        .matrix_lr = o->matrix_lr,
        .weight_decay = o->weight_decay,
        .grad_clip = o->grad_clip,
    };
    size_t bytes = (size_t)(t->B * t->T) * sizeof(int32_t);
    if (model_create(&t->model, t->run->device, &t->config, t->B, t->T, err) ||
        mem_try_alloc((void **)&t->inputs, bytes, "inputs", err) ||
        mem_try_alloc((void **)&t->targets, bytes, "targets", err))
        return -err->code;
    const char *no_graphs = t->run->device->ops->no_graphs;
    graphs_open(&t->graphs, o->cuda_graphs, no_graphs);
    if (no_graphs && t->graphs.mode == GRAPHS_ON && !t->run->quiet)
        log_warn("--cuda-graphs=on: without graphs all the same: %s", no_graphs);
    model_set_grad_scale(t->model, 1.0 / (double)t->accumulation);
    if (model_init_weights(t->model, (uint64_t)o->seed, err))
        return -err->code;
    if (optimizer_create(&t->optimizer, t->model, t->run->comm, &config, err))
        return -err->code;
    return step_clock_open(&t->clock, t->run->device, t->accumulation, err);
}

static int restore(struct train *t, const char *checkpoint, const struct checkpoint_meta *meta,
                   struct error *err)
{
    if (!checkpoint)
        return 0;
    if (checkpoint_load_model(checkpoint, t->model, err) ||
        loader_restore(t->loader, meta->loader, err))
        return error_wrap(err, "cannot resume");
    if (!t->options->reset_optimizer &&
        checkpoint_load_optimizer(checkpoint, t->optimizer, t->run->comm, err))
        return error_wrap(err, "cannot resume");
    t->first_step = t->step = meta->step;
    json_read_f64(meta->loop, "smooth_loss", &t->smooth_loss);
    json_read_f64(meta->loop, "last_loss", &t->last_loss);
    json_read_f64(meta->loop, "min_val_bpb", &t->min_val_bpb);
    json_read_f64(meta->loop, "training_time_s", &t->total_time_s);
    return 0;
}

static int model_init(struct train *t, const char *checkpoint, const struct checkpoint_meta *meta,
                      struct error *err)
{
    struct events *events = t->run->events;
    if (events_phase_begin(events, PHASE_MODEL_INIT, err) || check_memory(t, err))
        return -err->code;
    if (!make_model(t, err))
        restore(t, checkpoint, meta, err);
    if (agree(t->run->comm, "making the model", err))
        return -err->code;
    return events_phase_end(events, PHASE_MODEL_INIT, err);
}

static int connect_ranks(struct train *t, struct error *err)
{
    const struct train_options *o = t->options;
    /* so that the env event tells on which file system each of them lies */
    events_path(t->run->events, "data", o->data);
    events_path(t->run->events, "tokenizer", o->tokenizer);
    if (o->save_every != 0)
        events_path(t->run->events, "checkpoint", t->checkpoint_dir);
    const struct run_config config = {.device_type = o->device_type,
                                      .dtype = o->dtype,
                                      .deterministic = o->deterministic,
                                      .own_attention = !strcmp(o->attention, "own"),
                                      .plans = plan_mode_of(o->gemm_plans),
                                      .threads = (int)o->threads,
                                      .comm = o->comm,
                                      .nccl_profile = o->nccl_profile,
                                      .comm_timeout_s = o->comm_timeout_s};
    return run_connect(t->run, &config, err);
}

static int read_handicap(struct train *t, struct error *err)
{
    const char *text = getenv(ENV_HANDICAP);
    if (!text || (num_parse_f64(text, &t->handicap) && t->handicap >= 0 && t->handicap <= 10))
        return 0;
    return error_set(err, NANOCHAT_EXIT_USAGE,
                     ENV_HANDICAP "=\"%s\": expected a ratio from 0 to 10", text);
}

int train_open(struct train *t, struct run *run, const struct train_options *options,
               struct error *err)
{
    *t = (struct train){
        .options = options, .run = run, .peak_flops = -1, .last_loss = NAN, .min_val_bpb = NAN};
    t->checkpoint_dir = checkpoint_dir(options);
    if (run->counters)
        t->counts = mem_zalloc(counters_count(run->counters), sizeof *t->counts);
    if (read_handicap(t, err) || plan(t, err) || connect_ranks(t, err))
        return -err->code;
    char *checkpoint = NULL;
    struct checkpoint_meta meta = {0};
    if (!data_init(t, &checkpoint, &meta, err))
        model_init(t, checkpoint, &meta, err);
    free(checkpoint);
    checkpoint_meta_release(&meta);
    if (!err->code && options->peak_time_s > 0)
        run_measure_peak(run, options->peak_time_s, &t->peak_flops, err);
    return -err->code;
}

void train_close(struct train *t)
{
    step_clock_close(&t->clock);
    if (t->optimizer)
        optimizer_free(t->optimizer);
    if (t->model)
        model_free(t->model);
    evaluator_close(t->evaluator);
    if (t->loader)
        loader_close(t->loader);
    if (t->tokenizer)
        tokenizer_free(t->tokenizer);
    free(t->inputs);
    free(t->counts);
    free(t->targets);
    free(t->checkpoint_dir);
}
