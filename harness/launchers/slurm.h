/* Slurm from the inside of an allocation: what it consists of, what its state is, and the command
 * line of a step.
 *
 * Nothing that Slurm left in our environment (SLURM_CPUS_PER_TASK, SLURM_NTASKS, SRUN_* …) decides
 * how a step runs: srun starts with the trial's environment and SLURM_CONF, and every size of the
 * step stands in its command line. Every call of a Slurm program has a deadline. */
#ifndef HARNESS_LAUNCHERS_SLURM_H
#define HARNESS_LAUNCHERS_SLURM_H

#include "common/error.h"
#include "common/protocol.h"
#include "common/str.h"

#include <stdbool.h>
#include <stdint.h>

#define SLURM_STEP_ID_MAX 32

struct slurm_allocation {
    char *job_id;
    char *node_list;       /* as Slurm writes it: "n[1-4]" */
    struct strv nodes;     /* in Slurm's order */
    char *version;         /* of srun: "slurm 22.05.8" */
    int64_t cpus_per_node; /* the least of all nodes; 0: unknown */
    double end_s;          /* of its time, clock_mono_s; 0: no limit, or unknown */
    int64_t restarts;      /* how often Slurm had started the job again before this start */
};

/* 4: this is no allocation, Slurm does not answer, or the job does not run. */
int slurm_open(struct slurm_allocation *a, struct error *err);
void slurm_release(struct slurm_allocation *a);
/* Is this process inside an allocation (SLURM_JOB_ID is set)? */
bool slurm_inside(void);
/* Is the job still running, with all its nodes up, as Slurm says now? Else *why in words. When
 * Slurm does not answer it counts as running: a step will tell. full: look at the nodes too. */
bool slurm_is_usable(const struct slurm_allocation *a, bool full, struct str *why);

/* Was the job preempted or requeued since it started, as Slurm says now? Then *why in words. It may
 * be running still, for its grace time. */
bool slurm_is_taken_away(const struct slurm_allocation *a, struct str *why);
/* The same by squeue's columns RestartCnt and PreemptTime ("1 2026-12-01T15:44:51", "0 N/A"). */
bool slurm_read_taken_away(const char *columns, const struct slurm_allocation *a, struct str *why);

/* "1-02:03:04", "02:03", "UNLIMITED": seconds, or negative for no limit or no number. */
double slurm_parse_time(const char *text);
/* SLURM_JOB_CPUS_PER_NODE, "2(x3),4": the least; 0 for what is none. */
int64_t slurm_least_cpus(const char *text);
/* CPUs of a node's task: as asked for, or enough for its ranks. */
int64_t slurm_cpus_per_task(int64_t asked, int64_t ranks_per_node, int64_t threads_per_rank);
/* The first `count` nodes, with commas; caller frees. */
char *slurm_first_nodes(const struct slurm_allocation *a, int64_t count);

/* The node of the allocation that this process is on, by Slurm's name, which need not be the
 * host's: what SLURMD_NODENAME says, else the one whose name agrees with `host` up to the first
 * dot. NULL: it is on none. */
const char *slurm_own_node(const struct slurm_allocation *a, const char *host);

/* launch.slurm of a scenario. */
struct slurm_options {
    char *account, *partition, *qos, *constraint, *reservation, *mem, *mpi, *network;
    double time_limit_s;                  /* of the job; 0: the site's default */
    int64_t cpus_per_task, gpus_per_node; /* 0: ranks times threads; none */
    struct strv args;                     /* of srun */
    struct strv sbatch;                   /* lines of #SBATCH */
    struct strv setup;                    /* shell lines of the job script */
};
void slurm_options_release(struct slurm_options *o);

struct slurm_step {
    const struct slurm_allocation *allocation;
    const struct slurm_options *options;
    int64_t nodes, tasks_per_node, cpus_per_task;
    bool bind; /* the task gets CPUs of its own; else it may use all of the node's */
    /* The first task that fails ends all. Not for nanochat: its ranks notice a lost peer, and
     * srun would be the second to signal ranks that end in good order already. */
    bool kill_on_bad_exit;
    double time_s;    /* limit */
    const char *name; /* of the step */
    const char *cwd;
    const char *output, *errors; /* srun's own patterns; NULL: through srun's streams */
    const struct strv *runtime;  /* further options of srun, of a runtime that is its plugin */
};
/* Pure. argv: srun and all its options; the command follows. */
void slurm_step_argv(const struct slurm_step *step, struct strv *argv);
/* What srun needs in its environment beside what the tasks get. */
void slurm_client_env(struct strv *env);
/* "SLURM_CPUS_PER_TASK=4 is not used: each task gets 2": inherited settings that contradict the
 * step, one text each. */
void slurm_inherited(const struct slurm_step *step, struct strv *warnings);

/* What srun and slurmstepd said on standard error. */
struct slurm_word {
    enum outcome outcome; /* OUTCOME_COUNT: the scheduler is not to blame */
    bool job_over;        /* no further step can run */
    int exit_code;        /* of the task that explains the failure; -1: none was told */
    int signal;           /* that ended it; 0: none */
    char node[64];        /* on which it ran; "" unknown */
};
void slurm_read_word(const char *stderr_tail, struct slurm_word *word, struct str *reason);

/* End every step of the allocation whose name begins so. False: one is still there; named in what.
 */
bool slurm_end_steps(const struct slurm_allocation *a, const char *prefix, double seconds,
                     struct str *what);
/* Run a program of Slurm's and get its output; 4 when it fails, its words with it. */
int slurm_ask(const struct strv *argv, double seconds, struct str *out, struct error *err);
/* Run a step to its end, as slurm_ask. Of our environment it gets neither what Slurm left in it nor
 * the defaults of srun's plugins (PYXIS_CONTAINER_IMAGE would put it into a container). */
int slurm_run(const struct slurm_step *step, const struct strv *command, double seconds,
              struct error *err);

#endif
