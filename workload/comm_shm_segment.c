/* Making, finding and leaving the shared segment. */
#include "workload/comm_shm_priv.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHM_DIR "/dev/shm"
#define MAGIC "ncshm/1"
#define CHUNK_MAX_BYTES ((int64_t)512 << 10) /* two of them a rank stay in the outer caches */
#define TOTAL_MAX_BYTES                                                                            \
    ((int64_t)32 << 20) /* half of the 64 MB that containers have by default                       \
                         */
#define CHUNK_MIN_BYTES ((int64_t)4 << 10)
#define TAKEOVER_S 2.0 /* patience with a live segment of the same name */

/* Named after what the ranks of one run share, and the user. */
char *comm_shm_path(const struct comm_config *config)
{
    const char *trial = getenv(ENV_TRIAL_ID);
    auto_free char *key =
        mem_printf("%s|%d|%s%s%s", config->master_addr ? config->master_addr : "127.0.0.1",
                   config->master_port, trial ? trial : "", *config->job ? "|" : "", config->job);
    char digest[SHA256_HEX];
    sha256_hex(key, strlen(key), digest);
    return mem_printf(SHM_DIR "/nanochat-%u-%.16s", (unsigned)geteuid(), digest);
}

static int64_t chunk_bytes(const struct comm_config *config)
{
    int64_t want =
        config->max_elements > 0 ? config->max_elements * (int64_t)sizeof(float) : CHUNK_MAX_BYTES;
    int64_t share = TOTAL_MAX_BYTES / (2 * config->world);
    int64_t low = CHUNK_MIN_BYTES + 64 * (int64_t)config->world; /* room for cache-line padding */
    int64_t chunk = want < CHUNK_MAX_BYTES ? want : CHUNK_MAX_BYTES;
    chunk = chunk < share ? chunk : share;
    chunk = chunk > low ? chunk : low;
    return (chunk + 63) / 64 * 64;
}

static size_t staging_offset(int world)
{
    size_t head = sizeof(struct shm_header) + (size_t)world * sizeof(struct shm_slot);
    return (head + 4095) / 4096 * 4096;
}

static size_t segment_bytes(int world, int64_t chunk)
{
    return staging_offset(world) + 2 * (size_t)world * (size_t)chunk;
}

static int map_segment(struct shm *s, int fd, size_t bytes, int world, struct error *err)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return error_errno(err, NANOCHAT_EXIT_PEER, errno, "cannot map %zu bytes of " SHM_DIR,
                           bytes);
    s->head = p;
    s->bytes = bytes;
    s->staging = (char *)p + staging_offset(world);
    return 0;
}

static void unmap_segment(struct shm *s)
{
    if (s->head)
        munmap(s->head, s->bytes);
    s->head = NULL;
}

/* A number taken twice means that another run uses the same rendezvous. */
static int claim_slot(struct comm *c, struct shm *s, struct error *err)
{
    struct shm_slot *slot = &s->head->slots[c->config.rank];
    int32_t nobody = 0;
    s->pid_space = shm_pid_space();
    if (!atomic_compare_exchange_strong(&slot->pid, &nobody, (int32_t)getpid()))
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "rank %d of %s:%d is there already (process %d); give each run its own "
                         "master port",
                         c->config.rank, c->config.master_addr, c->config.master_port, nobody);
    atomic_store(&slot->pid_space, s->pid_space);
    atomic_store(&slot->start_ticks, shm_process_start_ticks((int32_t)getpid()));
    syscall(SYS_sched_getaffinity, 0, sizeof slot->pus, slot->pus);
    atomic_fetch_add(&s->head->attached, 1);
    shm_futex_wake(&s->head->attached);
    return 0;
}

static int no_room(int errnum, size_t needed, struct error *err)
{
    if (errnum != ENOSPC)
        return error_errno(err, NANOCHAT_EXIT_PEER, errnum,
                           "cannot make a shared-memory segment of %zu bytes in " SHM_DIR, needed);
    error_set(err, NANOCHAT_EXIT_PEER, SHM_DIR " is too small: %zu bytes needed, %lld available",
              needed, (long long)fs_free_bytes(SHM_DIR));
    return error_hint(err, "give the container more shared memory, e.g. podman's --shm-size or "
                           "--ipc=host");
}

