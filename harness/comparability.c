#include "harness/comparability.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"

#include <string.h>

#define VALUE_MAX 120 /* bytes of a value that are shown */

const char *item_class_name(enum item_class c)
{
    static const char *const names[ITEM_CLASS_COUNT] = {"identity", "allocation", "treatment"};
    return names[c];
}

bool finding_decisive(const struct finding *f)
{
    if (f->class == ITEM_IDENTITY)
        return true;
    return f->strict && !f->excused && !f->unknown;
}

void finding_put(struct str *out, const struct finding *f, const char *reference, const char *arm)
{
    str_appendf(out, "%s differs: %s in %s, %s in %s", f->item, f->arm, arm, f->reference,
                reference);
}

size_t record_rank_envs(const json_t *record)
{
    return json_array_size(json_at(record, "env"));
}

const json_t *record_rank_env(const json_t *record, size_t rank)
{
    return json_array_get(json_at(record, "env"), rank);
}

/* ---- values as text ------------------------------------------------------------------------- */

static void shorten(struct str *s)
{
    if (s->len <= VALUE_MAX)
        return;
    size_t cut = VALUE_MAX;
    while (cut > 0 && ((unsigned char)s->data[cut] & 0xc0) == 0x80)
        cut--;
    str_truncate(s, cut);
    str_append(s, "…");
}

/* One side of an item: its value, and why there is none. */
struct side {
    const json_t *value; /* NULL or null: none */
    const char *why;     /* "unlimited" is a value too */
};

static bool no_value(const struct side *s)
{
    return !s->value || json_is_null(s->value);
}

static bool is_unknown(const struct side *s)
{
    return no_value(s) && !(s->why && !strcmp(s->why, "unlimited"));
}

static char *value_text(const struct side *s, enum item_rule rule)
{
    struct str out = STR_INIT;
    char size[48];
    const json_t *v = s->value;
    bool variable = rule == RULE_VARIABLES;
    if (no_value(s) && s->why)
        str_append(&out, s->why);
    else if (no_value(s))
        str_append(&out, variable                                         ? "not set"
                         : rule == RULE_LIBRARIES || rule == RULE_DEVICES ? "absent"
                                                                          : "not recorded");
    else if ((rule == RULE_SIZE || rule == RULE_MEMORY_LIMIT) && json_is_number(v) &&
             json_number_value(v) >= 0)
        str_append(&out, num_format_size(size, sizeof size, json_number_value(v)));
    else if (json_is_string(v) && json_string_length(v) == 0)
        str_append(&out, variable ? "set to nothing" : "empty");
    else if (json_is_string(v))
        str_append_printable(&out, json_string_value(v), json_string_length(v));
    else if (json_is_boolean(v))
        str_append(&out, json_is_true(v) ? "yes" : "no");
    else
        json_write(&out, v, 0);
    shorten(&out);
    return str_steal(&out);
}

/* ---- findings ---------------------------------------------------------------------------------
 */

struct diff { /* one comparison of two trials */
    struct comparability *out;
    const struct study_arm *arm;
    bool one_kind; /* of runtime, on both sides */
    size_t block;  /* running number, so that a block counts once for an item */
};

static struct finding *find(struct comparability *c, const char *item)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->items[i].item, item))
            return &c->items[i];
    return NULL;
}

/* Does `differs` name it? By the key, the name for people, or a prefix "OMP_*". */
static bool excuses(const struct study_arm *arm, const struct finding *f)
{
    for (size_t i = 0; i < arm->differs.count; i++) {
        const char *word = arm->differs.items[i];
        size_t n = strlen(word);
        if (!strcmp(word, f->key) || !strcmp(word, f->item) ||
            (n > 1 && word[n - 1] == '*' && !strncmp(word, f->key, n - 1)))
            return true;
    }
    return false;
}

