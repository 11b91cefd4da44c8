#include "runtimes/fake.h"

#include "common/mem.h"
#include "common/num.h"
#include "runtimes/adapters_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything a script may say, with its default and bounds. */
struct script {
    double step_time_s, effect, steps, noise_sd, ar1, block_sd, drift_per_trial, within_sd;
    double warmup_steps, warmup_factor, start_s, start_sd, loss, fail_every, exit_code;
    enum outcome outcome;
};

static const struct key {
    const char *name;
    size_t offset;
    double def, min, max;
} keys[] = {
#define KEY(name, def, min, max)                                                                   \
    {                                                                                              \
#name, offsetof(struct script, name), def, min, max                                        \
    }
    KEY(step_time_s, 0, 0, 1e6),    KEY(effect, 0, -0.99, 100), KEY(steps, 40, 1, 1e6),
    KEY(noise_sd, 0, 0, 10),        KEY(ar1, 0, 0, 0.999),      KEY(block_sd, 0, 0, 10),
    KEY(drift_per_trial, 0, -1, 1), KEY(within_sd, 0, 0, 10),   KEY(warmup_steps, 0, 0, 1e6),
    KEY(warmup_factor, 2, 0, 1e6),  KEY(start_s, 0, 0, 1e6),    KEY(start_sd, 0, 0, 10),
    KEY(loss, 4, -1e6, 1e6),        KEY(fail_every, 0, 0, 1e9), KEY(exit_code, 1, 0, 255),
#undef KEY
};

static bool read_number(const json_t *value, double *out)
{
    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    return text && (num_parse_f64(text, out) || num_parse_duration(text, out) ||
                    num_parse_percent(text, out));
}

static int read_key(const struct key *key, const json_t *value, struct script *out,
                    struct error *err)
{
    double number;
    if (!read_number(value, &number))
        return error_set(err, NCBENCH_EXIT_SCENARIO, "script.%s: expected a number", key->name);
    if (!(number >= key->min && number <= key->max))
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "script.%s: %g is out of range, expected %g … %g", key->name, number,
                         key->min, key->max);
    memcpy((char *)out + key->offset, &number, sizeof number);
    return 0;
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i].name, name))
            return &keys[i];
    return NULL;
}

static int unknown_key(const char *name, struct error *err)
{
    const char *names[sizeof keys / sizeof *keys + 1];
    size_t n = 0;
    for (; n < sizeof keys / sizeof *keys; n++)
        names[n] = keys[n].name;
    names[n++] = "outcome";
    error_set(err, NCBENCH_EXIT_SCENARIO, "script.%s: unknown key", name);
    const char *near = str_nearest(name, names, n);
    return near ? error_hint(err, "did you mean \"%s\"?", near) : -err->code;
}

static int read_outcome(const json_t *value, struct script *out, struct error *err)
{
    const char *text = json_string_value(value);
    out->outcome = text ? outcome_from_name(text) : OUTCOME_COUNT;
    if (out->outcome != OUTCOME_COUNT && out->outcome != OUTCOME_OK)
        return 0;
    return error_set(
        err, NCBENCH_EXIT_SCENARIO,
        "script.outcome: \"%s\" is no failure, expected workload_failed, oom, timeout …",
        text ? text : "?");
}

static int read_script(const json_t *json, struct script *out, struct error *err)
{
    *out = (struct script){.outcome = OUTCOME_WORKLOAD_FAILED};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        memcpy((char *)out + keys[i].offset, &keys[i].def, sizeof keys[i].def);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json, name, value)
    {
        const struct key *key = find_key(name);
        int failed = !strcmp(name, "outcome") ? read_outcome(value, out, err)
                     : key                    ? read_key(key, value, out, err)
                                              : unknown_key(name, err);
        if (failed)
            return failed;
    }
    if (out->step_time_s <= 0 && out->fail_every != 1)
        return error_set(err, NCBENCH_EXIT_SCENARIO,
                         "script.step_time_s: missing, expected the median step time in seconds");
    return 0;
}

int fake_check_script(const json_t *script, struct error *err)
{
    struct script s;
    return read_script(script, &s, err);
}

/* ---- random numbers by name: a hash of what the number is for, so that no order matters -------
 */
