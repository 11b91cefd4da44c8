/* Graphs of queued work on a device that only plays them, and the rule that decides about them. */
#include "workload/graphs.h"
#include "workload/model.h"
#include "workload/replay.h"

#include "kernels/cpu/cpu_priv.h"
#include "tests/unit/unit.h"

#include <string.h>

struct device_graph {
    int jobs; /* how often the work was noted in it */
    bool stale;
};

/* What the device was asked for. */
static struct {
    bool capturing, renewing, refuses, gives_none;
    int jobs;
    struct device_graph graph;
    int begun, freed, done, noted, renewed;
} fake;

static int begin(struct device *d, struct error *err)
{
    (void)d;
    (void)err;
    fake.capturing = true;
    fake.begun++;
    fake.jobs = 0;
    return 0;
}

static int end(struct device *d, struct device_graph **out, struct error *err)
{
    (void)d;
    fake.capturing = false;
    fake.graph = (struct device_graph){.jobs = fake.jobs};
    *out = fake.gives_none ? NULL : &fake.graph;
    return fake.gives_none ? error_set(err, 4, "no room for a graph") : 0;
}

static int launch(struct device *d, struct device_graph *graph, struct error *err)
{
    (void)d;
    (void)err;
    if (graph->stale)
        return 1;
    fake.done += graph->jobs;
    return 0;
}

static int renew(struct device *d, bool on, struct error *err)
{
    (void)d;
    (void)err;
    fake.renewing = on;
    return 0;
}

static void release(struct device *d, struct device_graph *graph)
{
    (void)d;
    (void)graph;
    fake.freed++;
}

static struct device_ops fake_ops(void)
{
    memset(&fake, 0, sizeof fake);
    struct device_ops ops = cpu_device_ops;
    ops.no_graphs = NULL;
    ops.graph_begin = begin;
    ops.graph_end = end;
    ops.graph_launch = launch;
    ops.graph_renew = renew;
    ops.graph_free = release;
    return ops;
}

/* One job of the device. */
static int work(void *user, struct error *err)
{
    (void)user;
    if (fake.capturing && fake.refuses)
        return error_set(err, 4, "waits for the host");
    if (fake.renewing)
        fake.renewed++;
    else if (fake.capturing)
        fake.jobs++;
    else
        fake.done++;
    return 0;
}

static void runs(struct replay *r, int times)
{
    struct error err = ERROR_INIT;
    for (int i = 0; i < times; i++)
        CU_ASSERT_EQUAL(replay_run(r, work, NULL, &err), 0);
    error_release(&err);
}

static void captured_once(void)
{
    const struct device_ops ops = fake_ops();
    struct device d = {.ops = &ops};
    struct replay r = {.device = &d};
    runs(&r, 2);
    CU_ASSERT_EQUAL(fake.begun, 0);
    CU_ASSERT_EQUAL(fake.done, 2);
    r.armed = true;
    runs(&r, 3);
    CU_ASSERT_EQUAL(fake.begun, 1);
    CU_ASSERT_EQUAL(fake.done, 5); /* the capture itself does nothing */
    CU_ASSERT_EQUAL(r.launches, 3);
    CU_ASSERT_EQUAL(fake.renewed, 0);
    replay_close(&r);
    CU_ASSERT_EQUAL(fake.freed, 1);
    replay_close(&r);
    CU_ASSERT_EQUAL(fake.freed, 1);
}

static void memory_moved(void)
{
    const struct device_ops ops = fake_ops();
    struct device d = {.ops = &ops};
    struct replay r = {.device = &d, .armed = true};
    runs(&r, 2);
    fake.graph.stale = true;
    runs(&r, 1);
    CU_ASSERT_EQUAL(fake.freed, 1);
    CU_ASSERT_EQUAL(r.captures, 2);
    CU_ASSERT_EQUAL(fake.done, 3);
    replay_close(&r);
}

