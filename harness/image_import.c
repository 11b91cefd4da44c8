/* Images into runtimes, timed (harness/image.h). */
#include "harness/image.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "runtimes/client.h"
#include "runtimes/lock.h"
#include "runtimes/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
    const struct image_import_request *request;
    const struct runtime_ops *ops;
    struct image_imported *out;
    char *aside, *cache; /* owned; removed */
    char *origin;        /* owned: FILE.source, from where the file is */
    struct str whence;   /* what it says */
};

/* ---- what is asked --------------------------------------------------------------------------- */
static int find_ops(struct job *j, struct error *err)
{
    auto_str kinds = STR_INIT;
    j->ops = runtime_find(j->request->kind);
    for (size_t i = 0; runtime_registry[i]; i++)
        if (runtime_registry[i]->import)
            str_appendf(&kinds, "%s%s", kinds.len ? ", " : "", runtime_registry[i]->name);
    if (!j->ops)
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "image import: \"%s\" is no runtime, expected one of %s", j->request->kind,
                         kinds.data);
    if (j->ops->import)
        return 0;
    error_set(err, NCBENCH_EXIT_SCENARIO,
              "image import: kind %s imports nothing before its trials, expected one of %s",
              j->request->kind, kinds.data);
    return error_hint(err, "pyxis and enroot share a squashfs: --runtime enroot; `ncbench image "
                           "build --dir DIR` makes what crun and charliecloud run");
}

static int check_options(const struct job *j, struct error *err)
{
    const struct image_import_request *r = j->request;
    bool file = j->ops->flags & RUNTIME_IMPORT_FILE;
    if (file && !r->output)
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "image import: %s makes a file: --output FILE is missing", r->kind);
    if (!file && r->output)
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "image import: %s imports into its store, --output is not for it",
                         r->kind);
    if (r->name && (file || !j->out->archive))
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "image import: --name is that of an archive's image in a store; %s",
                         file ? "here it is a file" : "a reference has its own");
    if (!file && r->cold && j->out->archive && !r->name)
        return error_set(err, NCBENCH_EXIT_USAGE,
                         "image import: --cold removes the image first: --name REF, which the "
                         "archive gives it, is missing");
    return 0;
}

/* A path that is there is an archive; a reference begins with neither '/' nor '.'. */
static int find_source(struct job *j, struct error *err)
{
    const char *source = j->request->source;
    char *path = fs_realpath(source);
    j->out->archive = path && !fs_is_dir(path);
    if (j->out->archive) {
        j->out->source = path;
        return 0;
    }
    free(path);
    if (strchr("/.-", *source)) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s is no file", source);
        return error_hint(err, "`ncbench image build --archive FILE` makes an OCI archive");
    }
    j->out->source = mem_strdup(source);
    return 0;
}

static int find_target(struct job *j, struct error *err)
{
    if (!j->request->output)
        return 0;
    auto_free char *dir = fs_dirname(j->request->output);
    auto_free char *real = fs_realpath(dir);
    if (!real)
        return error_set(err, NCBENCH_EXIT_RESULTS, "directory %s does not exist", dir);
    j->out->target = mem_printf("%s/%s", real, fs_basename(j->request->output));
    j->aside = mem_printf("%s.%d.part", j->out->target, (int)getpid());
    j->origin = mem_printf("%s.source", j->out->target);
    return 0;
}

/* ---- the lock -------------------------------------------------------------------------------- */
/* Beside the file, which nodes may share; for a store, which is this machine's, below the cache of
 * the user. Caller frees. */
static char *lock_path(const struct job *j, struct error *err)
{
    if (j->out->target)
        return mem_printf("%s.lock", j->out->target);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    auto_free char *dir = client_given(cache) ? mem_printf("%s/ncbench", cache)
                                              : mem_printf("%s/.cache/ncbench", home ? home : "");
    auto_free char *key = client_session_name(j->request->kind, host, j->out->source);
    if (fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, err))
        return NULL;
    return mem_printf("%s/import.%s.lock", dir, key);
}

static int take_lock(struct job *j, struct lock *lock, struct error *err)
{
    double start = clock_mono_s();
    auto_free char *path = lock_path(j, err);
    if (!path || lock_take(lock, path, CLIENT_IMPORT_S, err))
        return -err->code;
    j->out->lock_wait_s = clock_mono_s() - start;
    return 0;
}

/* ---- the import ------------------------------------------------------------------------------ */
static int forget(struct job *j, struct error *err)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_str errout = STR_INIT;
    int rc;
    j->ops->forget(j->request->name ? j->request->name : j->out->source, &argv, &env);
    if (client_run(&argv, &env, CLIENT_IMPORT_S, NULL, &errout, &rc, err))
        return -err->code;
    j->out->removed = !rc;
    if (!rc || strcasestr(errout.data, "no such image") || strstr(errout.data, "not known"))
        return 0;
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s exit %d: %s", argv.items[0], rc,
                     client_last_line(&errout));
}

