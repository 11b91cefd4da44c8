/* The state of a training run, shared by the files of train and by its tests. */
#ifndef WORKLOAD_TRAIN_PRIV_H
#define WORKLOAD_TRAIN_PRIV_H

#include "workload/checkpoint.h"
#include "workload/data.h"
#include "workload/evaluate.h"
#include "workload/graphs.h"
#include "workload/model.h"
#include "workload/optimizer.h"
#include "workload/step_clock.h"
#include "workload/tokenizer.h"
#include "workload/train.h"

struct train {
    const struct train_options *options; /* borrowed */
    struct run *run;                     /* borrowed */
    /* the plan */
    int64_t B, T, accumulation, iterations;
    struct model_config config;
    double flops_per_token;
    double peak_flops; /* of a rank; -1: unknown */
    char *checkpoint_dir;
    /* what it works with */
    struct tokenizer *tokenizer; /* NULL: the data needs none */
    struct loader *loader;
    struct evaluator *evaluator; /* NULL: no evaluation wanted */
    struct model *model;
    struct optimizer *optimizer;
    int32_t *inputs, *targets; /* B*T */
    struct step_clock clock;
    struct graphs graphs;
    double handicap; /* a step waits, busily, for so much of its time; 0 */
    int64_t *counts; /* of the run's counters in the last step; NULL: none */
    /* where it is */
    int64_t first_step;    /* 0, or the step resumed from */
    int64_t step;          /* updates made */
    double smooth_loss;    /* progress_smooth's */
    double last_loss;      /* of the last step with a finite one; NaN: none */
    double min_val_bpb;    /* NaN: none yet */
    double data_prepare_s; /* before the step to come */
    double total_time_s;   /* of all steps but the first ten */
};

/* Everything up to the first step. On failure the train is still to be closed. */
int train_open(struct train *t, struct run *run, const struct train_options *options,
               struct error *err);
void train_close(struct train *t);

/* Does what the ranks are about to allocate fit? If not: NANOCHAT_EXIT_OOM with what is needed and
 * the device batch size that would fit. */
int train_check_memory(const struct train *t, const struct device_memory *memory,
                       struct error *err);

/* One step: the timed region. The record is filled in also when the loss is not finite. *stop is
 * the signal that some rank got, 0: none. Does not advance t->step. */
int train_step(struct train *t, struct step_record *record, int *stop, struct error *err);
/* Multiplier of the learning rates at t->step. */
double train_lr_multiplier(const struct train *t);

int train_evaluate(struct train *t, struct error *err);
int train_save(struct train *t, struct error *err);
int train_sample(struct train *t, struct error *err);
/* The config event, and the same for people. */
int train_config_event(struct train *t, struct error *err);
int train_print_plan(struct train *t, struct error *err);
/* The summary event and upstream's closing lines. */
int train_summary(struct train *t, struct error *err);
/* The printed line of a step. */
int train_log(struct train *t, const struct step_record *record, struct error *err);

#endif
