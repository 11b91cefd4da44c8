/* The env event: on this machine, and on trees of other machines. */
#include "workload/env.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/pus.h"
#include "tests/unit/unit.h"
#include "workload/env_priv.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    const char *path, *text; /* text "-> TARGET": a symbolic link */
};

/* A root for NCBENCH_FSROOT. */
static char *tree(const struct file *files, size_t count)
{
    char *root = unit_tmpdir();
    for (size_t i = 0; i < count; i++) {
        struct error err = ERROR_INIT;
        auto_free char *path = mem_printf("%s%s", root, files[i].path);
        auto_free char *dir = fs_dirname(path);
        fs_mkdir_p(dir, 1, &err);
        if (str_starts_with(files[i].text, "-> ")) {
            CU_ASSERT_EQUAL(symlink(files[i].text + 3, path), 0);
            continue;
        }
        fs_write_atomic(path, files[i].text, strlen(files[i].text), 1, &err);
        CU_ASSERT_STR(err.message, NULL);
        error_release(&err);
    }
    return root;
}

static json_t *collect_below(const char *root)
{
    const struct env_context context = {0};
    setenv(ENV_FSROOT, root, 1);
    json_t *env = env_collect(&context);
    unsetenv(ENV_FSROOT);
    return env;
}

#define COLLECT(files) collect_tree(files, sizeof files / sizeof *files)
static json_t *collect_tree(const struct file *files, size_t count)
{
    auto_free char *root = tree(files, count);
    return collect_below(root);
}

static void expect_f64(const json_t *env, const char *path, double expected)
{
    double value = -1;
    json_read_f64(env, path, &value);
    CU_ASSERT_NEAR(value, expected, 1e-12);
}

static void expect_null(const json_t *env, const char *path, const char *why)
{
    auto_free char *why_path = mem_printf("%s_why", path);
    CU_ASSERT(json_is_null(json_at(env, path)));
    CU_ASSERT_STR(json_read_str(env, why_path), why);
}

static void cgroup_v2(void)
{
    static const struct file files[] = {
        {"/proc/self/cgroup", "0::/job/step/task\n"},
        {"/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 "
                                 "rw,nsdelegate\n"},
        {"/sys/fs/cgroup/job/cpu.max", "150000 100000\n"},
        {"/sys/fs/cgroup/job/memory.max", "8589934592\n"},
        {"/sys/fs/cgroup/job/step/cpu.max", "max 100000\n"},
        {"/sys/fs/cgroup/job/step/memory.max", "17179869184\n"},
        {"/sys/fs/cgroup/job/step/task/cpu.max", "400000 100000\n"},
        {"/sys/fs/cgroup/job/step/task/memory.max", "max\n"},
        {"/sys/fs/cgroup/job/step/cpuset.cpus.effective", "2-5,9\n"},
        {"/sys/fs/cgroup/job/step/cpuset.mems.effective", "0\n"},
    };
    auto_json *env = COLLECT(files);
    CU_ASSERT_STR(json_read_str(env, "cgroup.version"), "v2");
    CU_ASSERT_STR(json_read_str(env, "cgroup.path"), "/job/step/task");
    expect_f64(env, "cgroup.cpu_max_pus", 1.5); /* the tightest, two levels up */
    expect_f64(env, "cgroup.memory_max_bytes", 8589934592.0);
    CU_ASSERT_STR(json_read_str(env, "cgroup.cpuset_cpus"), "2-5,9");
    CU_ASSERT_STR(json_read_str(env, "cgroup.cpuset_mems"), "0");
}

