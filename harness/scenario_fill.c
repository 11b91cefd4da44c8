/* The scenario's own part: JSON into struct scenario, and what must hold between its keys. */
#include "harness/scenario_priv.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *text_at(const json_t *doc, const char *path)
{
    return mem_strdup(json_read_str(doc, path));
}

static void push_strings(const json_t *list, struct strv *out)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item) strv_push(out, json_string_value(item));
}

/* Index of the word among `names`; 0 when it is absent (reported already). */
static int word_index(const json_t *doc, const char *path, const char *const *names)
{
    const char *word = json_read_str(doc, path);
    for (int i = 0; word && names[i]; i++)
        if (!strcmp(names[i], word))
            return i;
    return 0;
}

/* ---- runtimes: names, baseline, control -------------------------------------------------------
 */
static const struct bound *arms_of(const struct loader *l)
{
    const struct bound *list = bound_child(l->root, "runtimes", 8);
    return list && !list->bad ? list : NULL;
}

/* Names are literal, so they can be compared without a cell. */
static const struct bound *name_of_arm(const struct bound *arm)
{
    const struct bound *name = bound_child(arm, "name", 4);
    return name && !name->bad ? name : NULL;
}

static void check_arm_names(struct loader *l, const struct bound *arms)
{
    size_t i = 0;
    for (const struct bound *a = arms->first; a; a = a->next, i++) {
        const struct bound *name = name_of_arm(a), *other;
        for (const struct bound *b = arms->first; name && b != a; b = b->next)
            if ((other = name_of_arm(b)) && !strcmp(other->node->text, name->node->text))
                complain(l, name, "\"%s\" is the name of two runtimes", name->node->text);
    }
}

static bool find_arm(const struct bound *arms, const char *name, size_t *index)
{
    *index = 0;
    for (const struct bound *a = arms->first; a; a = a->next, ++*index) {
        const struct bound *own = name_of_arm(a);
        if (own && !strcmp(own->node->text, name))
            return true;
    }
    return false;
}

static void complain_no_arm(struct loader *l, const char *path, const char *name,
                            const struct bound *arms)
{
    const char *names[64];
    size_t n = 0;
    auto_str list = STR_INIT;
    for (const struct bound *a = arms->first; a && n < 64; a = a->next) {
        const struct bound *own = name_of_arm(a);
        if (!own)
            continue;
        str_appendf(&list, "%s%s", n ? ", " : "", own->node->text);
        names[n++] = own->node->text;
    }
    struct diag *d = complain_at(
        l, path, "\"%s\" is no runtime of this scenario, expected one of %s", name, list.data);
    const char *near = str_nearest(name, names, n);
    if (near)
        diag_hint(d, "did you mean \"%s\"?", near);
}

enum { ARMS_MAX = 64 };

/* The baseline once more: "bare-control", "bare-handicap"; returns its index. */
static int add_twin(struct loader *l, struct scenario *s, const struct bound *arms,
                    const char *baseline, const char *what)
{
    size_t twin;
    auto_free char *path = mem_printf("sampling.%s", what);
    auto_free char *name = mem_printf("%s-%s", baseline, what);
    if (find_arm(arms, name, &twin))
        complain_at(l, path, "there is a runtime \"%s\" already", name);
    return (int)s->n_runtimes++;
}

static void fill_arms(struct loader *l, const json_t *doc, struct scenario *s)
{
    const struct bound *arms = arms_of(l);
    s->control = s->handicap = -1;
    if (!arms)
        return;
    if (arms->count > ARMS_MAX) {
        complain(l, arms, "more than %d runtimes", ARMS_MAX);
        return;
    }
    check_arm_names(l, arms);
    s->n_runtimes = arms->count;
    const char *baseline = json_read_str(doc, "baseline");
    if (!baseline)
        return;
    if (!find_arm(arms, baseline, &s->baseline)) {
        complain_no_arm(l, "baseline", baseline, arms);
        return;
    }
    bool control = false;
    json_read_bool(doc, "sampling.control", &control);
    if (control)
        s->control = add_twin(l, s, arms, baseline, "control");
    if (json_read_f64(doc, "sampling.handicap", &s->sampling.handicap))
        s->handicap = add_twin(l, s, arms, baseline, "handicap");
}

/* ---- workload: verb or command ----------------------------------------------------------------
 */
