/* The keys themselves. Adding one is adding a line here (parents before children) and using it. */
#include "common/topo.h"
#include "harness/schema.h"

#define INT_MAX_EXACT 9007199254740992.0 /* 2^53 */

static const char *const commands[] = {"base-train", "base-loss", "tok-train", "tok-eval", NULL};
static const char *const gemm_plans[] = {"auto", "stored", "time", "first", NULL};
static const char *const cuda_graphs[] = {"auto", "on", "off", NULL};
static const char *const dtypes[] = {"float32", "bfloat16", "fp8", "fp8-wgrad", NULL};
static const char *const devices[] = {"cpu", "cuda", NULL};
static const char *const sources[] = {"text", "packed", "synthetic", NULL};
static const char *const event_rules[] = {"required", "none", NULL};
static const char *const baselines[] = {"baseline", NULL};
static const char *const ipc[] = {"host", "private", NULL};
static const char *const gpus[] = {"none", "all", NULL};
static const char *const networks[] = {"host", "none", NULL};
static const char *const schedulers[] = {"local", "slurm", NULL};
static const char *const modes[] = {"weak", "strong", NULL};
static const char *const orders[] = {"random_blocks", "abba", "sequential", NULL};
static const char *const stops[] = {"decided", "precision", "never", NULL};
static const char *const verdicts[] = {"not_slower", "equivalent", NULL};
static const char *const plots[] = {"svg", "png", NULL};
static const char *const reports[] = {"md", "html", NULL};
static const char *const trial_files[] = {"per-rank", "per-node", NULL};

const struct schema_key schema_root = {.path = "", .type = SCHEMA_MAP};

