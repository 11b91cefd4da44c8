#include "harness/scenario.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "harness/schema.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "version: 1\nname: demo\nbaseline: bare\nruntimes:\n  - {name: bare, kind: bare}\n"
#define EXEC HEAD "workload: {exec: [sleep, '1']}\n"
#define TRAIN HEAD "workload:\n  command: base-train\n  data: {source: synthetic}\n"

static int load(const char *text, const char *define, struct scenario *s, struct error *err)
{
    auto_strv defines = STRV_INIT;
    if (define)
        strv_push(&defines, define);
    return scenario_parse(text, strlen(text), "t", &defines, s, err);
}

static void expect_good(const char *text, struct scenario *s)
{
    auto_error struct error err = ERROR_INIT;
    if (load(text, NULL, s, &err))
        printf("  %s\n", err.message);
    CU_ASSERT_EQUAL_FATAL(err.code, 0);
}

static void expect_bad(const char *text, const char *part)
{
    struct scenario s;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(load(text, NULL, &s, &err), -NCBENCH_EXIT_SCENARIO);
    const char *message = err.message ? err.message : "(none)";
    if (!strstr(message, part))
        printf("  no \"%s\" in: %s\n", part, message);
    CU_ASSERT_PTR_NOT_NULL(strstr(message, part));
    scenario_release(&s);
}

static char *argv_text(const struct cell *cell)
{
    auto_str out = STR_INIT;
    for (size_t i = 0; i < cell->argv.count; i++)
        str_appendf(&out, "%s%s", i ? " " : "", cell->argv.items[i]);
    return str_steal(&out);
}

/* ---- the whole --------------------------------------------------------------------------------
 */
static const struct margin *margin_of(const struct scenario *s, const char *metric)
{
    for (size_t i = 0; i < s->n_margins; i++)
        if (!strcmp(s->margins[i].metric, metric))
            return &s->margins[i];
    return NULL;
}

static void loads_an_example(void)
{
    auto_str text = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL_FATAL(fs_read_file("configs/quickstart.yaml", &text, 3, &err), 0);
    struct scenario s;
    setenv("HOME", "/home/me", 1);
    expect_good(text.data, &s);
    CU_ASSERT_STR(s.name, "quickstart");
    CU_ASSERT_EQUAL(s.n_cells, 2);
    CU_ASSERT_EQUAL(s.n_runtimes, 3);
    CU_ASSERT_EQUAL(s.baseline, 0);
    CU_ASSERT_EQUAL(s.control, 2);
    CU_ASSERT(s.is_verb && s.events == EVENTS_REQUIRED);
    CU_ASSERT_STR(s.cells[1].runtimes[2].name, "bare-control");
    CU_ASSERT_STR(s.cells[1].runtimes[2].kind, "bare");
    CU_ASSERT_STR(s.cells[1].runtimes[1].image, "localhost/ncbench/nanochat:latest");
    CU_ASSERT_EQUAL(s.cells[0].ranks_per_node, 1);
    CU_ASSERT_EQUAL(s.cells[1].ranks_per_node, 2);
    CU_ASSERT_EQUAL(s.cells[1].bind, TOPO_BIND_CORES);
    auto_free char *argv = argv_text(&s.cells[1]);
    CU_ASSERT_STR(argv,
                  "base-train --depth=2 --max-seq-len=256 --vocab-size=4096 --device-batch-size=2 "
                  "--total-batch-size=1024 --num-iterations=40 --eval-every=-1 --sample-every=-1 "
                  "--save-every=0 --seed=42 --dtype=float32 --data-source=text "
                  "--data=/usr/share/dictd/gcide.dict.dz "
                  "--tokenizer=/home/me/.cache/nanochat/tokenizer-quickstart");
    CU_ASSERT(strv_contains(&s.cells[0].paths, "/usr/share/dictd/gcide.dict.dz"));
    CU_ASSERT_EQUAL(s.sampling.n_looks, 1);
    CU_ASSERT_EQUAL(s.sampling.looks[0], 6);
    CU_ASSERT_EQUAL(s.sampling.seed, 20261130);
    CU_ASSERT(s.check.loss);
    CU_ASSERT_NEAR(s.check.loss_rel_tol, 0.01, 1e-15);
    CU_ASSERT_NEAR(margin_of(&s, "step_time_s")->rel, 0.05, 1e-15);
    CU_ASSERT_NEAR(margin_of(&s, "start_s")->abs, 0.5, 1e-15);
    CU_ASSERT_PTR_NULL(margin_of(&s, "mfu"));
    CU_ASSERT_EQUAL(s.scaling.mode, SCALING_WEAK);
    CU_ASSERT_STR(s.scaling.over, "ranks");
    CU_ASSERT_EQUAL(s.limits.disk_free_bytes, 200 << 20);
    scenario_release(&s);
}

