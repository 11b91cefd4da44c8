/* nanochat launch: the ranks of a node, each this very program with a verb. */
#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/options.h"
#include "common/protocol.h"
#include "common/str.h"
#include "workload/launch.h"
#include "workload/launch_slurm.h"
#include "workload/verbs.h"

#include <string.h>

struct launch_options {
    int64_t nproc_per_node, nnodes, node_rank, master_port;
    char *master_addr, *log_dir, *bind, *rendezvous;
    double grace_s;
};

#define FIELD(name) offsetof(struct launch_options, name)
const struct option_spec launch_options[] = {
    {"nproc-per-node", 0, OPT_INT, FIELD(nproc_per_node), "1", 1, 4096, "N",
     "ranks to start on this node"},
    {"nnodes", 0, OPT_INT, FIELD(nnodes), NULL, 1, 65536, "N", "nodes of the run; 1"},
    {"node-rank", 0, OPT_INT, FIELD(node_rank), "-1", -1, 65535, "N", "number of this node; 0"},
    {"master-addr", 0, OPT_STRING, FIELD(master_addr), NULL, 0, 0, "HOST",
     "where rank 0 runs; 127.0.0.1; needed with several nodes"},
    {"master-port", 0, OPT_INT, FIELD(master_port), NULL, 0, 65535, "PORT",
     "names the run on this node, and is where rank 0 listens for other nodes; a free port when "
     "not given"},
    {"rendezvous", 0, OPT_CHOICE, FIELD(rendezvous), "none", 0, 0, "none|slurm",
     "slurm: in a step of one task a node, what --nnodes, --node-rank, --master-addr and "
     "--master-port do not say comes from SLURM_STEP_NUM_NODES, SLURM_NODEID and "
     "SLURM_STEP_NODELIST"},
    {"log-dir", 0, OPT_STRING, FIELD(log_dir), NULL, 0, 0, "DIR",
     "write rank<NNNNN>.out and .err there; $" ENV_TRIAL_DIR " when that is set, else the ranks "
     "share this program's streams"},
    {"grace", 0, OPT_DURATION, FIELD(grace_s), "5s", 0, 0, "TIME",
     "from SIGTERM to SIGKILL when the ranks must end"},
    {"bind", 0, OPT_CHOICE, FIELD(bind), "none", 0, 0, TOPO_BIND_CHOICES,
     "cores: each rank gets its own share of the usable processing units; numa: all of one NUMA "
     "node; gpu-local: those near its GPU; what cannot be had falls back to cores, with a word"},
    {0}};

static int check_options(const struct strv *rest, struct error *err)
{
    if (!rest->count)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "no verb to launch, expected nanochat launch [OPTIONS] -- VERB ...");
    const char *verb = rest->items[0];
    if (!program_has_verb(verb) || !strcmp(verb, "launch"))
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "cannot launch \"%s\", expected a verb of nanochat other than launch",
                         verb);
    return 0;
}

/* This program by its own path, so that messages and process lists show it; a path that is gone
 * (replaced while it runs) still has its link in /proc. */
static char *own_path(void)
{
    char *path = fs_realpath("/proc/self/exe");
    return path ? path : mem_strdup("/proc/self/exe");
}

/* Where the nodes of the run meet; r takes over the options' word for it. */
static int find_rendezvous(const struct launch_options *o, struct launch_place *r,
                           struct error *err)
{
    *r = (struct launch_place){.nnodes = o->nnodes,
                               .node_rank = o->node_rank,
                               .master_addr = o->master_addr ? mem_strdup(o->master_addr) : NULL,
                               .master_port = o->master_port};
    if (!strcmp(o->rendezvous, "slurm"))
        return launch_place_from_slurm(r, err);
    r->nnodes = r->nnodes ? r->nnodes : 1;
    r->node_rank = r->node_rank < 0 ? 0 : r->node_rank;
    if (r->node_rank >= r->nnodes)
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "option --node-rank: %lld, expected less than --nnodes (%lld)",
                         (long long)r->node_rank, (long long)r->nnodes);
    if (r->nnodes > 1 && (!r->master_port || !r->master_addr))
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "options --master-port and --master-addr are needed with several nodes");
    return 0;
}

static int launch(const struct launch_options *o, const struct launch_place *r,
                  const struct strv *rest, struct error *err)
{
    auto_strv argv = STRV_INIT;
    strv_push_own(&argv, own_path());
    strv_extend(&argv, rest);
    const char *trial_dir = getenv(ENV_TRIAL_DIR);
    const struct launch_config config = {
        .nproc = (int)o->nproc_per_node,
        .nnodes = (int)r->nnodes,
        .node_rank = (int)r->node_rank,
        .master_addr = r->master_addr,
        .master_port = (int)r->master_port,
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
    struct launch_place r = {0};
    options_defaults(launch_options, &o);
    if (!options_parse(launch_options, &o, argc, argv, &rest, &err) &&
        !check_options(&rest, &err) && !find_rendezvous(&o, &r, &err))
        launch(&o, &r, &rest, &err);
    launch_place_release(&r);
    if (err.code)
        error_print(&err, "nanochat");
    options_release(launch_options, &o);
    return err.code;
}
