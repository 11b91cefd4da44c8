/* The contract between ncbench and nanochat: everything the two programs share.
 *
 * ncbench starts `nanochat launch --nproc-per-node=N -- VERB …` with the environment below; every
 * rank writes $NCBENCH_TRIAL_DIR/events.rank<NNNNN>.jsonl, one JSON object a line, and ends with an
 * exit code. Nothing is parsed from standard output. docs/architecture.md tells the whole story. */
#ifndef COMMON_PROTOCOL_H
#define COMMON_PROTOCOL_H

/* ---- environment ------------------------------------------------------------------------- */
#define ENV_TRIAL_ID "NCBENCH_TRIAL_ID"   /* also the marker by which strays are found */
#define ENV_TRIAL_DIR "NCBENCH_TRIAL_DIR" /* absolute, the same path inside and outside */
#define ENV_FSROOT "NCBENCH_FSROOT"       /* read instead of / for /proc, /sys, cgroup (tests) */
#define ENV_RANK "RANK"
#define ENV_LOCAL_RANK "LOCAL_RANK"
#define ENV_WORLD_SIZE "WORLD_SIZE"
#define ENV_LOCAL_WORLD_SIZE "LOCAL_WORLD_SIZE"
#define ENV_GROUP_RANK "GROUP_RANK" /* number of the node, as torchrun has it */
#define ENV_MASTER_ADDR "MASTER_ADDR"
#define ENV_MASTER_PORT "MASTER_PORT"
/* "node": the ranks of a node share a file each of events, output and messages */
#define ENV_TRIAL_FILES "NCBENCH_TRIAL_FILES"
#define ENV_TOPOLOGY "NCBENCH_TOPOLOGY"  /* "1": export hwloc's XML into the trial dir */
#define ENV_COUNTERS "NANOCHAT_COUNTERS" /* events to count, "PAPI_TOT_INS,perf::…" */
#define ENV_HANDICAP "NANOCHAT_HANDICAP" /* "0.03": each training step waits so much longer */
#define ENV_BASE_DIR "NANOCHAT_BASE_DIR" /* default ~/.cache/nanochat */

/* ---- files ------------------------------------------------------------------------------- */
#define EVENTS_FILE_FMT "events.rank%05d.jsonl"
#define TOPOLOGY_FILE_FMT "topo.rank%05d.xml" /* by the first rank of each node */
#define RANK_OUT_FMT "rank%05d.out"
#define RANK_ERR_FMT "rank%05d.err"
/* Of a node's ranks together. Each line of events says whose it is ("by_rank": 17); a write begins
 * with a newline, so that what a killed rank left of a line spoils no other's, and blank lines mean
 * nothing. A rank that does not know its node has a file of its own all the same. */
#define EVENTS_NODE_FILE_FMT "events.node%05d.jsonl"
#define NODE_OUT_FMT "node%05d.out"
#define NODE_ERR_FMT "node%05d.err"
#define EVENT_BY_RANK "by_rank"

/* ---- events: the value of "event" in each line ------------------------------------------- */
#define EVENT_SCHEMA "events/1.0"
#define EVENT_HELLO "hello"           /* first line: pid, t_s, versions, sha256, argv … */
#define EVENT_ENV "env"               /* what the rank sees from inside */
#define EVENT_CONFIG "config"         /* the run's shape, before the first step; fields below */
#define EVENT_PHASE "phase"           /* name, edge: begin|end, t_s */
#define EVENT_STEP "step"             /* step, epoch, t_start_s … tokens */
#define EVENT_COMM "comm"             /* step, seq, op, bytes, time_us */
#define EVENT_COUNTERS "counters"     /* step, values {name: count or null}, if asked for */
#define EVENT_EVAL "eval"             /* step, val_bpb, tokens … */
#define EVENT_CHECKPOINT "checkpoint" /* step, bytes, write_s, path */
#define EVENT_PEER_LOST "peer_lost"   /* rank, step, op */
/* communicators, calls [name, calls, enqueue_us, complete, kernel_us …], proxy_… of --nccl-profile
 */
#define EVENT_NCCL_PROFILE "nccl_profile"
#define EVENT_DONE "done" /* last line: exit_code, t_s; absent: did not finish */