static void numbers_are_renewed(void)
{
    const struct device_ops ops = fake_ops();
    struct device d = {.ops = &ops};
    struct replay r = {.device = &d, .armed = true, .renews = true};
    runs(&r, 3);
    CU_ASSERT_EQUAL(fake.renewed, 3); /* before each launch */
    CU_ASSERT_EQUAL(fake.done, 3);
    CU_ASSERT(!fake.renewing);
    replay_close(&r);
}

static void cannot_be_captured(void)
{
    const struct device_ops ops = fake_ops();
    struct device d = {.ops = &ops};
    struct replay refuses = {.device = &d, .armed = true}, none = refuses;
    fake.refuses = true;
    runs(&refuses, 3);
    CU_ASSERT_EQUAL(fake.begun, 1); /* not tried again */
    CU_ASSERT_EQUAL(fake.done, 3);  /* but done */
    CU_ASSERT_EQUAL(fake.freed, 1); /* what a broken capture gave */
    CU_ASSERT_STR(refuses.why, "waits for the host");
    fake.refuses = false;
    fake.gives_none = true;
    runs(&none, 2);
    CU_ASSERT_EQUAL(fake.done, 5);
    CU_ASSERT_EQUAL(none.launches, 0);
    CU_ASSERT_STR(none.why, "no room for a graph");
    replay_close(&refuses);
    replay_close(&none);
}

/* ---- the model's two ------------------------------------------------------------------------ */

static int nobody(void *user, float *grad, int64_t n, struct error *err)
{
    (void)user;
    (void)grad;
    (void)n;
    (void)err;
    return 0;
}

/* Graphs launched by a micro-batch. */
static int64_t launches(struct model *m, const int32_t *inputs, const int32_t *targets, int64_t b)
{
    struct error err = ERROR_INIT;
    const char *why;
    double loss;
    int64_t before = model_graph_launches(m, &why);
    CU_ASSERT_EQUAL(model_forward(m, inputs, targets, b, 8, NULL, &err), 0);
    CU_ASSERT_EQUAL(model_backward(m, &err), 0);
    CU_ASSERT_EQUAL(model_loss(m, &loss, &err), 0);
    CU_ASSERT_PTR_NULL(why);
    error_release(&err);
    return model_graph_launches(m, &why) - before;
}

static void of_the_model(void)
{
    struct error err = ERROR_INIT;
    const struct device_config config = {.type = "cpu"};
    const struct model_config shape = model_config_for_depth(1, 8, 32);
    struct device *d;
    struct model *m;
    int32_t inputs[16] = {1, 2, 3}, targets[16] = {4, 5, 6}, fewer[16] = {-1, 5, 6};
    CU_ASSERT_EQUAL_FATAL(device_open(&d, &config, &err), 0);
    const struct device_ops *own = d->ops, ops = fake_ops();
    d->ops = &ops;
    CU_ASSERT_EQUAL_FATAL(model_create(&m, d, &shape, 2, 8, &err), 0);
    CU_ASSERT_EQUAL_FATAL(model_init_weights(m, 1, &err), 0);
    CU_ASSERT_EQUAL(launches(m, inputs, targets, 2), 0);
    CU_ASSERT(model_take_queue_s(m) > 0);
    CU_ASSERT_EQUAL(model_take_queue_s(m), 0);
    model_use_graphs(m);
    CU_ASSERT_EQUAL(launches(m, inputs, targets, 2), 2);
    CU_ASSERT_EQUAL(launches(m, inputs, targets, 1), 0); /* another shape */
    CU_ASSERT_EQUAL(launches(m, inputs, fewer, 2), 0);   /* another mean */
    model_set_grad_scale(m, 0.5);
    CU_ASSERT_EQUAL(launches(m, inputs, targets, 2), 0);
    model_set_grad_scale(m, 1);
    model_set_grad_ready(m, nobody, NULL);
    CU_ASSERT_EQUAL(launches(m, inputs, targets, 2), 1); /* forward alone */
    model_set_grad_ready(m, NULL, NULL);
    CU_ASSERT_EQUAL(launches(m, inputs, targets, 2), 2);
    CU_ASSERT_EQUAL(fake.begun, 2);
    model_free(m);
    CU_ASSERT_EQUAL(fake.freed, 2);
    d->ops = own;
    device_close(d);
    error_release(&err);
}

