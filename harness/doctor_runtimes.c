/* The container runtimes: are they there, and do they start anything? See doctor.h. */
#include "harness/doctor.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/spawn.h"
#include "harness/image.h"
#include "runtimes/host.h"
#include "runtimes/runtime.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TIMEOUT_S 60.0

static void check_cgroups(struct doctor *d)
{
    auto_str controllers = STR_INIT;
    enum host_cgroups version = host_cgroups();
    host_controllers(&controllers);
    auto_free char *text = mem_printf("%s, controllers for us: %s", host_cgroups_name(version),
                                      controllers.len ? controllers.data : "none");
    if (version == HOST_CGROUP_NONE)
        doctor_add(d, DOCTOR_WARN, "cgroups", steal(&text),
                   mem_strdup("mount cgroup2 on /sys/fs/cgroup: no container starts without it"));
    else if (host_hybrid_owns_controllers())
        doctor_add(d, DOCTOR_OK, "cgroups",
                   mem_printf("%s; crun refuses this, so runc is used", text), NULL);
    else
        doctor_add(d, DOCTOR_OK, "cgroups", steal(&text), NULL);
}

static char *versions_text(const json_t *versions)
{
    auto_str out = STR_INIT;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)versions, name,
                        value) if (json_is_string(value) && !str_ends_with(name, "_why"))
        str_appendf(&out, "%s%s %s", out.len ? ", " : "", name, json_string_value(value));
    return str_steal(&out);
}

/* One launch of /bin/true, as a session would do it, on an overlay of the host's own files. */
struct start {
    struct runtime_spec spec;
    struct mounts mounts;
    struct strv command, workload_env, argv, env;
    struct str errout;
    int status;
    double seconds;
};

static int start_once(const struct runtime_ops *ops, struct start *s, const char *dir,
                      struct error *err)
{
    auto_free char *program = spawn_find_program("true");
    auto_free char *id = mem_printf("doctor-%d", (int)getpid());
    strv_push(&s->command, program ? program : "/bin/true");
    struct runtime_launch launch = {&s->spec,         id,         dir, dir, &s->command,
                                    &s->workload_env, &s->mounts, NULL};
    if (ops->check(&s->spec, &s->mounts, false, err) ||
        (ops->prepare && ops->prepare(&s->spec, dir, err)) ||
        ops->argv(&launch, &s->argv, &s->env, err))
        return -err->code;
    double start = clock_mono_s();
    int failed = spawn_capture(s->argv.items, s->env.items, START_TIMEOUT_S, NULL, &s->errout,
                               &s->status, NCBENCH_EXIT_ENVIRONMENT, err);
    s->seconds = clock_mono_s() - start;
    auto_error struct error ignored = ERROR_INIT;
    if (failed && ops->stop)
        ops->stop(&launch, &ignored);
    return failed;
}

static void judge_start(struct doctor *d, const struct runtime_ops *ops, const struct start *s,
                        struct error *err)
{
    char text[32];
    if (err->code) {
        doctor_add(d, DOCTOR_FAIL, "start", mem_printf("%s: %s", ops->name, err->message),
                   mem_strdup(err->hint));
        return;
    }
    if (!s->status) {
        doctor_add(d, DOCTOR_OK, "start",
                   mem_printf("%s runs a program and ends in %s", ops->name,
                              num_format_duration(text, sizeof text, s->seconds)),
                   NULL);
        return;
    }
    struct runtime_evidence evidence = {s->status, false, s->errout.data};
    auto_str reason = STR_INIT;
    enum outcome outcome = ops->classify(&evidence, &reason);
    doctor_add(d, DOCTOR_FAIL, "start",
               mem_printf("%s: %s: %s", ops->name, outcome_name(outcome), reason.data), NULL);
}

static void check_start(struct doctor *d, const struct runtime_ops *ops)
{
    const char *tmp = getenv("TMPDIR");
    auto_free char *dir = mem_printf("%s/ncbench-doctor-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    auto_error struct error err = ERROR_INIT;
    struct start s = {.errout = STR_INIT};
    if (!mkdtemp(dir)) {
        error_set(&err, NCBENCH_EXIT_RESULTS, "cannot make a directory %s", dir);
        judge_start(d, ops, &s, &err);
        return;
    }
    s.spec.name = mem_strdup(ops->name);
    s.spec.kind = mem_strdup(ops->name);
    s.spec.rootfs = mem_strdup("/");
    start_once(ops, &s, dir, &err);
    judge_start(d, ops, &s, &err);
    runtime_spec_release(&s.spec);
    mounts_release(&s.mounts);
    strv_release(&s.command);
    strv_release(&s.argv);
    strv_release(&s.env);
    str_release(&s.errout);
    auto_error struct error ignored = ERROR_INIT;
    fs_remove_tree(dir, NCBENCH_EXIT_RESULTS, &ignored);
}

static void check_image(struct doctor *d, const struct runtime_ops *ops, const char *image)
{
    struct runtime_spec spec = {
        .name = (char *)ops->name, .kind = (char *)ops->name, .image = (char *)image};
    struct mounts none = {0};
    auto_error struct error err = ERROR_INIT;
    if (!ops->check(&spec, &none, false, &err))
        doctor_add(d, DOCTOR_OK, "image", mem_strdup(image), NULL);
    else
        doctor_add(d, DOCTOR_WARN, "image", mem_strdup(err.message), mem_strdup(err.hint));
}

/* Can this kind run on the host's own files, so that a start needs no image? */
static bool starts_without_image(const struct runtime_ops *ops)
{
    struct runtime_spec spec = {
        .name = (char *)ops->name, .kind = (char *)ops->name, .rootfs = (char *)"/"};
    struct mounts none = {0};
    auto_error struct error ignored = ERROR_INIT;
    return (ops->flags & RUNTIME_CONTAINER) && !ops->check(&spec, &none, true, &ignored);
}

void doctor_runtimes(struct doctor *d, const char *kind, const char *image)
{
    auto_str absent = STR_INIT;
    check_cgroups(d);
    for (const struct runtime_ops *const *r = runtime_registry; *r; r++) {
        const struct runtime_ops *ops = *r;
        if (!ops->probe || (kind && strcmp(kind, ops->name) != 0))
            continue;
        struct runtime_probe probe = {0};
        ops->probe(&probe);
        if (probe.available)
            doctor_add(d, DOCTOR_OK, ops->name, versions_text(probe.versions), NULL);
        else if (kind || (ops->flags & RUNTIME_QUICKSTART))
            doctor_add(d, kind ? DOCTOR_FAIL : DOCTOR_WARN, ops->name, mem_strdup(probe.why), NULL);
        else
            str_appendf(&absent, "%s%s", absent.len ? ", " : "", ops->name);
        if (probe.available && starts_without_image(ops)) {
            check_start(d, ops);
            check_image(d, ops, image);
        }
        runtime_probe_release(&probe);
    }
    if (absent.len)
        doctor_add(d, DOCTOR_OK, "not here",
                   mem_printf("%s; `ncbench doctor --runtime KIND` says why", absent.data), NULL);
}
