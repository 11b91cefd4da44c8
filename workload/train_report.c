/* What happens between steps and what a run says about itself. */
#include "common/fs.h"
#include "common/num.h"
#include "common/protocol.h"
#include "kernels/plan_files.h"
#include "workload/progress.h"
#include "workload/prompts.h"
#include "workload/train_priv.h"

#include <inttypes.h>
#include <math.h>
#include <sys/resource.h>

static json_t *state_of_loop(const struct train *t)
{
    json_t *loop = json_object();
    json_put_f64(loop, "smooth_loss", t->smooth_loss);
    if (isfinite(t->last_loss))
        json_put_f64(loop, "last_loss", t->last_loss);
    else
        json_put_null(loop, "last_loss", "no step yet");
    if (isfinite(t->min_val_bpb))
        json_put_f64(loop, "min_val_bpb", t->min_val_bpb);
    else
        json_put_null(loop, "min_val_bpb", "not evaluated in bits per byte");
    json_put_f64(loop, "training_time_s", t->total_time_s);
    json_put_bool(loop, "optimizer_reset", t->options->reset_optimizer);
    return loop;
}

/* Without clipping the norm of the gradient is not computed, and a NaN that came up in backward
 * alone is in the weights before any loss has shown it: such a checkpoint must not be. */
static int check_weights(struct train *t, struct error *err)
{
    struct device *device = t->run->device;
    for (size_t i = 0; i < model_n_params(t->model); i++) {
        const struct param *p = model_param(t->model, i);
        double sum;
        if (device->kernels->sum_squares(device, &sum, p->weight, p->rows * p->cols, err))
            return -err->code;
        if (!isfinite(sum))
            return error_set(err, NANOCHAT_EXIT_NUMERIC,
                             "%s is not finite after %" PRId64 " steps; not saved", p->name,
                             t->step);
    }
    return 0;
}

int train_save(struct train *t, struct error *err)
{
    struct run *run = t->run;
    if (check_weights(t, err)) /* all ranks hold the same weights */
        return -err->code;
    struct checkpoint_meta meta = {
        .step = t->step,
        .config = t->config,
        .world = comm_world(run->comm),
        .loader = loader_state(t->loader),
        .loop = state_of_loop(t),
        .user = options_to_json(train_option_specs, t->options),
    };
    snprintf(meta.tokenizer_hash, sizeof meta.tokenizer_hash, "%s",
             t->tokenizer ? tokenizer_hash(t->tokenizer) : "");
    int64_t bytes = 0;
    double write_s = 0;
    comm_set_step(run->comm, t->step);
    if (!events_phase_begin(run->events, PHASE_CHECKPOINT, err))
        checkpoint_save(t->checkpoint_dir, t->model, t->optimizer, run->comm, &meta, &bytes,
                        &write_s, err);
    checkpoint_meta_release(&meta);
    if (err->code || events_phase_end(run->events, PHASE_CHECKPOINT, err))
        return -err->code;
    json_t *fields = json_object();
    json_put_int(fields, "step", t->step);
    json_put_int(fields, "bytes", bytes);
    json_put_f64(fields, "write_s", write_s);
    json_put_str(fields, "path", t->checkpoint_dir);
    if (events_put(run->events, EVENT_CHECKPOINT, fields, err))
        return -err->code;
    return run_print(run, err, "Saved checkpoint of step %" PRId64 " in %s\n", t->step,
                     t->checkpoint_dir);
}

static int report_evaluation(struct train *t, const struct evaluation *e, struct error *err)
{
    json_t *fields = json_object();
    json_put_int(fields, "step", t->step);
    json_put_f64(fields, "val_loss", e->loss);
    if (isfinite(e->bpb))
        json_put_f64(fields, "val_bpb", e->bpb);
    else
        json_put_null(fields, "val_bpb", "no tokenizer: the bytes of the tokens are not known");
    json_put_int(fields, "tokens", e->tokens);
    json_put_f64(fields, "time_s", e->time_s);
    if (events_put(t->run->events, EVENT_EVAL, fields, err))
        return -err->code;
    if (!isfinite(e->bpb))
        return run_print(t->run, err, "Step %05" PRId64 " | Validation loss: %.6f\n", t->step,
                         e->loss);
    if (!(t->min_val_bpb <= e->bpb))
        t->min_val_bpb = e->bpb;
    return run_print(t->run, err, "Step %05" PRId64 " | Validation bpb: %.4f\n", t->step, e->bpb);
}

