/* A scenario: the YAML file, typed by our schema, expanded over its matrix.
 *
 *   scenario_load → struct scenario (one struct cell for each point of the matrix, all ${…} done)
 *   plan_make     → the trials in order (harness/plan.h)
 *
 * Loading reports every error at once: error.message holds them one after the other, each
 * "file:line:col: error: path.to.key: what, what was expected" with the source line and a caret.
 * The whole reference is docs/configuration.md, generated from the schema table. */
#ifndef HARNESS_SCENARIO_H
#define HARNESS_SCENARIO_H

#include "common/error.h"
#include "common/json.h"
#include "common/str.h"
#include "common/topo.h"
#include "harness/launchers/slurm.h"
#include "runtimes/runtime.h"

#include <stdbool.h>
#include <stdint.h>

enum order { ORDER_RANDOM_BLOCKS, ORDER_ABBA, ORDER_SEQUENTIAL };
enum stop_rule { STOP_DECIDED, STOP_PRECISION, STOP_NEVER };
enum event_rule { EVENTS_REQUIRED, EVENTS_NONE };
enum scaling_mode { SCALING_NONE, SCALING_WEAK, SCALING_STRONG };

struct margin { /* of a metric; both may be set: the larger one counts */
    char *metric;
    double rel; /* ratio, 0.01 = 1 %; 0: not given */
    double abs; /* in the metric's unit; 0: not given */
};

struct gate {
    char *metric, *runtime, *vs; /* runtime "*": all but the baseline */
    char *verdict;               /* "not_slower" | "equivalent"; NULL: none */
    double min, max;             /* NaN: not given */
};

struct limits {
    double trial_s, no_output_s, kill_grace_s, session_s; /* 0: none */
    int64_t max_failures;
    int64_t disk_free_bytes;
};

/* One point of the matrix: everything that may depend on ${…}. */
struct cell {
    char *id;          /* "c00", "c01" … in order of the matrix */
    json_t *values;    /* {"ranks": 2} */
    struct strv argv;  /* the workload's: VERB and its options, or the foreign command */
    struct strv env;   /* workload.env */
    struct strv paths; /* host paths under workload that must be visible in every runtime */
    int64_t nodes, ranks_per_node, threads_per_rank;
    enum topo_bind bind;
    bool is_slurm; /* launch.scheduler; the same in all cells */
    struct slurm_options slurm;
    struct runtime_spec *runtimes; /* n_runtimes of the scenario, control included */
};

struct scenario {
    char *path;      /* as given */
    char sha256[65]; /* of the file's bytes */
    char *name, *description;
    size_t n_runtimes; /* the control arm counts */
    size_t baseline;   /* index */
    int control;       /* index of the A/A arm ("<baseline>-control"), or -1 */
    int handicap;      /* index of the slowed arm ("<baseline>-handicap"), or -1 */
    bool is_verb;      /* workload.command (nanochat) or workload.exec */
    enum event_rule events;
    struct cell *cells;
    size_t n_cells;
    struct {
        enum scaling_mode mode;
        char *over;
    } scaling;
    struct {
        enum order order;
        uint64_t seed;
        int64_t looks[5];
        size_t n_looks;
        enum stop_rule stop;
        bool discard_first_block;
        double handicap; /* ratio - 1 of the slowed arm; 0: none */
        int64_t warmup_steps;
        bool warmup_detect;
    } sampling;
    struct {
        bool loss; /* a fast run that learns something else is invalid */
        double loss_rel_tol;
    } check;
    char *primary;
    struct strv secondary;
    struct margin *margins;
    size_t n_margins;
    struct gate *gates;
    size_t n_gates;
    struct limits limits;
    struct {
        bool topology;
        struct strv counters; /* names of events */
        bool require_counters;
        struct {
            bool asked; /* by the scenario; a workload on GPUs is sampled anyway */
            bool required;
            double interval_s;
        } gpu;
    } measure;
    struct { /* when a trial counts as disturbed; ratios */
        double foreign_cpu, steal, max_repeated, gpu_clocks;
        bool gpu_processes;
    } disturbance;
    struct {
        char *dir;
        struct strv plots, report;
        bool files_per_node; /* ranks of a node share their files in a trial's directory */
    } output;
    struct strv warnings; /* found while loading; scenario_check repeats them */
    json_t *resolved;     /* the whole, defaults filled in: resolved.json and `check --dump` */
};

/* defines: "-D key=value" texts that replace vars or any dotted key. Exit 3 for a bad scenario, 2
 * for a bad define. */
int scenario_load(const char *path, const struct strv *defines, struct scenario *out,
                  struct error *err);
/* The same from memory (name for messages). */
int scenario_parse(const char *text, size_t len, const char *name, const struct strv *defines,
                   struct scenario *out, struct error *err);
void scenario_release(struct scenario *s);
/* As error_print, but errors with positions stand as they are, as a compiler's, and each line of
 * several is one error. */
void scenario_error_print(const struct error *err, const char *program);

/* Can it run here? 3: nowhere (plans that cannot work, mounts a runtime cannot express); 4: not on
 * this machine (mount source, image, PUs). portable: the file alone. Warnings go to `warnings`. */
int scenario_check(const struct scenario *s, bool portable, struct strv *warnings,
                   struct error *err);

#endif
