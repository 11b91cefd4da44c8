/* A root file system as a squashfs, equal bytes for equal roots: owner 0, one time for everything,
 * no extended attributes, gzip, which every reader of the format has. */
#include "harness/image.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "runtimes/client.h"
#include "runtimes/lock.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static int make(const char *dir, const char *path, struct error *err)
{
    int64_t epoch;
    auto_strv argv = STRV_INIT, env = STRV_INIT;
    auto_free char *program = client_find("mksquashfs");
    if (!program) {
        error_set(err, NCBENCH_EXIT_ENVIRONMENT, "mksquashfs not found on PATH");
        return error_hint(err, "apt-get install squashfs-tools");
    }
    if (image_epoch(&epoch, err))
        return -err->code;
    strv_push(&argv, program);
    strv_push(&argv, dir);
    strv_push(&argv, path);
    client_words(&argv, "-quiet -no-progress -noappend -all-root -no-xattrs -comp gzip");
    strv_pushf(&argv, "-mkfs-time");
    strv_pushf(&argv, "%lld", (long long)epoch);
    strv_pushf(&argv, "-all-time");
    strv_pushf(&argv, "%lld", (long long)epoch);
    strv_push(&env, "PATH=/usr/bin:/bin"); /* without SOURCE_DATE_EPOCH, which it would refuse */
    return client_must(&argv, &env, CLIENT_IMPORT_S, "making a squashfs", err);
}

int image_squashfs(const struct image_root *root, const char *path, char sha256[static SHA256_HEX],
                   struct error *err)
{
    auto_free char *aside = mem_printf("%s.tmp.%d", path, (int)getpid());
    auto_free char *lock_path = mem_printf("%s.lock", path);
    auto_lock struct lock lock = LOCK_INIT;
    if (lock_take(&lock, lock_path, CLIENT_IMPORT_S, err))
        return -err->code;
    if (make(root->dir, aside, err) || sha256_file(aside, sha256, NCBENCH_EXIT_RESULTS, err)) {
        unlink(aside);
        return -err->code;
    }
    if (rename(aside, path))
        return error_errno(err, NCBENCH_EXIT_RESULTS, errno, "cannot rename %s to %s", aside, path);
    return 0;
}