static void cgroup_v2_in_a_container(void)
{
    static const struct file files[] = {
        {"/proc/self/cgroup", "0::/\n"},
        {"/proc/self/mountinfo",
         "40 35 0:26 / /sys/fs/cgroup ro,nosuid,nodev - cgroup2 cgroup rw\n"},
        {"/sys/fs/cgroup/cpu.max", "max 100000\n"},
        {"/sys/fs/cgroup/memory.max", "max\n"},
        {"/sys/fs/cgroup/cpuset.cpus.effective", "0-1\n"},
    };
    auto_json *env = COLLECT(files);
    expect_null(env, "cgroup.cpu_max_pus", "unlimited");
    expect_null(env, "cgroup.memory_max_bytes", "unlimited");
    CU_ASSERT_STR(json_read_str(env, "cgroup.cpuset_cpus"), "0-1");
    expect_null(env, "cgroup.cpuset_mems", "no cpuset in this group");
}

#define V1_MOUNTS                                                                                  \
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"         \
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"                   \
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define V1_FILES                                                                                   \
    {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n"},                                 \
        {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"},                            \
        {"/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n"},                               \
        {"/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n"},                          \
        {"/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-7\n"},                                  \
        {"/sys/fs/cgroup/cpuset/p/cpuset.cpus", "4\n"},                                            \
        {"/sys/fs/cgroup/cpuset/p/cpuset.mems", "1\n"},                                            \
        {"/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "1073741824\n"},                         \
    {                                                                                              \
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"                     \
    }

static void check_v1(const json_t *env)
{
    expect_f64(env, "cgroup.cpu_max_pus", 2.5);
    expect_f64(env, "cgroup.memory_max_bytes", 1073741824.0);
    CU_ASSERT_STR(json_read_str(env, "cgroup.cpuset_cpus"), "4");
    CU_ASSERT_STR(json_read_str(env, "cgroup.cpuset_mems"), "1");
    CU_ASSERT_STR(json_read_str(env, "cgroup.path"), "/m");
}

static void cgroup_v1(void)
{
    static const struct file files[] = {
        {"/proc/self/cgroup", "11:memory:/m\n5:cpuset:/p\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n"},
        {"/proc/self/mountinfo", V1_MOUNTS},
        V1_FILES,
    };
    auto_json *env = COLLECT(files);
    CU_ASSERT_STR(json_read_str(env, "cgroup.version"), "v1");
    check_v1(env);
}

static void cgroup_hybrid(void)
{
    static const struct file files[] = {
        {"/proc/self/cgroup",
         "11:memory:/m\n5:cpuset:/p\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n0::/unified\n"},
        {"/proc/self/mountinfo",
         V1_MOUNTS "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"},
        {"/sys/fs/cgroup/unified/unified/memory.max", "7\n"}, /* not the memory controller's */
        V1_FILES,
    };
    auto_json *env = COLLECT(files);
    CU_ASSERT_STR(json_read_str(env, "cgroup.version"), "hybrid");
    check_v1(env);
}

