/* What the files of the CPU back end share: its state and the ops that its table is made of. */
#ifndef KERNELS_CPU_CPU_PRIV_H
#define KERNELS_CPU_CPU_PRIV_H

#include "kernels/kernels.h"

#define RMS_EPS 1.1920929e-7f /* the machine epsilon of float32, as PyTorch takes by default */
#define SOFTCAP 15.0f

struct cpu_state {
    int threads;
};

extern const struct device_ops cpu_device_ops;
extern const struct kernel_ops cpu_kernel_ops;

/* Memory left to this process: /proc/meminfo and every cgroup above us, v1 or v2. */
void cpu_memory(struct device_memory *out);

/* Scratch in floats. */
int64_t cpu_attention_scratch(int threads, int64_t T);
int64_t cpu_head_scratch(int64_t rows, int64_t V);
int64_t cpu_muon_scratch(int threads, int64_t rows, int64_t cols);

int cpu_embed_norm_fwd(struct device *d, void *x, float *rstd, const void *wte,
                       const int32_t *tokens, int64_t rows, int64_t C, struct error *err);
int cpu_embed_norm_bwd(struct device *d, float *dwte, const void *dx, const void *wte,
                       const float *rstd, const int32_t *tokens, int64_t rows, int64_t C,
                       struct error *err);
int cpu_norm_fwd(struct device *d, void *xn, float *rstd, const void *x, int64_t rows, int64_t C,
                 struct error *err);
int cpu_norm_bwd(struct device *d, void *dx, const void *dxn, const void *xn, const float *rstd,
                 bool accumulate, int64_t rows, int64_t C, struct error *err);
int cpu_linear_fwd(struct device *d, void *y, const void *x, const void *w, bool accumulate,
                   int64_t rows, int64_t in, int64_t out, struct error *err);
int cpu_linear_relu2_fwd(struct device *d, void *a, const void *x, const void *w, int64_t rows,
                         int64_t in, int64_t out, struct error *err);
int cpu_linear_bwd_input(struct device *d, void *dx, const void *dy, const void *w, int64_t rows,
                         int64_t in, int64_t out, struct error *err);
int cpu_linear_relu2_bwd_input(struct device *d, void *dh, const void *dy, const void *w,
                               const void *a, int64_t rows, int64_t in, int64_t out,
                               struct error *err);
int cpu_linear_bwd_weight(struct device *d, float *dw, const void *dy, const void *x, int64_t rows,
                          int64_t in, int64_t out, struct error *err);
int cpu_rope_norm_fwd(struct device *d, void *qkv, float *rstd, const float *cos, const float *sin,
                      int64_t B, int64_t T, int64_t H, int64_t KV, int64_t D, struct error *err);
int cpu_rope_norm_bwd(struct device *d, void *dqkv, const void *qkv, const float *rstd,
                      const float *cos, const float *sin, int64_t B, int64_t T, int64_t H,
                      int64_t KV, int64_t D, struct error *err);
int cpu_attention_fwd(struct device *d, void *o, float *lse, const void *qkv, void *ws, int64_t B,
                      int64_t T, int64_t H, int64_t KV, int64_t D, struct error *err);
int cpu_attention_bwd(struct device *d, void *dqkv, const void *dout, const void *o,
                      const float *lse, const void *qkv, void *ws, int64_t B, int64_t T, int64_t H,
                      int64_t KV, int64_t D, struct error *err);
int cpu_head_loss(struct device *d, float *losses, void *dx, float *dw, const void *x,
                  const void *w, const int32_t *targets, double scale, void *ws, int64_t rows,
                  int64_t C, int64_t V, struct error *err);
int cpu_head_logits(struct device *d, float *logits, const void *x, const void *w, int64_t rows,
                    int64_t C, int64_t V, struct error *err);
int cpu_sum_squares(struct device *d, double *sum, const float *x, int64_t n, struct error *err);
int cpu_adamw(struct device *d, float *weight, float *m, float *v, const float *grad, int64_t n,
              const struct adamw_args *args, struct error *err);
int cpu_muon(struct device *d, const struct muon_item *items, int64_t n,
             const struct muon_args *args, void *ws, int64_t rows, int64_t cols, struct error *err);

#endif
