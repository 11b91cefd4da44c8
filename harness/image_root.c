/* The root file system of an image: nanochat, the CUDA back end beside it, their libraries, and
 * the little that a libc asks for.
 */
#include "harness/image.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/spawn.h"
#include "runtimes/runtime.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void image_root_release(struct image_root *root)
{
    free(root->dir);
    root->dir = NULL;
}

/* ---- closure --------------------------------------------------------------------------------- */
static int bad_program(const char *program, const char *what, struct error *err)
{
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s: %s", program, what);
}

/* The interpreter that an ELF program asks for; NULL for a static one. */
static int read_interpreter(const char *program, char **out, struct error *err)
{
    *out = NULL;
    auto_close int fd = open(program, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "cannot open %s", program);
    Elf64_Ehdr head;
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phentsize != sizeof(Elf64_Phdr))
        return bad_program(program, "not a 64-bit ELF program", err);
    for (int i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(head.e_phoff + (Elf64_Off)i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment)
            return bad_program(program, "truncated ELF program", err);
        if (segment.p_type != PT_INTERP)
            continue;
        char path[1024];
        size_t n = segment.p_filesz;
        if (!n || n > sizeof path || pread(fd, path, n, (off_t)segment.p_offset) != (ssize_t)n ||
            path[n - 1])
            return bad_program(program, "malformed interpreter", err);
        *out = mem_strdup(path);
        return 0;
    }
    return 0;
}

/* These belong to the kernel module that runs; the runtime puts them into the container. */
static bool of_the_driver(const char *line)
{
    return str_starts_with(line, "libcuda.so") || str_starts_with(line, "libnvidia-");
}

/* One line of the loader's list: "\tNAME => PATH (0x…)"; also without "=>" for itself and the vDSO,
 * and "NAME => not found". */
static int take_line(const char *program, char *line, struct strv *libraries, struct error *err)
{
    char *arrow = strstr(line, " => ");
    char *path = arrow ? arrow + 4 : str_trim(line);
    if (of_the_driver(str_trim(line)))
        return 0;
    if (!strcmp(str_trim(path), "not found")) {
        *arrow = '\0';
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "library %s of %s is not found", str_trim(line),
                  program);
        return error_hint(err, "LD_LIBRARY_PATH does not count here: add its directory to "
                               "/etc/ld.so.conf.d and run ldconfig, or link with an rpath");
    }
    char *address = strstr(path, " (0x");
    if (address)
        *address = '\0';
    if (*path == '/' && !strv_contains(libraries, path))
        strv_push(libraries, path);
    return 0;
}

/* Add what the loader would load for a program or a library, and for `preload` (names with blanks
 * between them, looked for as the object itself would; absent ones are left out). */
static int list_closure(const char *loader, const char *object, const char *preload,
                        struct strv *libraries, struct error *err)
{
    auto_free char *variable = mem_printf("LD_PRELOAD=%s", preload);
    char *argv[] = {(char *)loader, (char *)"--list", (char *)object, NULL};
    char *env[] = {(char *)"LC_ALL=C", variable, NULL};
    auto_str out = STR_INIT, errout = STR_INIT;
    int status;
    if (spawn_capture(argv, env, 30, &out, &errout, &status, NCBENCH_EXIT_ENVIRONMENT, err))
        return -err->code;
    if (status)
        return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "libraries of %s: %s", object,
                         str_trim(errout.data));
    char *save = NULL;
    for (char *line = strtok_r(out.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (take_line(object, line, libraries, err))
            return -err->code;
    return 0;
}

int image_closure(const char *program, struct strv *libraries, struct error *err)
{
    auto_free char *loader = NULL;
    if (read_interpreter(program, &loader, err))
        return -err->code;
    if (!loader)
        return 0;
    strv_push(libraries, loader);
    if (list_closure(loader, program, "", libraries, err))
        return -err->code;
    strv_sort(libraries);
    return 0;
}

/* Files beside `library` that it opens by name when it is used: "libcudnn_….so.9" for
 * "libcudnn.so.9", "libnvrtc-builtins.so.12.4" for "libnvrtc.so.12". Not those of another major
 * version, which may lie in the same directory. */
static int add_siblings(const char *library, const char *prefix, struct strv *out,
                        struct error *err)
{
    auto_free char *dir = fs_dirname(library);
    const char *ending = strstr(fs_basename(library), ".so");
    auto_strv names = STRV_INIT;
    if (fs_list_dir(dir, &names, NCBENCH_EXIT_ENVIRONMENT, err))
        return -err->code;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i], *at = strstr(name, ".so");
        if (str_starts_with(name, prefix) && at && str_starts_with(at, ending))
            strv_pushf(out, "%s/%s", dir, name);
    }
    return 0;
}

