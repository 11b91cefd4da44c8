#include "runtimes/runtime.h"

#include "runtimes/adapters_priv.h"

#include <stdlib.h>
#include <string.h>

const struct runtime_ops *const runtime_registry[] = {
#define RUNTIME_ENTRY(name) &runtime_##name,
    RUNTIMES(RUNTIME_ENTRY)
#undef RUNTIME_ENTRY
        NULL,
};

const struct runtime_ops *runtime_find(const char *kind)
{
    for (const struct runtime_ops *const *r = runtime_registry; *r; r++)
        if (!strcmp((*r)->name, kind))
            return *r;
    return NULL;
}

void runtime_ops_check(const struct runtime_ops *ops)
{
    if (!ops->name || !*ops->name)
        BUG("a runtime without a name");
    if (!ops->summary || !ops->keys || !ops->check || !ops->argv || !ops->classify)
        BUG("runtime %s lacks a required hook", ops->name);
}

void runtime_registry_check(void)
{
    for (const struct runtime_ops *const *r = runtime_registry; *r; r++) {
        runtime_ops_check(*r);
        if (runtime_find((*r)->name) != *r)
            BUG("two runtimes are named %s", (*r)->name);
    }
}

int runtime_env_check(const struct runtime_ops *ops, const struct strv *env, struct error *err)
{
    for (size_t i = 0; i < env->count; i++) {
        const char *equals = strchr(env->items[i], '=');
        int name = equals ? (int)(equals - env->items[i]) : 0;
        if (!equals)
            continue;
        if ((ops->flags & RUNTIME_ENV_LINES) && strchr(equals, '\n'))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s cannot pass variable %.*s: its value holds a newline",
                             ops->name, name, env->items[i]);
        if ((ops->flags & RUNTIME_ENV_NOT_EMPTY) && !equals[1])
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s cannot pass variable %.*s: it is empty, and an empty one "
                             "is unset there",
                             ops->name, name, env->items[i]);
    }
    return 0;
}

const char *runtime_nanochat_path(const struct runtime_spec *spec, const char *host_path)
{
    const struct runtime_ops *ops = runtime_find(spec->kind);
    if (!ops || !(ops->flags & RUNTIME_CONTAINER))
        return host_path;
    if (spec->nanochat && *spec->nanochat)
        return spec->nanochat;
    if (spec->rootfs && !strcmp(spec->rootfs, "/"))
        return host_path;
    return RUNTIME_IMAGE_NANOCHAT;
}

void runtime_spec_release(struct runtime_spec *spec)
{
    char **strings[] = {&spec->name, &spec->kind, &spec->image,   &spec->rootfs, &spec->nanochat,
                        &spec->gpus, &spec->ipc,  &spec->network, &spec->userns, &spec->cpuset};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        free(*strings[i]);
        *strings[i] = NULL;
    }
    mounts_release(&spec->mounts);
    strv_release(&spec->env);
    strv_release(&spec->differs);
    strv_release(&spec->devices);
    strv_release(&spec->ulimits);
    strv_release(&spec->options);
    strv_release(&spec->annotations);
    strv_release(&spec->prefix);
    json_decref(spec->script);
    spec->script = NULL;
}

void runtime_probe_release(struct runtime_probe *probe)
{
    free(probe->why);
    probe->why = NULL;
    json_decref(probe->versions);
    probe->versions = NULL;
}
