/* What a session does on every node of its allocation, before the first trial and after the last:
 * for runtimes whose store lies on the node. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/session.h"

#include <string.h>

#define PREPARE_S 1800.0 /* unpacking an image of many GB */
#define CLEANUP_S 120.0
#define END_S 30.0

/* The cell of most nodes, which are the first of the allocation for every cell: its options reach
 * them all. */
static const struct cell *most_nodes(const struct session *s)
{
    const struct cell *most = s->scenario.cells;
    for (size_t i = 1; i < s->scenario.n_cells; i++)
        if (s->scenario.cells[i].nodes > most->nodes)
            most = &s->scenario.cells[i];
    return most;
}

static int run(const struct session *s, const char *what, const struct strv *command,
               double seconds, struct error *err)
{
    if (!command->count)
        return 0;
    const struct cell *widest = most_nodes(s);
    const int64_t nodes = widest->nodes, cpus = s->allocation.cpus_per_node;
    auto_free char *name = mem_printf("%s.%s", s->id, what);
    auto_free char *list = slurm_first_nodes(&s->allocation, nodes);
    const struct slurm_step step = {
        .allocation = &s->allocation,
        .options = &widest->slurm,
        .nodes = nodes,
        .tasks_per_node = 1,
        .cpus_per_task = cpus > 0 ? cpus : 1,
        .time_s = seconds,
        .name = name,
        .cwd = s->dir,
    };
    return slurm_run(&step, command, seconds, err) ? error_wrap(err, "%s on %s", what, list) : 0;
}

int session_node_prepare(const struct session *s, const struct runtime_ops *ops,
                         const struct runtime_spec *spec, struct error *err)
{
    auto_strv command = STRV_INIT;
    auto_str left = STR_INIT;
    auto_free char *name = mem_printf("%s.prepare", s->id);
    ops->node_prepare(spec, s->dir, &command);
    /* of an ncbench that was killed: it may still be unpacking */
    if (command.count && !slurm_end_steps(&s->allocation, name, END_S, &left))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s cannot be ended", left.data);
    return run(s, "prepare", &command, PREPARE_S, err);
}

int session_node_cleanup(const struct session *s, const struct runtime_ops *ops,
                         const struct runtime_spec *spec, struct error *err)
{
    auto_strv command = STRV_INIT;
    ops->node_cleanup(spec, s->dir, &command);
    return run(s, "cleanup", &command, CLEANUP_S, err);
}
