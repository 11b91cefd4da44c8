/* Variables and matrix names. */
#include "harness/scenario_priv.h"

#include "common/cleanup.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct var *)a)->name, ((const struct var *)b)->name);
}

void scope_init(struct loader *l)
{
    struct scope *scope = &l->scope;
    const struct bound *vars = bound_child(l->root, "vars", 4);
    if (!vars || vars->bad)
        return;
    scope->vars = mem_zalloc(vars->count ? vars->count : 1, sizeof *scope->vars);
    for (struct bound *b = vars->first; b; b = b->next) {
        if (!expr_is_name(b->name->text))
            complain_key(l, b, "is no name for ${…}, expected letters, digits and \"_\"");
        scope->vars[scope->n_vars++] = (struct var){.name = b->name->text, .bound = b};
    }
    qsort(scope->vars, scope->n_vars, sizeof *scope->vars, by_name);
    scope->generation = 1;
}

void scope_release(struct scope *scope)
{
    for (size_t i = 0; i < scope->n_vars; i++)
        value_release(&scope->vars[i].value);
    free(scope->vars);
    free(scope->axes);
    *scope = (struct scope){0};
}

void scope_enter(struct loader *l, const struct value *cell)
{
    l->scope.cell = cell;
    l->scope.generation++;
}

static struct var *find_var(const struct scope *scope, const char *name)
{
    struct var key = {.name = name};
    return scope->n_vars ? bsearch(&key, scope->vars, scope->n_vars, sizeof key, by_name) : NULL;
}

static enum var_state state_of(const struct scope *scope, const struct var *var)
{
    return var->generation == scope->generation ? var->state : VAR_NEW;
}

static void set_state(const struct scope *scope, struct var *var, enum var_state state)
{
    var->state = state;
    var->generation = scope->generation;
}

static const struct value *axis_value(struct scope *scope, size_t axis, const char *name,
                                      struct expr_error *error)
{
    if (scope->cell)
        return &scope->cell[axis];
    scope->needs_matrix = true;
    error->message = mem_printf("\"%s\" is a matrix name, which differs from cell to cell", name);
    error->hint = mem_strdup("only workload, runtimes and launch may depend on the matrix");
    return NULL;
}

static const struct value *lookup(void *ctx, const char *name, struct expr_error *error)
{
    struct scope *scope = &((struct loader *)ctx)->scope;
    for (size_t i = 0; i < scope->n_axes; i++)
        if (!strcmp(scope->axes[i].name, name))
            return axis_value(scope, i, name, error);
    struct var *var = find_var(scope, name);
    if (!var)
        return NULL;
    switch (state_of(scope, var)) {
    case VAR_DONE: return &var->value;
    case VAR_NEEDS_MATRIX:
        scope->needs_matrix = true;
        error->message = mem_printf("\"%s\" depends on the matrix", name);
        error->hint = mem_strdup("only workload, runtimes and launch may depend on the matrix");
        return NULL;
    default:
        error->message = mem_strdup(""); /* reported where the variable stands */
        return NULL;
    }
}

static const char *nearest(void *ctx, const char *name)
{
    const struct scope *scope = &((struct loader *)ctx)->scope;
    const char *names[256];
    size_t n = 0;
    for (size_t i = 0; i < scope->n_axes && n < 256; i++)
        names[n++] = scope->axes[i].name;
    for (size_t i = 0; i < scope->n_vars && n < 256; i++)
        names[n++] = scope->vars[i].name;
    return str_nearest(name, names, n);
}

/* The culprit within the scalar, where the source shows the text as it is. */
static void report_expression(struct loader *l, const struct bound *bound,
                              const struct expr_error *error)
{
    const struct yaml_node *node = bound->node;
    struct diag *d = NULL;
    for (size_t quote = 0; quote < 2; quote++) {
        size_t at = node->start + quote;
        if (!bound->define && node->end && at + node->len <= l->source.len &&
            !memcmp(l->source.text + at, node->text, node->len)) {
            auto_str path = STR_INIT;
            bound_path(bound, &path);
            d = diags_add(&l->diags, at + error->offset, error->length, path.data, "%s",
                          error->message);
            break;
        }
        if (quote)
            d = complain(l, bound, "%s", error->message);
    }
    if (error->hint)
        diag_hint(d, "%s", error->hint);
}

