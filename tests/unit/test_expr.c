#include "harness/expr.h"

#include "common/mem.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static struct value number_n, text_s, float_f, bool_b, numeric_text;

static const struct value *lookup(void *ctx, const char *name, struct expr_error *error)
{
    (void)ctx;
    if (!strcmp(name, "silent")) {
        error->message = mem_strdup("no value for silent");
        return NULL;
    }
    return !strcmp(name, "n")   ? &number_n
           : !strcmp(name, "s") ? &text_s
           : !strcmp(name, "f") ? &float_f
           : !strcmp(name, "b") ? &bool_b
           : !strcmp(name, "t") ? &numeric_text
                                : NULL;
}

static const char *nearest(void *ctx, const char *name)
{
    (void)ctx;
    return *name == 'm' ? "n" : NULL;
}

static const struct expr_scope scope = {lookup, nearest, NULL};

static void names(void)
{
    value_of_plain("6", &number_n);
    value_of_plain("hello", &text_s);
    value_of_plain("1.50", &float_f);
    value_of_plain("true", &bool_b);
    numeric_text = (struct value){.kind = VALUE_TEXT, .quoted = true, .text = mem_strdup("12")};
}

static void forget(void)
{
    struct value *all[] = {&number_n, &text_s, &float_f, &bool_b, &numeric_text};
    for (size_t i = 0; i < 5; i++)
        value_release(all[i]);
}

struct good {
    const char *text;
    enum value_kind kind;
    const char *result;
};

static void evaluates(void)
{
    static const struct good table[] = {
        {"plain", VALUE_TEXT, "plain"},
        {"${n}", VALUE_INT, "6"},
        {"${ n }", VALUE_INT, "6"},
        {"${s}", VALUE_TEXT, "hello"},
        {"${b}", VALUE_BOOL, "true"},
        {"${f}", VALUE_FLOAT, "1.50"}, /* its own spelling */
        {"${t}", VALUE_TEXT, "12"},    /* quoted text stays text */
        {"<${n}>", VALUE_TEXT, "<6>"},
        {"${n}${n}", VALUE_TEXT, "66"},
        {"$$", VALUE_TEXT, "$"},
        {"$${n}", VALUE_TEXT, "${n}"},
        {"cost: $$${n}", VALUE_TEXT, "cost: $6"},
        {"${1 + 2 * 3}", VALUE_INT, "7"},
        {"${(1 + 2) * 3}", VALUE_INT, "9"},
        {"${10 - 2 - 3}", VALUE_INT, "5"},
        {"${-n}", VALUE_INT, "-6"},
        {"${--n}", VALUE_INT, "6"},
        {"${2 * -3}", VALUE_INT, "-6"},
        {"${7 / 2}", VALUE_FLOAT, "3.5"},
        {"${6 / 2}", VALUE_INT, "3"}, /* nothing remains */
        {"${7 // 2}", VALUE_INT, "3"},
        {"${-7 // 2}", VALUE_INT, "-4"},
        {"${7 // -2}", VALUE_INT, "-4"},
        {"${-7 % 3}", VALUE_INT, "2"},
        {"${7 % -3}", VALUE_INT, "-2"},
        {"${7.5 // 2}", VALUE_FLOAT, "3"},
        {"${-7.5 % 2}", VALUE_FLOAT, "0.5"},
        {"${0.1 + 0.2}", VALUE_FLOAT, "0.30000000000000004"},
        {"${f * 2}", VALUE_FLOAT, "3"},
        {"${min(3, n, 2)}", VALUE_INT, "2"},
        {"${max(3, n, 2)}", VALUE_INT, "6"},
        {"${max(1, 1.5)}", VALUE_FLOAT, "1.5"},
        {"${ceil(7 / 2)}", VALUE_INT, "4"},
        {"${floor(-0.5)}", VALUE_INT, "-1"},
        {"${ceil(n)}", VALUE_INT, "6"},
        {"${min(max(1, 2), 3) + 1e2}", VALUE_FLOAT, "102"},
        {"${9223372036854775807}", VALUE_INT, "9223372036854775807"},
        {"${-9223372036854775807 - 1}", VALUE_INT, "-9223372036854775808"},
        {"${(-9223372036854775807 - 1) % -1}", VALUE_INT, "0"},
        {"${env:NCBENCH_TEST_EXPR}", VALUE_TEXT, "a}b"},
        {"${ env:NCBENCH_TEST_EXPR }", VALUE_TEXT, "a}b"},
    };
    names();
    setenv("NCBENCH_TEST_EXPR", "a}b", 1);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct value value = {0};
        struct expr_error error = {0};
        bool good = expr_expand(table[i].text, &scope, &value, &error);
        if (!good || value.kind != table[i].kind || strcmp(value.text, table[i].result) != 0)
            printf("  %s: %s (%s)\n", table[i].text, good ? value.text : error.message,
                   table[i].result);
        CU_ASSERT(good);
        CU_ASSERT_STR(value.text, table[i].result);
        CU_ASSERT_EQUAL(value.kind, table[i].kind);
        value_release(&value);
        expr_error_release(&error);
    }
    forget();
}