int train_evaluate(struct train *t, struct error *err)
{
    struct evaluation e;
    comm_set_step(t->run->comm, t->step);
    if (events_phase_begin(t->run->events, PHASE_EVAL, err) ||
        evaluator_run(t->evaluator, t->model, t->run->comm, &e, err) ||
        events_phase_end(t->run->events, PHASE_EVAL, err))
        return -err->code;
    if (!isfinite(e.loss))
        return error_set(err, NANOCHAT_EXIT_NUMERIC, "the validation loss is %s at step %" PRId64,
                         isnan(e.loss) ? "not a number" : "infinite", t->step);
    return report_evaluation(t, &e, err);
}

/* Every rank samples and rank 0 prints: were the others to wait in the next collective instead, a
 * large model would run into its deadline. */
int train_sample(struct train *t, struct error *err)
{
    if (!t->tokenizer)
        return 0;
    return prompts_sample(t->run, t->model, t->tokenizer, err);
}

int train_log(struct train *t, const struct step_record *r, struct error *err)
{
    if (t->run->quiet)
        return 0;
    double dt = r->t_end_s - r->t_start_s;
    double rate = t->flops_per_token * (double)r->tokens / dt;
    const struct progress p = {
        .step = t->step,
        .iterations = t->iterations,
        .loss = progress_debias(t->smooth_loss, t->step),
        .lr_multiplier = train_lr_multiplier(t),
        .dt_s = dt,
        .tokens = r->tokens,
        .mfu = t->peak_flops > 0 ? rate / (t->peak_flops * comm_world(t->run->comm)) : NAN,
        .total_time_s = t->total_time_s,
    };
    auto_str line = STR_INIT;
    progress_line(&line, &p);
    return run_print(t->run, err, "%s\n", line.data);
}

/* ---- the run about itself ------------------------------------------------------------------- */

static void put_device(const struct train *t, json_t *obj)
{
    struct device_info info;
    t->run->device->ops->info(t->run->device, &info);
    json_put_str(obj, "device", t->run->device->ops->name);
    json_put_str(obj, "device_name", info.name);
    json_put_str(obj, "library", info.gemm);
    json_put_str(obj, "dtype", info.dtype);
    json_put_int(obj, "threads", t->run->threads);
    json_put_str(obj, "comm_backend", comm_backend(t->run->comm));
    json_put(obj, "comm", comm_describe(t->run->comm));
    json_put_int(obj, "world", comm_world(t->run->comm));
    if (t->peak_flops > 0)
        json_put_f64(obj, "peak_flops_per_rank", t->peak_flops);
    else
        json_put_null(obj, "peak_flops_per_rank",
                      t->options->peak_time_s > 0 ? info.peak_kind
                                                  : "not measured (--peak-time=0s)");
    json_put_str(obj, "peak_kind", info.peak_kind);
}

int train_config_event(struct train *t, struct error *err)
{
    const struct train_options *o = t->options;
    json_t *obj = json_object();
    json_put_str(obj, "run", o->run);
    json_put_str(obj, "verb", "base-train");
    put_device(t, obj);
    json_put_int(obj, "seed", o->seed);
    json_put(obj, "model", model_config_json(&t->config));
    json_put_int(obj, "parameters", model_config_params(&t->config));
    json_put_f64(obj, "flops_per_token", t->flops_per_token);
    json_put_int(obj, "tokens_per_step", o->total_batch_size);
    json_put_int(obj, "device_batch_size", t->B);
    json_put_int(obj, "accumulation", t->accumulation);
    json_put_int(obj, "num_iterations", t->iterations);
    json_put(obj, "data", loader_describe(t->loader));
    if (t->tokenizer)
        json_put_str(obj, "tokenizer_sha256", tokenizer_hash(t->tokenizer));
    else
        json_put_null(obj, "tokenizer_sha256", "the data needs no tokenizer");
    if (t->first_step || o->resume_from_step >= 0)
        json_put_int(obj, "resumed_from_step", t->first_step);
    else
        json_put_null(obj, "resumed_from_step", "a fresh run");
    json_put_bool(obj, "optimizer_reset", o->reset_optimizer);
    return events_put(t->run->events, EVENT_CONFIG, obj, err) || train_print_plan(t, err)
               ? -err->code
               : 0;
}