/* New for every container, whatever the kind. */
static bool changes_per_run(const struct comparability_item *item)
{
    static const char *const paths[] = {"namespaces", "cgroup.path", "host.hostname",
                                        "security.lsm"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!strcmp(item->path, paths[i]))
            return true;
    return false;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* What the toolkits of GPU vendors set in every container: which devices and driver parts are let
 * in, and the versions that an image was made of, as labels (the libraries themselves are
 * compared). The override of TF32 is no such thing: it chooses the arithmetic. */
static bool is_label(const char *variable)
{
    if (str_starts_with(variable, "NVIDIA_"))
        return strcmp(variable, "NVIDIA_TF32_OVERRIDE") != 0;
    static const char *const toolkits[] = {"CUDA_", "CUBLAS_", "CUDNN_", "NCCL_"};
    for (size_t i = 0; i < sizeof toolkits / sizeof *toolkits; i++)
        if (str_starts_with(variable, toolkits[i]) && str_ends_with(variable, "_VERSION"))
            return true;
    return false;
}

static const char *text_of(const struct side *s)
{
    const char *text = json_string_value(s->value);
    return text ? text : "";
}

/* Is `longer` what apptainer makes of `shorter`: a search path with its folder behind it? */
static bool is_apptainers(const char *shorter, const char *longer)
{
    static const char folder[] = "/.singularity.d/libs";
    size_t n = strlen(shorter);
    if (strncmp(shorter, longer, n) != 0 || (n && longer[n] != ':'))
        return false;
    return !strcmp(longer + n + (n > 0), folder);
}

/* The folder is for the libraries that --nv brings in, and empty without; which libraries a rank
 * has loaded is compared apart. Every SIF names it. */
static bool is_apptainers_folder(const char *variable, const struct side *a, const struct side *b)
{
    return !strcmp(variable, "LD_LIBRARY_PATH") &&
           (is_apptainers(text_of(a), text_of(b)) || is_apptainers(text_of(b), text_of(a)));
}

/* Labels choose no algorithm; and which of its own helpers NVIDIA's driver has opened by the time
 * of the evidence (the compiler of PTX, say, where its cache has no answer) depends on what ran
 * before. Two versions of one are still a difference. */
static bool changes_no_result(const struct comparability_item *item, const char *key,
                              const struct side *a, const struct side *b)
{
    if (item->rule == RULE_VARIABLES)
        return is_label(key) || is_apptainers_folder(key, a, b);
    return item->rule == RULE_LIBRARIES && str_starts_with(key, "libnvidia-") &&
           (no_value(a) || no_value(b));
}

static void report(const struct diff *d, const struct comparability_item *item, const char *name,
                   const char *key, struct side a, struct side b)
{
    bool absence_tells = item->rule == RULE_VARIABLES || item->rule == RULE_LIBRARIES ||
                         (item->rule == RULE_DEVICES && strcmp(key, last_part(item->path)) != 0);
    bool unknown = !absence_tells && (is_unknown(&a) || is_unknown(&b));
    struct finding *old = find(d->out, name);
    if (old) {
        if (old->unknown && !unknown) { /* what is known tells more than that one rank was silent */
            free(old->reference);
            free(old->arm);
            old->reference = value_text(&a, item->rule);
            old->arm = value_text(&b, item->rule);
            old->unknown = false;
        }
        old->blocks += old->last_block != d->block; /* further ranks of a block add nothing */
        old->last_block = d->block;
        return;
    }
    struct finding f = {.class = item->class,
                        .item = mem_strdup(name),
                        .key = mem_strdup(key),
                        .reference = value_text(&a, item->rule),
                        .arm = value_text(&b, item->rule),
                        .blocks = 1,
                        .last_block = d->block,
                        .unknown = unknown,
                        .advice = item->advice};
    if (changes_no_result(item, key, &a, &b))
        f.class = ITEM_TREATMENT;
    f.strict = f.class != ITEM_TREATMENT || (d->one_kind && !changes_per_run(item));
    f.excused = f.strict && f.class != ITEM_IDENTITY && excuses(d->arm, &f);
    vec_push(d->out, f);
}

static bool same(struct side a, struct side b)
{
    if (no_value(&a) || no_value(&b)) /* two reasons for not knowing are no difference */
        return no_value(&a) && no_value(&b) && is_unknown(&a) == is_unknown(&b);
    if (json_is_number(a.value) && json_is_number(b.value))
        return json_number_value(a.value) == json_number_value(b.value);
    return json_equal(a.value, b.value);
}

/* Only a null has a reason beside it. */
static struct side side_of(const json_t *root, const char *path)
{
    struct side s = {json_at(root, path), NULL};
    if (json_is_null(s.value)) {
        auto_free char *why = mem_printf("%s_why", path);
        s.why = json_read_str(root, why);
    }
    return s;
}

/* A key as it is, without taking dots for a path. */
static struct side side_of_key(const json_t *object, const char *key)
{
    struct side s = {json_object_get(object, key), NULL};
    if (json_is_null(s.value)) {
        auto_free char *why = mem_printf("%s_why", key);
        s.why = json_string_value(json_object_get(object, why));
    }
    return s;
}

static void diff_key(const struct diff *d, const struct comparability_item *item, const json_t *a,
                     const json_t *b, const char *key)
{
    struct side x = side_of_key(a, key);
    struct side y = side_of_key(b, key);
    bool alone = item->rule == RULE_VARIABLES || !*item->name;
    if (same(x, y))
        return;
    auto_free char *name = alone ? mem_strdup(key) : mem_printf("%s %s", item->name, key);
    report(d, item, name, key, x, y);
}

/* What the harness gives every trial of its own: files below the trial's directory. */
static bool is_trials_own(const struct comparability_item *item, const char *key)
{
    return item->rule == RULE_VARIABLES &&
           (!strcmp(key, "NCCL_DEBUG_FILE") || !strcmp(key, "NCCL_TOPO_DUMP_FILE"));
}

/* Objects whose keys are items of their own: all keys of a, then those that only b has. */
static void diff_keys(const struct diff *d, const struct comparability_item *item, const json_t *a,
                      const json_t *b)
{
    if (!json_is_object(a) || !json_is_object(b)) {
        if (json_is_object(a) || json_is_object(b))
            report(d, item, item->name, last_part(item->path), (struct side){a, NULL},
                   (struct side){b, NULL});
        return;
    }
    for (int second = 0; second < 2; second++) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(second ? b : a), key, value)
        {
            if (!str_ends_with(key, "_why") && !is_trials_own(item, key) &&
                !(second && json_object_get(a, key)))
                diff_key(d, item, a, b, key);
        }
    }
}