/* clang-format off */
#define KEY(path_, type_, flags_, def_, help_) \
    {.path = path_, .type = SCHEMA_##type_, .flags = flags_, .def = def_, .help = help_}
#define BOUND(path_, type_, flags_, def_, min_, max_, help_) \
    {.path = path_, .type = SCHEMA_##type_, .flags = flags_, .def = def_, .min = min_, .max = max_, .help = help_}
#define WORD(path_, flags_, def_, choices_, help_) \
    {.path = path_, .type = SCHEMA_CHOICE, .flags = flags_, .def = def_, .choices = choices_, .help = help_}
/* An option of nanochat: without a default here, nanochat's own holds. */
#define OPTION(path_, type_, min_, max_, option_, help_) \
    {.path = path_, .type = SCHEMA_##type_, .min = min_, .max = max_, .option = option_, .help = help_}
#define OPTION_WORD(path_, choices_, option_, help_) \
    {.path = path_, .type = SCHEMA_CHOICE, .choices = choices_, .option = option_, .help = help_}

const struct schema_key schema_keys[] = {
    BOUND("version", INT, SCHEMA_REQUIRED, NULL, 1, 1, "Version of this format."),
    KEY("name", NAME, SCHEMA_REQUIRED, NULL, "Name of the scenario; sessions land in <output.dir>/<name>/."),
    KEY("description", STRING, 0, NULL, "What is asked, in words; printed in reports."),
    KEY("baseline", STRING, SCHEMA_REQUIRED, NULL, "Name of the runtime that the others are compared with."),
    KEY("vars", MAP, 0, NULL, "Variables for ${…}; may use each other and the matrix. Replaced by `-D name=value`."),
    KEY("vars.*", SCALAR, 0, NULL, "Text, a number, true or false."),

    KEY("workload", MAP, SCHEMA_REQUIRED | SCHEMA_PER_CELL, NULL, "What every trial runs: `command` or `exec`."),
    WORD("workload.command", 0, NULL, commands, "A verb of nanochat."),
    KEY("workload.exec", LIST, SCHEMA_NON_EMPTY, NULL, "Any other command, an argument an item; run once a rank."),
    KEY("workload.exec[]", STRING, 0, NULL, "One argument."),
    WORD("workload.events", 0, NULL, event_rules, "Must the ranks write events? Default: required with `command`, none with `exec`."),
    KEY("workload.model", MAP, 0, NULL, "Shape of the model (base-train)."),
    OPTION("workload.model.depth", INT, 1, 1024, "--depth", "Number of layers; nanochat's default is 20."),
    OPTION("workload.model.max_seq_len", INT, 1, 1 << 20, "--max-seq-len", "Context length in tokens; 2048."),
    OPTION("workload.model.vocab_size", INT, 1, 1 << 24, "--vocab-size", "The tokenizer's, checked against it; for packed and synthetic data 65536 unless given."),
    OPTION("workload.model.n_head", INT, 0, 1024, "--n-head", "Attention heads; 0: from the depth."),
    OPTION("workload.model.n_kv_head", INT, 0, 1024, "--n-kv-head", "Key and value heads (grouped-query attention); 0: as many as heads."),
    KEY("workload.train", MAP, 0, NULL, "How it is trained (base-train)."),
    OPTION("workload.train.device_batch_size", INT, 1, 1 << 20, "--device-batch-size", "Rows of a micro-batch on each rank; 32."),
    OPTION("workload.train.total_batch_size", INT, 1, INT_MAX_EXACT, "--total-batch-size", "Tokens of a step over all ranks; 524288. A multiple of device_batch_size x max_seq_len x ranks."),
    OPTION("workload.train.num_iterations", INT, -1, INT_MAX_EXACT, "--num-iterations", "Steps; -1: from target_flops or target_param_data_ratio."),
    OPTION("workload.train.target_flops", NUMBER, 0, 0, "--target-flops", "Horizon as FLOPs; -1: none."),
    OPTION("workload.train.target_param_data_ratio", NUMBER, 0, 0, "--target-param-data-ratio", "Horizon as tokens a parameter; 20."),
    OPTION("workload.train.embedding_lr", NUMBER, 0, 1e30, "--embedding-lr", "Learning rate of the embedding; 0.2."),
    OPTION("workload.train.unembedding_lr", NUMBER, 0, 1e30, "--unembedding-lr", "Learning rate of the output layer; 0.004."),
    OPTION("workload.train.matrix_lr", NUMBER, 0, 1e30, "--matrix-lr", "Learning rate of the matrices (Muon); 0.02."),
    OPTION("workload.train.weight_decay", NUMBER, 0, 1e30, "--weight-decay", "Of AdamW; 0."),
    OPTION("workload.train.grad_clip", NUMBER, 0, 1e30, "--grad-clip", "Largest norm of the gradient; 1; 0: no clipping."),
    OPTION("workload.train.warmup_ratio", NUMBER, 0, 1, "--warmup-ratio", "Part of the steps in which the rate rises; 0."),
    OPTION("workload.train.warmdown_ratio", NUMBER, 0, 1, "--warmdown-ratio", "Part of the steps in which it falls; 0.2."),
    OPTION("workload.train.final_lr_frac", NUMBER, 0, 1, "--final-lr-frac", "What is left of the rate at the end; 0."),
    OPTION("workload.train.eval_every", INT, -1, INT_MAX_EXACT, "--eval-every", "Steps between validations; 250; -1: none."),
    OPTION("workload.train.eval_tokens", INT, 0, INT_MAX_EXACT, "--eval-tokens", "Tokens of a validation; 10485760."),
    OPTION("workload.train.sample_every", INT, -1, INT_MAX_EXACT, "--sample-every", "Steps between samplings of the fixed prompts; 2000; -1: none."),
    OPTION("workload.train.save_every", INT, -1, INT_MAX_EXACT, "--save-every", "Steps between checkpoints; -1: only at the end; 0: none."),
    OPTION("workload.train.seed", INT, 0, INT_MAX_EXACT, "--seed", "Of weights and data; 42."),
    OPTION_WORD("workload.train.dtype", dtypes, "--dtype", "Number format."),
    OPTION_WORD("workload.train.gemm_plans", gemm_plans, "--gemm-plans", "On GPUs, how algorithms of products are chosen; auto: the first trial times and stores, the others take what is stored below the base directory, which every arm gets. stored: after a run of your own with auto, no trial pays for the timing."),
    OPTION_WORD("workload.train.cuda_graphs", cuda_graphs, "--cuda-graphs", "On GPUs, forward, backward and update as graphs; give on or off, since auto decides in each trial by what it measures."),
    OPTION_WORD("workload.train.device_type", devices, "--device-type", "Where it runs; without it on the CPU."),
    OPTION("workload.train.model_tag", STRING, 0, 0, "--model-tag", "Name of the checkpoint's folder."),
    OPTION("workload.train.run", STRING, 0, 0, "--run", "Name of the run."),
    KEY("workload.data", MAP, 0, NULL, "What it is trained on."),
    OPTION_WORD("workload.data.source", sources, "--data-source", "text: files as they are, also gzip; packed: token files; synthetic: seeded, no file."),
    OPTION("workload.data.path", PATH, 0, 0, "--data", "The file or folder; seen at the same path by every runtime."),
    OPTION("workload.data.tokenizer", PATH, 0, 0, "--tokenizer", "The tokenizer's folder; seen at the same path by every runtime."),
    OPTION("workload.data.val_every", INT, 0, INT_MAX_EXACT, "--val-every", "Of a single file every n-th document or block is validation; 100."),
    OPTION("workload.data.val_files", INT, 0, INT_MAX_EXACT, "--val-files", "Of a folder the last n files are validation; 1."),
    KEY("workload.args", LIST, 0, NULL, "Further arguments, behind all others."),
    KEY("workload.args[]", STRING, 0, NULL, "One argument."),
    KEY("workload.paths", LIST, 0, NULL, "Further paths of this machine that every runtime must see."),
    KEY("workload.paths[]", PATH, 0, NULL, "A path."),
    KEY("workload.env", MAP, 0, NULL, "Environment of the workload, the same in every runtime."),
    KEY("workload.env.*", STRING, 0, NULL, "The value, byte for byte."),
    KEY("workload.check", MAP, 0, NULL, "What a trial must fulfil to count."),
    KEY("workload.check.loss", MAP, SCHEMA_OPTIONAL, NULL, "A fast run that learns something else is invalid."),
    WORD("workload.check.loss.vs", 0, "baseline", baselines, "With what the last loss is compared."),
    KEY("workload.check.loss.rel_tol", PERCENT, SCHEMA_POSITIVE, "1%", "Largest relative difference."),

    KEY("runtimes", LIST, SCHEMA_REQUIRED | SCHEMA_PER_CELL | SCHEMA_NON_EMPTY, NULL, "The arms: how the workload is run. `ncbench doctor` tells which kinds work here."),
    KEY("runtimes[]", MAP, 0, NULL, "One arm. Which keys a kind takes is checked."),
    KEY("runtimes[].name", NAME, SCHEMA_REQUIRED | SCHEMA_LITERAL, NULL, "Name of the arm, at most 32 characters."),
    KEY("runtimes[].kind", STRING, SCHEMA_REQUIRED | SCHEMA_LITERAL, NULL, "bare, podman, docker, charliecloud, crun, apptainer, enroot, pyxis, cscs-ce, skybox, command, fake."),
    KEY("runtimes[].image", STRING, SCHEMA_NON_EMPTY, NULL, "Reference in the runtime's own store, or a path; never pulled."),
    KEY("runtimes[].rootfs", STRING, SCHEMA_NON_EMPTY, NULL, "A directory as root file system in place of an image; podman: \"/\" is the host's own."),
    KEY("runtimes[].nanochat", STRING, SCHEMA_NON_EMPTY, NULL, "Where nanochat lies inside; /usr/local/bin/nanochat in images, the host's own path for rootfs \"/\"."),
    KEY("runtimes[].mounts", LIST, 0, NULL, "Mounts beyond those that the harness adds itself (trial, base directory, workload paths)."),
    {.path = "runtimes[].mounts[]", .type = SCHEMA_MAP, .shorthand = "spec", .help = "\"SRC:DST[:ro]\" (\"\\:\" is a colon in a path), or the parts as a mapping."},
    KEY("runtimes[].mounts[].spec", STRING, 0, NULL, "The short form."),
    KEY("runtimes[].mounts[].source", STRING, 0, NULL, "Path on this machine, absolute; any character."),
    KEY("runtimes[].mounts[].target", STRING, 0, NULL, "Path inside, absolute; default: the source."),
    KEY("runtimes[].mounts[].read_only", BOOL, 0, NULL, "Not writable inside; false."),
    KEY("runtimes[].mounts[].optional", BOOL, 0, NULL, "Left out with a warning when the source is absent; false."),
    KEY("runtimes[].env", MAP, 0, NULL, "Environment of this arm; wins over workload.env."),
    KEY("runtimes[].env.*", STRING, 0, NULL, "The value, byte for byte."),
    KEY("runtimes[].differs", LIST, 0, NULL, "Items of the comparison of environments that are meant to differ in this arm."),
    KEY("runtimes[].differs[]", STRING, SCHEMA_NON_EMPTY, NULL, "An item, such as OMP_NUM_THREADS."),
    KEY("runtimes[].devices", LIST, 0, NULL, "Devices to pass in."),
    KEY("runtimes[].devices[]", STRING, SCHEMA_NON_EMPTY, NULL, "\"/dev/x\" or a CDI name."),
    WORD("runtimes[].gpus", 0, NULL, gpus, "all: NVIDIA's GPUs, the way the kind has: CDI, device nodes, a hook, --nv. `ncbench check` names what is missing."),
    KEY("runtimes[].ulimits", MAP, 0, NULL, "Resource limits, never above this process's hard limits."),
    KEY("runtimes[].ulimits.*", STRING, SCHEMA_NON_EMPTY, NULL, "\"unlimited\", a number, or \"soft:hard\"."),
    KEY("runtimes[].options", LIST, 0, NULL, "Extra arguments for the runtime itself, before the image."),
    KEY("runtimes[].options[]", STRING, 0, NULL, "One argument."),
    KEY("runtimes[].annotations", MAP, 0, NULL, "Annotations of an EDF, such as com.hooks.cxi.enabled."),
    KEY("runtimes[].annotations.*", STRING, 0, NULL, "The value, a text."),
    WORD("runtimes[].ipc", 0, NULL, ipc, "Shared memory: the host's (default) or the container's own."),
    WORD("runtimes[].network", 0, NULL, networks, "The host's (default) or none."),
    KEY("runtimes[].userns", STRING, SCHEMA_NON_EMPTY, NULL, "User namespace, such as keep-id; the runtime's default."),
    KEY("runtimes[].cpuset", STRING, SCHEMA_NON_EMPTY, NULL, "CPUs of the container, \"0-3\"; the host's."),
    KEY("runtimes[].shm_size", SIZE, SCHEMA_POSITIVE, NULL, "Size of a private /dev/shm; the host's."),
    KEY("runtimes[].memory", SIZE, SCHEMA_POSITIVE, NULL, "Memory limit of the container; none."),
    KEY("runtimes[].prefix", LIST, SCHEMA_NON_EMPTY, NULL, "Kind command: the command line, \"{argv}\" stands for the workload's."),
    KEY("runtimes[].prefix[]", STRING, 0, NULL, "One argument."),
    KEY("runtimes[].script", ANY, 0, NULL, "Kind fake: the scripted response."),

    KEY("launch", MAP, SCHEMA_PER_CELL, NULL, "How the ranks are started."),
    WORD("launch.scheduler", 0, "local", schedulers, "Who starts them: this process, or srun in the Slurm allocation that ncbench runs in."),
    BOUND("launch.nodes", INT, 0, "1", 1, 65536, "Number of nodes; more than one needs scheduler: slurm."),
    BOUND("launch.ranks_per_node", INT, 0, "1", 1, 4096, "Processes of the workload on each node."),
    BOUND("launch.threads_per_rank", INT, 0, "1", 1, 4096, "Threads of each process (OMP_NUM_THREADS and its like)."),
    WORD("launch.bind", 0, "cores", topo_bind_names, "Pin each rank to cores of its own, to a NUMA node, to the cores near its GPU, or not at all."),

    KEY("launch.slurm", MAP, 0, NULL, "With scheduler: slurm. What the job asks for (`ncbench sbatch`), then how each trial's step is made."),
    KEY("launch.slurm.account", STRING, SCHEMA_NON_EMPTY, NULL, "Of the job."),
    KEY("launch.slurm.partition", STRING, SCHEMA_NON_EMPTY, NULL, "Of the job."),
    KEY("launch.slurm.qos", STRING, SCHEMA_NON_EMPTY, NULL, "Of the job."),
    KEY("launch.slurm.constraint", STRING, SCHEMA_NON_EMPTY, NULL, "Features that the job's nodes must have."),
    KEY("launch.slurm.reservation", STRING, SCHEMA_NON_EMPTY, NULL, "Of the job."),
    KEY("launch.slurm.time_limit", DURATION, 0, "0s", "Of the job; 0s: the site's default."),
    KEY("launch.slurm.sbatch", LIST, 0, NULL, "Further options of the job, one an item, such as \"--exclusive\"."),
    KEY("launch.slurm.sbatch[]", STRING, SCHEMA_NON_EMPTY, NULL, "One option."),
    KEY("launch.slurm.setup", LIST, 0, NULL, "Lines of shell in the job script before ncbench runs, such as \"module load …\"."),
    KEY("launch.slurm.setup[]", STRING, 0, NULL, "One line."),
    BOUND("launch.slurm.cpus_per_task", INT, 0, "0", 0, 65536, "CPUs of a node's task, which starts the node's ranks; 0: ranks_per_node x threads_per_rank."),
    BOUND("launch.slurm.gpus_per_node", INT, 0, "0", 0, 4096, "GPUs of a node, all for its one task; 0: none are asked for."),
    KEY("launch.slurm.mem", STRING, SCHEMA_NON_EMPTY, NULL, "Memory of a step on each node, in Slurm's words; all that the job has."),
    KEY("launch.slurm.mpi", STRING, SCHEMA_NON_EMPTY, NULL, "Plugin of srun for MPI; none."),
    KEY("launch.slurm.network", STRING, SCHEMA_NON_EMPTY, NULL, "srun --network, such as disable_rdzv_get."),
    KEY("launch.slurm.args", LIST, 0, NULL, "Further options of srun, one an item."),
    KEY("launch.slurm.args[]", STRING, SCHEMA_NON_EMPTY, NULL, "One option."),

    KEY("matrix", MAP, 0, NULL, "Names with lists of values: a cell for each combination."),
    KEY("matrix.*", LIST, SCHEMA_NON_EMPTY, NULL, "The values of one name."),
    KEY("matrix.*[]", SCALAR, 0, NULL, "Text, a number, true or false."),
    KEY("zip", MAP, 0, NULL, "As matrix, but in lock-step: lists of one length, combined with matrix as one more axis."),
    KEY("zip.*", LIST, SCHEMA_NON_EMPTY, NULL, "The values of one name."),
    KEY("zip.*[]", SCALAR, 0, NULL, "Text, a number, true or false."),
    KEY("include", LIST, 0, NULL, "Cells to add behind the others; each gives every name."),
    KEY("include[]", MAP, 0, NULL, "One cell."),
    KEY("include[].*", SCALAR, 0, NULL, "The value of one name."),
    KEY("exclude", LIST, 0, NULL, "Cells to leave out; names that are not given match any value."),
    KEY("exclude[]", MAP, SCHEMA_NON_EMPTY, NULL, "One pattern."),
    KEY("exclude[].*", SCALAR, 0, NULL, "The value of one name."),
    KEY("scaling", MAP, SCHEMA_OPTIONAL, NULL, "How the cells are read as a scaling series."),
    WORD("scaling.mode", SCHEMA_REQUIRED, NULL, modes, "weak: work a rank stays; strong: work in all stays."),
    KEY("scaling.over", STRING, SCHEMA_REQUIRED, NULL, "The matrix name that counts the ranks."),

    KEY("sampling", MAP, 0, NULL, "How many trials, in which order, when to stop."),
    WORD("sampling.order", 0, "random_blocks", orders, "Of the runtimes within a block: drawn anew, A B B A, or as written."),
    BOUND("sampling.seed", INT, 0, "1", 0, INT_MAX_EXACT, "Of the order."),
    KEY("sampling.looks", LIST, SCHEMA_NON_EMPTY, "[6, 12, 24]", "Analysed blocks of a cell at which its verdict may end it; at most 5, rising."),
    BOUND("sampling.looks[]", INT, 0, NULL, 2, 100000, "Number of blocks; below 6 a warning."),
    WORD("sampling.stop", 0, "decided", stops, "End a cell at a look when decided, when precise enough, or never."),
    KEY("sampling.control", BOOL, 0, "false", "Add the baseline once more as \"<baseline>-control\" (A/A)."),
    KEY("sampling.handicap", PERCENT, SCHEMA_POSITIVE, NULL, "Add the baseline once more as \"<baseline>-handicap\", each step so much longer by a busy wait; it must come out slower. For base-train."),
    KEY("sampling.warmup", MAP, 0, NULL, "Steps of a trial that are not counted."),
    BOUND("sampling.warmup.steps", INT, 0, "5", 0, 1000000, "At least so many."),
    KEY("sampling.warmup.detect", BOOL, 0, "true", "More while the step time still moves."),
    KEY("sampling.discard_first_block", BOOL, 0, "true", "The first block of a cell warms caches: it comes on top of the looks and is not analysed."),

    KEY("measure", MAP, 0, NULL, "What is recorded beside the events of the ranks."),
    KEY("measure.topology", BOOL, 0, "true", "The machine's topology, as each runtime shows it, exported by the ranks and compared."),
    KEY("measure.counters", LIST, 0, "[rusage::VOLUNTARY-SWITCHES, rusage::INVOLUNTARY-SWITCHES, rusage::MINOR-FAULTS]", "Events that each rank counts in its steps; []: none. `ncbench doctor` tells what this machine can count."),
    KEY("measure.counters[]", STRING, SCHEMA_NON_EMPTY, NULL, "A name: of PAPI (PAPI_TOT_INS), perf::… (CONTEXT-SWITCHES, PAGE-FAULTS, TASK-CLOCK …), rusage::… or sched::RUN-DELAY-NS."),
    KEY("measure.require_counters", BOOL, 0, "false", "Refuse to run where one of them cannot be had (exit 4); a trial without it is invalid."),
    KEY("measure.gpu", MAP, SCHEMA_OPTIONAL, NULL, "Power, clocks, temperature, memory errors of the node's GPUs, by NVML; on without being asked for where the workload runs on one."),
    KEY("measure.gpu.interval", DURATION, SCHEMA_POSITIVE, "1s", "Time between samples, at least 50ms."),
    KEY("measure.gpu.required", BOOL, 0, "false", "Refuse to run where NVML does not answer (exit 4); a trial during which it fails is invalid."),

    KEY("compare", MAP, 0, NULL, "What is compared."),
    KEY("compare.primary", STRING, SCHEMA_NON_EMPTY, NULL, "The metric that decides; step_time_s, or wall_s without events."),
    KEY("compare.secondary", LIST, 0, NULL, "Further metrics; tokens_per_s, mfu, start_s, or none without events."),
    KEY("compare.secondary[]", STRING, SCHEMA_NON_EMPTY, NULL, "A metric, or a dotted path of the trial record."),
    KEY("compare.margin", MAP, 0, NULL, "Differences up to this are equivalent. Unless given: 1% for step_time_s, tokens_per_s and mfu; 20% or 100ms, the larger, for start_s and phases_s; 5% for other metrics."),
    {.path = "compare.margin.*", .type = SCHEMA_MAP, .shorthand = "rel", .help = "A percentage, or both forms: the larger one counts."},
    KEY("compare.margin.*.rel", PERCENT, SCHEMA_POSITIVE, NULL, "Relative to the baseline."),
    KEY("compare.margin.*.abs", AMOUNT, SCHEMA_POSITIVE, NULL, "In the metric's unit: a duration for times, else a number."),

    KEY("gates", LIST, 0, NULL, "Conditions for `ncbench gate` and `run --gate`."),
    KEY("gates[]", MAP, 0, NULL, "One condition."),
    KEY("gates[].metric", STRING, SCHEMA_REQUIRED | SCHEMA_NON_EMPTY, NULL, "The metric."),
    KEY("gates[].runtime", STRING, SCHEMA_NON_EMPTY, "\"*\"", "Name of a runtime, or \"*\": all but the baseline."),
    KEY("gates[].vs", STRING, SCHEMA_NON_EMPTY, "baseline", "Compared with: baseline, or the name of a runtime."),
    WORD("gates[].verdict", 0, NULL, verdicts, "The verdict that must come out."),
    KEY("gates[].min", NUMBER, 0, NULL, "Smallest median of the metric."),
    KEY("gates[].max", NUMBER, 0, NULL, "Largest median of the metric."),

    KEY("disturbance", MAP, 0, NULL, "When a trial counts as disturbed by others; its block is repeated at the end."),
    KEY("disturbance.foreign_cpu", PERCENT, SCHEMA_POSITIVE | SCHEMA_SHARE, "5%", "CPU time of processes outside the trial, of the ranks' PUs."),
    KEY("disturbance.steal", PERCENT, SCHEMA_POSITIVE | SCHEMA_SHARE, "0.5%", "CPU time that the hypervisor took, and more than three times the session's median."),
    KEY("disturbance.gpu_clocks", PERCENT, SCHEMA_POSITIVE | SCHEMA_SHARE, "5%", "Samples of a rank's GPU with clocks held back for heat or by a power brake."),
    KEY("disturbance.gpu_processes", BOOL, 0, "true", "A process that is not the trial's and computes on a rank's GPU; false where a server of the site always does."),
    KEY("disturbance.max_repeated", PERCENT, SCHEMA_SHARE, "25%", "At most so many of a cell's analysed blocks are repeated; one at least, unless 0%."),

    KEY("limits", MAP, 0, NULL, "When to give up."),
    KEY("limits.trial", DURATION, SCHEMA_POSITIVE, "10m", "Longest trial."),
    KEY("limits.no_output", DURATION, 0, "2m", "Longest time without an event or output; 0s: no limit."),
    KEY("limits.kill_grace", DURATION, 0, "10s", "Time between TERM and KILL."),
    KEY("limits.session", DURATION, 0, "0s", "Longest session (exit 124); 0s: no limit."),
    BOUND("limits.max_failures", INT, 0, "3", 1, 1000000, "The session ends at this failure (exit 5)."),
    KEY("limits.disk_free", SIZE, 0, "1GiB", "Free space that the results folder must have."),

    KEY("output", MAP, 0, NULL, "What is written."),
    KEY("output.dir", STRING, SCHEMA_NON_EMPTY, "results", "Folder of the sessions."),
    KEY("output.plots", LIST, 0, "[svg, png]", "Formats of the plots; []: none."),
    WORD("output.plots[]", 0, NULL, plots, "svg or png."),
    KEY("output.report", LIST, 0, "[md, html]", "Formats of the report; []: none."),
    WORD("output.report[]", 0, NULL, reports, "md or html."),
    WORD("output.trial_files", 0, "per-rank", trial_files, "What ranks write into a trial's folder (events, output, messages): files of each rank, or, with fewer files for a parallel file system to make, files that the ranks of a node share. Ranks of a foreign command outside of Slurm keep their own."),
    {0},
};
/* clang-format on */
