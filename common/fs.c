#include "common/fs.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

static int read_fd(int fd, const char *path, struct str *out, int code, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        str_reserve(out, (size_t)st.st_size);
    for (;;) {
        char buf[16384];
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, code, errno, "cannot read %s", path);
        if (n == 0)
            return 0;
        str_append_n(out, buf, (size_t)n);
    }
}

int fs_read_file(const char *path, struct str *out, int code, struct error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, code, errno, "cannot open %s", path);
    return read_fd(fd, path, out, code, err);
}

int fs_write_all(int fd, const char *path, const void *data, size_t len, int code,
                 struct error *err)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, code, errno, "cannot write %s", path);
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int sync_dir_of(const char *path, int code, struct error *err)
{
    auto_free char *dir = fs_dirname(path);
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) && errno != EINVAL && errno != EROFS))
        return error_errno(err, code, errno, "cannot sync directory %s", dir);
    return 0;
}

int fs_write_atomic(const char *path, const void *data, size_t len, int code, struct error *err)
{
    auto_free char *tmp = mem_printf("%s.tmp.%d", path, (int)getpid());
    auto_close int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_errno(err, code, errno, "cannot write %s", path);
    if (fs_write_all(fd, path, data, len, code, err)) {
        unlink(tmp);
        return -err->code;
    }
    if (fsync(fd) || close(steal_fd(&fd)) || rename(tmp, path)) {
        error_errno(err, code, errno, "cannot write %s", path);
        unlink(tmp);
        return -err->code;
    }
    return sync_dir_of(path, code, err);
}

int fs_mkdir_p(const char *path, int code, struct error *err)
{
    auto_free char *copy = mem_strdup(path);
    for (char *p = copy + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char saved = *p;
        *p = '\0';
        if (mkdir(copy, 0755) && errno != EEXIST)
            return error_errno(err, code, errno, "cannot create directory %s", copy);
        *p = saved;
        if (!saved)
            break;
    }
    if (!fs_is_dir(path))
        return error_errno(err, code, ENOTDIR, "cannot create directory %s", path);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int fs_remove_tree(const char *path, int code, struct error *err)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : error_errno(err, code, errno, "cannot remove %s", path);
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT))
        return error_errno(err, code, errno, "cannot remove %s", path);
    return 0;
}

int fs_copy_file(const char *from, const char *to, int mode, int code, struct error *err)
{
    auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return error_errno(err, code, errno, "cannot open %s", from);
    auto_close int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, (mode_t)mode);
    if (out < 0)
        return error_errno(err, code, errno, "cannot write %s", to);
    for (;;) {
        char buf[65536];
        ssize_t n = read(in, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, code, errno, "cannot read %s", from);
        if (n == 0)
            break;
        if (fs_write_all(out, to, buf, (size_t)n, code, err))
            return -err->code;
    }
    if (fchmod(out, (mode_t)mode) || close(steal_fd(&out)))
        return error_errno(err, code, errno, "cannot write %s", to);
    return 0;
}

bool fs_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool fs_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *fs_realpath(const char *path)
{
    return realpath(path, NULL);
}

char *fs_dirname(const char *path)
{
    auto_free char *copy = mem_strdup(path);
    return mem_strdup(dirname(copy));
}

const char *fs_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int fs_list_dir(const char *path, struct strv *names, int code, struct error *err)
{
    auto_dir DIR *dir = opendir(path);
    if (!dir)
        return error_errno(err, code, errno, "cannot open directory %s", path);
    const struct dirent *entry;
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            strv_push(names, entry->d_name);
    strv_sort(names);
    return 0;
}

int64_t fs_free_bytes(const char *path)
{
    struct statvfs st;
    if (statvfs(path, &st))
        return -1;
    return (int64_t)st.f_bavail * (int64_t)st.f_frsize;
}

const char *fs_type_name(const char *path)
{
    static const struct {
        long magic;
        const char *name;
    } types[] = {
        {0xEF53, "ext4"},       {0x794C7630, "overlay"}, {0x01021994, "tmpfs"},
        {0x58465342, "xfs"},    {0x9123683E, "btrfs"},   {0x73717368, "squashfs"},
        {0x6969, "nfs"},        {0x0BD00BD0, "lustre"},  {0x65735546, "fuse"},
        {0x47504653, "gpfs"},   {0x9FA0, "proc"},        {0x62656572, "sysfs"},
        {0x2FC12FC1, "zfs"},    {0xE0F5E1E2, "erofs"},   {0x858458F6, "ramfs"},
        {0x19830326, "beegfs"}, {0x63677270, "cgroup2"}, {0x27E0EB, "cgroup"},
    };
    struct statfs st;
    if (statfs(path, &st))
        return NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].magic == (long)st.f_type)
            return types[i].name;
    static _Thread_local char unknown[24];
    snprintf(unknown, sizeof unknown, "0x%lx", (unsigned long)st.f_type);
    return unknown;
}

char *fs_own_library(const char *variable, const char *name)
{
    const char *given = getenv(variable);
    if (given && *given)
        return mem_strdup(given);
    auto_free char *program = fs_realpath("/proc/self/exe");
    auto_free char *folder = fs_dirname(program ? program : "."); /* without /proc */
    return mem_printf("%s/../lib/%s", folder, name);
}

char *fs_base_dir(void)
{
    const char *dir = getenv(ENV_BASE_DIR);
    if (dir && *dir)
        return mem_strdup(dir);
    const char *home = getenv("HOME");
    return mem_printf("%s/.cache/nanochat", home && *home ? home : "/tmp");
}

char *fs_below_base(const char *name)
{
    auto_free char *base = fs_base_dir();
    return mem_printf("%s/%s", base, name);
}

char *fs_sys_path(const char *path)
{
    const char *root = getenv(ENV_FSROOT);
    return mem_printf("%s%s", root ? root : "", path);
}

bool fs_sys_read(const char *path, struct str *out)
{
    auto_free char *full = fs_sys_path(path);
    auto_close int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    auto_error struct error ignored = ERROR_INIT;
    return read_fd(fd, full, out, 1, &ignored) == 0;
}

bool fs_sys_read_i64(const char *path, int64_t *out)
{
    auto_str text = STR_INIT;
    return fs_sys_read(path, &text) && num_parse_i64(str_trim(text.data), out);
}

static void hex(const uint8_t *digest, char out[static SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_DIGEST_SIZE; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[SHA256_HEX - 1] = '\0';
}

void sha256_hex(const void *data, size_t len, char out[static SHA256_HEX])
{
    struct sha256_ctx ctx;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&ctx);
    sha256_update(&ctx, len, data);
    sha256_digest(&ctx, sizeof digest, digest);
    hex(digest, out);
}

int sha256_file(const char *path, char out[static SHA256_HEX], int code, struct error *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, code, errno, "cannot open %s", path);
    struct sha256_ctx ctx;
    sha256_init(&ctx);
    for (;;) {
        uint8_t buf[65536];
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, code, errno, "cannot read %s", path);
        if (n == 0)
            break;
        sha256_update(&ctx, (size_t)n, buf);
    }
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(&ctx, sizeof digest, digest);
    hex(digest, out);
    return 0;
}