static void fill_kind_of_workload(struct loader *l, struct scenario *s)
{
    const struct bound *workload = bound_child(l->root, "workload", 8);
    if (!workload || workload->bad)
        return;
    const struct bound *verb = bound_child(workload, "command", 7);
    const struct bound *exec = bound_child(workload, "exec", 4);
    const struct bound *events = bound_child(workload, "events", 6);
    s->is_verb = verb != NULL;
    if (!verb == !exec)
        complain(l, workload, "%s, expected either command or exec",
                 verb ? "has both command and exec" : "has neither command nor exec");
    s->events = s->is_verb ? EVENTS_REQUIRED : EVENTS_NONE;
    if (events && !events->bad)
        s->events = strcmp(events->node->text, "none") != 0 ? EVENTS_REQUIRED : EVENTS_NONE;
    if (s->is_verb && s->events == EVENTS_NONE)
        complain(l, events, "a verb of nanochat writes events, expected required");
}

/* ---- sampling ---------------------------------------------------------------------------------
 */
static void fill_looks(struct loader *l, const json_t *doc, struct scenario *s)
{
    const json_t *looks = json_at(doc, "sampling.looks");
    const struct bound *bound = bound_at(l, "sampling.looks");
    size_t n = json_array_size(looks);
    if (n > 5) {
        struct diag *d = complain(l, bound, "%zu looks, expected at most 5", n);
        diag_hint(d, "the level of each look is chosen for up to five of them");
        return;
    }
    if (bound->key->type == SCHEMA_LIST && n < bound->count)
        return; /* one is in error: the places would not match */
    for (size_t i = 0; i < n; i++) {
        int64_t look = json_integer_value(json_array_get(looks, i));
        auto_free char *path = mem_printf("sampling.looks[%zu]", i);
        if (i && look <= s->sampling.looks[i - 1])
            complain_at(l, path,
                        "%lld is not above the look before it (%lld), expected rising "
                        "numbers of blocks",
                        (long long)look, (long long)s->sampling.looks[i - 1]);
        if (look < 6)
            strv_pushf(&s->warnings,
                       "%s: a verdict after %lld blocks rests on few observations, 6 are advised",
                       path, (long long)look);
        s->sampling.looks[i] = look;
    }
    s->sampling.n_looks = n;
}

static void fill_sampling(struct loader *l, const json_t *doc, struct scenario *s)
{
    static const char *const orders[] = {"random_blocks", "abba", "sequential", NULL};
    static const char *const stops[] = {"decided", "precision", "never", NULL};
    int64_t seed = 0;
    s->sampling.order = (enum order)word_index(doc, "sampling.order", orders);
    s->sampling.stop = (enum stop_rule)word_index(doc, "sampling.stop", stops);
    json_read_i64(doc, "sampling.seed", &seed);
    s->sampling.seed = (uint64_t)seed;
    json_read_bool(doc, "sampling.discard_first_block", &s->sampling.discard_first_block);
    json_read_i64(doc, "sampling.warmup.steps", &s->sampling.warmup_steps);
    json_read_bool(doc, "sampling.warmup.detect", &s->sampling.warmup_detect);
    fill_looks(l, doc, s);
}

static void fill_scaling(struct loader *l, const json_t *doc, struct scenario *s)
{
    static const char *const modes[] = {"none", "weak", "strong", NULL};
    s->scaling.mode = (enum scaling_mode)word_index(doc, "scaling.mode", modes);
    s->scaling.over = text_at(doc, "scaling.over");
    if (!s->scaling.over)
        return;
    const char *names[16];
    size_t n = 0;
    for (; n < l->scope.n_axes && n < 16; n++) {
        names[n] = l->scope.axes[n].name;
        if (!strcmp(names[n], s->scaling.over))
            return;
    }
    struct diag *d = complain_at(l, "scaling.over", "\"%s\" is no matrix name", s->scaling.over);
    const char *near = str_nearest(s->scaling.over, names, n);
    if (near)
        diag_hint(d, "did you mean \"%s\"?", near);
}

/* ---- compare and gates ------------------------------------------------------------------------
 */
static const char *const metrics[] = {"step_time_s", "tokens_per_s", "mfu", "start_s", "wall_s"};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

