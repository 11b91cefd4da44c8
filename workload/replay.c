#include "workload/replay.h"

#include "common/log.h"

#include <stdio.h>

static void forget(struct replay *r)
{
    if (r->graph)
        r->device->ops->graph_free(r->device, r->graph);
    r->graph = NULL;
}

/* Nothing of what fails here was done, so the work can still be queued op by op. */
static void capture(struct replay *r, replay_work *work, void *user)
{
    const struct device_ops *ops = r->device->ops;
    struct error of_work = ERROR_INIT, of_end = ERROR_INIT;
    if (!ops->graph_begin(r->device, &of_work)) {
        work(user, &of_work);
        ops->graph_end(r->device, &r->graph, &of_end);
    }
    if (of_work.code)
        forget(r);
    if (!r->graph)
        snprintf(r->why, sizeof r->why, "%s",
                 of_work.code  ? of_work.message
                 : of_end.code ? of_end.message
                               : "the device gave no graph");
    if (!r->graph)
        log_warn("work is queued op by op: a graph cannot be made of it: %s", r->why);
    r->captures += r->graph != NULL;
    error_release(&of_work);
    error_release(&of_end);
}

static int renew(struct replay *r, replay_work *work, void *user, struct error *err)
{
    const struct device_ops *ops = r->device->ops;
    struct error ignored = ERROR_INIT;
    if (!r->renews)
        return 0;
    if (!ops->graph_renew(r->device, true, err))
        work(user, err);
    ops->graph_renew(r->device, false, &ignored);
    error_release(&ignored);
    return -err->code;
}

int replay_run(struct replay *r, replay_work *work, void *user, struct error *err)
{
    if (!r->armed || *r->why)
        return work(user, err);
    for (int attempt = 0; attempt < 2; attempt++) {
        if (!r->graph)
            capture(r, work, user);
        if (!r->graph)
            break;
        if (renew(r, work, user, err))
            return -err->code;
        int rc = r->device->ops->graph_launch(r->device, r->graph, err);
        r->launches += rc == 0;
        if (rc <= 0)
            return rc;
        forget(r); /* memory has moved since */
    }
    return work(user, err);
}

void replay_close(struct replay *r)
{
    forget(r);
    r->armed = false;
}
