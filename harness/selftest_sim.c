#include "harness/selftest_sim.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/stats_random.h"
#include "runtimes/fake.h"

#include <string.h>

#define ARMS_MAX 3

/* looks, stop, is there a control arm? */
static const char scenario[] =
    "{\"name\": \"selftest\", \"baseline\": \"bare\","
    " \"runtimes\": [{\"name\": \"bare\", \"kind\": \"fake\"}, {\"name\": \"arm\", \"kind\": "
    "\"fake\"}],"
    " \"cells\": [{\"id\": \"c00\", \"values\": {}}],"
    " \"sampling\": {\"looks\": %s, \"stop\": \"%s\", \"control\": %s},"
    " \"compare\": {\"primary\": \"step_time_s\", \"margin\": {\"step_time_s\": 0.01}}}";

static int parse(const char *text, const char *name, json_t **out, struct error *err)
{
    return text ? json_parse(text, strlen(text), name, NCBENCH_EXIT_BUG, out, err) : 0;
}

static json_t *series(const struct fake_response *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->steps; i++)
        json_array_append_new(list, json_real(r->step_time_s[i]));
    return list;
}

static json_t *record_of(const struct simulation *s, size_t arm, int64_t block, int64_t seq,
                         const struct fake_response *response)
{
    json_t *r = json_object();
    const char *name = s->study.arms[arm].name;
    json_put_str(r, "schema", RECORD_SCHEMA);
    json_put(r, "trial", json_sprintf("c00.b%02d.%s", (int)block, name));
    json_put_int(r, "seq", seq);
    json_put(r, "cell", json_pack("{s:s}", "id", "c00"));
    json_put_int(r, "block", block);
    json_put_str(r, "runtime", name);
    json_put_bool(r, "baseline", arm == 0);
    json_put_bool(r, "warmup_block", block == 0);
    json_put_str(r, "outcome", outcome_name(response->outcome));
    if (s->env[arm == 1])
        json_put(r, "env", json_pack("[O]", s->env[arm == 1]));
    if (response->outcome != OUTCOME_OK)
        return r;
    json_t *train = json_object();
    json_put(train, "step_max_s", series(response));
    json_put_int(train, "warmup_own", 1);
    json_put(r, "train", train);
    record_apply_warmup(r, 1);
    return r;
}

static int run_trial(struct simulation *s, uint64_t seed, size_t arm, int64_t block,
                     struct error *err)
{
    const struct fake_trial trial = {seed, "c00", block, (int64_t)s->records.count};
    struct fake_response response = {0};
    if (fake_respond(s->scripts[arm], &trial, &response, err))
        return -err->code;
    int rc =
        records_add(&s->records, record_of(s, arm, block, trial.seq, &response), "selftest", err);
    fake_response_release(&response);
    return rc;
}

/* A block: every arm once, in an order drawn anew. */
static int run_block(struct simulation *s, uint64_t seed, struct stats_rng *rng, int64_t block,
                     struct error *err)
{
    size_t order[ARMS_MAX] = {0, 1, 2}, n = s->study.n_arms, from = s->records.count;
    stats_rng_shuffle(rng, order, n);
    for (size_t i = 0; i < n; i++)
        if (run_trial(s, seed, order[i], block, err))
            return -err->code;
    records_derive(&s->records, from);
    return 0;
}

static bool look(const struct simulation *s)
{
    struct blocks b;
    blocks_make(&s->study, &s->records, 0, &b);
    bool stop = verdict_look(&s->study, &b, 0);
    blocks_release(&b);
    return stop;
}

/* Blocks up to the look that ends the cell. */
static int run_blocks(struct simulation *s, uint64_t seed, int64_t *blocks, struct error *err)
{
    const struct study *study = &s->study;
    struct stats_rng rng;
    stats_rng_seed(&rng, seed);
    for (int64_t block = s->first_block_warms ? 0 : 1; block <= study->looks[study->n_looks - 1];
         block++) {
        if (run_block(s, seed, &rng, block, err))
            return -err->code;
        *blocks = block;
        if (block > 0 && look(s))
            break;
    }
    return 0;
}

int simulation_session(struct simulation *s, uint64_t seed, struct simulated *out,
                       struct error *err)
{
    struct analysis a;
    *out = (struct simulated){.verdict = VERDICT_COUNT};
    int rc = run_blocks(s, seed, &out->blocks, err);
    if (rc == 0) {
        analysis_make(&s->study, &s->records, NULL, &a);
        const struct comparison *c = analysis_find(&a, s->study.primary, 0, 1);
        out->verdict = c->verdict;
        out->paired = c->paired;
        analysis_release(&a);
    }
    records_release(&s->records);
    return rc;
}

int simulation_open(const struct simulation_setup *setup, struct simulation *out, struct error *err)
{
    const char *control = setup->control ? setup->control : "{}";
    auto_free char *text =
        mem_printf(scenario, setup->looks, setup->stop, setup->control ? "true" : "false");
    auto_json *resolved = NULL;
    *out = (struct simulation){.study = {.control = -1, .handicap = -1},
                               .first_block_warms = setup->first_block_warms};
    if (parse(text, "scenario", &resolved, err) ||
        study_from_json(resolved, NULL, &out->study, err) ||
        parse(setup->bare, setup->name, &out->scripts[0], err) ||
        parse(setup->arm, setup->name, &out->scripts[1], err) ||
        parse(control, setup->name, &out->scripts[2], err) ||
        parse(setup->bare_env, setup->name, &out->env[0], err) ||
        parse(setup->arm_env, setup->name, &out->env[1], err)) {
        simulation_close(out);
        return -err->code;
    }
    return 0;
}

void simulation_close(struct simulation *s)
{
    for (size_t i = 0; i < 3; i++)
        json_decref(s->scripts[i]);
    for (size_t i = 0; i < 2; i++)
        json_decref(s->env[i]);
    study_release(&s->study);
    *s = (struct simulation){.study = {.control = -1, .handicap = -1}};
}
