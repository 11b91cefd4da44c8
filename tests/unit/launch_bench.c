#include "tests/unit/launch_bench.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

void use_machine(const char *name)
{
    if (!name) {
        unsetenv(ENV_FSROOT);
        return;
    }
    auto_free char *path = mem_printf("fsroot/%s", name);
    setenv(ENV_FSROOT, unit_fixture(path), 1);
}

void bench_init(struct bench *b, const char *kind, const char *trial_dir)
{
    memset(b, 0, sizeof *b);
    b->spec.name = mem_strdup("arm");
    b->spec.kind = mem_strdup(kind);
    strv_push(&b->argv, "/usr/local/bin/nanochat");
    strv_push(&b->argv, "info");
    b->launch = (struct runtime_launch){
        .spec = &b->spec,
        .trial_id = "c00.b01.arm",
        .trial_dir = trial_dir,
        .session_dir = "/s",
        .argv = &b->argv,
        .env = &b->env,
        .mounts = &b->mounts,
        .cwd = trial_dir,
    };
}

void bench_release(struct bench *b)
{
    runtime_spec_release(&b->spec);
    mounts_release(&b->mounts);
    strv_release(&b->argv);
    strv_release(&b->env);
    use_machine(NULL);
}

char *bench_argv(struct bench *b, struct strv *env)
{
    auto_strv argv = STRV_INIT, ignored = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    auto_str text = STR_INIT;
    CU_ASSERT_EQUAL(runtime_find(b->spec.kind)->argv(&b->launch, &argv, env ? env : &ignored, &err),
                    0);
    for (size_t i = 0; i < argv.count; i++)
        str_appendf(&text, "%s\n", argv.items[i]);
    return str_steal(&text);
}

void bench_refuses(struct bench *b, bool portable, int code, const char *fragment)
{
    auto_error struct error err = ERROR_INIT;
    const struct runtime_ops *ops = runtime_find(b->spec.kind);
    CU_ASSERT_EQUAL(ops->check(&b->spec, &b->mounts, portable, &err), -code);
    CU_ASSERT_EQUAL(err.code, code);
    bool found = err.message && strstr(err.message, fragment);
    CU_ASSERT(found);
    if (!found)
        printf("  message: %s\n  expected: %s\n", err.message ? err.message : "(none)", fragment);
}
