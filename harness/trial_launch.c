/* From a planned trial to what is started: directory, argv, environment, mounts. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "harness/nccl_log.h"
#include "harness/trial.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What of the host's environment a program may need to run at all. Everything that may change speed
 * (LD_*, OMP_*, NCCL_* …) must be in the scenario, where it is the same for every arm. TMPDIR is
 * not here: it names a host directory that containers do not have. */
static const char *const allowed[] = {"PATH", "HOME",   "USER", "LOGNAME",
                                      "LANG", "LC_ALL", "TZ",   ENV_BASE_DIR};

static const char *const thread_variables[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                               "BLIS_NUM_THREADS", "MKL_NUM_THREADS"};

static void set_all(struct strv *env, const struct strv *assignments)
{
    for (size_t i = 0; i < assignments->count; i++) {
        const char *equals = strchr(assignments->items[i], '=');
        if (!equals)
            continue;
        auto_free char *name =
            mem_strndup(assignments->items[i], (size_t)(equals - assignments->items[i]));
        strv_env_set(env, name, equals + 1);
    }
}

/* As nanochat's options are read: '-' or '_' in the name, the value in the same word or the next.
 */
bool trial_asks_for_cuda(const struct trial_facts *f)
{
    static const char *const names[] = {"--device-type", "--device_type"};
    const struct strv *argv = &f->cell->argv;
    for (size_t i = 0; i < argv->count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const size_t n = strlen(names[k]);
            const char *word = argv->items[i];
            if (strncmp(word, names[k], n) != 0)
                continue;
            if (!strcmp(word + n, "=cuda") ||
                (!word[n] && i + 1 < argv->count && !strcmp(argv->items[i + 1], "cuda")))
                return true;
        }
    return false;
}

double trial_gpu_interval_s(const struct trial_facts *f)
{
    const struct scenario *s = f->context->scenario;
    if (trial_is_step(f)) /* whose GPUs are other nodes' */
        return 0;
    return s->measure.gpu.asked || trial_asks_for_cuda(f) ? s->measure.gpu.interval_s : 0;
}

void trial_environment(const struct trial_facts *f, struct strv *env)
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (getenv(allowed[i]))
            strv_env_set(env, allowed[i], getenv(allowed[i]));
    char threads[24];
    snprintf(threads, sizeof threads, "%lld", (long long)f->cell->threads_per_rank);
    for (size_t i = 0; i < sizeof thread_variables / sizeof *thread_variables; i++)
        strv_env_set(env, thread_variables[i], threads);
    if (trial_asks_for_cuda(f))
        nccl_log_ask(env, f->dir);
    set_all(env, &f->cell->env);
    set_all(env, &f->spec->env);
    if (f->context->scenario->measure.topology)
        strv_env_set(env, ENV_TOPOLOGY, "1");
    const struct strv *names = &f->context->scenario->measure.counters;
    auto_str counters = STR_INIT;
    for (size_t i = 0; i < names->count; i++)
        str_appendf(&counters, "%s%s", i ? "," : "", names->items[i]);
    if (counters.len)
        strv_env_set(env, ENV_COUNTERS, counters.data);
    if (f->context->scenario->output.files_per_node)
        strv_env_set(env, ENV_TRIAL_FILES, "node");
    strv_env_set(env, ENV_TRIAL_ID, f->unique_id);
    strv_env_set(env, ENV_TRIAL_DIR, f->dir);
}

/* In every arm the ranks of a node are started by `nanochat launch`, so that its cost is the same
 * everywhere. */
static int verb_argv(struct trial_facts *f, struct error *err)
{
    if (!f->context->nanochat) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "the program nanochat was not found");
        return error_hint(err, "it is looked for beside ncbench and on PATH; --nanochat PATH says "
                               "where else it is");
    }
    strv_push(&f->workload, runtime_nanochat_path(f->spec, f->context->nanochat));
    strv_push(&f->workload, "launch");
    strv_pushf(&f->workload, "--nproc-per-node=%lld", (long long)f->cell->ranks_per_node);
    if (trial_is_step(f))
        trial_step_rendezvous(f, &f->workload);
    if (f->cell->bind != TOPO_BIND_NONE)
        strv_pushf(&f->workload, "--bind=%s", topo_bind_name(f->cell->bind));
    strv_push(&f->workload, "--");
    strv_extend(&f->workload, &f->cell->argv);
    return 0;
}

