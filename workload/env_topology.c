/* The topology as this rank sees it, as hwloc's XML in the trial's directory: the first rank of
 * each node writes it, where the harness asks for it. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"
#include "common/topo.h"

#include <stdlib.h>
#include <string.h>

static bool is_set_to(const char *name, const char *value)
{
    const char *is = getenv(name);
    return is && !strcmp(is, value);
}

static void export(json_t *group, const char *dir)
{
    auto_topo topo = {0};
    auto_str xml = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    double begin = clock_mono_s();
    int64_t rank = 0;
    const char *rank_text = getenv(ENV_RANK);
    auto_free char *name =
        mem_printf(TOPOLOGY_FILE_FMT, rank_text && num_parse_i64(rank_text, &rank) ? (int)rank : 0);
    auto_free char *path = mem_printf("%s/%s", dir, name);
    if (!topo_load(NULL, &topo, &err) && !topo.this_machine)
        error_set(&err, NANOCHAT_EXIT_DEVICE, "%s stands for another machine", topo_stand_in());
    if (err.code || topo_export(&topo, &xml, &err) ||
        fs_write_atomic(path, xml.data, xml.len, NANOCHAT_EXIT_WRITE, &err)) {
        json_put_null(group, "xml", err.message);
        return;
    }
    json_put_str(group, "xml", name);
    json_put_f64(group, "export_s", clock_mono_s() - begin);
}

void env_topology(json_t *group, const struct env_context *context)
{
    (void)context;
    const char *dir = getenv(ENV_TRIAL_DIR), *local = getenv(ENV_LOCAL_RANK);
    if (!dir || !*dir || !is_set_to(ENV_TOPOLOGY, "1"))
        json_put_null(group, "xml", "not asked for");
    else if (local && strcmp(local, "0") != 0)
        json_put_null(group, "xml", "written by the first rank of the node");
    else
        export(group, dir);
}
