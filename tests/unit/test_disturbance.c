/* The rules of the disturbance watch, on records as the host collector writes them. */
#include "common/mem.h"
#include "harness/disturbance.h"
#include "harness/trial.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

struct seen {
    double elapsed_s, others_cpu_s, steal_s, clock_step_s, psi_s;
    int cpus, ranks, threads;
};
static const struct seen quiet = {100, 0.5, 0, 0, 0, 2, 2, 1};

static json_t *record_of(const struct seen *s, const char *outcome)
{
    json_t *r = json_pack(
        "{s:s, s:s, s:{s:s}, s:s, s:i, s:s, s:[], s:i, s:i, s:[{s:f, s:i, s:f, s:f, s:f, s:f}]}",
        "schema", RECORD_SCHEMA, "trial", "t", "cell", "id", "c00", "runtime", "bare", "block", 1,
        "outcome", outcome, "reasons", "ranks_per_node", s->ranks, "threads_per_rank", s->threads,
        "host", "elapsed_s", s->elapsed_s, "cpus", s->cpus, "others_cpu_s", s->others_cpu_s,
        "steal_s", s->steal_s, "clock_step_s", s->clock_step_s, "psi_cpu_some_s", s->psi_s);
    if (!r)
        BUG("no record");
    return r;
}

/* The outcome, and the first reason into `reason` (may be NULL). */
static enum outcome judge(const struct seen *s, const struct records *earlier, const char *outcome,
                          char reason[200])
{
    struct scenario scenario = {.disturbance = {.05, .005, .25, .05, true}};
    json_t *r = record_of(s, outcome);
    unsetenv(ENV_WATCH);
    disturbance_judge(&scenario, earlier, r);
    enum outcome out = outcome_from_name(json_read_str(r, "outcome"));
    const char *why = json_string_value(json_array_get(json_at(r, "reasons"), 0));
    if (reason)
        snprintf(reason, 200, "%s", why ? why : "");
    json_decref(r);
    return out;
}

static void foreign_cpu(void)
{
    struct records none = {0};
    struct seen s = quiet;
    char why[200];
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", NULL), OUTCOME_OK);
    s.others_cpu_s = 10; /* 5 % of 2 PUs over 100 s: not above it */
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", NULL), OUTCOME_OK);
    s.others_cpu_s = 10.1;
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", why), OUTCOME_DISTURBED);
    CU_ASSERT_STR(why,
                  "other processes used 10.1 s of CPU time, 5.05 % of the ranks' 2 PUs; 5 % are "
                  "allowed");
    s.ranks = 1; /* of one rank's PU it is twice as much */
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", why), OUTCOME_DISTURBED);
    s = (struct seen){100, 6, 0, 0, 0, 2, 4, 8}; /* ranks cannot have more PUs than there are */
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", NULL), OUTCOME_OK);
    s.others_cpu_s = 10.1;
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", NULL), OUTCOME_DISTURBED);
    /* a short trial: ticks of 10 ms are no load */
    s = (struct seen){.1, .04, 0, 0, 0, 2, 1, 1};
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", NULL), OUTCOME_OK);
    s.others_cpu_s = .06;
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", NULL), OUTCOME_DISTURBED);
}

/* Two pinned ranks fill a machine of two CPUs: pressure, but nobody else. */
static void own_contention(void)
{
    struct records none = {0};
    struct seen s = quiet;
    s.psi_s = 7;
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", NULL), OUTCOME_OK);
}

static void steal(void)
{
    struct records earlier = {0};
    auto_error struct error err = ERROR_INIT;
    struct seen s = quiet;
    char why[200];
    s.steal_s = 2; /* 1 % of 2 CPUs, but it is the median of this session */
    CU_ASSERT_EQUAL(judge(&s, &earlier, "ok", NULL), OUTCOME_OK);
    for (int i = 0; i < 4; i++)
        records_add(&earlier, record_of(&quiet, "ok"), "t", &err);
    CU_ASSERT_EQUAL(judge(&s, &earlier, "ok", why), OUTCOME_DISTURBED);
    CU_ASSERT_STR(why, "the hypervisor took 1 % of the CPU time, the session's median is 0 %");
    s.steal_s = 1; /* 0.5 %: not above it */
    CU_ASSERT_EQUAL(judge(&s, &earlier, "ok", NULL), OUTCOME_OK);
    records_release(&earlier);
    struct seen usual = quiet;
    usual.steal_s = 2;
    for (int i = 0; i < 4; i++)
        records_add(&earlier, record_of(&usual, "ok"), "t", &err);
    s.steal_s = 6; /* three times the median: not above it */
    CU_ASSERT_EQUAL(judge(&s, &earlier, "ok", NULL), OUTCOME_OK);
    s.steal_s = 6.1;
    CU_ASSERT_EQUAL(judge(&s, &earlier, "ok", NULL), OUTCOME_DISTURBED);
    records_release(&earlier);
}

static void clock_step(void)
{
    struct records none = {0};
    struct seen s = quiet;
    char why[200];
    s.clock_step_s = .05; /* slewing */
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", NULL), OUTCOME_OK);
    s.clock_step_s = -1.5;
    CU_ASSERT_EQUAL(judge(&s, &none, "ok", why), OUTCOME_DISTURBED);
    CU_ASSERT_STR(why, "the wall clock was set back by 1.5 s");
}