/* A known metric, or a dotted path of the record. */
static void check_metric(struct loader *l, const struct scenario *s, const struct bound *at,
                         const char *metric)
{
    if (strchr(metric, '.'))
        return;
    for (size_t i = 0; i < N_METRICS; i++)
        if (!strcmp(metrics[i], metric)) {
            if (s->events == EVENTS_NONE && strcmp(metric, "wall_s") != 0)
                complain(l, at, "\"%s\" needs events, expected wall_s for a command without",
                         metric);
            return;
        }
    struct diag *d = complain(l, at,
                              "\"%s\" is no metric, expected step_time_s, tokens_per_s, mfu, "
                              "start_s, wall_s or a dotted path of the trial record",
                              metric);
    const char *near = str_nearest(metric, metrics, N_METRICS);
    if (near)
        diag_hint(d, "did you mean \"%s\"?", near);
}

static void fill_metrics(struct loader *l, json_t *doc, struct scenario *s)
{
    json_t *compare = json_object_get(doc, "compare");
    if (!compare) {
        compare = json_object();
        json_object_set_new(doc, "compare", compare);
    }
    bool events = s->events == EVENTS_REQUIRED;
    if (!json_object_get(compare, "primary"))
        json_object_set_new(compare, "primary", json_string(events ? "step_time_s" : "wall_s"));
    if (!json_object_get(compare, "secondary"))
        json_object_set_new(compare, "secondary",
                            events ? json_pack("[sss]", "tokens_per_s", "mfu", "start_s")
                                   : json_array());
    s->primary = text_at(doc, "compare.primary");
    push_strings(json_object_get(compare, "secondary"), &s->secondary);
    check_metric(l, s, bound_at(l, "compare.primary"), s->primary);
    for (size_t i = 0; i < s->secondary.count; i++) {
        auto_free char *path = mem_printf("compare.secondary[%zu]", i);
        check_metric(l, s, bound_at(l, path), s->secondary.items[i]);
    }
}

/* By the unit in its name: "start_s", "phases_s.model_init"; not "tokens_per_s". */
static bool is_time(const char *metric)
{
    for (const char *part = metric; *part;) {
        size_t n = strcspn(part, ".");
        auto_free char *name = mem_strndup(part, n);
        if (str_ends_with(name, "_s") && !str_ends_with(name, "_per_s"))
            return true;
        part += n + (part[n] == '.');
    }
    return false;
}

/* Times take a duration, everything else a plain number. */
static double fill_margin_abs(struct loader *l, const struct bound *map, const char *metric,
                              json_t *margin)
{
    json_t *abs = json_object_get(margin, "abs");
    const struct bound *at = bound_child(map, "abs", 3);
    double seconds = 0;
    bool is_duration = json_read_f64(abs, "duration_s", &seconds);
    if (!abs || !at)
        return 0;
    if (is_time(metric) && !is_duration)
        diag_hint(complain(l, at, "a time without its unit, expected such as 100ms"),
                  "%s is in seconds", metric);
    else if (!is_time(metric) && is_duration)
        complain(l, at, "a duration, but %s is no time, expected a number", metric);
    if (!is_duration)
        return json_number_value(abs);
    json_object_set_new(margin, "abs", json_real(seconds));
    return seconds;
}

static void fill_margins(struct loader *l, const json_t *doc, struct scenario *s)
{
    json_t *margins = (json_t *)json_at(doc, "compare.margin");
    const struct bound *list = bound_at(l, "compare.margin");
    s->margins = mem_zalloc(json_object_size(margins) + 1, sizeof *s->margins);
    const char *metric;
    json_t *value;
    json_object_foreach(margins, metric, value)
    {
        struct margin *m = &s->margins[s->n_margins++];
        const struct bound *at = bound_child(list, metric, strlen(metric));
        m->metric = mem_strdup(metric);
        if (!at)
            continue;
        check_metric(l, s, at, metric);
        json_read_f64(value, "rel", &m->rel);
        m->abs = fill_margin_abs(l, at, metric, value);
        if (!json_object_size(value))
            complain(l, at, "has neither rel nor abs");
    }
}

