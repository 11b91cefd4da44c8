#include "workload/env.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/str.h"
#include "workload/env_priv.h"

#include <string.h>

static const struct {
    const char *name;
    void (*collect)(json_t *group, const struct env_context *context);
} collectors[] = {
    {"rank", env_rank},       {"host", env_host},         {"cpu", env_cpu},
    {"gpu", env_gpu},         {"threads", env_threads},   {"environment", env_variables},
    {"rlimits", env_rlimits}, {"memory", env_memory},     {"shm", env_shm},
    {"cgroup", env_cgroup},   {"security", env_security}, {"namespaces", env_namespaces},
    {"mounts", env_mounts},   {"topology", env_topology}, {"counters", env_counters},
};

json_t *env_collect(const struct env_context *context)
{
    json_t *env = json_object();
    for (size_t i = 0; i < sizeof collectors / sizeof *collectors; i++) {
        json_t *group = json_object();
        collectors[i].collect(group, context);
        json_put(env, collectors[i].name, group);
    }
    json_put(env, "libraries", env_libraries(context));
    return env;
}

void env_rank(json_t *group, const struct env_context *context)
{
    const struct comm *comm = context->comm;
    if (!comm) {
        json_put_null(group, "rank", "no communicator");
        return;
    }
    json_put_int(group, "rank", comm_rank(comm));
    json_put_int(group, "world", comm_world(comm));
    json_put_str(group, "comm_id", comm_id(comm));
    json_put_str(group, "comm_backend", comm_backend(comm));
}

void env_counters(json_t *group, const struct env_context *context)
{
    if (!context->counters)
        return;
    auto_json *about = counters_describe(context->counters);
    json_object_update(group, about);
}

void env_put_file(json_t *group, const char *key, const char *path)
{
    auto_str text = STR_INIT;
    if (!fs_sys_read(path, &text)) {
        auto_str why = STR_INIT;
        str_appendf(&why, "%s cannot be read", path);
        json_put_null(group, key, why.data);
        return;
    }
    json_put_str(group, key, str_trim(text.data));
}

bool env_find_field(const char *text, const char *key, struct str *out)
{
    size_t n = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) != 0 || line[n] != ':')
            continue;
        const char *value = line + n + 1;
        value += strspn(value, " \t");
        str_append_n(out, value, strcspn(value, "\n"));
        return true;
    }
    return false;
}