/* A loss that is asked for later is the same. */
static void loss_told_later(void)
{
    struct error err = ERROR_INIT;
    const struct device_config config = {.type = "cpu"};
    const struct model_config shape = model_config_for_depth(1, 8, 32);
    struct device *d;
    struct model *m;
    int32_t inputs[16] = {1, 2, 3}, targets[16] = {4, -1, 6};
    double now = 0, later = 1;
    CU_ASSERT_EQUAL_FATAL(device_open(&d, &config, &err), 0);
    CU_ASSERT_EQUAL_FATAL(model_create(&m, d, &shape, 2, 8, &err), 0);
    CU_ASSERT_EQUAL_FATAL(model_init_weights(m, 1, &err), 0);
    CU_ASSERT_EQUAL(model_forward(m, inputs, targets, 2, 8, &now, &err), 0);
    CU_ASSERT_EQUAL(model_forward(m, inputs, targets, 2, 8, NULL, &err), 0);
    CU_ASSERT_EQUAL(model_backward(m, &err), 0);
    CU_ASSERT_EQUAL(model_loss(m, &later, &err), 0);
    CU_ASSERT_EQUAL(now, later);
    model_free(m);
    device_close(d);
    error_release(&err);
}

/* ---- the rule ---------------------------------------------------------------------------------
 */

static struct graphs after(const char *mode, const char *impossible, const double *shares, int n)
{
    struct graphs g;
    graphs_open(&g, mode, impossible);
    int decided = 0;
    for (int i = 0; i < n; i++)
        decided += graphs_step(&g, shares[i], 1.0);
    CU_ASSERT(decided <= 1);
    return g;
}

static void rule(void)
{
    static const double waits[] = {9, 0.9, 0.1, 0.8}, ahead[] = {9, 0.1, 0.9, 0.2};
    struct graphs g = after("auto", NULL, waits, 3);
    CU_ASSERT_EQUAL(g.verdict, GRAPHS_UNDECIDED);
    g = after("auto", NULL, waits, 4);
    CU_ASSERT_EQUAL(g.verdict, GRAPHS_USED);
    CU_ASSERT_EQUAL(g.decided_by, 0.8); /* the middle one; the first step does not count */
    g = after("auto", NULL, ahead, 4);
    CU_ASSERT_EQUAL(g.verdict, GRAPHS_UNUSED);
    CU_ASSERT_EQUAL(g.decided_by, 0.2);
    g = after("on", NULL, ahead, 1);
    CU_ASSERT_EQUAL(g.verdict, GRAPHS_UNDECIDED);
    g = after("on", NULL, ahead, 2);
    CU_ASSERT_EQUAL(g.verdict, GRAPHS_USED);
    CU_ASSERT_EQUAL(g.decided_by, -1);
    g = after("off", NULL, waits, 4);
    CU_ASSERT_EQUAL(g.verdict, GRAPHS_UNUSED);
    g = after("on", "it has none", waits, 4);
    CU_ASSERT_EQUAL(g.verdict, GRAPHS_UNUSED);
    CU_ASSERT_STR(g.why, "it has none");
    graphs_open(&g, "auto", NULL);
    for (int i = 0; i < 4; i++)
        graphs_step(&g, 1, 0); /* a device without a clock */
    CU_ASSERT_EQUAL(g.verdict, GRAPHS_UNUSED);
}

UNIT_MAIN({"captured once", captured_once}, {"memory moved", memory_moved},
          {"numbers are renewed", numbers_are_renewed}, {"cannot be captured", cannot_be_captured},
          {"of the model", of_the_model}, {"loss told later", loss_told_later}, {"rule", rule})