static bool expand(struct loader *l, const struct bound *bound, struct value *out,
                   bool quiet_matrix)
{
    struct expr_scope scope = {.lookup = lookup, .nearest = nearest, .ctx = l};
    struct expr_error error = {0};
    l->scope.needs_matrix = false;
    if (expr_expand(bound->node->text, &scope, out, &error))
        return true;
    if (*error.message && !(quiet_matrix && l->scope.needs_matrix))
        report_expression(l, bound, &error);
    expr_error_release(&error);
    return false;
}

static void evaluate(struct loader *l, struct var *var)
{
    value_release(&var->value);
    if (var->bound->bad) {
        set_state(&l->scope, var, VAR_FAILED);
    } else if (!var->bound->dynamic) {
        if (var->bound->node->quoted)
            var->value = (struct value){.text = mem_strdup(var->bound->node->text), .quoted = true};
        else
            value_of_plain(var->bound->node->text, &var->value);
        set_state(&l->scope, var, VAR_DONE);
    } else if (expand(l, var->bound, &var->value, true)) {
        set_state(&l->scope, var, VAR_DONE);
    } else {
        set_state(&l->scope, var, l->scope.needs_matrix ? VAR_NEEDS_MATRIX : VAR_FAILED);
    }
}

struct pending {
    struct var *var;
    struct expr_cursor cursor;
};

struct stack {
    struct pending *items;
    size_t count, cap;
};

static void report_cycle(struct loader *l, const struct stack *stack, const struct var *again)
{
    size_t from = 0;
    while (stack->items[from].var != again)
        from++;
    auto_str chain = STR_INIT;
    for (size_t i = from; i < stack->count; i++)
        if (i < from + 4 || i + 1 == stack->count)
            str_appendf(&chain, "%s -> ", stack->items[i].var->name);
        else if (i == from + 4)
            str_append(&chain, "… -> ");
    struct pending *top = &stack->items[stack->count - 1];
    complain(l, top->var->bound, "variables go in a circle: %s%s", chain.data, again->name);
    for (size_t i = from; i < stack->count; i++)
        set_state(&l->scope, stack->items[i].var, VAR_FAILED);
}

/* Evaluate a variable after those that it uses, with a stack of our own: chains may be long. */
static void ensure(struct loader *l, struct var *var)
{
    struct stack stack = {0};
    auto_str name = STR_INIT;
    if (state_of(&l->scope, var) == VAR_NEW) {
        set_state(&l->scope, var, VAR_ACTIVE);
        vec_push(&stack, ((struct pending){.var = var}));
    }
    while (stack.count) {
        struct pending *top = &stack.items[stack.count - 1];
        struct var *used = NULL;
        bool more = state_of(&l->scope, top->var) == VAR_ACTIVE && top->var->bound->dynamic &&
                    expr_next_name(top->var->bound->node->text, &top->cursor, &name);
        if (more)
            used = find_var(&l->scope, name.data);
        if (!more) {
            if (state_of(&l->scope, top->var) == VAR_ACTIVE)
                evaluate(l, top->var);
            stack.count--;
        } else if (used && state_of(&l->scope, used) == VAR_ACTIVE) {
            report_cycle(l, &stack, used);
        } else if (used && state_of(&l->scope, used) == VAR_NEW) {
            set_state(&l->scope, used, VAR_ACTIVE);
            vec_push(&stack, ((struct pending){.var = used}));
        }
    }
    free(stack.items);
}

void scope_check_vars(struct loader *l)
{
    for (size_t i = 0; i < l->scope.n_vars; i++)
        ensure(l, &l->scope.vars[i]);
}

bool scope_value(struct loader *l, const struct bound *bound, struct value *out)
{
    const struct yaml_node *node = bound->node;
    if (!bound->dynamic) {
        if (node->quoted)
            *out = (struct value){.text = mem_strdup(node->text), .quoted = true};
        else
            value_of_plain(node->text, out);
        return true;
    }
    auto_str name = STR_INIT;
    for (struct expr_cursor cursor = {0}; expr_next_name(node->text, &cursor, &name);) {
        struct var *var = find_var(&l->scope, name.data);
        if (var)
            ensure(l, var);
    }
    return expand(l, bound, out, false);
}