static void fill_gate(struct loader *l, const struct scenario *s, size_t i, const json_t *json,
                      struct gate *gate)
{
    const struct bound *arms = arms_of(l);
    auto_free char *path = mem_printf("gates[%zu]", i);
    auto_free char *metric = mem_printf("%s.metric", path);
    auto_free char *runtime = mem_printf("%s.runtime", path);
    auto_free char *vs = mem_printf("%s.vs", path);
    size_t index;
    *gate = (struct gate){text_at(json, "metric"),
                          text_at(json, "runtime"),
                          text_at(json, "vs"),
                          text_at(json, "verdict"),
                          NAN,
                          NAN};
    json_read_f64(json, "min", &gate->min);
    json_read_f64(json, "max", &gate->max);
    if (gate->metric)
        check_metric(l, s, bound_at(l, metric), gate->metric);
    if (gate->runtime && arms && strcmp(gate->runtime, "*") != 0 &&
        !find_arm(arms, gate->runtime, &index))
        complain_no_arm(l, runtime, gate->runtime, arms);
    if (gate->vs && arms && strcmp(gate->vs, "baseline") != 0 && !find_arm(arms, gate->vs, &index))
        complain_no_arm(l, vs, gate->vs, arms);
    if (!gate->verdict && isnan(gate->min) && isnan(gate->max) && !bound_at(l, path)->bad)
        complain_at(l, path, "asks for nothing, expected verdict, min or max");
}

static void fill_gates(struct loader *l, const json_t *doc, struct scenario *s)
{
    const json_t *gates = json_object_get(doc, "gates");
    s->gates = mem_zalloc(json_array_size(gates) + 1, sizeof *s->gates);
    for (; s->n_gates < json_array_size(gates); s->n_gates++)
        fill_gate(l, s, s->n_gates, json_array_get(gates, s->n_gates), &s->gates[s->n_gates]);
}

/* ---- the rest ---------------------------------------------------------------------------------
 */
static void fill_limits(const json_t *doc, struct scenario *s)
{
    json_read_f64(doc, "limits.trial_s", &s->limits.trial_s);
    json_read_f64(doc, "limits.no_output_s", &s->limits.no_output_s);
    json_read_f64(doc, "limits.kill_grace_s", &s->limits.kill_grace_s);
    json_read_f64(doc, "limits.session_s", &s->limits.session_s);
    json_read_i64(doc, "limits.max_failures", &s->limits.max_failures);
    json_read_i64(doc, "limits.disk_free_bytes", &s->limits.disk_free_bytes);
    json_read_f64(doc, "disturbance.foreign_cpu", &s->disturbance.foreign_cpu);
    json_read_f64(doc, "disturbance.steal", &s->disturbance.steal);
    json_read_f64(doc, "disturbance.max_repeated", &s->disturbance.max_repeated);
    json_read_f64(doc, "disturbance.gpu_clocks", &s->disturbance.gpu_clocks);
    json_read_bool(doc, "disturbance.gpu_processes", &s->disturbance.gpu_processes);
    json_read_bool(doc, "measure.topology", &s->measure.topology);
    json_read_bool(doc, "measure.require_counters", &s->measure.require_counters);
    push_strings(json_at(doc, "measure.counters"), &s->measure.counters);
    s->measure.gpu.asked = json_at(doc, "measure.gpu") != NULL;
    s->measure.gpu.interval_s = 1;
    json_read_f64(doc, "measure.gpu.interval_s", &s->measure.gpu.interval_s);
    json_read_bool(doc, "measure.gpu.required", &s->measure.gpu.required);
    s->output.dir = text_at(doc, "output.dir");
    const char *files = json_read_str(doc, "output.trial_files");
    s->output.files_per_node = files && !strcmp(files, "per-node");
    push_strings(json_at(doc, "output.plots"), &s->output.plots);
    push_strings(json_at(doc, "output.report"), &s->output.report);
}

bool scenario_fill(struct loader *l, json_t *doc, struct scenario *s)
{
    size_t errors = l->diags.count + l->diags.dropped;
    s->name = text_at(doc, "name");
    s->description = text_at(doc, "description");
    fill_arms(l, doc, s);
    fill_kind_of_workload(l, s);
    fill_sampling(l, doc, s);
    fill_scaling(l, doc, s);
    fill_metrics(l, doc, s);
    fill_margins(l, doc, s);
    fill_gates(l, doc, s);
    fill_limits(doc, s);
    return l->diags.count + l->diags.dropped == errors;
}
