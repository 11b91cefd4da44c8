#include "workload/launch.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/protocol.h"

int launch_plan(const struct launch_config *config, struct topo_plan *out, struct error *err)
{
    auto_topo topo = {0};
    *out = (struct topo_plan){0};
    if (config->bind == TOPO_BIND_NONE)
        return 0;
    if (topo_load(NULL, &topo, err))
        return error_wrap(err, "cannot bind ranks");
    if (!topo.this_machine)
        return error_set(err, NANOCHAT_EXIT_DEVICE,
                         "cannot bind ranks: hwloc was told to show another machine; unset %s",
                         topo_stand_in());
    if (topo_plan_make(&topo, config->bind, config->nproc, NANOCHAT_EXIT_PLAN, out, err))
        return -err->code;
    if (out->note)
        log_warn("--bind=%s: %s", topo_bind_name(config->bind), out->note);
    return 0;
}