/* A list of libraries as {"libc.so.6": "build-id"}, by the names that were asked for: where a
 * library lies and what its file is called is the image's matter, and name service modules come and
 * go with the host's configuration. */
static json_t *libraries(const json_t *list)
{
    json_t *out = json_object();
    size_t i;
    json_t *lib;
    json_array_foreach(list, i, lib)
    {
        const char *path = json_read_str(lib, "path");
        const char *name = json_read_str(lib, "name");
        const char *id = json_read_str(lib, "build_id");
        id = id ? id : json_read_str(lib, "sha256"); /* linked without one */
        if (path && !name)                           /* as older records are */
            name = fs_basename(path);
        if (name && !str_starts_with(name, "libnss_"))
            json_object_set_new(out, name, json_string(id ? id : "no build id"));
    }
    return out;
}

/* {"data": {"fs_type": "ext4", …}} as {"data": "ext4"}. */
static json_t *mount_types(const json_t *mounts)
{
    json_t *out = json_object();
    const char *what;
    json_t *mount;
    json_object_foreach((json_t *)mounts, what, mount)
    {
        const char *type = json_read_str(mount, "fs_type");
        if (strcmp(what, "executable") != 0 && strcmp(what, "tmp") != 0)
            json_object_set_new(out, what, type ? json_string(type) : json_null());
    }
    return out;
}

/* {"power limit (W) of GPU-…": 700, …} of the GPUs that the ranks use. */
static json_t *gpu_limits(const json_t *record, const json_t *devices)
{
    static const struct {
        const char *field, *name;
    } limits[] = {{"power_limit_w", "power limit (W)"}, {"sm_max_mhz", "highest SM clock (MHz)"}};
    json_t *out = json_object(), *gpu;
    size_t i;
    json_array_foreach(devices, i, gpu)
    {
        const char *uuid = json_read_str(gpu, "uuid");
        for (size_t k = 0; uuid && record_uses_gpu(record, gpu) && k < 2; k++) {
            auto_free char *key = mem_printf("%s of %s", limits[k].name, uuid);
            json_t *limit = json_object_get(gpu, limits[k].field);
            if (json_is_number(limit))
                json_object_set(out, key, limit);
        }
    }
    return out;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(json_string_value(*(json_t *const *)a), json_string_value(*(json_t *const *)b));
}

