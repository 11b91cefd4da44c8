#include "harness/counters_compare.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "harness/report.h"
#include "harness/stats.h"

#include <math.h>
#include <string.h>

void counter_rows_release(struct counter_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->items[i].name);
        free(rows->items[i].why);
        free(rows->items[i].per_step);
    }
    free(rows->items);
    *rows = (struct counter_rows){0};
}

/* The trials of blocks that count. */
static const struct record *trial_of(const struct analysis *a, size_t cell, size_t block,
                                     size_t arm)
{
    const struct block *b = &a->blocks[cell].items[block];
    const struct record *r = b->trials[arm];
    bool counts = b->state == BLOCK_COMPLETE && !b->superseded;
    return counts && r && r->outcome == OUTCOME_OK ? r : NULL;
}

static const char *text_of(const struct record *r, const char *group, const char *name)
{
    return json_string_value(json_object_get(json_at(r->json, group), name));
}

static bool count_of(const struct record *r, const char *name, double *out)
{
    const json_t *count = json_object_get(json_at(r->json, "counters"), name);
    double steps;
    if (!json_is_number(count) || !json_read_f64(r->json, "train.steady_steps", &steps) ||
        steps < 1)
        return false;
    *out = json_number_value(count) / steps;
    return true;
}

/* Is it the same counter as in the trials before? If not, row->why says so. */
static bool take(const struct analysis *a, const struct record *r, size_t arm, double *value,
                 struct counter_row *row)
{
    const char *name = a->study->arms[arm].name;
    const char *source = text_of(r, "counters.sources", row->name);
    const char *reason = text_of(r, "counters.unavailable", row->name);
    if (!source)
        row->why = mem_printf("%s has none (%s)", name, reason ? reason : "it did not count");
    else if (row->source && strcmp(row->source, source) != 0)
        row->why = mem_printf("%s counts it by %s, others by %s", name, source, row->source);
    else if (!count_of(r, row->name, value))
        row->why = mem_printf("%s did not count it in every step", name);
    else
        row->source = source;
    return !row->why;
}

static void fill(const struct analysis *a, struct counter_row *row)
{
    size_t n_arms = a->study->n_arms, n_blocks = a->blocks[row->cell].count;
    auto_free double *values = mem_alloc((n_blocks + 1) * sizeof *values);
    row->per_step = mem_alloc((n_arms + 1) * sizeof *row->per_step);
    for (size_t arm = 0; arm < n_arms; arm++) {
        size_t n = 0;
        for (size_t i = 0; i < n_blocks && !row->why; i++) {
            const struct record *r = trial_of(a, row->cell, i, arm);
            if (r && take(a, r, arm, &values[n], row))
                n++;
        }
        row->per_step[arm] = n ? stats_median(values, n) : NAN;
    }
    if (row->why)
        row->source = NULL;
}

static bool has_row(const struct counter_rows *rows, size_t cell, const char *name)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->items[i].cell == cell && !strcmp(rows->items[i].name, name))
            return true;
    return false;
}

static void add_names(const struct analysis *a, size_t cell, const json_t *names,
                      struct counter_rows *out)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)names, name, value)
    {
        if (has_row(out, cell, name))
            continue;
        struct counter_row row = {.cell = cell, .name = mem_strdup(name)};
        fill(a, &row);
        vec_push(out, row);
    }
}

void counter_rows_make(const struct analysis *a, struct counter_rows *out)
{
    *out = (struct counter_rows){0};
    for (size_t cell = 0; cell < a->study->n_cells; cell++)
        for (size_t i = 0; i < a->blocks[cell].count; i++)
            for (size_t arm = 0; arm < a->study->n_arms; arm++) {
                const struct record *r = trial_of(a, cell, i, arm);
                if (!r)
                    continue;
                add_names(a, cell, json_at(r->json, "counters.sources"), out);
                add_names(a, cell, json_at(r->json, "counters.unavailable"), out);
            }
}

/* ---- as text and JSON -------------------------------------------------------------------------
 */
static void put_count(struct document *out, double value)
{
    char text[NUM_F64_MAX];
    if (!isfinite(value))
        document_cell(out, "–");
    else if (value >= 100)
        document_cell(out, "%s", num_format_thousands(text, sizeof text, (int64_t)(value + 0.5)));
    else
        document_cell(out, "%.3g", value);
}

static void table(const struct analysis *a, const struct counter_rows *rows, struct document *out)
{
    const struct study *s = a->study;
    auto_str header = STR_INIT, align = STR_INIT;
    str_append(&header, "cell|counter|by");
    str_append(&align, "lll");
    for (size_t arm = 0; arm < s->n_arms; arm++) {
        auto_free char *name = report_header_word(s->arms[arm].name);
        str_appendf(&header, "|%s", name);
        str_append(&align, "r");
    }
    document_table(out, header.data, align.data,
                   "Counts a step, all ranks together, medians over the blocks that count");
    for (size_t i = 0; i < rows->count; i++) {
        const struct counter_row *row = &rows->items[i];
        if (!row->source)
            continue;
        document_cell(out, "%s", report_cell_label(s, row->cell));
        document_cell(out, "%s", row->name);
        document_cell(out, "%s", row->source);
        for (size_t arm = 0; arm < s->n_arms; arm++)
            put_count(out, row->per_step[arm]);
    }
}

/* Once each: the reason is nearly always that of every cell. */
static bool was_told(const struct counter_rows *rows, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (rows->items[i].why && !strcmp(rows->items[i].name, rows->items[index].name) &&
            !strcmp(rows->items[i].why, rows->items[index].why))
            return true;
    return false;
}

void report_counters(const struct analysis *a, struct document *out)
{
    struct counter_rows rows;
    counter_rows_make(a, &rows);
    if (rows.count)
        table(a, &rows, out);
    document_list(out);
    for (size_t i = 0; i < rows.count; i++)
        if (rows.items[i].why && !was_told(&rows, i))
            document_item(out, "%s is not compared: %s", rows.items[i].name, rows.items[i].why);
    counter_rows_release(&rows);
}

json_t *counters_json(const struct analysis *a)
{
    json_t *list = json_array();
    struct counter_rows rows;
    counter_rows_make(a, &rows);
    for (size_t i = 0; i < rows.count; i++) {
        const struct counter_row *row = &rows.items[i];
        json_t *one = json_object(), *arms = json_object();
        json_put_str(one, "cell", a->study->cells[row->cell].id);
        json_put_str(one, "counter", row->name);
        for (size_t arm = 0; row->source && arm < a->study->n_arms; arm++) {
            if (isfinite(row->per_step[arm]))
                json_put_f64(arms, a->study->arms[arm].name, row->per_step[arm]);
            else
                json_put_null(arms, a->study->arms[arm].name, "no trial counts");
        }
        if (row->source) {
            json_put_str(one, "source", row->source);
            json_put(one, "per_step", arms);
        } else {
            json_decref(arms);
            json_put_null(one, "source", row->why);
            json_put_null(one, "per_step", row->why);
        }
        json_array_append_new(list, one);
    }
    counter_rows_release(&rows);
    return list;
}
