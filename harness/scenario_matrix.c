/* The cells: matrix as a cross product, zip as one more axis in lock-step, exclude, include. */
#include "harness/scenario_priv.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

json_t *value_to_json(const struct value *value)
{
    switch (value->kind) {
    case VALUE_INT: return json_integer(value->integer);
    case VALUE_FLOAT: return json_real(value->number);
    case VALUE_BOOL: return json_boolean(value->integer);
    case VALUE_TEXT: break;
    }
    return json_string(value->text);
}

void cell_describe(const struct loader *l, size_t cell, struct str *out)
{
    const struct value *values = l->cells + cell * l->scope.n_axes;
    for (size_t i = 0; i < l->scope.n_axes; i++)
        str_appendf(out, "%s%s=%s", i ? ", " : "", l->scope.axes[i].name, values[i].text);
}

/* ---- axes -------------------------------------------------------------------------------------
 */
static bool has_axis(const struct scope *scope, const char *name)
{
    for (size_t i = 0; i < scope->n_axes; i++)
        if (!strcmp(scope->axes[i].name, name))
            return true;
    return false;
}

enum { AXES_MAX = 16 };

static void add_axis(struct loader *l, struct bound *bound)
{
    struct scope *scope = &l->scope;
    const char *name = bound->name->text;
    const struct bound *vars = bound_child(l->root, "vars", 4);
    if (!expr_is_name(name)) {
        complain(l, bound, "\"%s\" is no name for ${…}, expected letters, digits and \"_\"", name);
    } else if (has_axis(scope, name)) {
        complain(l, bound, "\"%s\" is in the matrix already", name);
    } else if (vars && bound_child(vars, name, strlen(name))) {
        complain(l, bound, "\"%s\" is a variable already", name);
    } else if (scope->n_axes == AXES_MAX) {
        complain(l, bound, "more than %d matrix names", AXES_MAX);
    } else {
        scope->axes[scope->n_axes++] = (struct axis){name, bound};
    }
}

static void add_axes_of(struct loader *l, const char *section)
{
    const struct bound *map = bound_child(l->root, section, strlen(section));
    for (struct bound *b = map ? map->first : NULL; b; b = b->next)
        add_axis(l, b);
}

void matrix_axes(struct loader *l)
{
    l->scope.axes = mem_zalloc(AXES_MAX, sizeof *l->scope.axes);
    add_axes_of(l, "matrix");
    add_axes_of(l, "zip");
    /* with include alone its first item says what the names are */
    const struct bound *include = bound_child(l->root, "include", 7);
    if (!l->scope.n_axes && include && include->first)
        for (struct bound *b = include->first->first; b; b = b->next)
            add_axis(l, b);
}

/* ---- cells ------------------------------------------------------------------------------------
 */
static void release_rows(struct value *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        value_release(&rows[i]);
}

/* The values of one axis; false if one is in error. */
static bool axis_values(struct loader *l, const struct bound *list, struct value **out)
{
    bool good = !list->bad;
    *out = mem_zalloc(list->count ? list->count : 1, sizeof **out);
    size_t i = 0;
    for (const struct bound *b = list->first; b; b = b->next, i++)
        good = !b->bad && scope_value(l, b, &(*out)[i]) && good;
    return good;
}

static bool is_zip(const struct axis *axis)
{
    return !strncmp(axis->bound->key->path, "zip.", 4);
}

static bool is_included(const struct axis *axis)
{
    return !strncmp(axis->bound->key->path, "include", 7);
}

/* How many rows the product has; zip counts once. 0 with a complaint when something is wrong. */
static size_t product_size(struct loader *l)
{
    const struct scope *scope = &l->scope;
    size_t total = 1;
    const struct bound *zip = NULL;
    for (size_t i = 0; i < scope->n_axes; i++) {
        const struct bound *list = scope->axes[i].bound;
        if (is_included(&scope->axes[i]))
            return 0;
        if (is_zip(&scope->axes[i]) && zip) {
            if (list->count != zip->count) {
                complain(l, list, "%zu values, expected %zu as in zip.%s", list->count, zip->count,
                         zip->name->text);
                return 0;
            }
            continue;
        }
        if (is_zip(&scope->axes[i]))
            zip = list;
        total *= list->count;
        if (total > SCENARIO_CELLS_MAX) {
            complain(l, list, "the matrix has more than %d cells", SCENARIO_CELLS_MAX);
            return 0;
        }
    }
    return total;
}

/* First axis slowest; all zip axes turn together. */
static void fill_row(struct loader *l, struct value *const *values, size_t row, struct value *out)
{
    const struct scope *scope = &l->scope;
    size_t zip_index = SIZE_MAX;
    for (size_t i = scope->n_axes; i-- > 0;) {
        size_t count = scope->axes[i].bound->count, index;
        if (is_zip(&scope->axes[i]) && zip_index != SIZE_MAX) {
            index = zip_index;
        } else {
            index = row % count;
            row /= count;
        }
        if (is_zip(&scope->axes[i]))
            zip_index = index;
        value_copy(&out[i], &values[i][index]);
    }
}

static void fill_product(struct loader *l)
{
    size_t n = l->scope.n_axes, total = product_size(l);
    auto_free struct value **values = mem_zalloc(n + 1, sizeof *values);
    bool good = total > 0;
    for (size_t i = 0; i < n && total; i++)
        good = axis_values(l, l->scope.axes[i].bound, &values[i]) && good;
    if (good) {
        l->cells = mem_zalloc(total * n + 1, sizeof *l->cells);
        for (size_t row = 0; row < total; row++)
            fill_row(l, values, row, l->cells + row * n);
        l->n_cells = total;
    }
    for (size_t i = 0; i < n; i++) {
        if (values[i])
            release_rows(values[i], l->scope.axes[i].bound->count);
        free(values[i]);
    }
}