/* A nameless segment, complete and locked. The descriptor, or a negative code. */
static int make_segment(struct comm *c, struct shm *s, struct error *err)
{
    int world = c->config.world;
    int64_t chunk = chunk_bytes(&c->config);
    size_t bytes = segment_bytes(world, chunk);
    auto_close int fd = open(SHM_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return no_room(errno, bytes, err);
    /* all pages now: a store into a hole of a full tmpfs would be a SIGBUS (NVIDIA/nccl#290) */
    int full = posix_fallocate(fd, 0, (off_t)bytes);
    if (full)
        return no_room(full, bytes, err);
    if (flock(fd, LOCK_EX | LOCK_NB))
        return no_room(errno, bytes, err);
    if (map_segment(s, fd, bytes, world, err))
        return -err->code;
    memcpy(s->head->magic, MAGIC, sizeof MAGIC);
    s->head->world = world;
    s->head->chunk_bytes = chunk;
    comm_make_id(s->head->id);
    if (claim_slot(c, s, err))
        return -err->code;
    return steal_fd(&fd);
}

static bool is_named(int fd, const char *path)
{
    struct stat by_fd, by_name;
    return fstat(fd, &by_fd) == 0 && lstat(path, &by_name) == 0 && by_fd.st_ino == by_name.st_ino &&
           by_fd.st_dev == by_name.st_dev;
}

static int open_ours(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && (fstat(fd, &st) || st.st_uid != geteuid() || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/* Remove the name if its segment belongs to nobody alive (no one holds its lock). */
static bool remove_stale(const char *path)
{
    auto_close int fd = open_ours(path);
    if (fd < 0)
        return errno == ENOENT;
    if (flock(fd, LOCK_EX | LOCK_NB))
        return false;
    return !is_named(fd, path) || unlink(path) == 0;
}

static int publish(const struct comm *c, int fd, const char *path, struct error *err)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    double deadline = clock_mono_s() + TAKEOVER_S;
    while (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW)) {
        if (errno != EEXIST)
            return error_errno(err, NANOCHAT_EXIT_PEER, errno, "cannot create %s", path);
        if (remove_stale(path))
            continue;
        if (clock_mono_s() > deadline)
            return error_set(err, NANOCHAT_EXIT_USAGE,
                             "another run is starting with master %s:%d (%s is in use); give each "
                             "run its own master port",
                             c->config.master_addr, c->config.master_port, path);
        clock_sleep_s(0.01);
    }
    return 0;
}

static int create_segment(struct comm *c, struct shm *s, const char *path, struct error *err)
{
    auto_close int fd = make_segment(c, s, err);
    if (fd < 0 || publish(c, fd, path, err))
        return -err->code;
    return steal_fd(&fd);
}

/* A segment whose maker lives, or -1. A lock that we can share is a dead maker's. */
static int open_live(const char *path)
{
    auto_close int fd = open_ours(path);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return -1;
    return steal_fd(&fd);
}

static int find_segment(struct comm *c, struct shm *s, const char *path, struct error *err)
{
    double begin = clock_mono_s();
    auto_close int fd = -1;
    while ((fd = open_live(path)) < 0) {
        if (clock_mono_s() - begin > c->config.timeout_s) {
            c->lost_rank = 0;
            error_set(err, NANOCHAT_EXIT_PEER,
                      "lost rank 0 in %s before the first step: it did not start within %.3g s",
                      c->op, c->config.timeout_s);
            return error_hint(err, "start all %d ranks with the same MASTER_ADDR and MASTER_PORT",
                              c->config.world);
        }
        clock_sleep_s(0.001);
    }
    struct stat st;
    struct shm_header head;
    if (fstat(fd, &st) || pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || head.world != c->config.world ||
        (size_t)st.st_size != segment_bytes(head.world, head.chunk_bytes))
        return error_set(err, NANOCHAT_EXIT_USAGE,
                         "%s is the segment of a run of another kind, not of one with %d ranks; "
                         "give each run its own master port",
                         path, c->config.world);
    if (map_segment(s, fd, (size_t)st.st_size, head.world, err) || claim_slot(c, s, err))
        return -err->code;
    return steal_fd(&fd);
}

static int first_absent(const struct shm_header *h)
{
    int r = 0;
    while (r < h->world && atomic_load(&h->slots[r].pid))
        r++;
    return r;
}

static int wait_until_all_are_in(struct comm *c, struct shm *s, struct error *err)
{
    double begin = clock_mono_s();
    uint32_t seen;
    while ((seen = atomic_load(&s->head->attached)) < (uint32_t)c->config.world) {
        shm_futex_wait(&s->head->attached, seen);
        if (shm_check_peers(c, 1, err))
            return -err->code;
        int absent = first_absent(s->head);
        if (absent < c->config.world && clock_mono_s() - begin > c->config.timeout_s) {
            shm_lose(c, absent, SHM_ABSENT, err);
            return error_hint(err, "start all %d ranks with the same MASTER_ADDR and MASTER_PORT",
                              c->config.world);
        }
    }
    return 0;
}

/* Spinning pays only when every rank can have a processing unit to itself. */
static bool enough_pus(const struct shm_header *h)
{
    int n = 0;
    for (size_t word = 0; word < SHM_MAX_PUS / 64; word++) {
        uint64_t any = 0;
        for (int r = 0; r < h->world; r++)
            any |= h->slots[r].pus[word];
        n += __builtin_popcountll(any);
    }
    return n >= h->world;
}

int shm_attach(struct comm *c, struct shm *s, struct error *err)
{
    auto_free char *path = comm_shm_path(&c->config);
    auto_close int fd =
        c->config.local_rank == 0 ? create_segment(c, s, path, err) : find_segment(c, s, path, err);
    if (fd < 0)
        return -err->code;
    memcpy(c->id, s->head->id, sizeof c->id);
    int rc = wait_until_all_are_in(c, s, err);
    if ((rc || c->config.local_rank == 0) && is_named(fd, path))
        unlink(path);
    s->may_spin = !rc && enough_pus(s->head);
    return rc;
}

void shm_detach(struct comm *c, struct shm *s)
{
    if (s->head) {
        struct shm_slot *mine = &s->head->slots[c->config.rank];
        if (atomic_load(&mine->pid) == (int32_t)getpid()) {
            atomic_store(&mine->left, 1);
            shm_futex_wake(&mine->arrived);
        }
    }
    unmap_segment(s);
}

void comm_shm_forget(const struct comm_config *config)
{
    auto_free char *path = comm_shm_path(config);
    remove_stale(path);
}
