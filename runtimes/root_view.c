#include "runtimes/root_view.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "runtimes/client.h"
#include "runtimes/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the source ------------------------------------------------------------------------------ */
static bool is_squashfs(const char *path)
{
    return str_ends_with(path, ".sqsh") || str_ends_with(path, ".sqfs") ||
           str_ends_with(path, ".squashfs");
}

static bool is_tar(const char *path)
{
    return strstr(fs_basename(path), ".tar") != NULL || str_ends_with(path, ".tgz");
}

static int check_form(const struct runtime_spec *spec, struct error *err)
{
    const int code = NCBENCH_EXIT_SCENARIO;
    if (client_check_source(spec,
                            "`ncbench image build --dir DIR` makes a root file system from the "
                            "local build",
                            err))
        return -err->code;
    const char *source = client_source(spec);
    if (*source != '/' || !source[1])
        return error_set(err, code, "runtime %s: \"%s\": expected an absolute path other than /",
                         spec->name, source);
    if (client_given(spec->image) && !is_squashfs(source) && !is_tar(source)) {
        error_set(err, code, "runtime %s: image \"%s\": expected a .sqsh, .sqfs or .tar file",
                  spec->name, source);
        return error_hint(err, "rootfs: takes a directory");
    }
    return 0;
}

int root_view_check(const struct runtime_spec *spec, bool portable, struct error *err)
{
    if (check_form(spec, err))
        return -err->code;
    const char *source = client_source(spec);
    if (portable)
        return 0;
    if (client_given(spec->rootfs) && !fs_is_dir(source))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: rootfs %s is no directory",
                         spec->name, source);
    if (!fs_exists(source) || (client_given(spec->image) && fs_is_dir(source)))
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: image %s is no file",
                         spec->name, source);
    auto_free char *unpacker = client_find(is_squashfs(source) ? "unsquashfs" : "tar");
    if (unpacker || client_given(spec->rootfs))
        return 0;
    error_set(err, NCBENCH_EXIT_ENVIRONMENT, "runtime %s: unsquashfs not found on PATH",
              spec->name);
    return error_hint(err, "apt-get install squashfs-tools");
}

/* ---- the view -------------------------------------------------------------------------------- */
char *root_view_path(const struct runtime_spec *spec, const char *session_dir)
{
    auto_free char *dir = client_session_path(session_dir, spec->kind, client_source(spec));
    return mem_printf("%s/root", dir);
}

/* Without a word where hard links cannot be: another file system, another owner. */
static bool link_tree(const char *from, const char *to)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_error struct error ignored = ERROR_INIT;
    int rc;
    client_words(&argv, "cp --archive --link --no-target-directory --");
    strv_push(&argv, from);
    strv_push(&argv, to);
    strv_push(&env, "PATH=/usr/bin:/bin");
    return !client_run(&argv, &env, CLIENT_IMPORT_S, NULL, NULL, &rc, &ignored) && rc == 0;
}

static int fill(const char *from, const char *to, struct error *err)
{
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_free char *what = mem_printf("unpacking %s", from);
    strv_push(&env, "PATH=/usr/bin:/bin:/usr/sbin:/sbin");
    if (fs_is_dir(from)) {
        if (link_tree(from, to))
            return 0;
        if (fs_remove_tree(to, NCBENCH_EXIT_RESULTS, err))
            return -err->code;
        client_words(&argv, "cp --archive --reflink=auto --no-target-directory --");
        strv_push(&argv, from);
        strv_push(&argv, to);
    } else if (is_squashfs(from)) {
        client_words(&argv, "unsquashfs -no-progress -quiet -dest");
        strv_push(&argv, to);
        strv_push(&argv, from);
    } else {
        if (fs_mkdir_p(to, NCBENCH_EXIT_RESULTS, err))
            return -err->code;
        client_words(&argv, "tar --extract --numeric-owner --file");
        strv_push(&argv, from);
        strv_push(&argv, "--directory");
        strv_push(&argv, to);
    }
    return client_must(&argv, &env, CLIENT_IMPORT_S, what, err);
}