/* A relative path of a foreign command is meant from where ncbench was started; the command itself
 * runs in the trial's directory. */
static void foreign_argv(struct trial_facts *f)
{
    strv_extend(&f->workload, &f->cell->argv);
    if (f->workload.count && strchr(f->workload.items[0], '/') && *f->workload.items[0] != '/') {
        char *full = fs_realpath(f->workload.items[0]);
        if (full) {
            free(f->workload.items[0]);
            f->workload.items[0] = full;
        }
    }
}

static bool below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return !strncmp(path, dir, n) && (path[n] == '/' || path[n] == '\0' || !strcmp(dir, "/"));
}

/* The same path inside, unless a mount that is already there covers it. */
static void mount_in_place(struct mounts *m, const char *path)
{
    for (size_t i = 0; i < m->count; i++)
        if (!strcmp(m->items[i].source, m->items[i].target) && below(path, m->items[i].source))
            return;
    mounts_add(m, path, path, false);
}

static void collect_mounts(struct trial_facts *f)
{
    auto_free char *base = fs_base_dir();
    auto_error struct error ignored = ERROR_INIT;
    if (base && f->context->scenario
                    ->is_verb) /* what nanochat keeps there, no container may keep to itself */
        fs_mkdir_p(base, NCBENCH_EXIT_RESULTS, &ignored);
    if (base && fs_is_dir(base))
        mount_in_place(&f->mounts, base);
    for (size_t i = 0; i < f->cell->paths.count; i++) {
        if (fs_exists(f->cell->paths.items[i]))
            mount_in_place(&f->mounts, f->cell->paths.items[i]);
    }
    mount_in_place(&f->mounts, f->dir);
    for (size_t i = 0; i < f->spec->mounts.count; i++) {
        const struct mount *m = &f->spec->mounts.items[i];
        mounts_add(&f->mounts, m->source, m->target, m->read_only);
        f->mounts.items[f->mounts.count - 1].optional = m->optional;
    }
    mounts_drop_absent(&f->mounts, &f->flags);
}

/* A port that is free now, for the ranks of a foreign command to meet at; 0 if there is none. */
static int free_port(void)
{
    auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) ||
        getsockname(fd, (struct sockaddr *)&a, &len))
        return 0;
    return ntohs(a.sin_port);
}

/* A foreign command is started once a rank, with torchrun's variables. */
static void rank_environment(struct strv *env, int64_t rank, int64_t ranks, const char *port)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)rank);
    strv_env_set(env, ENV_RANK, text);
    strv_env_set(env, ENV_LOCAL_RANK, text);
    snprintf(text, sizeof text, "%lld", (long long)ranks);
    strv_env_set(env, ENV_WORLD_SIZE, text);
    strv_env_set(env, ENV_LOCAL_WORLD_SIZE, text);
    strv_env_set(env, ENV_MASTER_ADDR, "127.0.0.1");
    strv_env_set(env, ENV_MASTER_PORT, port);
}

int64_t trial_process_count(const struct scenario *s, const struct cell *cell)
{
    /* A step is one srun, whatever it starts; a verb starts its ranks itself. */
    return s->is_verb || cell->is_slurm ? 1 : cell->nodes * cell->ranks_per_node;
}

char *trial_process_id(const char *unique_id, int64_t process, int64_t of)
{
    return of > 1 ? mem_printf("%s.r%lld", unique_id, (long long)process) : mem_strdup(unique_id);
}