static void unknown_axis(struct loader *l, const struct bound *bound)
{
    const char *names[AXES_MAX];
    for (size_t i = 0; i < l->scope.n_axes; i++)
        names[i] = l->scope.axes[i].name;
    struct diag *d = complain(l, bound, "\"%s\" is no matrix name", bound->name->text);
    const char *near = str_nearest(bound->name->text, names, l->scope.n_axes);
    if (near)
        diag_hint(d, "did you mean \"%s\"?", near);
}

static size_t axis_index(const struct loader *l, const char *name)
{
    size_t i = 0;
    while (i < l->scope.n_axes && strcmp(l->scope.axes[i].name, name) != 0)
        i++;
    return i;
}

static bool same_value(const struct value *a, const struct value *b)
{
    if (a->kind == VALUE_TEXT || b->kind == VALUE_TEXT || a->kind == VALUE_BOOL ||
        b->kind == VALUE_BOOL)
        return a->kind == b->kind && !strcmp(a->text, b->text);
    double x = a->kind == VALUE_INT ? (double)a->integer : a->number;
    double y = b->kind == VALUE_INT ? (double)b->integer : b->number;
    return x == y;
}

/* Values by axis of one item of include or exclude; NULL text: not given. */
static bool read_item(struct loader *l, const struct bound *item, struct value *row)
{
    bool good = !item->bad;
    for (const struct bound *b = item->first; b; b = b->next) {
        size_t axis = axis_index(l, b->name->text);
        if (axis == l->scope.n_axes) {
            unknown_axis(l, b);
            good = false;
        } else {
            good = !b->bad && scope_value(l, b, &row[axis]) && good;
        }
    }
    return good;
}

static bool matches(const struct loader *l, const struct value *pattern, const struct value *row)
{
    for (size_t i = 0; i < l->scope.n_axes; i++)
        if (pattern[i].text && !same_value(&pattern[i], &row[i]))
            return false;
    return true;
}

static void exclude_cells(struct loader *l)
{
    const struct bound *exclude = bound_child(l->root, "exclude", 7);
    size_t n = l->scope.n_axes;
    if (exclude && exclude->count > SCENARIO_EXCLUDE_MAX) {
        complain(l, exclude, "more than %d patterns", SCENARIO_EXCLUDE_MAX);
        return;
    }
    for (const struct bound *item = exclude ? exclude->first : NULL; item; item = item->next) {
        auto_free struct value *pattern = mem_zalloc(n + 1, sizeof *pattern);
        size_t kept = 0, before = l->n_cells;
        bool good = read_item(l, item, pattern);
        for (size_t c = 0; c < l->n_cells && good; c++) {
            if (matches(l, pattern, l->cells + c * n)) {
                release_rows(l->cells + c * n, n);
            } else {
                memmove(l->cells + kept * n, l->cells + c * n, n * sizeof *l->cells);
                kept++;
            }
        }
        if (good)
            l->n_cells = kept;
        if (good && kept == before && before)
            complain(l, item, "matches no cell");
        release_rows(pattern, n);
    }
}

static void include_cells(struct loader *l)
{
    const struct bound *include = bound_child(l->root, "include", 7);
    size_t n = l->scope.n_axes;
    if (!include || include->bad || !include->count)
        return;
    if (l->n_cells + include->count > SCENARIO_CELLS_MAX) {
        complain(l, include, "the matrix has more than %d cells", SCENARIO_CELLS_MAX);
        return;
    }
    size_t total = (l->n_cells + include->count) * n + 1;
    l->cells = mem_realloc(l->cells, total, sizeof *l->cells);
    for (const struct bound *item = include->first; item; item = item->next) {
        struct value *row = l->cells + l->n_cells * n;
        memset(row, 0, n * sizeof *row);
        bool good = read_item(l, item, row);
        for (size_t i = 0; i < n && good; i++)
            if (!row[i].text) {
                complain(l, item, "\"%s\" is missing, expected a value for every matrix name",
                         l->scope.axes[i].name);
                good = false;
            }
        if (good)
            l->n_cells++;
        else
            release_rows(row, n);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void refuse_twins(struct loader *l)
{
    auto_strv keys = STRV_INIT;
    for (size_t c = 0; c < l->n_cells; c++) {
        auto_str key = STR_INIT;
        cell_describe(l, c, &key);
        strv_push_own(&keys, str_steal(&key));
    }
    if (keys.count)
        qsort(keys.items, keys.count, sizeof *keys.items, by_text);
    for (size_t i = 1; i < keys.count; i++)
        if (!strcmp(keys.items[i], keys.items[i - 1])) {
            complain_at(l, bound_child(l->root, "matrix", 6) ? "matrix" : "include",
                        "the cell %s is there twice", keys.items[i]);
            return;
        }
}

void matrix_cells(struct loader *l)
{
    size_t errors = l->diags.count;
    fill_product(l);
    exclude_cells(l);
    include_cells(l);
    if (l->n_cells)
        refuse_twins(l);
    else if (l->diags.count == errors && !l->usage)
        complain_at(l, "exclude", "no cell of the matrix is left");
}