/* The back end's libraries, with those that it or cuDNN opens only when they are needed: NCCL, and
 * the parts of cuDNN 9, which no link names. */
static int cuda_closure(const char *nanochat, const char *cuda, struct strv *libraries,
                        struct error *err)
{
    auto_free char *loader = NULL;
    auto_strv parts = STRV_INIT;
    if (read_interpreter(nanochat, &loader, err))
        return -err->code;
    if (!loader)
        return bad_program(nanochat, "a static program opens no CUDA back end", err);
    if (list_closure(loader, cuda, "libnccl.so.2 libnvrtc.so.12 libnvrtc.so.13", libraries, err))
        return -err->code;
    for (size_t i = 0; i < libraries->count; i++) {
        const char *library = libraries->items[i], *name = fs_basename(library);
        if (str_starts_with(name, "libcudnn.so") && add_siblings(library, "libcudnn_", &parts, err))
            return -err->code;
        if (str_starts_with(name, "libnvrtc.so") &&
            add_siblings(library, "libnvrtc-builtins", &parts, err))
            return -err->code;
    }
    for (size_t i = 0; i < parts.count; i++) {
        if (!strv_contains(libraries, parts.items[i]))
            strv_push(libraries, parts.items[i]);
        if (list_closure(loader, parts.items[i], "", libraries, err))
            return -err->code;
    }
    strv_sort(libraries);
    return 0;
}

/* The CUDA back end that the program opens: NULL without one. Caller frees. */
static char *cuda_library_of(const char *nanochat)
{
    auto_free char *dir = fs_dirname(nanochat);
    auto_free char *beside = mem_printf("%s/../lib/nanochat-cuda.so", dir);
    return fs_realpath(beside);
}

/* ---- files ----------------------------------------------------------------------------------- */
static int make_dir_of(const char *root, const char *path, struct error *err)
{
    auto_free char *parent = fs_dirname(path);
    auto_free char *full = mem_printf("%s%s", root, parent);
    return fs_mkdir_p(full, NCBENCH_EXIT_RESULTS, err);
}

static int make_link(const char *root, const char *path, const char *target, struct error *err)
{
    auto_free char *full = mem_printf("%s%s", root, path);
    if (make_dir_of(root, path, err))
        return -err->code;
    if (symlink(target, full) && errno != EEXIST)
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot make the link %s", full);
    return 0;
}

static int copy_into(const char *root, const char *source, const char *path, int64_t *bytes,
                     struct error *err)
{
    auto_free char *full = mem_printf("%s%s", root, path);
    struct stat st;
    if (fs_exists(full))
        return 0;
    if (stat(source, &st))
        return error_errno(err, NCBENCH_EXIT_ENVIRONMENT, errno, "%s", source);
    *bytes += st.st_size;
    if (make_dir_of(root, path, err))
        return -err->code;
    return fs_copy_file(source, full, 0755, NCBENCH_EXIT_RESULTS, err);
}

/* The first prefix of path that is a symbolic link on the host: its length, with the link's target;
 * 0 if there is none. */
static size_t first_link(const char *path, char **target)
{
    for (const char *p = path + 1;; p++) {
        p += strcspn(p, "/");
        auto_free char *prefix = mem_strndup(path, (size_t)(p - path));
        char link[4096];
        ssize_t n = readlink(prefix, link, sizeof link - 1);
        if (n > 0) {
            *target = mem_strndup(link, (size_t)n);
            return (size_t)(p - path);
        }
        if (!*p)
            return 0;
    }
}

/* "a/./b", "a//b" and "a/../b" without their detours; absolute. Caller frees. */
static char *normalise(const char *path)
{
    auto_str out = STR_INIT;
    while (*path) {
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        if (n == 2 && !strncmp(path, "..", 2)) {
            char *slash = strrchr(out.data, '/');
            str_truncate(&out, slash ? (size_t)(slash - out.data) : 0);
        } else if (n && !(n == 1 && *path == '.')) {
            str_append_char(&out, '/');
            str_append_n(&out, path, n);
        }
        path += n;
    }
    return str_steal(&out);
}

