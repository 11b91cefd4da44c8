/* Files and directories.
 *
 * `code` is the exit code that an error carries. Paths in messages are as given. fs_sys_* read
 * /proc, /sys and cgroup files below the prefix in $NCBENCH_FSROOT (default none), so that any
 * machine can be a fixture; use them for every such read. */
#ifndef COMMON_FS_H
#define COMMON_FS_H

#include "common/error.h"
#include "common/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole file appended to out. */
int fs_read_file(const char *path, struct str *out, int code, struct error *err);
/* Write aside (PATH.tmp.PID), fsync, rename, fsync the directory. */
int fs_write_atomic(const char *path, const void *data, size_t len, int code, struct error *err);
/* All of len to fd, however many write(2) it takes. */
int fs_write_all(int fd, const char *path, const void *data, size_t len, int code,
                 struct error *err);
int fs_mkdir_p(const char *path, int code, struct error *err);
/* Remove a file or a whole tree; absent is success. Symbolic links are not followed. */
int fs_remove_tree(const char *path, int code, struct error *err);
int fs_copy_file(const char *from, const char *to, int mode, int code, struct error *err);
bool fs_exists(const char *path);
bool fs_is_dir(const char *path);
/* Absolute, symbolic links resolved; caller frees; NULL if it does not exist. */
char *fs_realpath(const char *path);
char *fs_dirname(const char *path); /* caller frees */
const char *fs_basename(const char *path);
/* Names in a directory, sorted by bytes, without . and ..; absent is an error. */
int fs_list_dir(const char *path, struct strv *names, int code, struct error *err);
/* Free bytes for us on the file system of path, or -1. */
int64_t fs_free_bytes(const char *path);
/* "ext4", "overlay", "tmpfs" …, from statfs; "0x<magic>" if unknown; NULL on failure. */
const char *fs_type_name(const char *path);
/* Directory of user data: $NANOCHAT_BASE_DIR, else ~/.cache/nanochat; caller frees. */
char *fs_base_dir(void);
/* A shared object that belongs to this program: what the environment variable names, else that name
 * in lib/ beside the folder of the program. Caller frees. */
char *fs_own_library(const char *variable, const char *name);
char *fs_below_base(const char *name); /* the same with /name; caller frees */

/* Append the file at <FSROOT><path>; false if it cannot be read (no error: absence is common). */
bool fs_sys_read(const char *path, struct str *out);
/* As fs_sys_read, one integer; false if absent or not a number. */
bool fs_sys_read_i64(const char *path, int64_t *out);
/* "<FSROOT><path>"; caller frees. */
char *fs_sys_path(const char *path);

#define SHA256_HEX 65
/* Lower-case hexadecimal SHA-256. */
void sha256_hex(const void *data, size_t len, char out[static SHA256_HEX]);
int sha256_file(const char *path, char out[static SHA256_HEX], int code, struct error *err);

#endif
