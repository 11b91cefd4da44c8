#include "common/options.h"

#include "tests/unit/unit.h"

struct demo {
    int64_t depth;
    double lr, wait;
    char *run, *kind;
    bool sync;
    struct strv defines;
};

static const struct option_spec specs[] = {
    {"depth", 'd', OPT_INT, offsetof(struct demo, depth), "20", 1, 1024, "N", "layers"},
    {"matrix-lr", 0, OPT_FLOAT, offsetof(struct demo, lr), "0.02", 0, 0, NULL, "rate"},
    {"wait", 0, OPT_DURATION, offsetof(struct demo, wait), "1m30s", 0, 0, NULL, "time"},
    {"run", 'r', OPT_STRING, offsetof(struct demo, run), NULL, 0, 0, NULL, "name"},
    {"kind", 0, OPT_CHOICE, offsetof(struct demo, kind), "a", 0, 0, "a|bc", "which"},
    {"sync", 0, OPT_BOOL, offsetof(struct demo, sync), NULL, 0, 0, NULL, "flag"},
    {"define", 'D', OPT_LIST, offsetof(struct demo, defines), NULL, 0, 0, NULL, "more"},
    {0},
};

static int parse(struct demo *o, struct strv *rest, struct error *err, int argc, char **argv)
{
    options_defaults(specs, o);
    return options_parse(specs, o, argc, argv, rest, err);
}
#define PARSE(o, rest, err, ...)                                                                   \
    parse(o, rest, err, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)),                   \
          (char *[]){__VA_ARGS__})

static void defaults_and_forms(void)
{
    struct demo o;
    auto_error struct error err = ERROR_INIT;
    auto_strv rest = STRV_INIT;
    CU_ASSERT_EQUAL(PARSE(&o, &rest, &err, "--depth=4", "x", "--matrix_lr", "1e-3", "-D", "a=1",
                          "-Db=2", "--sync", "--kind", "bc", "--", "--depth"),
                    0);
    CU_ASSERT_EQUAL(o.depth, 4);
    CU_ASSERT_EQUAL(o.lr, 1e-3);
    CU_ASSERT_EQUAL(o.wait, 90);
    CU_ASSERT_PTR_NULL(o.run);
    CU_ASSERT_STR(o.kind, "bc");
    CU_ASSERT_TRUE(o.sync);
    CU_ASSERT_EQUAL(o.defines.count, 2);
    CU_ASSERT_STR(o.defines.items[1], "b=2");
    CU_ASSERT_EQUAL(rest.count, 2);
    CU_ASSERT_STR(rest.items[1], "--depth");
    options_release(specs, &o);
}

static void booleans(void)
{
    struct demo o;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(PARSE(&o, NULL, &err, "--sync=False"), 0);
    CU_ASSERT_FALSE(o.sync);
    options_release(specs, &o);
    CU_ASSERT_EQUAL(PARSE(&o, NULL, &err, "--sync=True"), 0);
    CU_ASSERT_TRUE(o.sync);
    options_release(specs, &o);
}

static void fails(const char *message, const char *hint, int argc, char **argv)
{
    struct demo o;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(parse(&o, NULL, &err, argc, argv), -2);
    CU_ASSERT_STR(err.message, message);
    CU_ASSERT_STR(err.hint, hint);
    options_release(specs, &o);
}

static void mistakes(void)
{
    fails("unknown option --dept", "did you mean --depth?", 1, (char *[]){"--dept=3"});
    fails("unknown option --zzzzzz", NULL, 1, (char *[]){"--zzzzzz"});
    fails("option --depth needs a value", NULL, 1, (char *[]){"--depth"});
    fails("option --depth: \"4.5\", expected an integer", NULL, 1, (char *[]){"--depth=4.5"});
    fails("option --depth: 0 is out of range, expected 1 to 1024", NULL, 1, (char *[]){"-d0"});
    fails("option --kind: \"b\", expected one of a|bc", NULL, 1, (char *[]){"--kind=b"});
    fails("option --matrix-lr: \"0,02\", expected a number", NULL, 1,
          (char *[]){"--matrix-lr=0,02"});
    fails("unexpected argument \"x\"", NULL, 1, (char *[]){"x"});
}

static void which_were_given(void)
{
    char *argv[] = {"--run", "--depth", "--matrix_lr=3", "--", "--sync"};
    CU_ASSERT_TRUE(options_given(specs, 5, argv, "run"));
    CU_ASSERT_FALSE(options_given(specs, 5, argv, "depth")); /* it is run's value */
    CU_ASSERT_TRUE(options_given(specs, 5, argv, "matrix-lr"));
    CU_ASSERT_FALSE(options_given(specs, 5, argv, "sync"));
}

static void help_text(void)
{
    auto_str out = STR_INIT;
    options_help(specs, &out);
    CU_ASSERT_PTR_NOT_NULL(strstr(out.data, "-d, --depth N"));
    CU_ASSERT_PTR_NOT_NULL(strstr(out.data, "layers (default 20)"));
}

static void as_json(void)
{
    struct demo o;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(PARSE(&o, NULL, &err, "--matrix-lr=1e-3", "-Da=1", "-Db\xff", "--sync"), 0);
    auto_json *obj = options_to_json(specs, &o);
    auto_str text = STR_INIT;
    json_write(&text, obj, 0);
    CU_ASSERT_STR(text.data,
                  "{\"depth\":20,\"matrix_lr\":0.001,\"wait\":90.0,\"run\":null,"
                  "\"kind\":\"a\",\"sync\":true,\"define\":[\"a=1\",\"b\xef\xbf\xbd\"]}");
    options_release(specs, &o);
}

UNIT_MAIN({"defaults and forms", defaults_and_forms}, {"booleans", booleans},
          {"mistakes", mistakes}, {"which were given", which_were_given}, {"help text", help_text},
          {"as JSON", as_json})
