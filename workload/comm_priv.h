/* What the back ends of comm share. */
#ifndef WORKLOAD_COMM_PRIV_H
#define WORKLOAD_COMM_PRIV_H

#include "workload/comm.h"

#define COMM_ID_MAX 33 /* 128 random bits in hexadecimal */

struct comm {
    const struct comm_ops *ops;
    struct comm_config config; /* defaults filled in */
    void *priv;                /* the back end's own */
    char id[COMM_ID_MAX];
    int64_t step;
    _Atomic int64_t *step_cell; /* the launcher's view of step; NULL: none */
    int64_t seq;
    const char *op; /* of the call in progress, for messages */
    int lost_rank;  /* -1: none; once set, every further call fails */
    bool overlap;   /* queued collectives are not joined before `wait` */
    double time_s;
    comm_observer *observer;
    void *observer_user;
};

extern const struct comm_ops comm_self_ops;
extern const struct comm_ops comm_shm_ops;
extern const struct comm_ops comm_tcp_ops;
extern const struct comm_ops comm_mpi_ops;
extern const struct comm_ops comm_nccl_ops; /* any device with struct collective_ops */

/* For back ends with `wait`: a queued collective is done (or lost); tells the observer. */
void comm_report(const struct comm *c, const struct comm_record *record);

/* "all_reduce of step 3": where a call failed. */
#define COMM_WHERE_MAX 64
void comm_where(const struct comm *c, char out[static COMM_WHERE_MAX]);
/* NaN wins, or a maximum would depend on the rank that has it. */
static inline double comm_combine(double a, double b, bool max)
{
    if (!max)
        return a + b;
    return a != a || a > b ? a : b;
}

/* Goes on with a hash (FNV-1a): begin with COMM_HASH. NULL is no text. */
#define COMM_HASH 14695981039346656037u
static inline uint64_t comm_hash(uint64_t h, const char *text)
{
    for (; text && *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* 128 bits from the kernel's random source, as text. */
void comm_make_id(char out[static COMM_ID_MAX]);
/* As comm_forget, for segments of the shm back end. */
void comm_shm_forget(const struct comm_config *config);
/* Where the segment of a run has its name while ranks attach; caller frees. */
char *comm_shm_path(const struct comm_config *config);

#endif