static uint64_t mix(uint64_t x)
{
    /* the finaliser of SplitMix64 (Steele, Lea, Flood 2014) */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t key_of(uint64_t seed, const char *purpose, const char *cell)
{
    uint64_t h = mix(seed);
    for (const char *p = purpose; *p; p++)
        h = mix(h ^ (unsigned char)*p);
    for (const char *p = cell; *p; p++)
        h = mix(h ^ (unsigned char)*p);
    return h;
}

/* Standard normal number `index` of a stream (Box and Muller 1958). */
static double normal(uint64_t stream, int64_t index)
{
    uint64_t a = mix(stream ^ mix((uint64_t)index)), b = mix(a);
    double u = ((double)(a >> 11) + 1) * 0x1p-53; /* (0, 1] */
    double v = (double)(b >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* Number `seq` of a stationary AR(1) series of unit variance, as the sum over its past:
 * x_n = sqrt(1 - ρ²) Σ ρ^k e_(n-k). Past terms below 1e-9 are left out. */
static double ar1(uint64_t stream, int64_t seq, double rho)
{
    if (rho <= 0)
        return normal(stream, seq);
    double sum = 0, weight = 1;
    for (int64_t k = 0; weight > 1e-9; k++, weight *= rho)
        sum += weight * normal(stream, seq - k);
    return sqrt(1 - rho * rho) * sum;
}

static void make_steps(const struct script *s, const struct fake_trial *t,
                       struct fake_response *out)
{
    const char *cell = t->cell ? t->cell : "";
    double shift = s->noise_sd * ar1(key_of(t->seed, "noise", ""), t->seq, s->ar1) +
                   s->block_sd * normal(key_of(t->seed, "block", cell), t->block) +
                   s->drift_per_trial * (double)t->seq;
    double median = s->step_time_s * (1 + s->effect) * exp(shift);
    out->steps = (size_t)s->steps;
    out->step_time_s = mem_zalloc(out->steps, sizeof *out->step_time_s);
    uint64_t stream = mix(key_of(t->seed, "step", "") ^ mix((uint64_t)t->seq));
    for (size_t i = 0; i < out->steps; i++) {
        double factor = (double)i < s->warmup_steps ? s->warmup_factor : 1;
        out->step_time_s[i] = median * factor * exp(s->within_sd * normal(stream, (int64_t)i));
        out->wall_s += out->step_time_s[i];
    }
    out->loss_last = s->loss;
}

int fake_respond(const json_t *script, const struct fake_trial *trial, struct fake_response *out,
                 struct error *err)
{
    struct script s;
    if (read_script(script, &s, err))
        return -err->code;
    *out = (struct fake_response){.outcome = OUTCOME_OK};
    out->start_s =
        s.start_s * exp(s.start_sd * normal(key_of(trial->seed, "start", ""), trial->seq));
    out->wall_s = out->start_s;
    int64_t every = (int64_t)s.fail_every;
    if (every > 0 && trial->block % every == 0 && (trial->block > 0 || every == 1)) {
        out->outcome = s.outcome;
        out->exit_code = (int)s.exit_code;
        out->reason = mem_printf("scripted: %s, exit %d", outcome_name(s.outcome), out->exit_code);
        return 0;
    }
    make_steps(&s, trial, out);
    return 0;
}

void fake_response_release(struct fake_response *response)
{
    free(response->reason);
    free(response->step_time_s);
    *response = (struct fake_response){0};
}

/* ---- the table ----------------------------------------------------------------------------------
 */
static const char *const spec_keys[] = {"script", NULL};

static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    (void)mounts; /* nothing runs, so nothing is mounted */
    (void)portable;
    if (!spec->script)
        return error_set(err, NCBENCH_EXIT_SCENARIO, "runtime %s: kind fake needs a script",
                         spec->name);
    if (fake_check_script(spec->script, err))
        return error_wrap(err, "runtime %s", spec->name);
    return 0;
}

/* Asked by --dry-run alone. */
static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    (void)err;
    strv_extend(argv, launch->argv);
    strv_extend(env, launch->env);
    return 0;
}

const struct runtime_ops runtime_fake = {
    .name = "fake",
    .summary = "nothing runs; a scripted response, for tests",
    .flags = RUNTIME_FAKE,
    .keys = spec_keys,
    .check = check,
    .argv = make_argv,
    .classify = classify_direct,
};
