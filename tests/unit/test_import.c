/* How each kind imports an image: golden command lines, and what it cannot. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "runtimes/runtime.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static char *lines(const struct strv *argv)
{
    auto_str text = STR_INIT;
    for (size_t i = 0; i < argv->count; i++)
        str_appendf(&text, "%s\n", argv->items[i]);
    return str_steal(&text);
}

static void commands(void)
{
    static const struct {
        const char *kind, *source, *argv;
    } rows[] = {
        {"podman", "/a/x.tar", "podman\nload\n--quiet\n--input\n/a/x.tar\n"},
        {"podman", "reg.io/a/b:1", "podman\npull\n--quiet\n--\nreg.io/a/b:1\n"},
        {"docker", "/a/x.tar", "docker\nload\n--quiet\n--input\n/a/x.tar\n"},
        {"docker", "ubuntu:24.04", "docker\npull\n--quiet\n--\nubuntu:24.04\n"},
        {"apptainer", "/a/x.tar",
         "apptainer\n--quiet\nbuild\n--force\n/out/f\noci-archive:/a/x.tar\n"},
        {"apptainer", "reg.io/a/b:1",
         "apptainer\n--quiet\nbuild\n--force\n/out/f\ndocker://reg.io/a/b:1\n"},
        {"enroot", "ubuntu:24.04", "enroot\nimport\n--output\n/out/f\ndocker://ubuntu:24.04\n"},
        {"enroot", "a/b:1", "enroot\nimport\n--output\n/out/f\ndocker://a/b:1\n"},
        {"enroot", "reg.io/a/b:1", "enroot\nimport\n--output\n/out/f\ndocker://reg.io#a/b:1\n"},
        {"enroot", "localhost/b", "enroot\nimport\n--output\n/out/f\ndocker://localhost#b\n"},
        {"enroot", "host:5000/b", "enroot\nimport\n--output\n/out/f\ndocker://host:5000#b\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct runtime_ops *ops = runtime_find(rows[i].kind);
        bool file = ops->flags & RUNTIME_IMPORT_FILE;
        const struct runtime_import import = {rows[i].source, file ? "/out/f" : NULL, NULL};
        auto_strv argv = STRV_INIT, env = STRV_INIT;
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(ops->import(&import, &argv, &env, &err), 0);
        auto_free char *text = lines(&argv);
        CU_ASSERT_STR(text, rows[i].argv);
        CU_ASSERT_EQUAL(ops->forget != NULL, !file); /* either a store or a file */
    }
}

static void cannot(void)
{
    static const struct {
        const char *kind, *source, *fragment;
    } rows[] = {
        {"enroot", "/a/x.tar", "imports no archive"},
        {"apptainer", "/a:b/x.tar", "path contains \":\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct runtime_import import = {rows[i].source, "/out/f", NULL};
        auto_strv argv = STRV_INIT, env = STRV_INIT;
        auto_error struct error err = ERROR_INIT;
        CU_ASSERT_EQUAL(runtime_find(rows[i].kind)->import(&import, &argv, &env, &err),
                        -NCBENCH_EXIT_SCENARIO);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.message, rows[i].fragment));
    }
}

/* A cache of its own makes a registry's layers cold. */
static void caches(void)
{
    static const char *const rows[][2] = {{"enroot", "ENROOT_CACHE_PATH"},
                                          {"apptainer", "APPTAINER_CACHEDIR"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct runtime_import import = {"a/b", "/out/f", "/cold"};
        auto_strv argv = STRV_INIT, env = STRV_INIT;
        auto_error struct error err = ERROR_INIT;
        setenv(rows[i][1], "/mine", 1);
        CU_ASSERT_EQUAL(runtime_find(rows[i][0])->import(&import, &argv, &env, &err), 0);
        CU_ASSERT_STR(strv_env_get(&env, rows[i][1]), "/cold");
        unsetenv(rows[i][1]);
    }
}

static void forgetting(void)
{
    static const char *const rows[][2] = {{"podman", "podman\nimage\nrm\n--\nx:1\n"},
                                          {"docker", "docker\nimage\nrm\n--\nx:1\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        auto_strv argv = STRV_INIT, env = STRV_INIT;
        runtime_find(rows[i][0])->forget("x:1", &argv, &env);
        auto_free char *text = lines(&argv);
        CU_ASSERT_STR(text, rows[i][1]);
    }
}

UNIT_MAIN({"commands", commands}, {"cannot", cannot}, {"caches", caches},
          {"forgetting", forgetting})
