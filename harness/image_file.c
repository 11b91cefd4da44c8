/* A root file system as one file: a squashfs, or a SIF. Made aside, under a lock, then in place. */
#include "harness/image.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "runtimes/client.h"
#include "runtimes/lock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what both do ---------------------------------------------------------------------------- */
/* The command that makes the file `aside` of a root. */
struct maker {
    struct strv argv, env;
    const char *cwd, *what; /* cwd NULL: unchanged */
};

/* Two jobs that make the same file take turns; there is a whole one or none. */
static int make_file(struct maker *m, const char *path, const char *aside,
                     char sha256[static SHA256_HEX], struct error *err)
{
    auto_free char *lock_path = mem_printf("%s.lock", path);
    auto_lock struct lock lock = LOCK_INIT;
    if (lock_take(&lock, lock_path, CLIENT_IMPORT_S, err))
        return -err->code;
    if (client_must_in(m->cwd, &m->argv, &m->env, CLIENT_IMPORT_S, m->what, err) ||
        sha256_file(aside, sha256, NCBENCH_EXIT_RESULTS, err)) {
        unlink(aside);
        return -err->code;
    }
    if (rename(aside, path))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot rename %s to %s", aside, path);
    return 0;
}

static void release(struct maker *m)
{
    strv_release(&m->argv);
    strv_release(&m->env);
}

/* ---- squashfs -------------------------------------------------------------------------------- */
/* Equal bytes for equal roots: owner 0, one time for everything, no extended attributes, gzip,
 * which every reader of the format has. */
static int squashfs_command(struct maker *m, const char *dir, const char *aside, struct error *err)
{
    int64_t epoch;
    auto_free char *program = client_find("mksquashfs");
    if (!program) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "mksquashfs not found on PATH");
        return error_hint(err, "apt-get install squashfs-tools");
    }
    if (image_epoch(&epoch, err))
        return -err->code;
    strv_push(&m->argv, program);
    strv_push(&m->argv, dir);
    strv_push(&m->argv, aside);
    client_words(&m->argv, "-quiet -no-progress -noappend -all-root -no-xattrs -comp gzip");
    strv_push(&m->argv, "-mkfs-time");
    strv_pushf(&m->argv, "%lld", (long long)epoch);
    strv_push(&m->argv, "-all-time");
    strv_pushf(&m->argv, "%lld", (long long)epoch);
    strv_push(&m->env, "PATH=/usr/bin:/bin"); /* without SOURCE_DATE_EPOCH, which it would refuse */
    return 0;
}

int image_squashfs(const struct image_root *root, const char *path, char sha256[static SHA256_HEX],
                   struct error *err)
{
    auto_free char *aside = mem_printf("%s.tmp.%d", path, (int)getpid());
    struct maker m = {.argv = STRV_INIT, .env = STRV_INIT, .what = "making a squashfs"};
    int failed =
        squashfs_command(&m, root->dir, aside, err) || make_file(&m, path, aside, sha256, err);
    release(&m);
    return failed ? -err->code : 0;
}

/* ---- SIF ------------------------------------------------------------------------------------- */
/* Apptainer's sibling makes the same format by the same command line. */
static char *find_builder(struct error *err)
{
    auto_free char *program = client_find("apptainer");
    if (!program)
        program = client_find("singularity");
    if (program)
        return steal(&program);
    error_set(err, NCBENCH_EXIT_ENVIRONMENT, "apptainer not found on PATH");
    error_hint(err,
               "install apptainer, which Debian has in sid alone; it also runs what --squashfs "
               "FILE makes");
    return NULL;
}

/* What it leaves of a build that failed goes with `work`. Names of directories would go into the
 * labels: the root is the working directory. */
static int sif_command(struct maker *m, const char *program, const char *aside, const char *work,
                       struct error *err)
{
    static const char *const variables[] = {"PATH", "HOME", "USER", NULL};
    int64_t epoch;
    if (image_epoch(&epoch, err))
        return -err->code;
    strv_push(&m->argv, program);
    client_words(&m->argv, "--quiet build --force --disable-cache");
    strv_push(&m->argv, aside);
    strv_push(&m->argv, ".");
    client_copy_env(variables, &m->env);
    strv_pushf(&m->env, "TMPDIR=%s", work);
    strv_pushf(&m->env, "SOURCE_DATE_EPOCH=%lld", (long long)epoch);
    return 0;
}

/* Where it looks for labels of an image, and keeps what else it adds. */
#define SIF_FOLDER ".singularity.d"

static int add_labels(const struct image_root *root, const char *folder, struct error *err)
{
    auto_json *labels = json_object();
    auto_free char *path = mem_printf("%s/labels.json", folder);
    auto_str text = STR_INIT;
    json_put_str(labels, IMAGE_LABEL_SHA256, root->sha256);
    json_put_str(labels, IMAGE_LABEL_VERSION, NCBENCH_VERSION);
    json_write(&text, labels, 0);
    if (fs_mkdir_p(folder, NCBENCH_EXIT_RESULTS, err) ||
        fs_write_atomic(path, text.data, text.len, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    if (chmod(path, 0644))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "%s", path);
    return 0;
}

/* The root is as it was afterwards: a directory, for other runtimes, may be what it was made for.
 */
static int make_sif(const struct image_root *root, struct maker *m, const char *path,
                    const char *aside, char sha256[static SHA256_HEX], struct error *err)
{
    auto_free char *folder = mem_printf("%s/" SIF_FOLDER, root->dir);
    auto_error struct error ignored = ERROR_INIT;
    mode_t before = umask(022);
    int failed = add_labels(root, folder, err) || make_file(m, path, aside, sha256, err);
    umask(before);
    fs_remove_tree(folder, NCBENCH_EXIT_RESULTS, &ignored);
    return failed;
}

/* A path that holds wherever the command runs. Caller frees. */
static char *absolute(const char *path, struct error *err)
{
    auto_free char *dir = fs_dirname(path);
    auto_free char *real = fs_realpath(dir);
    if (real)
        return mem_printf("%s/%s", real, fs_basename(path));
    error_set(err, NCBENCH_EXIT_RESULTS, "directory %s does not exist", dir);
    return NULL;
}

int image_sif(const struct image_root *root, const char *work, const char *path,
              struct image_sif *out, struct error *err)
{
    auto_free char *program = find_builder(err);
    auto_free char *target = program ? absolute(path, err) : NULL;
    if (!target)
        return -err->code;
    auto_free char *aside = mem_printf("%s.tmp.%d", target, (int)getpid());
    auto_free char *version = client_version(program);
    struct maker m = {
        .argv = STRV_INIT, .env = STRV_INIT, .cwd = root->dir, .what = "making a SIF"};
    int failed = sif_command(&m, program, aside, work, err) ||
                 make_sif(root, &m, target, aside, out->sha256, err);
    snprintf(out->builder, sizeof out->builder, "%s %s", fs_basename(program),
             version ? version : "of unknown version");
    release(&m);
    return failed ? -err->code : 0;
}
