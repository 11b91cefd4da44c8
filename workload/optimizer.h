/* Muon for the block matrices, AdamW for embedding and head, with the optimizer state sharded over
 * the ranks and nothing padded to the world size.
 *
 * Each block matrix has one owner (balanced by cost, in the order of the matrices, so that a rank
 * owns one piece of memory); AdamW tensors are split by rows, as evenly as the rows allow. A step:
 * reduce the gradients to their owners, norm and clipping of the *reduced* (averaged) gradient,
 * update of the owned parts, all-gather of the weights. Betas 0.8 and 0.95, eps 1e-10, in the form
 * of PyTorch's single-process AdamW whatever the world size. Formulas: docs/methodology.md. */
#ifndef WORKLOAD_OPTIMIZER_H
#define WORKLOAD_OPTIMIZER_H

#include "workload/comm.h"
#include "workload/model.h"

struct optimizer_config {
    double embedding_lr, unembedding_lr, matrix_lr; /* before the scaling of AdamW's by width */
    double weight_decay;                            /* AdamW's */
    double grad_clip;                               /* 0: neither norm nor clipping */
    bool always_norm;                               /* compute the norm even without clipping */
    bool ns_bf16; /* Newton-Schulz rounds to bfloat16, as upstream */
};

struct optimizer;

/* model and comm are borrowed; comm NULL: one rank. */
int optimizer_create(struct optimizer **out, struct model *model, struct comm *comm,
                     const struct optimizer_config *config, struct error *err);
void optimizer_free(struct optimizer *o);
/* Bytes of one rank's state (the largest one's, at most). */
int64_t optimizer_bytes(const struct model_config *config, int world);

/* One update. lr_multiplier scales all rates; *grad_norm is the norm before clipping (-1 when it is
 * not computed); *comm_s is the part of the time that was spent in collectives. With a norm that is
 * not finite nothing is updated, on any rank: the caller judges. Gradients are undefined afterwards
 * (model_zero_grad). Nothing is allocated. */
int optimizer_step(struct optimizer *o, double lr_multiplier, double muon_momentum,
                   double *grad_norm, double *comm_s, struct error *err);

/* From now on the update is launched as a graph (workload/replay.h). An update must have run
 * before.
 */
void optimizer_use_graphs(struct optimizer *o);
/* Graphs launched; *why: not NULL where it could not be captured. */
int64_t optimizer_graph_launches(const struct optimizer *o, const char **why);

/* Before the backward of a step's last micro-batch: gradients are reduced to their owners as soon
 * as they are made, beside the rest of backward (where comm_can_overlap; else in the midst of it,
 * with the same result). The next optimizer_step then only waits for them. */
void optimizer_reduce_early(struct optimizer *o);

/* This rank's state as named tensors ("momentum_buffer.NAME" of the owned matrices, "exp_avg.NAME"
 * and "exp_avg_sq.NAME" of the owned rows), for the checkpoint. data is device memory and may be
 * written to (restore). "step" is kept apart. */
struct optimizer_tensor {
    char name[96];
    float *data;
    int64_t n;
};
size_t optimizer_n_tensors(const struct optimizer *o);
struct optimizer_tensor optimizer_tensor(const struct optimizer *o, size_t i);
struct device *optimizer_device(const struct optimizer *o);
int64_t optimizer_get_step(const struct optimizer *o); /* updates made so far */
void optimizer_set_step(struct optimizer *o, int64_t step);

/* Schedules (pure): step counts from 0; the multiplier is 1 between (step+1)/warmup at the start
 * and the linear way down to final_lr_frac over the last warmdown_ratio of the iterations. */
double schedule_lr_multiplier(int64_t step, int64_t iterations, double warmup_ratio,
                              double warmdown_ratio, double final_lr_frac);
double schedule_muon_momentum(int64_t step);

#endif