static void fills_in_defaults(void)
{
    struct scenario s;
    expect_good(EXEC, &s);
    CU_ASSERT_EQUAL(s.n_cells, 1);
    CU_ASSERT_STR(s.cells[0].id, "c00");
    CU_ASSERT_EQUAL(json_object_size(s.cells[0].values), 0);
    CU_ASSERT_EQUAL(s.control, -1);
    CU_ASSERT(!s.is_verb && s.events == EVENTS_NONE);
    CU_ASSERT_EQUAL(s.sampling.n_looks, 3);
    CU_ASSERT_EQUAL(s.sampling.looks[2], 24);
    CU_ASSERT_EQUAL(s.sampling.order, ORDER_RANDOM_BLOCKS);
    CU_ASSERT_EQUAL(s.sampling.stop, STOP_DECIDED);
    CU_ASSERT(s.sampling.discard_first_block && s.sampling.warmup_detect);
    CU_ASSERT_EQUAL(s.sampling.warmup_steps, 5);
    CU_ASSERT_STR(s.primary, "wall_s"); /* there are no events */
    CU_ASSERT_EQUAL(s.secondary.count, 0);
    CU_ASSERT_EQUAL(s.n_margins, 0);
    CU_ASSERT(!s.check.loss);
    CU_ASSERT_NEAR(s.limits.trial_s, 600, 0);
    CU_ASSERT_NEAR(s.limits.session_s, 0, 0);
    CU_ASSERT_EQUAL(s.limits.max_failures, 3);
    CU_ASSERT_NEAR(s.disturbance.steal, 0.005, 1e-15);
    CU_ASSERT_STR(s.output.dir, "results");
    CU_ASSERT_EQUAL(s.output.plots.count, 2);
    CU_ASSERT_EQUAL(s.cells[0].threads_per_rank, 1);
    scenario_release(&s);
    expect_good(TRAIN, &s);
    CU_ASSERT_STR(s.primary, "step_time_s");
    CU_ASSERT_EQUAL(s.secondary.count, 3);
    scenario_release(&s);
}

/* ---- types ------------------------------------------------------------------------------------
 */