/* The container sees only its own subtree, but the host's path in /proc/self/cgroup. */
static void cgroup_v1_subtree(void)
{
    static const struct file files[] = {
        {"/proc/self/cgroup", "11:memory:/machine/c1/inner\n"},
        {"/proc/self/mountinfo",
         "35 31 0:32 /machine/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096000\n"},
        {"/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "5096000\n"},
    };
    auto_json *env = COLLECT(files);
    expect_f64(env, "cgroup.memory_max_bytes", 4096000);
    expect_null(env, "cgroup.cpu_max_pus", "no cpu controller is visible");
}

static void nothing_in_sys_or_proc(void)
{
    static const struct file files[] = {{"/empty", ""}};
    auto_json *env = COLLECT(files);
    expect_null(env, "cgroup.version", "no cgroup file system is mounted");
    expect_null(env, "host.governor", "no cpufreq in /sys/devices/system/cpu");
    expect_null(env, "memory.thp", "/sys/kernel/mm/transparent_hugepage/enabled cannot be read");
    expect_null(env, "memory.total_bytes", "/proc/meminfo has no MemTotal");
    expect_null(env, "security.seccomp", "/proc/self/status has no Seccomp");
    expect_null(env, "shm.size_bytes", "there is no /dev/shm");
    expect_null(env, "namespaces.mnt", "/proc/self/ns/mnt cannot be read");
    CU_ASSERT(json_at(env, "cpu.n_usable_pus") != NULL);
    auto_str text = STR_INIT;
    json_write(&text, env, 0);
    CU_ASSERT(text.len > 100); /* every line of it is valid JSON, by the strict writer */
}

static void security_memory_host_files(void)
{
    static const struct file files[] = {
        {"/proc/self/status", "Name:\tx: y\nCapInh:\t00\nCapEff:\t00000000800405fb\n"
                              "CapBnd:\t00000000800405fb\nNoNewPrivs:\t1\nSeccomp:\t2\n"},
        {"/proc/self/attr/current", "containers-default-0.50.1 (enforce)\n"},
        {"/proc/self/ns/mnt", "-> mnt:[4026532201]"},
        {"/proc/meminfo", "MemTotal:       24667000 kB\nMemAvailable:   1024 kB\n"},
        {"/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
        {"/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"},
    };
    auto_json *env = COLLECT(files);
    CU_ASSERT_STR(json_read_str(env, "security.cap_effective"), "00000000800405fb");
    CU_ASSERT_STR(json_read_str(env, "security.seccomp"), "filter");
    CU_ASSERT_STR(json_read_str(env, "security.no_new_privs"), "yes");
    CU_ASSERT_STR(json_read_str(env, "security.lsm"), "containers-default-0.50.1 (enforce)");
    expect_f64(env, "namespaces.mnt", 4026532201.0);
    expect_f64(env, "memory.total_bytes", 24667000.0 * 1024);
    expect_f64(env, "memory.available_bytes", 1048576);
    CU_ASSERT_STR(json_read_str(env, "memory.thp"), "madvise");
    CU_ASSERT_STR(json_read_str(env, "host.clocksource"), "hpet");
}

static void mounts_are_found_by_the_deepest_point(void)
{
    static const struct file files[] = {
        {"/proc/self/mountinfo", "1 0 8:1 / / rw,relatime - overlay overlay rw,lowerdir=/l\n"
                                 "2 1 8:2 /a /usr rw - xfs /dev/sdb rw\n"
                                 "3 1 8:3 / /usr/lib\\040x rw - tmpfs none rw\n"
                                 "4 1 8:4 / /us ro - ext4 /dev/sdc rw\n"
                                 "broken line\n"},
    };
    auto_free char *root = tree(files, 1);
    auto_json *paths = json_object();
    json_put_str(paths, "data", "/usr/lib");
    json_put_str(paths, "checkpoint", "/usr/not/there/yet");
    json_put_str(paths, "other", "/");
    setenv(ENV_FSROOT, root, 1);
    const struct env_context context = {.paths = paths};
    auto_json *env = env_collect(&context);
    struct env_mounts_table t;
    env_mounts_read(&t);
    unsetenv(ENV_FSROOT);
    CU_ASSERT_STR(json_read_str(env, "mounts.data.fs_type"), "xfs");
    CU_ASSERT_STR(json_read_str(env, "mounts.data.mount_point"), "/usr");
    CU_ASSERT_STR(json_read_str(env, "mounts.checkpoint.fs_type"), "xfs");
    CU_ASSERT_STR(json_read_str(env, "mounts.other.fs_type"), "overlay");
    CU_ASSERT(json_at(env, "mounts.executable.fs_type") != NULL);
    CU_ASSERT_EQUAL(t.count, 4);
    CU_ASSERT_STR(t.items[2].point, "/usr/lib x");
    env_mounts_release(&t);
}

static void environment_is_filtered_and_secrets_are_hidden(void)
{
    setenv("OMP_PLACES", "cores", 1);
    setenv("NCCL_EMPTY", "", 1);
    setenv("UCX_API_KEY", "abc", 1);
    setenv("nccl_x", "1", 1);
    setenv("MALLOC_ARENA_MAX", "2", 1);
    setenv("CUDA_PROXY", "http://u:p@host", 1);
    setenv("HF_TOKEN", "abc", 1);
    setenv("OMPX", "1", 1);
    setenv("CUDNN_LOGLEVEL_DBG", "3", 1);
    setenv("MLX5_SINGLE_THREADED", "1", 1);
    const struct env_context context = {0};
    auto_json *group = json_object();
    env_variables(group, &context);
    CU_ASSERT_STR(json_read_str(group, "OMP_PLACES"), "cores");
    CU_ASSERT_STR(json_read_str(group, "NCCL_EMPTY"), "");
    CU_ASSERT_STR(json_read_str(group, "UCX_API_KEY"), "redacted");
    CU_ASSERT_STR(json_read_str(group, "CUDA_PROXY"), "redacted");
    CU_ASSERT_STR(json_read_str(group, "MALLOC_ARENA_MAX"), "2");
    CU_ASSERT_STR(json_read_str(group, "CUDNN_LOGLEVEL_DBG"), "3");
    CU_ASSERT_STR(json_read_str(group, "MLX5_SINGLE_THREADED"), "1");
    CU_ASSERT(!json_object_get(group, "nccl_x"));
    CU_ASSERT(!json_object_get(group, "HF_TOKEN"));
    CU_ASSERT(!json_object_get(group, "OMPX"));
    CU_ASSERT(!json_object_get(group, "PATH"));
    unsetenv("OMP_PLACES");
}

static void binding_is_read_back(void)
{
    cpu_set_t all, one;
    CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof all, &all), 0);
    int pu = 0;
    while (!CPU_ISSET(pu, &all))
        pu++;
    CPU_ZERO(&one);
    CPU_SET(pu, &one);
    sched_setaffinity(0, sizeof one, &one);
    const struct env_context context = {0};
    auto_json *group = json_object();
    env_cpu(group, &context);
    sched_setaffinity(0, sizeof all, &all);
    char expected[16];
    snprintf(expected, sizeof expected, "%d", pu);
    CU_ASSERT_STR(json_read_str(group, "usable_pus"), expected);
    CU_ASSERT_STR(json_read_str(group, "cpubind"), expected);
    expect_f64(group, "n_usable_pus", 1);
    CU_ASSERT(json_at(group, "membind") != NULL);
}