/* Copy a file to its own path below root, with every symbolic link on the way. */
static int add_file(const char *root, const char *path, int64_t *bytes, struct error *err)
{
    auto_free char *at = normalise(path);
    for (int hops = 0; hops < 40; hops++) {
        auto_free char *target = NULL;
        size_t n = first_link(at, &target);
        if (!n)
            return copy_into(root, at, at, bytes, err);
        auto_free char *link = mem_strndup(at, n);
        if (make_link(root, link, target, err))
            return -err->code;
        auto_free char *parent = fs_dirname(link);
        auto_free char *joined = *target == '/' ? mem_printf("%s%s", target, at + n)
                                                : mem_printf("%s/%s%s", parent, target, at + n);
        free(at);
        at = normalise(joined);
    }
    return error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s: too many symbolic links", path);
}

static int write_text(const char *root, const char *path, const char *text, struct error *err)
{
    auto_free char *full = mem_printf("%s/%s", root, path);
    if (fs_write_atomic(full, text, strlen(text), NCBENCH_EXIT_RESULTS, err))
        return -err->code;
    if (chmod(full, 0644))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "%s", full);
    return 0;
}

/* Mount points, and the names of the two users that a libc may look up. */
static int add_skeleton(const char *root, struct error *err)
{
    static const char *const dirs[] = {"dev", "etc", "proc", "root",
                                       "run", "sys", "tmp",  "var/tmp"};
    static const struct {
        const char *path, *text;
    } files[] = {
        {"etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"
                       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
        {"etc/group", "root:x:0:\nnogroup:x:65534:\n"},
        {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
    };
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        auto_free char *dir = mem_printf("%s/%s", root, dirs[i]);
        if (fs_mkdir_p(dir, NCBENCH_EXIT_RESULTS, err))
            return -err->code;
        if (chmod(dir, str_ends_with(dirs[i], "tmp") ? 01777 : 0755))
            return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "%s", dir);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (write_text(root, files[i].path, files[i].text, err))
            return -err->code;
    return 0;
}

/* Does the loader find this library without its cache? Only the directories that are compiled into
 * it need none; multiarch names are those of Debian. */
static bool in_default_dir(const char *path)
{
    static const char *const dirs[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        if (!str_starts_with(path, dirs[i]))
            continue;
        const char *rest = path + strlen(dirs[i]);
        const char *multiarch = strstr(rest, "-linux-gnu/");
        if (multiarch && !memchr(rest, '/', (size_t)(multiarch - rest)))
            rest = multiarch + strlen("-linux-gnu/");
        if (!strchr(rest, '/') || str_starts_with(rest, "glibc-hwcaps/"))
            return true;
    }
    return false;
}

/* The back end at the place where the program inside looks for it, and its hash. */
static int add_cuda(struct image_root *root, const char *nanochat, struct strv *libraries,
                    json_t *manifest, struct error *err)
{
    auto_free char *cuda = cuda_library_of(nanochat);
    auto_strv more = STRV_INIT;
    if (!cuda)
        return 0;
    if (cuda_closure(nanochat, cuda, &more, err) ||
        sha256_file(cuda, root->cuda_sha256, NCBENCH_EXIT_ENVIRONMENT, err) ||
        copy_into(root->dir, cuda, IMAGE_CUDA, &root->bytes, err))
        return -err->code;
    for (size_t i = 0; i < more.count; i++)
        if (!strv_contains(libraries, more.items[i]))
            strv_push(libraries, more.items[i]);
    strv_sort(libraries);
    auto_free char *folder = fs_dirname(cuda);
    auto_free char *profiler = mem_printf("%s/nanochat-nccl-profiler.so", folder);
    if (fs_exists(profiler) &&
        copy_into(root->dir, profiler, IMAGE_NCCL_PROFILER, &root->bytes, err))
        return -err->code;
    json_put_str(manifest, "cuda", IMAGE_CUDA);
    json_put_str(manifest, "cuda_sha256", root->cuda_sha256);
    return 0;
}

static int add_libraries(struct image_root *root, const struct strv *libraries, json_t *manifest,
                         struct error *err)
{
    bool cache = false;
    json_t *list = json_object();
    json_put(manifest, "libraries", list);
    for (size_t i = 0; i < libraries->count; i++) {
        const char *path = libraries->items[i];
        char hash[SHA256_HEX];
        if (add_file(root->dir, path, &root->bytes, err) ||
            sha256_file(path, hash, NCBENCH_EXIT_ENVIRONMENT, err))
            return -err->code;
        json_put_str(list, path, hash);
        cache |= !in_default_dir(path);
    }
    root->libraries = libraries->count;
    int64_t ignored = 0;
    if (cache && fs_exists("/etc/ld.so.cache"))
        return add_file(root->dir, "/etc/ld.so.cache", &ignored, err);
    return 0;
}

static int add_shell(struct image_root *root, struct error *err)
{
    static const char shell[] = "/bin/sh";
    auto_strv libraries = STRV_INIT;
    if (image_closure(shell, &libraries, err) || add_file(root->dir, shell, &root->bytes, err))
        return -err->code;
    for (size_t i = 0; i < libraries.count; i++)
        if (add_file(root->dir, libraries.items[i], &root->bytes, err))
            return -err->code;
    return 0;
}

int image_root_add_shell(struct image_root *root, struct error *err)
{
    mode_t before = umask(022);
    int failed = add_shell(root, err);
    umask(before);
    return failed ? error_wrap(err, "a shell for enroot and pyxis") : 0;
}

/* umask would leak into the modes, and so into the digest. */
static int build(const char *nanochat, bool cuda, struct image_root *root, struct error *err)
{
    auto_strv libraries = STRV_INIT;
    if (image_closure(nanochat, &libraries, err) ||
        sha256_file(nanochat, root->sha256, NCBENCH_EXIT_ENVIRONMENT, err) ||
        fs_mkdir_p(root->dir, NCBENCH_EXIT_RESULTS, err) || add_skeleton(root->dir, err) ||
        copy_into(root->dir, nanochat, RUNTIME_IMAGE_NANOCHAT, &root->bytes, err))
        return -err->code;
    auto_json *manifest = json_object();
    json_put_str(manifest, "schema", "image/1.0");
    json_put_str(manifest, "ncbench", NCBENCH_VERSION);
    json_put_str(manifest, "nanochat", RUNTIME_IMAGE_NANOCHAT);
    json_put_str(manifest, "nanochat_sha256", root->sha256);
    if ((cuda && add_cuda(root, nanochat, &libraries, manifest, err)) ||
        add_libraries(root, &libraries, manifest, err))
        return -err->code;
    auto_str text = STR_INIT;
    json_write(&text, manifest, 2);
    str_append_char(&text, '\n');
    return write_text(root->dir, IMAGE_MANIFEST, text.data, err);
}

int image_root_build(const char *nanochat, bool cuda, const char *dir, struct image_root *out,
                     struct error *err)
{
    *out = (struct image_root){.dir = mem_strdup(dir)};
    mode_t before = umask(022);
    int failed = build(nanochat, cuda, out, err);
    umask(before);
    return failed;
}

static bool is_empty_dir(const char *dir)
{
    auto_strv names = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    return fs_list_dir(dir, &names, 1, &err) == 0 && names.count == 0;
}

int image_root_replace(const char *nanochat, bool cuda, const char *dir, struct image_root *out,
                       struct error *err)
{
    *out = (struct image_root){0};
    auto_free char *marker = mem_printf("%s/%s", dir, IMAGE_MANIFEST);
    if (fs_exists(dir) && !fs_exists(marker) && !is_empty_dir(dir)) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "%s exists and is not an earlier image of ncbench",
                  dir);
        return error_hint(err, "name a directory that does not exist yet");
    }
    auto_free char *aside = mem_printf("%s.tmp.%d", dir, (int)getpid());
    auto_error struct error ignored = ERROR_INIT;
    if (image_root_build(nanochat, cuda, aside, out, err) ||
        fs_remove_tree(dir, NCBENCH_EXIT_RESULTS, err)) {
        fs_remove_tree(aside, NCBENCH_EXIT_RESULTS, &ignored);
        return -err->code;
    }
    if (rename(aside, dir)) {
        error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot rename %s to %s", aside, dir);
        fs_remove_tree(aside, NCBENCH_EXIT_RESULTS, &ignored);
        return -err->code;
    }
    free(out->dir);
    out->dir = mem_strdup(dir);
    return 0;
}