static void reads_durations(void)
{
    static const struct {
        const char *text;
        double seconds; /* < 0: refused */
        const char *hint;
    } table[] = {{"90s", 90, NULL},
                 {"1m30s", 90, NULL},
                 {"1.5h", 5400, NULL},
                 {"100ms", 0.1, NULL},
                 {"'90s'", 90, NULL},
                 {"\"${45 * 2}s\"", 90, NULL},
                 {"1:30", -1, "1m30s"},
                 {"90", -1, "90s are seconds"},
                 {"-1s", -1, "negative"},
                 {"0s", -1, "longer than 0"},
                 {"1 m", -1, "units"},
                 {"30s1m", -1, "units"},
                 {"\"${90}\"", -1, "90s are seconds"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        auto_free char *text = mem_printf(EXEC "limits: {trial: %s}\n", table[i].text);
        struct scenario s;
        if (table[i].seconds < 0) {
            expect_bad(text, "t:7:17: error: limits.trial: ");
            expect_bad(text, table[i].hint);
            continue;
        }
        expect_good(text, &s);
        CU_ASSERT_NEAR(s.limits.trial_s, table[i].seconds, 1e-12);
        scenario_release(&s);
    }
}

static void keeps_text_as_it_is(void)
{
    static const char *const values[] = {"no", "1:30", "010", "~", "1e3", "0x10", "true", "1_000"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        auto_free char *text =
            mem_printf(HEAD "workload: {exec: [%s, \"${v}\"], env: {V: %s}}\nvars: {v: %s}\n",
                       values[i], values[i], values[i]);
        struct scenario s;
        expect_good(text, &s);
        CU_ASSERT_STR(s.cells[0].argv.items[0], values[i]);
        CU_ASSERT_STR(s.cells[0].argv.items[1], values[i]);
        CU_ASSERT_STR(strv_env_get(&s.cells[0].env, "V"), values[i]);
        scenario_release(&s);
    }
    struct scenario s;
    expect_good(HEAD "workload:\n  exec: [x]\n  env: {A: \"a\\nb\", B: 'c\\nd', C: \"\", "
                     "D: 'x=y \"q\"', E: \xC3\xA4}\n",
                &s);
    CU_ASSERT_STR(strv_env_get(&s.cells[0].env, "A"), "a\nb");
    CU_ASSERT_STR(strv_env_get(&s.cells[0].env, "B"), "c\\nd");
    CU_ASSERT_STR(strv_env_get(&s.cells[0].env, "C"), "");
    CU_ASSERT_STR(strv_env_get(&s.cells[0].env, "D"), "x=y \"q\"");
    CU_ASSERT_STR(strv_env_get(&s.cells[0].env, "E"), "\xC3\xA4");
    scenario_release(&s);
}

static void refuses_other_types(void)
{
    expect_bad(EXEC "sampling: {control: yes}\n", "expected true or false");
    expect_bad(EXEC "sampling: {control: 'true'}\n", "quotes make it text: write true");
    expect_bad(EXEC "sampling: {control: 1}\n", "expected true or false");
    expect_bad(EXEC "sampling: {seed: 1.5}\n", "expected an integer");
    expect_bad(EXEC "sampling: {seed: 1e3}\n", "expected an integer");
    expect_bad(EXEC "sampling: {seed: 0x10}\n", "expected an integer");
    expect_bad(EXEC "sampling: {seed: +5}\n", "expected an integer");
    expect_bad(EXEC "sampling: {seed: '5'}\n", "quotes make it text");
    expect_bad(EXEC "sampling: {seed: -5}\n", "an integer >= 0");
    expect_bad(EXEC "sampling: {seed: 99999999999999999999}\n", "expected an integer");
    expect_bad(EXEC "sampling: {seed: [1]}\n", "a list, expected an integer");
    expect_bad(EXEC "sampling: [1]\n", "a list, expected a mapping");
    expect_bad(EXEC "sampling:\n", "has no value");
    expect_bad(EXEC "sampling: {looks: 6}\n", "write [6]");
    expect_bad(EXEC "sampling: {looks: []}\n", "is empty");
    expect_bad(EXEC "limits: {disk_free: 10}\n", "10MiB is 10 x 2^20");
    expect_bad(EXEC "disturbance: {steal: 0.5}\n", "0.5%, or 50% if it is a ratio");
    expect_bad(TRAIN "  train: {matrix_lr: 0,02}\n", "error: "); /* in flow style a comma parts */
    expect_bad(TRAIN "  train:\n    matrix_lr: 0,02\n", "the decimal separator is \".\": 0.02");
    expect_bad("version: 2\n" EXEC, "duplicate key \"version\"");
    expect_bad("version: 2\nname: x\n", "version: \"2\", expected an integer equal to 1");
}

static void passes_numbers_exactly(void)
{
    static const char *const values[] = {"0.02", "0.1", "1e-05", "0.30000000000000004",
                                         "123456789.123456789"};
    static const char *const shortest[] = {"0.02", "0.1", "1e-05", "0.30000000000000004",
                                           "123456789.12345679"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        auto_free char *text = mem_printf(TRAIN "  train: {matrix_lr: %s}\n", values[i]);
        auto_free char *option = mem_printf("--matrix-lr=%s", shortest[i]);
        struct scenario s;
        expect_good(text, &s);
        CU_ASSERT(strv_contains(&s.cells[0].argv, option));
        scenario_release(&s);
    }
}

/* ---- structure --------------------------------------------------------------------------------
 */
static void reports_everything_at_once_in_order(void)
{
    struct scenario s;
    auto_error struct error err = ERROR_INIT;
    load(EXEC "limits: {trial: 90}\nsampling: {sed: 1, order: x}\ndescription: \"${nope}\"\n"
              "limits: {no_output: 5}\n",
         NULL, &s, &err);
    CU_ASSERT_EQUAL_FATAL(err.code, NCBENCH_EXIT_SCENARIO);
    const char *parts[] = {"t:7:17: error: limits.trial", "t:8:12: error: sampling.sed",
                           "t:8:27: error: sampling.order", "t:9:17: error: description",
                           "t:10:1: error: duplicate key"};
    const char *at = err.message;
    for (size_t i = 0; at && i < sizeof parts / sizeof *parts; i++) {
        at = strstr(at, parts[i]);
        CU_ASSERT_PTR_NOT_NULL(at);
    }
}

static void suggests_keys(void)
{
    for (const struct schema_key *key = schema_keys; key->path; key++) {
        /* every key of the top level, one letter short, is suggested back */
        if (!schema_is_child(&schema_root, key) || strlen(key->path) < 4)
            continue;
        auto_free char *wrong = mem_strdup(key->path);
        wrong[strlen(wrong) - 1] = '\0';
        auto_free char *text = mem_printf(EXEC "%s: 1\n", wrong);
        auto_free char *hint = mem_printf("did you mean \"%s\"?", key->path);
        expect_bad(text, hint);
    }
    expect_bad(EXEC "seed: 1\n", "it belongs elsewhere: workload.train.seed, sampling.seed");
    expect_bad(EXEC "gates: [{metrik: x}]\n", "t:7:10: error: gates[0].metrik: unknown key");
}

static void asks_for_what_is_missing(void)
{
    expect_bad("name: x\n", "t:1:1: error: version: is missing");
    expect_bad("name: x\n", "runtimes: is missing");
    expect_bad("name: x\nruntimes: [{kind: bare}]\n", "runtimes[0].name: is missing");
    expect_bad(EXEC "scaling: {mode: weak}\n", "scaling.over: is missing");
    expect_bad(EXEC "gates: [{min: 1}]\n", "gates[0].metric: is missing");
    expect_bad(HEAD "workload: {env: {A: b}}\n", "has neither command nor exec");
    expect_bad(HEAD "workload: {command: base-train, data: {source: text}}\n",
               "workload.data.path: is missing");
}

static void expands_the_matrix(void)
{
    struct scenario s;
    expect_good(HEAD "workload: {exec: ['${a}', '${b}', '${x}${y}']}\n"
                     "matrix: {a: [1, 2], b: [u, v]}\nzip: {x: [7, 8], y: [p, q]}\n"
                     "exclude: [{a: 1, b: v}]\ninclude: [{a: 9, b: w, x: 0, y: r}]\n",
                &s);
    static const char *const rows[] = {"1 u 7p", "1 u 8q", "2 u 7p", "2 u 8q",
                                       "2 v 7p", "2 v 8q", "9 w 0r"};
    CU_ASSERT_EQUAL_FATAL(s.n_cells, 7);
    for (size_t i = 0; i < 7; i++) {
        auto_free char *argv = argv_text(&s.cells[i]);
        CU_ASSERT_STR(argv, rows[i]);
    }
    CU_ASSERT_STR(s.cells[6].id, "c06");
    int64_t a = 0;
    CU_ASSERT(json_read_i64(s.cells[6].values, "a", &a) && a == 9);
    scenario_release(&s);
    expect_good(HEAD "workload: {exec: ['${n}']}\ninclude: [{n: 1}, {n: 3}]\n", &s);
    CU_ASSERT_EQUAL(s.n_cells, 2);
    scenario_release(&s);
    expect_good(EXEC "vars: {top: 4, list: 2}\nmatrix: {n: [\"${list}\", \"${top * 2}\"]}\n", &s);
    CU_ASSERT_EQUAL(s.n_cells, 2);
    scenario_release(&s);
    expect_bad(EXEC "matrix: {a: [1], b: [\"${a}\"]}\n", "\"a\" is a matrix name");
    expect_bad(EXEC "matrix: {a: [1, 1]}\n", "the cell a=1 is there twice");
    expect_bad(EXEC "matrix: {a: [1]}\nvars: {a: 2}\n", "\"a\" is a variable already");
    expect_bad(EXEC "matrix: {a: [1]}\nzip: {a: [2]}\n", "in the matrix already");
    expect_bad(EXEC "zip: {a: [1, 2], b: [1]}\n", "1 values, expected 2 as in zip.a");
    expect_bad(EXEC "matrix: {a: [1]}\nexclude: [{a: 2}]\n", "matches no cell");
}

static void keeps_variables_in_order(void)
{
    struct scenario s;
    expect_good(HEAD "workload: {exec: ['${c}']}\n"
                     "vars: {c: \"${b + 1}\", a: 1, b: \"${a + n}\"}\nmatrix: {n: [1, 10]}\n",
                &s);
    CU_ASSERT_STR(s.cells[0].argv.items[0], "3");
    CU_ASSERT_STR(s.cells[1].argv.items[0], "12");
    scenario_release(&s);
    expect_bad(EXEC "vars: {a: \"${b}\", b: \"${a}\"}\n", "variables go in a circle: a -> b -> a");
    expect_bad(EXEC "vars: {a: \"${a}\"}\n", "variables go in a circle: a -> a");
    expect_bad(EXEC "vars: {unused: \"${nope}\"}\n", "vars.unused: \"nope\" is neither");
}

static void *long_chains(void *unused)
{
    (void)unused;
    auto_str text = STR_INIT;
    str_append(&text, EXEC "vars:\n  v0: 7\n");
    for (int i = 1; i < 20000; i++)
        str_appendf(&text, "  v%d: \"${v%d}\"\n", i, i - 1);
    str_append(&text, "description: \"${v19999}\"\n");
    struct scenario s;
    expect_good(text.data, &s);
    CU_ASSERT_STR(s.description, "7");
    scenario_release(&s);
    auto_str deep = STR_INIT;
    str_append(&deep, HEAD "workload: {exec: [x]}\n");
    str_append(&deep, "  - {name: f, kind: fake, script: ");
    for (int i = 0; i < 70; i++)
        str_append(&deep, "[");
    expect_bad(deep.data, "error: ");
    return NULL;
}

static void needs_little_stack(void)
{
    unit_in_small_stack(long_chains);
}

/* ---- between keys -----------------------------------------------------------------------------
 */
static void judges_batches(void)
{
    expect_bad(TRAIN "  model: {max_seq_len: 512}\n  train: {device_batch_size: 6, "
                     "total_batch_size: 524288}\n",
               "remainder 2048");
    expect_bad(TRAIN "  model: {max_seq_len: 512}\n  train: {device_batch_size: 6, "
                     "total_batch_size: 524288}\n",
               "hint: the nearest valid totals are 522240 and 525312");
    expect_bad(TRAIN "  train: {device_batch_size: 6}\n", "= 12288 tokens"); /* nanochat's T */
    expect_bad(TRAIN "  train: {total_batch_size: 131072}\nmatrix: {r: [1, 2, 3]}\nlaunch: "
                     "{ranks_per_node: '${r}'}\n",
               "in the cell r=3");
    struct scenario s;
    expect_good(TRAIN, &s); /* nanochat's defaults fit */
    scenario_release(&s);
}

static void judges_runtimes(void)
{
    static const char podman[] =
        "version: 1\nname: d\nbaseline: p\nworkload: {exec: [x]}\nruntimes:\n"
        "  - name: p\n    kind: podman\n    image: localhost/x\n";
    auto_free char *good = mem_printf(
        "%s    mounts: ['/a:/b:ro', {source: '/c d,e:f', optional: true}]\n"
        "    ulimits: {nofile: 1024, memlock: unlimited}\n    shm_size: 64MiB\n    ipc: private\n"
        "    env: {A: b}\n    options: [--init]\n    differs: [A]\n",
        podman);
    struct scenario s;
    expect_good(good, &s);
    const struct runtime_spec *p = &s.cells[0].runtimes[0];
    CU_ASSERT_EQUAL(p->mounts.count, 2);
    CU_ASSERT(p->mounts.items[0].read_only && !p->mounts.items[1].read_only);
    CU_ASSERT_STR(p->mounts.items[0].target, "/b");
    CU_ASSERT_STR(p->mounts.items[1].source, "/c d,e:f");
    CU_ASSERT_STR(p->mounts.items[1].target, "/c d,e:f");
    CU_ASSERT(p->mounts.items[1].optional);
    CU_ASSERT_STR(p->ulimits.items[0], "nofile=1024");
    CU_ASSERT_STR(p->ulimits.items[1], "memlock=unlimited");
    CU_ASSERT_EQUAL(p->shm_size_bytes, 64 << 20);
    CU_ASSERT_STR(p->env.items[0], "A=b");
    scenario_release(&s);
    static const struct {
        const char *more, *part;
    } bad[] = {{"    mounts: ['/a:mnt']\n", "\"mnt\" is relative"},
               {"    mounts: [{source: /a, target: mnt}]\n", "\"mnt\" is relative"},
               {"    mounts: [{target: /a}]\n", "has no source"},
               {"    prefix: [x]\n", "runtimes[0].prefix: is not for kind podman"},
               {"    ipc: shared\n", "expected host or private"},
               {"    env: {'A=B': c}\n", "no name of an environment variable"},
               {"    ulimits: {nofile: many}\n", "expected NAME=SOFT"},
               {"    rootfs: /\n", "either image or rootfs"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        auto_free char *text = mem_printf("%s%s", podman, bad[i].more);
        expect_bad(text, bad[i].part);
    }
    expect_bad("version: 1\nname: d\nbaseline: a\nworkload: {exec: [x]}\nruntimes: [{name: a, "
               "kind: podmann}]\n",
               "did you mean \"podman\"?");
    expect_bad(EXEC "sampling: {control: true}\nbaseline: x\n", "error: ");
}

static void adds_a_control_arm(void)
{
    struct scenario s;
    expect_good(EXEC "sampling: {control: true}\n", &s);
    CU_ASSERT_EQUAL(s.n_runtimes, 2);
    CU_ASSERT_EQUAL(s.control, 1);
    const json_t *arms =
        json_object_get(json_array_get(json_object_get(s.resolved, "cells"), 0), "runtimes");
    CU_ASSERT_EQUAL(json_array_size(arms), 2);
    CU_ASSERT_STR(json_read_str(json_array_get(arms, 0), "name"), "bare");
    CU_ASSERT_STR(json_read_str(json_array_get(arms, 1), "name"), "bare-control");
    scenario_release(&s);
    expect_bad("version: 1\nname: demo\nbaseline: bare\nruntimes:\n  - {name: bare, kind: bare}\n"
               "  - {name: bare-control, kind: bare}\nworkload: {exec: [x]}\n"
               "sampling: {control: true}\n",
               "there is a runtime \"bare-control\" already");
}

static void reads_margins_and_gates(void)
{
    struct scenario s;
    expect_good(TRAIN "compare:\n  margin: {step_time_s: 2%, start_s: {rel: 20%, abs: 100ms}, "
                      "mfu: {abs: 0.01}, phases_s.model_init: {abs: 1s}}\n"
                      "gates: [{metric: mfu, runtime: bare, min: 0.3}, {metric: step_time_s, "
                      "verdict: equivalent}]\n",
                &s);
    CU_ASSERT_NEAR(margin_of(&s, "step_time_s")->rel, 0.02, 1e-15);
    CU_ASSERT_NEAR(margin_of(&s, "start_s")->abs, 0.1, 1e-15);
    CU_ASSERT_NEAR(margin_of(&s, "mfu")->abs, 0.01, 1e-15);
    CU_ASSERT_EQUAL(s.n_gates, 2);
    CU_ASSERT_NEAR(s.gates[0].min, 0.3, 1e-15);
    CU_ASSERT(isnan(s.gates[0].max));
    CU_ASSERT_PTR_NULL(s.gates[0].verdict);
    CU_ASSERT_STR(s.gates[1].runtime, "*");
    CU_ASSERT_STR(s.gates[1].vs, "baseline");
    scenario_release(&s);
    expect_bad(TRAIN "compare: {margin: {mfu: {abs: 10ms}}}\n", "mfu is no time");
    expect_bad(TRAIN "compare: {margin: {start_s: {abs: 10}}}\n", "a time without its unit");
    expect_bad(TRAIN "compare: {margin: {mfu: {}}}\n", "neither rel nor abs");
    expect_bad(TRAIN "compare: {primary: step_time}\n", "did you mean \"step_time_s\"?");
    expect_bad(EXEC "compare: {primary: mfu}\n", "\"mfu\" needs events");
    expect_bad(TRAIN "gates: [{metric: mfu}]\n", "asks for nothing");
    expect_bad(TRAIN "gates: [{metric: mfu, min: 1, runtime: bar}]\n", "did you mean \"bare\"?");
}

static void warns_below_six_blocks(void)
{
    struct scenario s;
    auto_strv warnings = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    expect_good(EXEC "sampling: {looks: [3, 6]}\n", &s);
    CU_ASSERT_EQUAL(scenario_check(&s, true, &warnings, &err), 0);
    CU_ASSERT_EQUAL(warnings.count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(warnings.items[0], "sampling.looks[0]"));
    scenario_release(&s);
    /* there is no key that nothing acts on */
    expect_bad(EXEC "measure: {comm: {timing: events}}\n", "measure.comm: unknown key");
    expect_bad(EXEC "measure: {gpu: {period: 1s}}\n", "measure.gpu.period: unknown key");
    expect_bad(EXEC "sampling: {looks: [6, 6]}\n", "not above the look before it");
    expect_bad(EXEC "sampling: {looks: [1]}\n", "from 2 to");
    expect_bad(EXEC "sampling: {looks: [6, 7, 8, 9, 10, 11]}\n", "expected at most 5");
}

/* ---- -D ---------------------------------------------------------------------------------------
 */
static void replaces_by_defines(void)
{
    static const struct {
        const char *define;
        int code;
        const char *part; /* of the message, or of the dump */
    } table[] = {
        {"sampling.seed=7", 0, "\"seed\":7"},
        {"n=8", 0, "\"argv\":[\"8\""},
        {"vars.n=8", 0, "\"argv\":[\"8\""},
        {"n=${3 * 3}", 0, "\"argv\":[\"9\""},
        {"runtimes[0].env.NEW=x y", 0, "\"NEW\":\"x y\""},
        {"matrix.ranks=[5, 6]", 0, "\"ranks\":6"},
        {"limits={trial: 3s}", 0, "\"trial_s\":3.0"},
        {"description=", 0, "\"description\":\"\""},
        {"description='quoted'", 0, "\"description\":\"quoted\""},
        {"description=a: b", 0, "\"description\":\"a: b\""},
        {"n=7=8", 0, "\"argv\":[\"7=8\""},
        {"sampling.sed=7", 2, "no key or variable \"sed\""},
        {"m=7", 2, "no key or variable \"m\""},
        {"vars.m=7", 2, "no key or variable \"m\""},
        {"runtimes[1].name=x", 2, "the list has 1"},
        {"runtimes[bare].env.NEW=z", 0, "\"NEW\":\"z\""},
        {"runtimes[x].name=x", 2, "no item [x]"},
        {"runtimes[].name=x", 2, "expected key=value"},
        {"runtimes[0.name=x", 2, "expected key=value"},
        {"runtimes[-1].name=x", 2, "no item [-1]"},
        {"sampling.seed=x", 2, "-D sampling.seed=x: error: sampling.seed: \"x\""},
        {"sampling=7", 2, "expected a mapping"},
        {"sampling", 2, "expected key=value"},
        {"=7", 2, "expected key=value"},
        {".=7", 2, "expected key=value"},
        {"limits={trial: 3s", 2, "did not find expected"},
        {"baseline=podman", 2, "no runtime of this scenario"},
    };
    static const char text[] = HEAD "workload: {exec: ['${n}']}\nvars: {n: 4}\n"
                                    "matrix: {ranks: [1, 2]}\n";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct scenario s;
        auto_error struct error err = ERROR_INIT;
        auto_str dump = STR_INIT;
        CU_ASSERT_EQUAL(load(text, table[i].define, &s, &err), -table[i].code);
        if (!err.code)
            json_write(&dump, s.resolved, 0);
        const char *where = err.code ? err.message : dump.data;
        if (!strstr(where, table[i].part))
            printf("  -D %s: no %s in %s\n", table[i].define, table[i].part, where);
        CU_ASSERT_PTR_NOT_NULL(strstr(where, table[i].part));
        scenario_release(&s);
    }
    struct scenario s; /* an error of the file goes first */
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(load(EXEC "foo: 1\n", "sampling.seed=x", &s, &err), -NCBENCH_EXIT_SCENARIO);
    scenario_release(&s);
}

/* ---- the schema itself ------------------------------------------------------------------------
 */
static void has_a_sound_schema(void)
{
    for (const struct schema_key *key = schema_keys; key->path; key++) {
        CU_ASSERT(key->help && *key->help);
        CU_ASSERT((key->type == SCHEMA_CHOICE) == (key->choices != NULL));
        bool has_parent = schema_is_child(&schema_root, key);
        for (const struct schema_key *p = schema_keys; p < key; p++)
            has_parent = has_parent || schema_is_child(p, key);
        if (!has_parent)
            printf("  %s has no parent before it\n", key->path);
        CU_ASSERT(has_parent);
        for (const struct schema_key *other = schema_keys; other < key; other++)
            CU_ASSERT(strcmp(other->path, key->path) != 0);
    }
}

UNIT_MAIN({"loads an example", loads_an_example}, {"fills in defaults", fills_in_defaults},
          {"reads durations", reads_durations}, {"keeps text as it is", keeps_text_as_it_is},
          {"refuses other types", refuses_other_types},
          {"passes numbers exactly", passes_numbers_exactly},
          {"reports everything at once, in order", reports_everything_at_once_in_order},
          {"suggests keys", suggests_keys}, {"asks for what is missing", asks_for_what_is_missing},
          {"expands the matrix", expands_the_matrix},
          {"keeps variables in order", keeps_variables_in_order},
          {"needs little stack", needs_little_stack}, {"judges batches", judges_batches},
          {"judges runtimes", judges_runtimes}, {"adds a control arm", adds_a_control_arm},
          {"reads margins and gates", reads_margins_and_gates},
          {"warns below six blocks", warns_below_six_blocks},
          {"replaces by defines", replaces_by_defines}, {"has a sound schema", has_a_sound_schema})