static void process_prepare(struct trial_facts *f, size_t i, const char *port)
{
    struct trial_process *p = &f->processes[i];
    bool verb = f->context->scenario->is_verb;
    p->trial_id = trial_process_id(f->unique_id, (int64_t)i, (int64_t)f->n_processes);
    strv_extend(&p->workload_env, &f->env);
    if (trial_is_step(f) && f->ops->flags & RUNTIME_ENV_NAMES)
        trial_step_names(&p->workload_env);
    if (!verb && !trial_is_step(f))
        rank_environment(&p->workload_env, (int64_t)i, f->ranks, port);
    if (verb || trial_is_step(f)) {
        p->stdout_path = mem_printf("%s/launcher.out", f->dir);
        p->stderr_path = mem_printf("%s/launcher.err", f->dir);
    } else {
        p->stdout_path = mem_printf("%s/" RANK_OUT_FMT, f->dir, (int)i);
        p->stderr_path = mem_printf("%s/" RANK_ERR_FMT, f->dir, (int)i);
    }
    p->launch = (struct runtime_launch){
        .spec = f->spec,
        .trial_id = p->trial_id,
        .trial_dir = f->dir,
        .session_dir = f->context->session_dir,
        .argv = &f->workload,
        .env = &p->workload_env,
        .mounts = &f->mounts,
        .cwd = f->dir,
    };
}

/* launch.json: what was asked of the runtime, for `ncbench show`. */
static int write_launch(const struct trial_facts *f, struct error *err)
{
    auto_free char *path = mem_printf("%s/launch.json", f->dir);
    auto_json *doc = json_object();
    json_put(doc, "workload", json_strings(&f->workload));
    json_put(doc, "env", json_strings(&f->env));
    json_t *mounts = json_array();
    for (size_t i = 0; i < f->mounts.count; i++) {
        json_t *m = json_object();
        json_put_str(m, "source", f->mounts.items[i].source);
        json_put_str(m, "target", f->mounts.items[i].target);
        json_put_bool(m, "read_only", f->mounts.items[i].read_only);
        json_array_append_new(mounts, m);
    }
    json_put(doc, "mounts", mounts);
    json_put_str(doc, "cwd", f->dir);
    json_t *argvs = json_array();
    for (size_t i = 0; i < f->n_processes; i++)
        json_array_append_new(argvs, json_strings(&f->processes[i].argv));
    json_put(doc, "processes", argvs);
    return json_write_file(path, doc, NCBENCH_EXIT_RESULTS, err);
}

static int process_argv(struct trial_process *p, struct trial_facts *f, struct error *err)
{
    if (f->ops->argv(&p->launch, &p->argv, &p->env, err))
        return -err->code;
    /* The client of the runtime bears the mark too, so that it is found wherever it goes. */
    strv_env_set(&p->env, ENV_TRIAL_ID, f->unique_id);
    if (trial_is_step(f))
        trial_step_wrap(p, f);
    p->job = (struct launcher_job){
        .argv = &p->argv,
        .env = &p->env,
        .cwd = p->launch.cwd,
        .stdout_path = p->stdout_path,
        .stderr_path = p->stderr_path,
        .affinity = f->context->affinity,
        .affinity_bytes = f->context->affinity_bytes,
        .allocation = f->context->allocation,
        .step_name = f->unique_id,
    };
    return 0;
}

int trial_launch_compose(struct trial_facts *f, const char *port, struct error *err)
{
    if (f->context->scenario->is_verb) {
        if (verb_argv(f, err))
            return -err->code;
    } else {
        foreign_argv(f);
    }
    trial_environment(f, &f->env);
    collect_mounts(f);
    f->n_processes = (size_t)trial_process_count(f->context->scenario, f->cell);
    f->processes = mem_zalloc(f->n_processes, sizeof *f->processes);
    f->children = mem_zalloc(f->n_processes, sizeof *f->children);
    for (size_t i = 0; i < f->n_processes; i++) {
        process_prepare(f, i, port);
        if (process_argv(&f->processes[i], f, err))
            return error_wrap(err, "trial %s", f->id);
    }
    return 0;
}

int trial_launch_prepare(struct trial_facts *f, struct error *err)
{
    char port[24] = "0";
    /* Another attempt of a killed session may have left one. */
    if (fs_remove_tree(f->dir, NCBENCH_EXIT_RESULTS, err) ||
        fs_mkdir_p(f->dir, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    if (!f->context->scenario->is_verb && !trial_is_step(f))
        snprintf(port, sizeof port, "%d", free_port());
    if (trial_launch_compose(f, port, err))
        return -err->code;
    return write_launch(f, err);
}