struct bad {
    const char *text;
    size_t offset;
    const char *message, *hint;
};

static void refuses(void)
{
    static const struct bad table[] = {
        {"$n", 0, "a lone \"$\"", "$$"},
        {"a $", 2, "a lone \"$\"", "$$"},
        {"x${n", 1, "without its \"}\"", NULL},
        {"${}", 2, "expected a name or a number", NULL},
        {"${m}", 2, "\"m\" is neither", "did you mean \"n\"?"},
        {"${q + 1}", 2, "\"q\" is neither", "${env:q}"},
        {"${1 + s}", 6, "\"s\" is \"hello\", expected a number", NULL},
        {"${1 + t}", 6, "\"t\" is \"12\", expected a number", NULL},
        {"${1 + b}", 6, "expected a number", NULL},
        {"${silent}", 2, "no value for silent", NULL},
        {"${1 / 0}", 4, "division by zero", NULL},
        {"${1 // (n - 6)}", 4, "division by zero", NULL},
        {"${1 % 0.0}", 4, "division by zero", NULL},
        {"${9223372036854775807 + 1}", 22, "out of range", NULL},
        {"${9223372036854775807 * 2}", 22, "out of range", NULL},
        {"${(-9223372036854775807 - 1) // -1}", 29, "out of range", NULL},
        {"${-(-9223372036854775807 - 1)}", 2, "out of range", NULL},
        {"${1e308 * 10}", 8, "out of range", NULL},
        {"${ceil(1e300)}", 2, "out of range", NULL},
        {"${(1}", 4, "expected \")\"", NULL},
        {"${1 2}", 4, "expected an operator", NULL},
        {"${1 +}", 5, "expected a name or a number", NULL},
        {"${sin(1)}", 2, "no function \"sin\"", NULL},
        {"${min()}", 6, "expected a name or a number", NULL},
        {"${ceil(1, 2)}", 2, "takes one number", NULL},
        {"${1_000}", 2, "\"1_000\" is no number", NULL},
        {"${0x10}", 2, "\"0x10\" is no number", NULL},
        {"${env:NCBENCH_TEST_UNSET}", 6, "\"NCBENCH_TEST_UNSET\" is not set", NULL},
        {"${((((((((((((((((((1))))))))))))))))))}", 19, "nested deeper", NULL},
        {"${`id`}", 2, "expected a name or a number", NULL},
    };
    names();
    unsetenv("NCBENCH_TEST_UNSET");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct value value = {0};
        struct expr_error error = {0};
        bool good = expr_expand(table[i].text, &scope, &value, &error);
        CU_ASSERT_FALSE(good);
        if (!good && (!strstr(error.message, table[i].message) || error.offset != table[i].offset))
            printf("  %s: %zu %s\n", table[i].text, error.offset, error.message);
        CU_ASSERT(!good && strstr(error.message, table[i].message));
        CU_ASSERT_EQUAL(error.offset, table[i].offset);
        if (table[i].hint)
            CU_ASSERT(error.hint && strstr(error.hint, table[i].hint));
        value_release(&value);
        expr_error_release(&error);
    }
    forget();
}

static void lists_names(void)
{
    auto_str name = STR_INIT, all = STR_INIT;
    struct expr_cursor cursor = {0};
    while (expr_next_name("no ${a + b1*2} $${not} ${env:HOME} max ${max(_c, 3e5)}", &cursor, &name))
        str_appendf(&all, "%s ", name.data);
    CU_ASSERT_STR(all.data, "a b1 max _c ");
}

static void types_plain_text(void)
{
    static const struct good table[] = {
        {"12", VALUE_INT, "12"},       {"-3", VALUE_INT, "-3"},     {"010", VALUE_INT, "010"},
        {"1.5", VALUE_FLOAT, "1.5"},   {"1e3", VALUE_FLOAT, "1e3"}, {"0x10", VALUE_TEXT, "0x10"},
        {"1:30", VALUE_TEXT, "1:30"},  {"yes", VALUE_TEXT, "yes"},  {"True", VALUE_TEXT, "True"},
        {"true", VALUE_BOOL, "true"},  {"~", VALUE_TEXT, "~"},      {".inf", VALUE_TEXT, ".inf"},
        {"1_000", VALUE_TEXT, "1_000"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct value value;
        value_of_plain(table[i].text, &value);
        CU_ASSERT_EQUAL(value.kind, table[i].kind);
        CU_ASSERT_STR(value.text, table[i].result);
        value_release(&value);
    }
}

UNIT_MAIN({"evaluates", evaluates}, {"refuses, with the place", refuses},
          {"lists names", lists_names}, {"types plain text by its looks", types_plain_text})