/* ["TREE LL", "RING SIMPLE"] as "RING SIMPLE, TREE LL": the order of the log's lines says nothing.
 */
static json_t *joined(const json_t *ways)
{
    size_t n = json_array_size(ways);
    auto_free json_t **sorted = mem_alloc((n + 1) * sizeof *sorted);
    struct str out = STR_INIT;
    for (size_t i = 0; i < n; i++)
        sorted[i] = json_array_get(ways, i);
    qsort(sorted, n, sizeof *sorted, by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !json_equal(sorted[i - 1], sorted[i]))
            str_appendf(&out, "%s%s", i ? ", " : "", json_string_value(sorted[i]));
    json_t *text = json_string(out.data ? out.data : "");
    str_release(&out);
    return text;
}

/* {"AllReduce of 67108864 bytes": "RING SIMPLE"}. */
static json_t *nccl_calls(const json_t *calls)
{
    auto_json *ways = json_object();
    json_t *out = json_object(), *call;
    size_t i;
    json_array_foreach(calls, i, call)
    {
        const char *op = json_read_str(call, "op"), *algorithm = json_read_str(call, "algorithm");
        const char *protocol = json_read_str(call, "protocol");
        json_int_t bytes = json_integer_value(json_object_get(call, "bytes"));
        if (!op || !algorithm || !protocol)
            continue;
        auto_free char *key = mem_printf("%s of %lld bytes", op, (long long)bytes);
        auto_free char *way = mem_printf("%s %s", algorithm, protocol);
        if (!json_object_get(ways, key))
            json_object_set_new(ways, key, json_array());
        json_array_append_new(json_object_get(ways, key), json_string(way));
    }
    const char *key;
    json_t *list;
    json_object_foreach(ways, key, list)
    {
        json_object_set_new(out, key, joined(list));
    }
    return out;
}

/* What the rule makes of a list: an object whose keys are items; NULL: it is no such rule. */
static json_t *as_items(const struct comparability_item *item, const json_t *root,
                        const json_t *value)
{
    switch (item->rule) {
    case RULE_LIBRARIES: return libraries(value);
    case RULE_MOUNTS: return mount_types(value);
    case RULE_GPU_LIMITS: return gpu_limits(root, value);
    case RULE_NCCL_CALLS: return nccl_calls(value);
    default: return NULL;
    }
}

/* Inode numbers say nothing by themselves: shared or not is what counts. */
static void diff_namespaces(const struct diff *d, const struct comparability_item *item,
                            const json_t *a, const json_t *b)
{
    auto_json *host = json_string("the baseline's");
    auto_json *own = json_string("its own");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)a, key, value)
    {
        const json_t *other = json_object_get(b, key);
        if (!json_is_integer(value) || !json_is_integer(other) || json_equal(value, other))
            continue;
        auto_free char *name = mem_printf("%s namespace", key);
        report(d, item, name, key, (struct side){host, NULL}, (struct side){own, NULL});
    }
}

/* Where the program lies is the image's matter. */
static json_t *arguments(const json_t *argv)
{
    json_t *copy = json_copy((json_t *)argv);
    if (json_is_array(copy))
        json_array_remove(copy, 0);
    return copy;
}

/* A limit that the machine's whole memory does not reach limits nothing. */
static struct side memory_limit(struct side limit, const json_t *env)
{
    const json_t *total = json_at(env, "memory.total_bytes");
    bool idle = json_is_number(limit.value) && json_is_number(total) &&
                json_number_value(limit.value) >= json_number_value(total);
    return idle ? (struct side){NULL, "unlimited"} : limit;
}