/* Nothing of an earlier import shall help; its file stays until there is another. */
static int make_cold(struct job *j, struct error *err)
{
    const char *tmp = getenv("TMPDIR");
    if (!j->out->target)
        return forget(j, err);
    j->cache = mem_printf("%s/ncbench-import-XXXXXX", client_given(tmp) ? tmp : "/var/tmp");
    if (mkdtemp(j->cache))
        return 0;
    error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot make a directory %s", j->cache);
    free(steal(&j->cache));
    return -err->code;
}

static int run_import(struct job *j, struct error *err)
{
    const struct runtime_import import = {j->out->source, j->aside, j->cache};
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_free char *what = mem_printf("importing %s", j->out->source);
    if (j->ops->import(&import, &argv, &env, err))
        return error_wrap(err, "image import");
    double start = clock_mono_s();
    if (client_must(&argv, &env, CLIENT_IMPORT_S, what, err))
        return -err->code;
    j->out->import_s = clock_mono_s() - start;
    return 0;
}

/* The file never stands beside the origin of another one. */
static int replace(const struct job *j, struct error *err)
{
    if (unlink(j->origin) && errno != ENOENT)
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot remove %s", j->origin);
    if (rename(j->aside, j->out->target))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot rename %s", j->aside);
    return fs_write_atomic(j->origin, j->whence.data, j->whence.len, NCBENCH_EXIT_RESULTS, err);
}

static int put_in_place(const struct job *j, struct error *err)
{
    struct stat st;
    j->out->bytes = -1;
    if (!j->out->target)
        return 0;
    if (!j->out->present && replace(j, err))
        return -err->code;
    if (!stat(j->out->target, &st))
        j->out->bytes = st.st_size;
    return 0;
}

/* ---- the file that is there ------------------------------------------------------------------ */
/* An archive may have changed under its name; what a registry has of a tag is not asked. */
static int tell_origin(struct job *j, struct error *err)
{
    char sha256[SHA256_HEX] = "";
    if (j->out->archive && sha256_file(j->out->source, sha256, NCBENCH_EXIT_ENVIRONMENT, err))
        return -err->code;
    str_appendf(&j->whence, "runtime %s\nsource %s\n", j->request->kind, j->out->source);
    if (*sha256)
        str_appendf(&j->whence, "sha256 %s\n", sha256);
    return 0;
}

/* Taken only if it came from this very source. */
static int look_for_file(struct job *j, struct error *err)
{
    auto_str told = STR_INIT;
    auto_error struct error absent = ERROR_INIT;
    if (!fs_exists(j->out->target))
        unlink(j->origin); /* of a file that somebody removed */
    if (j->request->cold || !fs_exists(j->out->target))
        return 0;
    j->out->present = !fs_read_file(j->origin, &told, NCBENCH_EXIT_RESULTS, &absent) &&
                      !strcmp(told.data, j->whence.data);
    if (j->out->present)
        return 0;
    error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s is there, and %s does not say that it is %s of %s",
              j->out->target, j->origin, j->request->kind, j->out->source);
    return error_hint(err, "--cold imports it anew, in place of that file");
}

static int import_locked(struct job *j, struct error *err)
{
    auto_lock struct lock lock = LOCK_INIT;
    if (take_lock(j, &lock, err) || (j->request->cold && make_cold(j, err)))
        return -err->code;
    if (j->out->target && (tell_origin(j, err) || look_for_file(j, err)))
        return -err->code;
    if (!j->out->present && run_import(j, err))
        return -err->code;
    return put_in_place(j, err);
}

int image_import(const struct image_import_request *request, struct image_imported *out,
                 struct error *err)
{
    struct job j = {.request = request, .out = out, .whence = STR_INIT};
    auto_error struct error ignored = ERROR_INIT;
    int failed = find_ops(&j, err) || find_source(&j, err) || check_options(&j, err) ||
                 find_target(&j, err) || import_locked(&j, err);
    if (j.aside)
        unlink(j.aside);
    if (j.cache)
        fs_remove_tree(j.cache, NCBENCH_EXIT_RESULTS, &ignored);
    free(j.aside);
    free(j.cache);
    free(j.origin);
    str_release(&j.whence);
    return failed ? -err->code : 0;
}

void image_imported_release(struct image_imported *imported)
{
    free(imported->source);
    free(imported->target);
    *imported = (struct image_imported){0};
}
