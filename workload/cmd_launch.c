/* nanochat launch: the ranks of a node, each this very program with a verb. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/options.h"
#include "common/protocol.h"
#include "common/str.h"
#include "workload/launch.h"
#include "workload/verbs.h"

#include <string.h>

struct launch_options {
    int64_t nproc_per_node, nnodes, node_rank, master_port;
    char *master_addr, *log_dir, *bind;
    double grace_s;
};

#define FIELD(name) offsetof(struct launch_options, name)
const struct option_spec launch_options[] = {
    {"nproc-per-node", 0, OPT_INT, FIELD(nproc_per_node), "1", 1, 4096, "N",
     "ranks to start on this node"},
    {"nnodes", 0, OPT_INT, FIELD(nnodes), "1", 1, 65536, "N", "nodes of the run"},
    {"node-rank", 0, OPT_INT, FIELD(node_rank), "0", 0, 65535, "N", "number of this node"},
    {"master-addr", 0, OPT_STRING, FIELD(master_addr), "127.0.0.1", 0, 0, "HOST",
     "where rank 0 runs; needed with several nodes"},
    {"master-port", 0, OPT_INT, FIELD(master_port), NULL, 0, 65535, "PORT",
     "names the run on this node; a free port when not given"},
    {"log-dir", 0, OPT_STRING, FIELD(log_dir), NULL, 0, 0, "DIR",
     "write rank<NNNNN>.out and .err there; $" ENV_TRIAL_DIR " when that is set, else the ranks "
     "share this program's streams"},
    {"grace", 0, OPT_DURATION, FIELD(grace_s), "5s", 0, 0, "TIME",
     "from SIGTERM to SIGKILL when the ranks must end"},
    {"bind", 0, OPT_CHOICE, FIELD(bind), "none", 0, 0, TOPO_BIND_CHOICES,
     "cores: each rank gets its own share of the usable processing units; numa: all of one NUMA "
     "node; gpu-local: those near its GPU; what cannot be had falls back to cores, with a word"},
    {0}};

static int check_options(const struct launch_options *o, const struct strv *rest, struct error *err)
{
    if (!rest->count)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "no verb to launch, expected nanochat launch [OPTIONS] -- VERB ...");
    const char *verb = rest->items[0];
    if (!program_has_verb(verb) || !strcmp(verb, "launch"))
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "cannot launch \"%s\", expected a verb of nanochat other than launch",
                         verb);
    if (o->node_rank >= o->nnodes)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "option --node-rank: %lld, expected less than --nnodes (%lld)",
                         (long long)o->node_rank, (long long)o->nnodes);
    if (o->nnodes > 1 && !o->master_port)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "option --master-port is needed with several nodes, and --master-addr");
    return 0;
}

/* This program by its own path, so that messages and process lists show it; a path that is gone
 * (replaced while it runs) still has its link in /proc. */
static char *own_path(void)
{
    char *path = fs_realpath("/proc/self/exe");
    return path ? path : mem_strdup("/proc/self/exe");
}

static int launch(const struct launch_options *o, const struct strv *rest, struct error *err)
{
    auto_strv argv = STRV_INIT;
    strv_push_own(&argv, own_path());
    strv_extend(&argv, rest);
    const char *trial_dir = getenv(ENV_TRIAL_DIR);
    const struct launch_config config = {
        .nproc = (int)o->nproc_per_node,
        .nnodes = (int)o->nnodes,
        .node_rank = (int)o->node_rank,
        .master_addr = o->master_addr,
        .master_port = (int)o->master_port,
        .log_dir = o->log_dir                ? o->log_dir
                   : trial_dir && *trial_dir ? trial_dir
                                             : NULL,
        .grace_s = o->grace_s,
        .bind = topo_bind_parse(o->bind),
        .argv = argv.items,
    };
    if (o->log_dir && fs_mkdir_p(o->log_dir, NANOCHAT_EXIT_WRITE, err))
        return -err->code;
    return launch_run(&config, err);
}

int cmd_launch(int argc, char **argv)
{
    auto_error struct error err = ERROR_INIT;
    auto_strv rest = STRV_INIT;
    struct launch_options o;
    options_defaults(launch_options, &o);
    if (!options_parse(launch_options, &o, argc, argv, &rest, &err) &&
        !check_options(&o, &rest, &err))
        launch(&o, &rest, &err);
    if (err.code)
        error_print(&err, "nanochat");
    options_release(launch_options, &o);
    return err.code;
}