static void another_machines_topology_hides_no_binding(void)
{
    setenv("HWLOC_SYNTHETIC", "node:2 core:4 pu:2", 1);
    const struct env_context context = {0};
    auto_json *group = json_object();
    env_cpu(group, &context);
    unsetenv("HWLOC_SYNTHETIC");
    CU_ASSERT_STR(json_read_str(group, "cpubind"), json_read_str(group, "usable_pus"));
}

/* What the launcher asked for and what is are two things. */
static void a_binding_that_did_not_hold_is_seen(void)
{
    const struct env_context context = {0};
    auto_pus usable = {0};
    CU_ASSERT_EQUAL(pus_usable(&usable), 0);
    auto_free char *is = pus_text(&usable);
    bool held = false;
    setenv("RANK_BIND", "cores", 1);
    setenv("RANK_BIND_PUS", is, 1);
    auto_json *group = json_object();
    env_cpu(group, &context);
    CU_ASSERT_STR(json_read_str(group, "bind_policy"), "cores");
    CU_ASSERT(json_read_bool(group, "bind_held", &held) && held);
    setenv("RANK_BIND_PUS", "4000", 1);
    setenv("RANK_BIND_NOTE", "because", 1);
    auto_json *other = json_object();
    env_cpu(other, &context);
    CU_ASSERT(json_read_bool(other, "bind_held", &held) && !held);
    CU_ASSERT_STR(json_read_str(other, "bind_requested"), "4000");
    CU_ASSERT_STR(json_read_str(other, "bind_note"), "because");
    setenv("RANK_BIND_PUS", "", 1);
    auto_json *none = json_object();
    env_cpu(none, &context);
    CU_ASSERT(json_is_null(json_at(none, "bind_held")));
    unsetenv("RANK_BIND");
    unsetenv("RANK_BIND_PUS");
    unsetenv("RANK_BIND_NOTE");
}