static void diff_item(const struct diff *d, const struct comparability_item *item, const json_t *a,
                      const json_t *b)
{
    struct side x = side_of(a, item->path);
    struct side y = side_of(b, item->path);
    if (item->rule == RULE_MEMORY_LIMIT) {
        x = memory_limit(x, a);
        y = memory_limit(y, b);
    }
    auto_json *left_items = as_items(item, a, x.value);
    auto_json *right_items = as_items(item, b, y.value);
    if (left_items) {
        diff_keys(d, item, left_items, right_items);
    } else if (item->rule == RULE_VARIABLES || item->rule == RULE_NAMED ||
               item->rule == RULE_DEVICES) {
        diff_keys(d, item, x.value, y.value);
    } else if (item->rule == RULE_NAMESPACES) {
        diff_namespaces(d, item, x.value, y.value);
    } else if (item->rule == RULE_ARGV) {
        auto_json *left = arguments(x.value);
        auto_json *right = arguments(y.value);
        if (!same((struct side){left, NULL}, (struct side){right, NULL}))
            report(d, item, item->name, item->path, (struct side){left, NULL},
                   (struct side){right, NULL});
    } else if (!same(x, y)) {
        report(d, item, item->name, last_part(item->path), x, y);
    }
}

/* Where one side told no topology, its fingerprint alone says so. */
static bool is_pointless(const struct comparability_item *item, const struct record *a,
                         const struct record *b)
{
    return str_starts_with(item->path, "topology.") && strcmp(item->path, "topology.fingerprint") &&
           !(json_is_object(json_at(a->json, "topology")) &&
             json_is_object(json_at(b->json, "topology")));
}

static void diff_trials(const struct diff *d, const struct record *a, const struct record *b)
{
    size_t ranks = record_rank_envs(a->json);
    for (const struct comparability_item *item = comparability_items; item->path; item++) {
        if (is_pointless(item, a, b))
            continue;
        if (item->source == FROM_RECORD) {
            diff_item(d, item, a->json, b->json);
            continue;
        }
        for (size_t rank = 0; rank < ranks; rank++) {
            const json_t *x = record_rank_env(a->json, rank);
            const json_t *y = record_rank_env(b->json, rank);
            if (x && y)
                diff_item(d, item, x, y);
        }
    }
}

static int worst_first(const void *p, const void *q)
{
    const struct finding *a = p;
    const struct finding *b = q;
    bool x = finding_decisive(a);
    bool y = finding_decisive(b);
    if (x != y)
        return x ? -1 : 1;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    if (a->unknown != b->unknown)
        return a->unknown ? 1 : -1;
    return strcmp(a->item, b->item);
}

static char *reason_of(const struct study *s, const struct comparability *c, size_t reference,
                       size_t arm)
{
    struct str out = STR_INIT;
    size_t decisive = 0;
    for (size_t i = 0; i < c->count; i++)
        decisive += finding_decisive(&c->items[i]);
    finding_put(&out, &c->items[0], s->arms[reference].name, s->arms[arm].name);
    if (decisive > 1)
        str_appendf(&out, " (and %zu more difference%s)", decisive - 1, decisive > 2 ? "s" : "");
    return str_steal(&out);
}

void comparability_make(const struct study *s, const struct blocks *b, size_t reference, size_t arm,
                        struct comparability *out)
{
    *out = (struct comparability){.comparable = true};
    for (size_t i = 0; reference != arm && i < b->count; i++) {
        const struct block *k = &b->items[i];
        const struct record *x = k->trials[reference];
        const struct record *y = k->trials[arm];
        if (k->state != BLOCK_COMPLETE || k->superseded || !x || !y || y->outcome != OUTCOME_OK ||
            x->outcome != OUTCOME_OK)
            continue;
        out->blocks++;
        out->compared += record_rank_envs(x->json) && record_rank_envs(y->json);
        struct diff d = {out, &s->arms[arm], !strcmp(s->arms[arm].kind, s->arms[reference].kind),
                         out->blocks};
        diff_trials(&d, x, y);
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, worst_first);
    if (out->count && finding_decisive(&out->items[0])) {
        out->comparable = false;
        out->reason = reason_of(s, out, reference, arm);
    }
}

void comparability_release(struct comparability *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->items[i].item);
        free(c->items[i].key);
        free(c->items[i].reference);
        free(c->items[i].arm);
    }
    free(c->items);
    free(c->reason);
    *c = (struct comparability){0};
}
