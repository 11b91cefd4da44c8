#include "harness/record.h"

#include "common/fs.h"
#include "common/mem.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Borrow the fields that everything sorts and filters by. */
static int record_bind(struct record *r, const char *name, struct error *err)
{
    const char *schema = json_read_str(r->json, "schema");
    const char *outcome = json_read_str(r->json, "outcome");
    if (!schema || strncmp(schema, "trial/1.", 8))
        return error_set(err, NCBENCH_EXIT_RESULTS, "%s: schema \"%s\", expected \"%s\"", name,
                         schema ? schema : "", RECORD_SCHEMA);
    r->trial = json_read_str(r->json, "trial");
    r->cell = json_read_str(r->json, "cell.id");
    r->runtime = json_read_str(r->json, "runtime");
    r->outcome = outcome ? outcome_from_name(outcome) : OUTCOME_COUNT;
    r->attempt = 1;
    json_read_i64(r->json, "attempt", &r->attempt);
    json_read_i64(r->json, "seq", &r->seq);
    json_read_i64(r->json, "stratum", &r->stratum);
    json_read_bool(r->json, "baseline", &r->baseline);
    json_read_bool(r->json, "warmup_block", &r->warmup_block);
    if (!r->trial || !r->cell || !r->runtime || !json_read_i64(r->json, "block", &r->block))
        return error_set(err, NCBENCH_EXIT_RESULTS,
                         "%s: no trial record, expected trial, cell.id, runtime and block", name);
    if (r->outcome == OUTCOME_COUNT)
        return error_set(err, NCBENCH_EXIT_RESULTS, "%s: outcome \"%s\" is not known", name,
                         outcome ? outcome : "");
    return 0;
}

int records_add(struct records *r, json_t *record, const char *name, struct error *err)
{
    struct record item = {.json = record};
    if (record_bind(&item, name, err)) {
        json_decref(record);
        return -err->code;
    }
    vec_push(r, item);
    return 0;
}

static int parse_line(struct records *r, const char *line, size_t len, const char *name,
                      struct error *err)
{
    json_t *json = NULL;
    if (json_parse(line, len, name, NCBENCH_EXIT_RESULTS, &json, err))
        return -err->code;
    return records_add(r, json, name, err);
}

int records_parse(const char *text, size_t len, const char *name, struct records *out,
                  struct error *err)
{
    *out = (struct records){0};
    const char *end = text + len;
    int64_t number = 0;
    for (const char *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        number++;
        if (!newline) {
            out->torn = true;
            break;
        }
        char where[512];
        snprintf(where, sizeof where, "%s:%lld", name, (long long)number);
        if (parse_line(out, line, (size_t)(newline - line), where, err)) {
            records_release(out);
            return -err->code;
        }
        line = newline + 1;
        out->good_bytes = line - text;
    }
    records_derive(out, 0);
    return 0;
}

int records_load(const char *path, struct records *out, struct error *err)
{
    auto_str text = STR_INIT;
    *out = (struct records){0};
    if (fs_read_file(path, &text, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    return records_parse(text.data, text.len, path, out, err);
}

void records_release(struct records *r)
{
    for (size_t i = 0; i < r->count; i++)
        json_decref(r->items[i].json);
    free(r->items);
    *r = (struct records){0};
}

int record_append(int fd, const char *path, const json_t *record, struct error *err)
{
    struct stat st;
    off_t before = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
    int rc = json_append_line(fd, path, record, NCBENCH_EXIT_RESULTS, err);
    if (rc == 0 && fdatasync(fd) && errno != EINVAL && errno != EROFS)
        rc = error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot write %s", path);
    if (rc && before >= 0 && ftruncate(fd, before))
        return error_wrap(err, "a part of a record is left in %s", path);
    return rc;
}

/* ---- metrics -------------------------------------------------------------------------------- */
static const struct metric {
    const char *name, *path;
    int direction;
} metrics[] = {
    {"step_time_s", "train.step_time_s.median", 1},
    {"tokens_per_s", "train.tokens_per_s", -1},
    {"mfu", "train.mfu", -1},
    {"start_s", "phases_s.start", 1},
    {"wall_s", "wall_s", 1},
};

static const struct metric *find_metric(const char *name)
{
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        if (!strcmp(metrics[i].name, name))
            return &metrics[i];
    return NULL;
}

bool record_metric(const struct record *r, const char *metric, double *out)
{
    if (r->outcome != OUTCOME_OK)
        return false;
    const struct metric *known = find_metric(metric);
    return json_read_f64(r->json, known ? known->path : metric, out);
}

bool metric_is_known(const char *metric)
{
    return find_metric(metric) || strchr(metric, '.');
}

int metric_direction(const char *metric)
{
    const struct metric *known = find_metric(metric);
    if (known)
        return known->direction;
    /* By the unit's suffix: a rate ends in _per_s or _gb_s. */
    const char *leaf = strrchr(metric, '.');
    leaf = leaf ? leaf + 1 : metric;
    return str_ends_with(leaf, "_per_s") || str_ends_with(leaf, "_gb_s") || !strcmp(leaf, "mfu")
               ? -1
               : 1;
}

bool record_uses_gpu(const json_t *record, const json_t *gpu)
{
    const json_t *env = json_object_get(record, "env"), *rank;
    const char *uuid = json_read_str(gpu, "uuid"), *pci = json_read_str(gpu, "pci");
    bool told = false;
    size_t i;
    json_array_foreach(env, i, rank)
    {
        const char *own = json_read_str(rank, "gpu.uuid"), *at = json_read_str(rank, "gpu.pci");
        told = told || own;
        if ((own && uuid && !strcmp(own, uuid)) || (at && pci && !strcmp(at, pci)))
            return true;
    }
    return !told;
}