/* Fields of `config`, one event a rank: run, verb, device, dtype, threads, comm_backend, world,
 * seed, model {sequence_len, vocab_size, n_layer, n_head, n_kv_head, n_embd}, parameters,
 * flops_per_token (forward and backward), tokens_per_step (all ranks), device_batch_size,
 * accumulation (micro-batches of a rank in a step), num_iterations, peak_flops_per_rank (flop/s;
 * null with peak_flops_per_rank_why where it was not measured) and peak_kind, data {what the source
 * says of itself}, tokenizer_sha256 (null where the data needs none), resumed_from_step (null: a
 * fresh run), optimizer_reset. MFU = flops_per_token * tokens per second / (peak_flops_per_rank *
 * world).
 *
 * `summary`, before done: steps, training_time_s, min_val_bpb, peak_rss_bytes. */
#define EVENT_SUMMARY "summary"

/* Names of phases, in the order in which they happen. */
#define PHASE_EXEC "exec"
#define PHASE_DEVICE_INIT "device_init"
#define PHASE_COMM_INIT "comm_init"
#define PHASE_EVIDENCE "evidence" /* what the rank sees: the event env */
#define PHASE_DATA_INIT "data_init"
#define PHASE_MODEL_INIT "model_init"
#define PHASE_PEAK "peak" /* measuring the peak that MFU is relative to; no part of the work */
#define PHASE_FIRST_STEP "first_step"
#define PHASE_EVAL "eval"
#define PHASE_CHECKPOINT "checkpoint"
#define PHASE_TEARDOWN "teardown"

/* ---- exit codes of nanochat; 125-127 and >= 128 belong to shells and runtimes ------------- */
enum nanochat_exit {
    NANOCHAT_EXIT_OK = 0,
    NANOCHAT_EXIT_USAGE = 2,
    NANOCHAT_EXIT_PLAN = 3, /* impossible shape or plan */
    NANOCHAT_EXIT_DEVICE = 4,
    NANOCHAT_EXIT_DATA = 5,
    NANOCHAT_EXIT_NUMERIC = 6,    /* non-finite loss */
    NANOCHAT_EXIT_CHECKPOINT = 7, /* checkpoint or tokenizer corrupt or mismatched */
    NANOCHAT_EXIT_PEER = 8,       /* peer lost, killed, or collective timed out */
    NANOCHAT_EXIT_OOM = 9,
    NANOCHAT_EXIT_WRITE = 10,
    NANOCHAT_EXIT_BUG = 70,
};

/* ---- exit codes of ncbench; own signal N: 128 + N ----------------------------------------- */
enum ncbench_exit {
    NCBENCH_EXIT_OK = 0,
    NCBENCH_EXIT_GATE = 1,
    NCBENCH_EXIT_USAGE = 2,
    NCBENCH_EXIT_SCENARIO = 3,
    NCBENCH_EXIT_ENVIRONMENT = 4,
    NCBENCH_EXIT_TRIALS = 5, /* trials failed or session incomplete */
    NCBENCH_EXIT_INCONCLUSIVE = 6,
    NCBENCH_EXIT_UNTRUSTWORTHY = 7, /* not comparable or untrustworthy */
    NCBENCH_EXIT_RESULTS = 8,       /* results cannot be written or read */
    NCBENCH_EXIT_BUG = 70,
    NCBENCH_EXIT_LIMIT = 124,
};

/* ---- outcomes of a trial; only OUTCOME_OK enters statistics -------------------------------- */
enum outcome {
    OUTCOME_OK,
    OUTCOME_WORKLOAD_FAILED,
    OUTCOME_NUMERIC_FAILED,
    OUTCOME_RUNTIME_FAILED,
    OUTCOME_NOT_FOUND,
    OUTCOME_NOT_EXECUTABLE,
    OUTCOME_UNAVAILABLE,
    OUTCOME_TIMEOUT,
    OUTCOME_OOM,
    OUTCOME_SIGNALLED,
    OUTCOME_CANCELLED,
    OUTCOME_DISTURBED,
    OUTCOME_INVALID,
    OUTCOME_HARNESS_ERROR,
    OUTCOME_COUNT,
};

/* "ok", "workload_failed", …: as written in records. */
const char *outcome_name(enum outcome outcome);
/* The outcome of a name, or OUTCOME_COUNT if there is none. */
enum outcome outcome_from_name(const char *name);

#endif