int root_view_prepare(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    auto_free char *root = root_view_path(spec, session_dir);
    auto_free char *dir = fs_dirname(root);
    auto_free char *aside = mem_printf("%s/making", dir);
    auto_free char *path = mem_printf("%s/lock", dir);
    auto_lock struct lock lock = LOCK_INIT;
    if (fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, err) || lock_take(&lock, path, CLIENT_IMPORT_S, err))
        return -err->code;
    if (fs_is_dir(root))
        return 0;
    /* What a killed session left half done is made again. */
    if (fs_remove_tree(aside, NCBENCH_EXIT_RESULTS, err) || fill(client_source(spec), aside, err))
        return -err->code;
    if (rename(aside, root))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot rename %s", aside);
    return 0;
}

int root_view_remove(const struct runtime_spec *spec, const char *session_dir, struct error *err)
{
    auto_free char *root = root_view_path(spec, session_dir);
    auto_free char *dir = fs_dirname(root);
    auto_free char *kind = fs_dirname(dir);
    if (fs_remove_tree(dir, NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    rmdir(kind); /* unless another arm has its own there */
    return 0;
}

/* ---- mount points ---------------------------------------------------------------------------- */
/* As open(2), but the directory is the root of all paths, links included. */
static int open_inside(int root, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

enum { LINKS_MAX = 16 };
static int make_point(int root, const char *target, bool directory, int links);

/* What the link at `path` names, seen from the root; NULL: it is none. Caller frees. */
static char *linked_path(int at, const char *parent, const char *name)
{
    char text[4096];
    ssize_t n = readlinkat(at, name, text, sizeof text - 1);
    if (n <= 0)
        return NULL;
    text[n] = '\0';
    return *text == '/' ? mem_strdup(text) : mem_printf("%s%s", parent, text);
}

/* Make one component of the path if it is not there; one that is a link to nothing is made where it
 * points to. */
static int make_component(int root, const char *path, bool directory, int links)
{
    auto_close int there = open_inside(root, path, O_PATH);
    if (there >= 0)
        return 0;
    const char *name = fs_basename(path);
    auto_free char *parent = mem_strndup(path, (size_t)(name - path));
    auto_close int at = open_inside(root, *parent ? parent : "/", O_PATH | O_DIRECTORY);
    if (at < 0)
        return -1;
    auto_free char *linked = linked_path(at, parent, name);
    if (linked)
        return links < LINKS_MAX ? make_point(root, linked, directory, links + 1) : -1;
    if (directory)
        return mkdirat(at, name, 0755) && errno != EEXIST ? -1 : 0;
    auto_close int fd = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    return fd < 0 ? -1 : 0;
}

static int make_point(int root, const char *target, bool directory, int links)
{
    auto_free char *path = mem_strdup(target);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = make_component(root, path, true, links);
        *slash = '/';
        if (failed)
            return -1;
    }
    return make_component(root, path, directory, links);
}

int root_view_mount_point(const char *root, const char *target, bool directory, struct error *err)
{
    auto_close int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "root file system %s", root);
    if (make_point(fd, target, directory, 0))
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "cannot make mount point %s in %s",
                           target, root);
    return 0;
}

int root_view_mount_points(const char *root, const struct mounts *mounts, struct error *err)
{
    for (size_t i = 0; i < mounts->count; i++)
        if (root_view_mount_point(root, mounts->items[i].target, fs_is_dir(mounts->items[i].source),
                                  err))
            return -err->code;
    return 0;
}

void root_view_describe(const struct runtime_spec *spec, json_t *obj)
{
    const char *source = client_source(spec);
    json_put_str(obj, "image_fs", fs_type_name(source));
    if (client_given(spec->rootfs))
        json_put_str(obj, "rootfs", source);
    else
        client_put_image_file(obj, source);
}