static void limits_of_this_process(void)
{
    struct rlimit old, mine;
    getrlimit(RLIMIT_NOFILE, &old);
    mine = old;
    mine.rlim_cur = 123;
    setrlimit(RLIMIT_NOFILE, &mine);
    const struct env_context context = {0};
    auto_json *group = json_object();
    env_rlimits(group, &context);
    setrlimit(RLIMIT_NOFILE, &old);
    expect_f64(group, "nofile", 123);
    CU_ASSERT(json_at(group, "memlock_bytes") != NULL && json_at(group, "stack_bytes") != NULL &&
              json_at(group, "nproc") != NULL);
}

static void this_machine_is_described(void)
{
    const struct env_context context = {0};
    auto_json *env = env_collect(&context);
    double size = 0, threads = 0;
    struct stat st;
    CU_ASSERT(json_read_str(env, "host.kernel_release") != NULL);
    CU_ASSERT(json_read_f64(env, "threads.omp_max_threads", &threads) && threads >= 1);
    CU_ASSERT(json_read_str(env, "threads.blas_name") != NULL);
    if (stat("/dev/shm", &st) == 0)
        CU_ASSERT(json_read_f64(env, "shm.size_bytes", &size) && size > 0);
    CU_ASSERT(stat("/proc/self/ns/mnt", &st) == 0);
    expect_f64(env, "namespaces.mnt", (double)st.st_ino);
    const json_t *libraries = json_at(env, "libraries");
    bool libc = false;
    for (size_t i = 0; i < json_array_size(libraries); i++) {
        const json_t *l = json_array_get(libraries, i);
        const char *path = json_read_str(l, "path"), *id = json_read_str(l, "build_id");
        const char *name = json_read_str(l, "name");
        CU_ASSERT(path && path[0] == '/');
        CU_ASSERT(name && *name && !strchr(name, '/'));
        char digest[SHA256_HEX] = "";
        auto_error struct error err = ERROR_INIT;
        sha256_file(path, digest, 1, &err);
        CU_ASSERT_STR(json_read_str(l, "sha256"), digest);
        libc = libc || (name && !strcmp(name, "libc.so.6") && id && strlen(id) >= 16);
    }
    CU_ASSERT(libc);
}

/* Files are read by one rank of a node; the others have build ids, and say why no more. */
static void checksums_by_one_rank(void)
{
    const struct env_context context = {.local_rank = 1};
    auto_json *env = env_collect(&context);
    const json_t *first = json_array_get(json_at(env, "libraries"), 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(first);
    CU_ASSERT(json_is_null(json_object_get(first, "sha256")));
    CU_ASSERT_STR(json_read_str(first, "sha256_why"), "read by local rank 0");
}

UNIT_MAIN({"checksums by one rank of a node", checksums_by_one_rank},
          {"cgroup v2: the tightest limit of the path", cgroup_v2},
          {"cgroup v2 in a container", cgroup_v2_in_a_container}, {"cgroup v1", cgroup_v1},
          {"cgroup hybrid", cgroup_hybrid},
          {"cgroup v1, only a subtree visible", cgroup_v1_subtree},
          {"nothing in /sys or /proc", nothing_in_sys_or_proc},
          {"security, memory, host", security_memory_host_files},
          {"mounts are found by the deepest point", mounts_are_found_by_the_deepest_point},
          {"the environment is filtered", environment_is_filtered_and_secrets_are_hidden},
          {"binding is read back", binding_is_read_back},
          {"another machine's topology hides no binding",
           another_machines_topology_hides_no_binding},
          {"a binding that did not hold is seen", a_binding_that_did_not_hold_is_seen},
          {"limits of this process", limits_of_this_process},
          {"this machine is described", this_machine_is_described})
