/* A runtime to copy: every hook, what it must do and what it must not. docs/adding-a-runtime.md
 * walks through it. It is compiled and called by a unit test, but not registered.
 *
 * To add a runtime: copy this file, rename `skeleton`, declare the table in adapters_priv.h, add it
 * to runtime_registry, write golden argv tests and a shim (tests/shims) with the runtime's real
 * messages, and say in docs what its codes mean. Hooks that you do not need stay NULL. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "common/spawn.h"
#include "runtimes/adapters_priv.h"

#include <string.h>
#include <sys/wait.h>

/* The keys of runtimes[] that this kind accepts, beyond name, kind, env and differs: any other key
 * in a scenario is an error. List only what argv or check makes use of. */
static const char *const keys[] = {"image", "mounts", "options", NULL};

/* What does the machine offer? Quick (a --version at most), no side effects. Absence is a result,
 * with a reason that says how to get it; never an error. doctor prints it. */
static void probe(struct runtime_probe *out)
{
    out->versions = json_object();
    auto_free char *program = spawn_find_program("skeleton");
    out->available = program != NULL;
    if (!program)
        out->why = mem_strdup("skeleton not found on PATH; install it");
}

/* Two questions. Can this runtime express the spec at all: characters in mount paths, newlines in
 * the environment, keys that exclude each other: exit 3, also when portable. Then, unless portable,
 * can this machine do it: program, image, mount sources, devices, limits: exit 4. Ask everything
 * that the runtime itself would get wrong silently (a device ignored, a source created on the
 * spot). */
static int check(const struct runtime_spec *spec, const struct mounts *mounts, bool portable,
                 struct error *err)
{
    if (!spec->image || !*spec->image)
        return error_set(err, NCBENCH_EXIT_SCENARIO, "runtime %s: image is missing", spec->name);
    for (size_t i = 0; i < mounts->count; i++)
        if (strpbrk(mounts->items[i].source, ":") || strpbrk(mounts->items[i].target, ":"))
            return error_set(err, NCBENCH_EXIT_SCENARIO,
                             "runtime %s cannot mount a path containing \":\"", spec->kind);
    return mounts_check(mounts, spec->kind, false, portable, err);
}

/* Once a session and spec, before the first trial, timed as the phase "import": unpack an image,
 * write configuration below session_dir. Idempotent, because a resumed session calls it again.
 * Never change what belongs to the user. */
static int prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    (void)spec;
    (void)session_dir;
    (void)err;
    return 0;
}

/* The reverse of prepare, at the end of a session; safe after a prepare that failed half way. */
static int cleanup(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    (void)spec;
    (void)session_dir;
    (void)err;
    return 0;
}

/* Before each trial, timed as the phase "create": for runtimes that make a container first and
 * start it afterwards, so that start times hold the start alone. */
static int create(const struct runtime_launch *launch, struct error *err)
{
    (void)launch;
    (void)err;
    return 0;
}

/* The process to start: argument vector and environment. Pure: starts nothing, writes nothing,
 * gives the same answer for the same launch, so that golden tests need no runtime. What matters:
 *   - exactly launch->env must reach the program, byte for byte, whatever way the runtime has;
 *   - each mount at its target, and launch->cwd as working directory;
 *   - one argument is one element: there is no shell anywhere;
 *   - names of containers hold the trial id, so that two sessions never meet;
 *   - the defaults of the host: its network, /dev/shm, limits, CPUs. */
static int make_argv(const struct runtime_launch *launch, struct strv *argv, struct strv *env,
                     struct error *err)
{
    (void)err;
    strv_push(argv, "skeleton");
    strv_push(argv, "run");
    strv_pushf(argv, "--name=ncbench-%s", launch->trial_id);
    for (size_t i = 0; i < launch->mounts->count; i++)
        strv_pushf(argv, "--bind=%s:%s", launch->mounts->items[i].source,
                   launch->mounts->items[i].target);
    strv_extend(argv, &launch->spec->options);
    strv_push(argv, launch->spec->image);
    strv_extend(argv, launch->argv);
    strv_extend(env, launch->env);
    return 0;
}

/* The trial ended and no rank said hello: what was it? Called after the harness has excluded its
 * own reasons (time-out, out of memory by the cgroup's word). Never fails. Read the text before the
 * exit code, because programs use the same codes; match fixed fragments; append the reason in
 * words. */
static enum outcome classify(const struct runtime_evidence *evidence, struct str *reason)
{
    if (evidence->stderr_tail && strstr(evidence->stderr_tail, "skeleton: no such image")) {
        str_append(reason, "image not known");
        return OUTCOME_UNAVAILABLE;
    }
    return classify_direct(evidence, reason);
}

/* Remove what a trial may have left, by the names that argv gave, also when nothing is there: that
 * is success. The harness has already ended the process group. Timed as the phase "cleanup". */
static int stop(const struct runtime_launch *launch, struct error *err)
{
    (void)launch;
    (void)err;
    return 0;
}

/* Is anything of this trial still there? Asked after stop; the next trial waits for false. When the
 * runtime cannot be asked, answer true and say so. */
static bool leftover(const struct runtime_launch *launch, struct str *what)
{
    (void)launch;
    (void)what;
    return false;
}

/* What a reader of the results must know: versions of each part, digest and size of the image,
 * storage, hashes of configuration files in effect. Unknown is null with a why (json_put_null). */
static void describe(const struct runtime_spec *spec, const char *session_dir, json_t *obj)
{
    (void)session_dir;
    json_put_str(obj, "image", spec->image);
    json_put_null(obj, "skeleton", "it is no real runtime");
}

const struct runtime_ops runtime_skeleton = {
    .name = "skeleton",
    .summary = "a runtime to copy",
    .flags = RUNTIME_NEEDS_IMAGE | RUNTIME_CONTAINER,
    .keys = keys,
    .probe = probe,
    .check = check,
    .prepare = prepare,
    .cleanup = cleanup,
    .create = create,
    .argv = make_argv,
    .classify = classify,
    .stop = stop,
    .leftover = leftover,
    .describe = describe,
};