int train_print_plan(struct train *t, struct error *err)
{
    const struct model_config *c = &t->config;
    int world = comm_world(t->run->comm);
    char parameters[32], tokens[32];
    num_format_thousands(parameters, sizeof parameters, model_config_params(c));
    num_format_thousands(tokens, sizeof tokens, t->iterations * t->options->total_batch_size);
    if (run_print(t->run, err,
                  "Model: %" PRId64 " layers, width %" PRId64 ", %" PRId64 " heads (%" PRId64
                  " key/value), vocabulary %" PRId64 ", %s parameters\n"
                  "Ranks: %d x %d threads, %s; %" PRId64 " micro-batches of %" PRId64 " x %" PRId64
                  " tokens a rank and step\n"
                  "Training: %" PRId64 " steps, %s tokens, %.6e FLOPs\n",
                  c->n_layer, c->n_embd, c->n_head, c->n_kv_head, c->vocab_size, parameters, world,
                  t->run->threads, comm_backend(t->run->comm), t->accumulation, t->B, t->T,
                  t->iterations, tokens,
                  t->flops_per_token * (double)t->iterations *
                      (double)t->options->total_batch_size))
        return -err->code;
    if (!(t->peak_flops > 0))
        return 0;
    struct device_info info;
    t->run->device->ops->info(t->run->device, &info);
    return run_print(t->run, err, "mfu is in percent of %.4g FLOP/s of all ranks: %s\n",
                     t->peak_flops * world, info.peak_kind);
}

/* Runs whose hash is the same computed their products by the same algorithms. */
static void put_plans(const struct train *t, json_t *summary)
{
    struct device *d = t->run->device;
    const struct plan_store *plans = d->ops->plans ? d->ops->plans(d) : NULL;
    if (!plans) {
        json_put_null(summary, "gemm_plans", "the device chooses no algorithms");
        return;
    }
    char hash[SHA256_HEX];
    plan_digest(plans, hash);
    json_t *obj = json_object();
    json_put_str(obj, "mode", plan_mode_name(plans->mode));
    json_put_str(obj, "identity", plans->identity);
    json_put_int(obj, "stored", plan_store_taken(plans, PLAN_STORED));
    json_put_int(obj, "timed", plan_store_taken(plans, PLAN_TIMED));
    json_put_int(obj, "first", plan_store_taken(plans, PLAN_FIRST));
    json_put_str(obj, "sha256", hash);
    json_put(summary, "gemm_plans", obj);
}

static void put_graphs(const struct train *t, json_t *summary)
{
    const struct graphs *g = &t->graphs;
    const char *of_model, *of_update;
    json_t *obj = json_object();
    json_put_str(obj, "mode", graphs_mode_name(g));
    json_put_bool(obj, "used", g->verdict == GRAPHS_USED);
    json_put_int(obj, "micro_step_launches", model_graph_launches(t->model, &of_model));
    json_put_int(obj, "update_launches", optimizer_graph_launches(t->optimizer, &of_update));
    json_put_str(obj, "because", of_model ? of_model : of_update ? of_update : g->why);
    if (g->decided_by >= 0)
        json_put_f64(obj, "queue_share", g->decided_by);
    else
        json_put_null(obj, "queue_share", "it was not asked for");
    json_put(summary, "cuda_graphs", obj);
}

int train_summary(struct train *t, struct error *err)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct device_memory memory;
    t->run->device->ops->memory(t->run->device, &memory);
    /* as upstream: the device's where it counts, else the process's (Linux counts kibibytes) */
    double peak_mib = memory.peak_bytes >= 0 ? (double)memory.peak_bytes / 1048576
                                             : (double)usage.ru_maxrss / 1024;
    json_t *obj = json_object();
    json_put_int(obj, "steps", t->step - t->first_step);
    json_put_f64(obj, "training_time_s", t->total_time_s);
    if (isfinite(t->min_val_bpb))
        json_put_f64(obj, "min_val_bpb", t->min_val_bpb);
    else
        json_put_null(obj, "min_val_bpb", "not evaluated in bits per byte");
    json_put_int(obj, "peak_rss_bytes", (int64_t)usage.ru_maxrss * 1024);
    if (memory.peak_bytes >= 0)
        json_put_int(obj, "peak_device_bytes", memory.peak_bytes);
    else
        json_put_null(obj, "peak_device_bytes", "the device's memory is the process's");
    put_plans(t, obj);
    put_graphs(t, obj);
    if (events_put(t->run->events, EVENT_SUMMARY, obj, err) ||
        run_print(t->run, err, "Peak memory usage: %.2fMiB\nTotal training time: %.2fm\n", peak_mib,
                  t->total_time_s / 60))
        return -err->code;
    if (!isfinite(t->min_val_bpb))
        return 0;
    return run_print(t->run, err, "Minimum validation bpb: %.4f\n", t->min_val_bpb);
}