static void only_what_is_ok(void)
{
    struct records none = {0};
    struct scenario scenario = {.disturbance = {.05, .005, .25, .05, true}};
    struct seen s = quiet;
    s.others_cpu_s = 50;
    CU_ASSERT_EQUAL(judge(&s, &none, "oom", NULL), OUTCOME_OOM);
    CU_ASSERT_EQUAL(judge(&s, &none, "timeout", NULL), OUTCOME_TIMEOUT);
    setenv(ENV_WATCH, "off", 1);
    json_t *r = record_of(&s, "ok");
    disturbance_judge(&scenario, &none, r);
    CU_ASSERT_STR(json_read_str(r, "outcome"), "ok");
    CU_ASSERT_STR(json_read_str(r, "disturbance_why"), "NCBENCH_WATCH=off: not judged");
    json_decref(r);
    unsetenv(ENV_WATCH);
    r = json_pack("{s:s}", "outcome", "ok"); /* a fake: nothing was observed */
    disturbance_judge(&scenario, &none, r);
    CU_ASSERT_STR(json_read_str(r, "outcome"), "ok");
    CU_ASSERT_TRUE(json_is_null(json_at(r, "disturbance")));
    json_decref(r);
}

/* Ranks that are children of a daemon: their own work would look like that of others. */
static void children_of_a_daemon(void)
{
    struct scenario scenario = {.disturbance = {.05, .005, .25, .05, true}};
    struct records none = {0};
    struct trial_context context = {.scenario = &scenario};
    const char *const kinds[] = {"docker", "podman"};
    for (size_t i = 0; i < 2; i++) {
        struct trial_facts f = {.context = &context, .ops = runtime_find(kinds[i])};
        struct seen s = quiet;
        s.others_cpu_s = 150;
        json_t *r = record_of(&s, "ok");
        trial_mend_collected(&f, r);
        unsetenv(ENV_WATCH);
        disturbance_judge(&scenario, &none, r);
        CU_ASSERT_STR(json_read_str(r, "outcome"), i ? "disturbed" : "ok");
        if (i == 0)
            CU_ASSERT_STR(json_read_str(r, "disturbance.foreign_cpu_why"),
                          "the ranks are children of the runtime's daemon");
        json_decref(r);
    }
}

/* `gpus` as gpu_telemetry.devices; `mine`: the uuid that a rank tells, or NULL. */
static enum outcome judge_gpus(const char *gpus, const char *mine, char reason[200])
{
    struct records none = {0};
    struct scenario scenario = {.disturbance = {.05, .005, .25, .05, true}};
    json_t *r = record_of(&quiet, "ok"), *env = json_array();
    json_t *devices = json_loads(gpus, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(devices);
    json_put(r, "gpu_telemetry", json_pack("{s:o}", "devices", devices));
    json_array_append_new(
        env, mine ? json_pack("{s:{s:s, s:s}}", "gpu", "uuid", mine, "pci", "0000:18:00.0")
                  : json_object());
    json_put(r, "env", env);
    unsetenv(ENV_WATCH);
    disturbance_judge(&scenario, &none, r);
    enum outcome out = outcome_from_name(json_read_str(r, "outcome"));
    const char *why = json_string_value(json_array_get(json_at(r, "reasons"), 0));
    snprintf(reason, 200, "%s", why ? why : "");
    json_decref(r);
    return out;
}

static void gpus(void)
{
    char why[200];
    static const char hot[] =
        "[{\"uuid\": \"GPU-a\", \"held_back\": {\"power_cap\": 1, \"hw_thermal\": "
        "0.25}, \"foreign\": []}]";
    static const char capped[] = "[{\"uuid\": \"GPU-a\", \"held_back\": {\"power_cap\": 1, "
                                 "\"idle\": 0.5}, \"foreign\": []}]";
    static const char shared[] = "[{\"uuid\": \"GPU-a\", \"held_back\": null, \"foreign\": []}, "
                                 "{\"uuid\": \"GPU-b\", \"held_back\": {}, \"foreign\": [4711]}]";
    CU_ASSERT_EQUAL(judge_gpus(capped, "GPU-a", why), OUTCOME_OK); /* every busy GPU's */
    CU_ASSERT_EQUAL(judge_gpus(hot, "GPU-a", why), OUTCOME_DISTURBED);
    CU_ASSERT_STR(
        why,
        "clocks of GPU GPU-a were held back (hw_thermal) in 25 % of the samples; 5 % are allowed");
    CU_ASSERT_EQUAL(judge_gpus(hot, "GPU-b", why), OUTCOME_OK); /* a neighbour's heat */
    CU_ASSERT_EQUAL(judge_gpus(shared, "GPU-a", why), OUTCOME_OK);
    CU_ASSERT_EQUAL(judge_gpus(shared, "GPU-b", why), OUTCOME_DISTURBED);
    CU_ASSERT_STR(why, "process 4711, not of the trial, computes on GPU GPU-b");
    /* an instance of a GPU has a UUID of its own, and others may have others: by the bus id */
    static const char mig[] = "[{\"uuid\": \"GPU-a\", \"pci\": \"0000:18:00.0\", \"mig\": true, "
                              "\"held_back\": {\"hw_thermal\": 1}, \"foreign\": [4711]}]";
    CU_ASSERT_EQUAL(judge_gpus(mig, "MIG-x", why), OUTCOME_DISTURBED);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "hw_thermal"));
    /* no rank tells: any GPU of the node may be the trial's */
    CU_ASSERT_EQUAL(judge_gpus(shared, NULL, why), OUTCOME_DISTURBED);
}

UNIT_MAIN({"ranks that are children of a daemon", children_of_a_daemon},
          {"foreign CPU", foreign_cpu}, {"own contention", own_contention}, {"steal", steal},
          {"clock step", clock_step}, {"only what is ok", only_what_is_ok}, {"GPUs", gpus})
