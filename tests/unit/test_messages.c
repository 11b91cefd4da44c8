/* The runtimes' own messages as they were seen, and what each is taken for. */
#include "common/cleanup.h"
#include "runtimes/adapters_priv.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>

#define EXITED(code) ((code) << 8)
#define PYXIS "slurmstepd-n1: error: pyxis: "
/* clang-format off */
static const struct message_row {
    const char *kind;
    int status;
    const char *text;
    enum outcome want;
    const char *reason; /* a fragment */
} message_rows[] = {
    {"docker", EXITED(125), "docker: Error response from daemon: No such image: nosuch:1\n\nRun 'docker run --help' for more information",
     OUTCOME_UNAVAILABLE, "No such image: nosuch:1"},
    {"docker", EXITED(127), "[FATAL tini (6)] exec /nosuch failed: No such file or directory", OUTCOME_NOT_FOUND, "/nosuch"},
    {"docker", EXITED(126), "[FATAL tini (8)] exec /etc/passwd failed: Permission denied", OUTCOME_NOT_EXECUTABLE, "/etc/passwd"},
    {"docker", EXITED(127), "docker: Error response from daemon: error gathering device information while adding custom device \"/dev/nosuch\": no such file or directory",
     OUTCOME_RUNTIME_FAILED, "/dev/nosuch"},
    {"docker", EXITED(125), "docker: Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: /nosuch", OUTCOME_UNAVAILABLE, "bind source"},
    {"docker", EXITED(125), "unknown flag: --nosuch\n\nUsage:  docker run", OUTCOME_UNAVAILABLE, "exit 125"},
    {"docker", EXITED(125), "docker: Error response from daemon: failed to create shim task: OCI runtime create failed: error setting rlimit type 8: operation not permitted: unknown",
     OUTCOME_RUNTIME_FAILED, "rlimit type 8"},
    {"docker", EXITED(125), "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]]", OUTCOME_UNAVAILABLE, "[[gpu]]"},
    {"docker", EXITED(1), "docker: Cannot connect to the Docker daemon at unix:///nosuch. Is the docker daemon running?", OUTCOME_UNAVAILABLE, "Cannot connect"},
    {"docker", EXITED(137), "", OUTCOME_SIGNALLED, "signal 9"},
    {"docker", EXITED(3), "boom", OUTCOME_RUNTIME_FAILED, "exit 3: boom"},
    {"charliecloud", EXITED(1), "ch-run[1]: error: can't execve(2): /nosuch: No such file or directory (ch_core.c:410 2)", OUTCOME_NOT_FOUND, "/nosuch"},
    {"charliecloud", EXITED(1), "ch-run[1]: error: can't execve(2): /etc/passwd: Permission denied (ch_core.c:410 13)", OUTCOME_NOT_EXECUTABLE, "Permission"},
    {"charliecloud", EXITED(1), "ch-run[1]: error: can't bind: source not found: /nosuch (ch_core.c:104)", OUTCOME_UNAVAILABLE, "source not found"},
    {"charliecloud", EXITED(1), "ch-run[1]: error: can't bind: destination not found: /r/etc/passwd (ch_core.c:111)", OUTCOME_RUNTIME_FAILED, "destination"},
    {"charliecloud", EXITED(64), "ch-run: unrecognized option '--nosuch'\nTry `ch-run --help'", OUTCOME_UNAVAILABLE, "exit 64"},
    {"charliecloud", 9, "", OUTCOME_SIGNALLED, "signal 9"},
    {"crun", EXITED(1), "time=\"x\" level=error msg=\"runc run failed: unable to start container process: exec: \\\"/nosuch\\\": stat /nosuch: no such file or directory\"", OUTCOME_NOT_FOUND, "/nosuch"},
    {"crun", EXITED(1), "time=\"x\" level=error msg=\"runc run failed: unable to start container process: exec: \\\"/etc/passwd\\\": permission denied\"", OUTCOME_NOT_EXECUTABLE, "permission"},
    {"crun", EXITED(1), "time=\"x\" level=error msg=\"runc run failed: unable to start container process: error during container init: error mounting \\\"/nosuch\\\" to rootfs at \\\"/x\\\": stat /nosuch: no such file or directory\"",
     OUTCOME_RUNTIME_FAILED, "mounting"},
    {"crun", EXITED(1), "error stat'ing file `/nosuch`: No such file or directory", OUTCOME_RUNTIME_FAILED, "stat'ing"},
    {"crun", EXITED(1), "open executable: Permission denied", OUTCOME_NOT_EXECUTABLE, "open executable"},
    {"crun", EXITED(1), "executable file `/nosuch` not found in $PATH: No such file or directory", OUTCOME_NOT_FOUND, "/nosuch"},
    {"apptainer", EXITED(255), "\033[31mFATAL:  \033[0m stat /nosuch: no such file or directory", OUTCOME_NOT_FOUND, "FATAL:"},
    {"apptainer", EXITED(255), "FATAL:   \"--nv\": executable file not found in $PATH", OUTCOME_NOT_FOUND, "--nv"},
    {"apptainer", EXITED(255), "FATAL:   permission denied", OUTCOME_NOT_EXECUTABLE, "permission"},
    {"apptainer", EXITED(255), "FATAL:   While checking container encryption: could not open image /x: failed to retrieve path for /x: lstat /x: no such file or directory", OUTCOME_UNAVAILABLE, "could not open image"},
    {"apptainer", EXITED(255), "FATAL:   While checking container encryption: could not open image /x.sif: /x.sif is not readable by the current user, check permissions", OUTCOME_UNAVAILABLE, "not readable"},
    {"apptainer", EXITED(255), "FATAL:   While checking container encryption: could not open image /x.sif: image format not recognized", OUTCOME_UNAVAILABLE, "format"},
    {"apptainer", EXITED(255), "FATAL:   While checking container encryption: could not open image /x.sif: the image's architecture (arm64) could not run on the host's (amd64)", OUTCOME_UNAVAILABLE, "architecture"},
    {"apptainer", EXITED(255), "FATAL:   container creation failed: mount hook function failure: mount /proc/self/fd/3->/var/lib/apptainer/mnt/session/rootfs error: while mounting image /proc/self/fd/3: kernel reported a bad superblock for squashfs image partition, possible causes are that your kernel doesn't support the compression algorithm or the image is corrupted",
     OUTCOME_RUNTIME_FAILED, "bad superblock"},
    {"apptainer", EXITED(255), "FATAL:   container creation failed: image driver mount failure: image driver squashfuse_ll instance exited with error: squashfuse_ll exited: Something went wrong trying to read the squashfs image.", OUTCOME_RUNTIME_FAILED, "Something went wrong"},
    {"apptainer", EXITED(255), "FATAL:   container creation failed: image driver mount failure: image driver squashfuse_ll instance exited with error: squashfuse_ll exited: fuse: failed to open /dev/fuse: Permission denied", OUTCOME_UNAVAILABLE, "open /dev/fuse"},
    {"apptainer", EXITED(255), "FATAL:   container creation failed: while applying cgroups config: cannot use cgroups - cannot use systemd cgroups manager, systemd not running as init on this host", OUTCOME_RUNTIME_FAILED, "cannot use cgroups"},
    {"apptainer", EXITED(255), "FATAL:   failed to set working directory: chdir /nosuch: no such file or directory", OUTCOME_RUNTIME_FAILED, "working directory"},
    {"apptainer", EXITED(255), "FATAL:   while loading overlay images: failed to open overlay image /nosuch: failed to retrieve path for /nosuch: lstat /nosuch: no such file or directory", OUTCOME_UNAVAILABLE, "overlay image /nosuch"},
    {"apptainer", EXITED(255), "FATAL:   could not use fakeroot: no mapping entry found in /etc/subuid for root", OUTCOME_UNAVAILABLE, "fakeroot"},
    {"apptainer", EXITED(255), "FATAL:   no SIF writable overlay partition found in /x.sif", OUTCOME_RUNTIME_FAILED, "no SIF writable"},
    {"apptainer", EXITED(255), "FATAL:   is a directory", OUTCOME_NOT_EXECUTABLE, "is a directory"},
    {"apptainer", EXITED(255), "FATAL:   exec /bin/x failed: a shared library is likely missing in the image", OUTCOME_RUNTIME_FAILED, "shared library"},
    {"apptainer", 9, "", OUTCOME_SIGNALLED, "signal 9"}, /* it ends as the program did */
    {"apptainer", EXITED(255), "WARNING: skipping mount of /nosuch: stat /nosuch: no such file or directory\nFATAL:   container creation failed: mount hook function failure: mount /nosuch->/x error: while mounting /nosuch: mount source /nosuch doesn't exist", OUTCOME_RUNTIME_FAILED, "mount source"},
    {"apptainer", EXITED(1), "\033[91mERROR  : Requesting capability set 0x000001ffffffffff while permitted capability set is 0x000001fffeffffff\n\033[0m", OUTCOME_RUNTIME_FAILED, "exit 1: ERROR  : Requesting capability set"},
    {"apptainer", EXITED(1), "Error for command \"exec\": unknown flag: --nosuch\n\n", OUTCOME_UNAVAILABLE, "unknown flag: --nosuch"},
    {"enroot", EXITED(127), "/proc/self/fd/3: exec: line 5: /nosuch: not found", OUTCOME_NOT_FOUND, "exit 127"},
    {"enroot", EXITED(126), "/etc/rc: exec: line 2: /etc/passwd: Permission denied", OUTCOME_NOT_EXECUTABLE, "exit 126"},
    {"enroot", EXITED(1), "[ERROR] No such file or directory: /data/nosuch", OUTCOME_RUNTIME_FAILED, "[ERROR] No such file"},
    {"enroot", EXITED(1), "[ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1", OUTCOME_RUNTIME_FAILED, "98-nvidia.sh"},
    {"enroot", EXITED(1), "enroot-mount: failed to mount: /nosuch at /data/t1/x: No such file or directory", OUTCOME_RUNTIME_FAILED, "enroot-mount: failed"},
    {"pyxis", EXITED(1), PYXIS "child 12 failed with error code: 1\n" PYXIS "failed to create container filesystem for image: /x.sqsh\n" PYXIS "printing enroot log file:\n" PYXIS "    [ERROR] No such file or directory: /x.sqsh\nsrun: error: n1: task 0: Exited with exit code 1",
     OUTCOME_RUNTIME_FAILED, "slurmstepd-n1: error: pyxis: child 12 failed with error code: 1; [ERROR] No such file or directory: /x.sqsh"},
    {"pyxis", EXITED(1), PYXIS "container exited too soon", OUTCOME_RUNTIME_FAILED, "container exited too soon"},
    {"pyxis", EXITED(2), "slurmstepd-n1: error: execve(): /nosuch: No such file or directory\nsrun: error: n1: task 0: Exited with exit code 2", OUTCOME_NOT_FOUND, "/nosuch"},
    {"pyxis", EXITED(13), "slurmstepd-n1: error: execve(): /etc/passwd: Permission denied", OUTCOME_NOT_EXECUTABLE, "/etc/passwd"},
    {"pyxis", EXITED(1), "srun: error: Unable to allocate resources: Requested node configuration is not available", OUTCOME_UNAVAILABLE, "Unable to allocate"},
    {"cscs-ce", EXITED(255), "srun: unrecognized option '--environment=/x'\nTry \"srun --help\"", OUTCOME_UNAVAILABLE, "unrecognized option"},
    {"cscs-ce", EXITED(1), "slurmstepd: error: pyxis:     [ERROR] Failed to refresh the dynamic linker cache", OUTCOME_RUNTIME_FAILED, "linker cache"},
    {"skybox", EXITED(1), "srun: error: n1: task 0: Exited with exit code 1", OUTCOME_RUNTIME_FAILED, "Exited with exit code 1"},
};
/* clang-format on */

static void messages(void)
{
    for (size_t i = 0; i < sizeof message_rows / sizeof *message_rows; i++) {
        const struct message_row *row = &message_rows[i];
        struct runtime_evidence evidence = {row->status, false, row->text};
        auto_str reason = STR_INIT;
        enum outcome got = runtime_find(row->kind)->classify(&evidence, &reason);
        bool right = got == row->want && strstr(reason.data, row->reason);
        CU_ASSERT(right);
        if (!right)
            printf("  %s: %s\n  %s: %s\n", row->kind, row->text, outcome_name(got), reason.data);
    }
}

static void srun_says_nothing(void)
{
    struct runtime_evidence evidence = {EXITED(1), false, "Error: something of podman's"};
    auto_str reason = STR_INIT;
    CU_ASSERT_EQUAL(runtime_classify_srun(&evidence, &reason), OUTCOME_COUNT);
    CU_ASSERT_STR(reason.data, "");
}

UNIT_MAIN({"messages", messages}, {"srun says nothing", srun_says_nothing})
