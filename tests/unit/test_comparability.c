/* What differs between two arms: class by class, what decides, what is excused, what is only told.
 * Above all: bare metal against Podman on a machine that is set up well must be comparable. */
#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/analysis.h"
#include "harness/comparability.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/unit.h"

#include <math.h>

#include <string.h>

/* As ranks record it, bare metal and inside podman (netns and ipc of the host). */
static const char bare[] =
    "{'rank':{'rank':0,'world':1,'comm_id':'aa','comm_backend':'self'},"
    "'host':{'hostname':'node1','kernel_release':'6.1.0','clocksource':'tsc','governor':null,"
    "'governor_why':'no cpufreq in /sys/devices/system/cpu'},"
    "'cpu':{'usable_pus':'0','n_usable_pus':1,'cpubind':'0','membind':'0','membind_policy':"
    "'default'},"
    "'threads':{'omp_max_threads':1,'omp_proc_bind':'false','omp_places':0,'blas_name':'blis',"
    "'blas_config':'haswell','blas_threads':1},"
    "'environment':{'OMP_NUM_THREADS':'1','MALLOC_ARENA_MAX':'2'},"
    "'rlimits':{'memlock_bytes':null,'memlock_bytes_why':'unlimited','memlock_hard_bytes':null,"
    "'memlock_hard_bytes_why':'unlimited','nofile':1024,'nofile_hard':1048576,"
    "'stack_bytes':8388608,'nproc':127000},"
    "'memory':{'total_bytes':8000000000,'available_bytes':5000000000,'thp':'madvise',"
    "'thp_disabled':false},'shm':{'size_bytes':4000000000,'free_bytes':3999000000},"
    "'cgroup':{'version':'v2','path':'/user.slice/a','cpu_max_pus':null,'cpu_max_pus_why':"
    "'unlimited','memory_max_bytes':null,'memory_max_bytes_why':'unlimited','cpuset_cpus':'0-1'},"
    "'security':{'cap_effective':'000001ffffffffff','seccomp':'off','no_new_privs':'no','lsm':null,"
    "'lsm_why':'no label','uid':0},"
    "'namespaces':{'cgroup':1,'ipc':2,'mnt':3,'net':4,'pid':5,'uts':6,'timens_offset_s':0},"
    "'mounts':{'executable':{'path':'/opt/nanochat','fs_type':'ext4','options':'rw'},"
    "'tmp':{'path':'/tmp','fs_type':'ext4'},'data':{'path':'/data','fs_type':'ext4'}},"
    "'libraries':[{'path':'/usr/lib/x86_64-linux-gnu/libc.so.6','build_id':'7a'},"
    "{'path':'/usr/lib/x86_64-linux-gnu/libnss_systemd.so.2','build_id':'31'}]}";
static const char podman[] =
    "{'rank':{'rank':0,'world':1,'comm_id':'bb','comm_backend':'self'},"
    "'host':{'hostname':'c0ffee','kernel_release':'6.1.0','clocksource':'tsc','governor':null,"
    "'governor_why':'/sys is not mounted'},"
    "'cpu':{'usable_pus':'0','n_usable_pus':1,'cpubind':'0','membind':null,'membind_why':"
    "'Operation not permitted','membind_policy':null,'membind_policy_why':'Operation not "
    "permitted'},"
    "'threads':{'omp_max_threads':1,'omp_proc_bind':'false','omp_places':0,'blas_name':'blis',"
    "'blas_config':'haswell','blas_threads':1},"
    "'environment':{'MALLOC_ARENA_MAX':'2','OMP_NUM_THREADS':'1'},"
    "'rlimits':{'memlock_bytes':null,'memlock_bytes_why':'unlimited','memlock_hard_bytes':null,"
    "'memlock_hard_bytes_why':'unlimited','nofile':1024,'nofile_hard':524288,"
    "'stack_bytes':8388608,'nproc':null,'nproc_why':'unlimited'},"
    "'memory':{'total_bytes':8000000000,'available_bytes':4800000000,'thp':'madvise',"
    "'thp_disabled':false},'shm':{'size_bytes':4000000000,'free_bytes':3990000000},"
    "'cgroup':{'version':'v2','path':'/','cpu_max_pus':null,'cpu_max_pus_why':"
    "'no cpu controller is visible','memory_max_bytes':null,'memory_max_bytes_why':'unlimited',"
    "'cpuset_cpus':null,'cpuset_cpus_why':'no cpuset in this group'},"
    "'security':{'cap_effective':'00000000800405fb','seccomp':'filter','no_new_privs':'no',"
    "'lsm':null,'lsm_why':'no label','uid':0},"
    "'namespaces':{'cgroup':11,'ipc':2,'mnt':13,'net':4,'pid':15,'uts':16,'timens_offset_s':0},"
    "'mounts':{'executable':{'path':'/opt/nanochat','fs_type':'overlay','options':'rw'},"
    "'tmp':{'path':'/tmp','fs_type':'overlay'},'data':{'path':'/data','fs_type':'ext4'}},"
    "'libraries':[{'path':'/lib/x86_64-linux-gnu/libc.so.6','build_id':'7a'}]}";

static json_t *env(const char *text)
{
    char *copy = mem_strdup(text);
    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *value = json_loads(copy, 0, NULL);
    if (!value)
        BUG("fixture: %s", copy);
    free(copy);
    return value;
}

/* The text with the first `from` replaced. */
static json_t *env_with(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    if (!at)
        BUG("fixture: no %s", from);
    char *changed = mem_printf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    json_t *value = env(changed);
    free(changed);
    return value;
}

struct fixture {
    struct study study;
    struct records records;
    struct analysis analysis;
    const struct comparability *env;
};

/* Six blocks; both environments are taken over. */
static void make_both(struct fixture *f, json_t *reference, json_t *arm)
{
    *f = (struct fixture){0};
    fixture_study(&f->study, "[6]", false);
    for (int block = 1; block <= 6; block++) {
        double step = 1 + .0001 * block;
        fixture_add(&f->records, (struct fixture_trial){"c00", "bare", block, 0, OUTCOME_OK, step,
                                                        json_deep_copy(reference)});
        fixture_add(&f->records, (struct fixture_trial){"c00", "podman", block, 0, OUTCOME_OK, step,
                                                        json_deep_copy(arm)});
    }
    json_decref(reference);
    json_decref(arm);
}

static void make(struct fixture *f, json_t *arm)
{
    make_both(f, env(bare), arm);
}

static void analyse(struct fixture *f)
{
    analysis_make(&f->study, &f->records, NULL, &f->analysis);
    f->env = analysis_env(&f->analysis, 0, 1);
}

static void release(struct fixture *f)
{
    analysis_release(&f->analysis);
    records_release(&f->records);
    study_release(&f->study);
}

static const struct finding *find(const struct fixture *f, const char *item)
{
    for (size_t i = 0; i < f->env->count; i++)
        if (!strcmp(f->env->items[i].item, item))
            return &f->env->items[i];
    return NULL;
}

static enum verdict_kind verdict(const struct fixture *f)
{
    return analysis_find(&f->analysis, "step_time_s", 0, 1)->verdict;
}

/* A rank that could not tell hides nothing that a later one tells. */
static void a_silent_block_hides_no_difference(void)
{
    struct fixture f = {0};
    fixture_study(&f.study, "[6]", false);
    for (int block = 1; block <= 6; block++) {
        double step = 1 + .0001 * block;
        json_t *arm = block == 1 ? env_with(podman, "'usable_pus':'0'",
                                            "'usable_pus':null,'usable_pus_why':'not permitted'")
                                 : env_with(podman, "'usable_pus':'0'", "'usable_pus':'0-7'");
        fixture_add(&f.records,
                    (struct fixture_trial){"c00", "bare", block, 0, OUTCOME_OK, step, env(bare)});
        fixture_add(&f.records,
                    (struct fixture_trial){"c00", "podman", block, 0, OUTCOME_OK, step, arm});
    }
    analyse(&f);
    CU_ASSERT_FALSE(f.env->comparable);
    CU_ASSERT_EQUAL(verdict(&f), VERDICT_NOT_COMPARABLE);
    CU_ASSERT_STR(find(&f, "usable CPUs")->arm, "0-7");
    CU_ASSERT_EQUAL(find(&f, "usable CPUs")->blocks, 6);
    release(&f);
}

static void bare_against_podman_is_comparable(void)
{
    struct fixture f;
    make(&f, env(podman));
    analyse(&f);
    CU_ASSERT(f.env->comparable);
    CU_ASSERT_EQUAL(f.env->compared, 6);
    CU_ASSERT_EQUAL(verdict(&f), VERDICT_EQUIVALENT);
    for (size_t i = 0; i < f.env->count; i++)
        CU_ASSERT(!finding_decisive(&f.env->items[i]));
    /* What the runtime changes is told … */
    CU_ASSERT_PTR_NOT_NULL(find(&f, "pid namespace"));
    CU_ASSERT_PTR_NOT_NULL(find(&f, "seccomp"));
    CU_ASSERT_PTR_NOT_NULL(find(&f, "file system of the executable"));
    CU_ASSERT_PTR_NOT_NULL(find(&f, "hard open files limit"));
    CU_ASSERT_PTR_NULL(find(&f, "ipc namespace")); /* shared with the host */
    CU_ASSERT_STR(find(&f, "seccomp")->arm, "filter");
    CU_ASSERT_EQUAL(find(&f, "seccomp")->class, ITEM_TREATMENT);
    CU_ASSERT_EQUAL(find(&f, "seccomp")->blocks, 6);
    /* … and what could not be read is, without deciding. */
    CU_ASSERT(find(&f, "memory binding")->unknown);
    CU_ASSERT_STR(find(&f, "memory binding")->arm, "Operation not permitted");
    CU_ASSERT_PTR_NULL(find(&f, "CPU frequency governor")); /* unknown on both sides */
    release(&f);
}

/* Every item of an allocation decides, one by one. */
static void allocations_decide(void)
{
    static const struct {
        const char *from, *to, *item, *reference, *arm, *key;
    } rows[] = {
        {"'OMP_NUM_THREADS':'1'", "'OMP_NUM_THREADS':'2'", "OMP_NUM_THREADS", "1", "2",
         "OMP_NUM_THREADS"},
        {",'OMP_NUM_THREADS':'1'", "", "OMP_NUM_THREADS", "1", "not set", "OMP_NUM_THREADS"},
        {"'OMP_NUM_THREADS':'1'", "'OMP_NUM_THREADS':''", "OMP_NUM_THREADS", "1", "set to nothing",
         "OMP_NUM_THREADS"},
        {"'OMP_NUM_THREADS'", "'LD_PRELOAD':'x.so','OMP_NUM_THREADS'", "LD_PRELOAD", "not set",
         "x.so", "LD_PRELOAD"},
        {"'usable_pus':'0'", "'usable_pus':'0-1'", "usable CPUs", "0", "0-1", "usable_pus"},
        {"'omp_max_threads':1", "'omp_max_threads':2", "OpenMP threads", "1", "2",
         "omp_max_threads"},
        {"'memlock_bytes':null,'memlock_bytes_why':'unlimited'", "'memlock_bytes':8388608",
         "memlock limit", "unlimited", "8.0 MiB", "memlock_bytes"},
        {"'nofile':1024", "'nofile':256", "open files limit", "1024", "256", "nofile"},
        {"'size_bytes':4000000000", "'size_bytes':67108864", "/dev/shm size", "3.7 GiB", "64.0 MiB",
         "size_bytes"},
        {"'thp_disabled':false", "'thp_disabled':true",
         "transparent huge pages disabled for the process", "no", "yes", "thp_disabled"},
        {"'memory_max_bytes':null,'memory_max_bytes_why':'unlimited'",
         "'memory_max_bytes':1073741824", "memory limit of the cgroup", "unlimited", "1.0 GiB",
         "memory_max_bytes"},
        {"'data':{'path':'/data','fs_type':'ext4'}", "'data':{'path':'/data','fs_type':'fuse'}",
         "file system of data", "ext4", "fuse", "data"},
        {"'build_id':'7a'", "'build_id':'7b'", "library libc.so.6", "7a", "7b", "libc.so.6"},
        {"'blas_config':'haswell'", "'blas_config':'generic'", "BLAS kernel", "haswell", "generic",
         "blas_config"},
        {"'comm_backend':'self'", "'comm_backend':'shm'", "communication back end", "self", "shm",
         "comm_backend"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        make(&f, env_with(podman, rows[i].from, rows[i].to));
        analyse(&f);
        const struct finding *found = find(&f, rows[i].item);
        CU_ASSERT_PTR_NOT_NULL(found);
        CU_ASSERT_EQUAL(verdict(&f), VERDICT_NOT_COMPARABLE);
        CU_ASSERT_EQUAL(analysis_exit(&f.analysis), NCBENCH_EXIT_UNTRUSTWORTHY);
        if (found) {
            CU_ASSERT_STR(found->reference, rows[i].reference);
            CU_ASSERT_STR(found->arm, rows[i].arm);
            CU_ASSERT_EQUAL(found->class, ITEM_ALLOCATION);
            CU_ASSERT(found == &f.env->items[0]); /* worst first */
        }
        release(&f);
        /* The same, declared. */
        make(&f, env_with(podman, rows[i].from, rows[i].to));
        strv_push(&f.study.arms[1].differs, rows[i].key);
        analyse(&f);
        CU_ASSERT_EQUAL(verdict(&f), VERDICT_EQUIVALENT);
        CU_ASSERT(find(&f, rows[i].item)->excused);
        release(&f);
    }
}

/* One difference, not two absences, where the file of a library has another name. */
static void libraries_are_known_by_what_was_asked_for(void)
{
    static const char bundled[] = "'libraries':[{'path':'/opt/libc-2.40.so','name':'libc.so.6',"
                                  "'build_id':'7b'}]";
    struct fixture f;
    make(&f, env_with(podman,
                      "'libraries':[{'path':'/lib/x86_64-linux-gnu/libc.so.6','build_id':'7a'}]",
                      bundled));
    analyse(&f);
    CU_ASSERT_EQUAL(verdict(&f), VERDICT_NOT_COMPARABLE);
    CU_ASSERT_PTR_NULL(find(&f, "library libc-2.40.so"));
    const struct finding *found = find(&f, "library libc.so.6");
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    CU_ASSERT_STR(found->reference, "7a");
    CU_ASSERT_STR(found->arm, "7b");
    release(&f);
}

static void patterns_excuse_families(void)
{
    struct fixture f;
    make(&f, env_with(podman, "'OMP_NUM_THREADS':'1'", "'OMP_NUM_THREADS':'2','OMP_PLACES':'x'"));
    strv_push(&f.study.arms[1].differs, "OMP_*");
    analyse(&f);
    CU_ASSERT(f.env->comparable);
    release(&f);
}

static void variables_of_gpu_toolkits_are_treatment(void)
{
    static const struct {
        const char *name;
        bool label;
    } rows[] = {
        {"NVIDIA_VISIBLE_DEVICES", true},
        {"CUDA_VERSION", true},
        {"NCCL_VERSION", true},
        {"CUBLAS_VERSION", true},
        {"CUDNN_VERSION", true},
        {"CUDNN_LOGLEVEL_DBG", false},
        {"NVIDIA_TF32_OVERRIDE", false},
        {"CUDA_LAUNCH_BLOCKING", false},
        {"NCCL_ALGO", false},
        {"OMP_VERSION", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        char *more = mem_printf("'%s':'1','OMP_NUM_THREADS'", rows[i].name);
        make(&f, env_with(podman, "'OMP_NUM_THREADS'", more));
        analyse(&f);
        CU_ASSERT_EQUAL(f.env->comparable, rows[i].label);
        const struct finding *found = find(&f, rows[i].name);
        CU_ASSERT_PTR_NOT_NULL_FATAL(found);
        CU_ASSERT_EQUAL(found->class, rows[i].label ? ITEM_TREATMENT : ITEM_ALLOCATION);
        release(&f);
        free(more);
    }
}

/* Without it no SIF could be compared with bare metal. */
static void apptainers_search_path_is_treatment(void)
{
    static const struct {
        const char *reference, *arm;
        bool treatment;
    } rows[] = {
        {"", "'LD_LIBRARY_PATH':'/.singularity.d/libs',", true},
        {"'LD_LIBRARY_PATH':'',", "'LD_LIBRARY_PATH':'/.singularity.d/libs',", true},
        {"'LD_LIBRARY_PATH':'/x',", "'LD_LIBRARY_PATH':'/x:/.singularity.d/libs',", true},
        {"'LD_LIBRARY_PATH':'/x:/.singularity.d/libs',", "'LD_LIBRARY_PATH':'/x',", true},
        {"", "'LD_LIBRARY_PATH':'/x:/.singularity.d/libs',", false},
        {"'LD_LIBRARY_PATH':'/x',", "'LD_LIBRARY_PATH':'/.singularity.d/libs',", false},
        {"'LD_LIBRARY_PATH':'/x',", "'LD_LIBRARY_PATH':'/x/.singularity.d/libs',", false},
        {"", "'LD_LIBRARY_PATH':'/.singularity.d/libs/x',", false},
        {"", "'LD_PRELOAD':'/.singularity.d/libs',", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        auto_free char *reference = mem_printf("%s'OMP_NUM_THREADS'", rows[i].reference);
        auto_free char *arm = mem_printf("%s'OMP_NUM_THREADS'", rows[i].arm);
        make_both(&f, env_with(bare, "'OMP_NUM_THREADS'", reference),
                  env_with(podman, "'OMP_NUM_THREADS'", arm));
        analyse(&f);
        CU_ASSERT_EQUAL(f.env->comparable, rows[i].treatment);
        release(&f);
    }
}

/* What stands for nothing: a limit that nothing can reach, the files of the trial itself. */
static void differences_that_are_none(void)
{
    static const struct {
        const char *from, *to, *item;
    } rows[] = {
        {"'memory_max_bytes':null,'memory_max_bytes_why':'unlimited'",
         "'memory_max_bytes':8000000000", "memory limit of the cgroup"},
        {"'OMP_NUM_THREADS'", "'NCCL_DEBUG_FILE':'/t/b/nccl.log','OMP_NUM_THREADS'",
         "NCCL_DEBUG_FILE"},
        {"'OMP_NUM_THREADS'", "'NCCL_TOPO_DUMP_FILE':'/t/b/x.xml','OMP_NUM_THREADS'",
         "NCCL_TOPO_DUMP_FILE"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        make(&f, env_with(podman, rows[i].from, rows[i].to));
        analyse(&f);
        CU_ASSERT(f.env->comparable);
        CU_ASSERT_PTR_NULL(find(&f, rows[i].item));
        release(&f);
    }
}

/* One that the driver opened for one arm alone is told; two versions of one decide. */
static void helpers_of_the_gpu_driver(void)
{
    static const char without[] = "'libraries':[{'path':'/lib/x86_64-linux-gnu/libc.so.6',"
                                  "'build_id':'7a'}]";
    static const char arm[] =
        "'libraries':[{'path':'/lib/x86_64-linux-gnu/libc.so.6','build_id':'7a'},"
        "{'path':'/l/x','name':'libnvidia-ptxjitcompiler.so.1',"
        "'build_id':'01'}]";
    static const char other[] = "'libraries':[{'path':'/lib/x86_64-linux-gnu/libc.so.6',"
                                "'build_id':'7a'},{'path':'/l/x','name':'libgomp.so.1',"
                                "'build_id':'01'}]";
    struct fixture f;
    make(&f, env_with(podman, without, arm));
    analyse(&f);
    CU_ASSERT(f.env->comparable);
    const struct finding *found = find(&f, "library libnvidia-ptxjitcompiler.so.1");
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    CU_ASSERT_EQUAL(found->class, ITEM_TREATMENT);
    release(&f);
    make(&f, env_with(podman, without, other));
    analyse(&f);
    CU_ASSERT_FALSE(f.env->comparable);
    release(&f);
}

/* A field of all records of an arm. */
static void set_field(struct fixture *f, const char *arm, const char *field, const char *text)
{
    for (size_t i = 0; i < f->records.count; i++)
        if (!strcmp(f->records.items[i].runtime, arm))
            json_object_set_new(f->records.items[i].json, field, env(text));
}

/* What NVML tells of the limits: of the GPUs that the ranks use, and only of those. */
static void limits_of_gpus(void)
{
    static const char common_env[] = "'rank':{", gpu_env[] = "'gpu':{'uuid':'GPU-a'},'rank':{";
    static const char telemetry[] =
        "{'devices':[{'uuid':'GPU-a','power_limit_w':%d,'sm_max_mhz':%d},"
        "{'uuid':'GPU-b','power_limit_w':%d,'sm_max_mhz':1980},"
        "{'uuid':'GPU-c','power_limit_w':null,'power_limit_w_why':'the device does not tell'}]}";
    static const struct {
        int power, clock, others;
        const char *differs; /* NULL: comparable */
        const char *reference, *arm;
    } rows[] = {
        {700, 1980, 700, NULL, NULL, NULL},
        {700, 1980, 300, NULL, NULL, NULL}, /* no rank's GPU */
        {500, 1980, 700, "power limit (W) of GPU-a", "700", "500"},
        {700, 1200, 700, "highest SM clock (MHz) of GPU-a", "1980", "1200"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        char *base = mem_printf(telemetry, 700, 1980, 700);
        char *arm = mem_printf(telemetry, rows[i].power, rows[i].clock, rows[i].others);
        make(&f, env_with(bare, common_env, gpu_env));
        for (size_t k = 0; k < f.records.count; k++)
            json_object_set_new(f.records.items[k].json, "env",
                                json_pack("[o]", env_with(bare, common_env, gpu_env)));
        set_field(&f, "bare", "gpu_telemetry", base);
        set_field(&f, "podman", "gpu_telemetry", arm);
        analyse(&f);
        CU_ASSERT_EQUAL(f.env->comparable, rows[i].differs == NULL);
        if (rows[i].differs) {
            const struct finding *found = find(&f, rows[i].differs);
            CU_ASSERT_PTR_NOT_NULL_FATAL(found);
            CU_ASSERT_EQUAL(found->class, ITEM_ALLOCATION);
            CU_ASSERT_STRING_EQUAL(found->reference, rows[i].reference);
            CU_ASSERT_STRING_EQUAL(found->arm, rows[i].arm);
        }
        release(&f);
        free(base);
        free(arm);
    }
}

/* How NCCL does a call is compared by operation and size; the order of the log says nothing, and
 * a call that one log lacks decides nothing. */
static void put_train(struct fixture *f, const char *arm, const char *key, const char *value,
                      const char *why)
{
    for (size_t i = 0; i < f->records.count; i++) {
        json_t *train = json_object_get(f->records.items[i].json, "train");
        CU_ASSERT_PTR_NOT_NULL_FATAL(train);
        if (strcmp(f->records.items[i].runtime, arm) != 0)
            continue;
        if (value)
            json_put_str(train, key, value);
        else
            json_put_null(train, key, why);
    }
}

/* What an arm chose for itself: algorithms, graphs. */
static void choices_of_the_device(void)
{
    static const struct {
        const char *key, *base, *arm, *item;
    } rows[] = {
        {"gemm_plans_sha256", "aa", "aa", NULL},
        {"gemm_plans_sha256", "aa", "bb", "algorithms of products"},
        {"gemm_plans_sha256", NULL, NULL, NULL}, /* timed in each run */
        {"cuda_graphs", "used", "used", NULL},
        {"cuda_graphs", "not used", "used", "CUDA graphs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        make(&f, env(podman));
        put_train(&f, "bare", rows[i].key, rows[i].base, "chosen by timing in each run");
        put_train(&f, "podman", rows[i].key, rows[i].arm, "chosen by timing in each run");
        analyse(&f);
        CU_ASSERT_EQUAL(f.env->comparable, rows[i].item == NULL);
        if (rows[i].item) {
            const struct finding *found = find(&f, rows[i].item);
            CU_ASSERT_PTR_NOT_NULL_FATAL(found);
            CU_ASSERT_EQUAL(found->class, ITEM_ALLOCATION);
        }
        release(&f);
    }
}

static void algorithms_of_nccl(void)
{
#define CALL(bytes, how)                                                                           \
    "{'op':'AllReduce','bytes':" bytes ",'algorithm':'" how "','protocol':'LL','n':3}"
    static const struct {
        const char *calls;
        const char *differs;
    } rows[] = {
        {CALL("8", "TREE") "," CALL("64", "RING") "," CALL("8", "RING"), NULL},
        {CALL("64", "RING") "," CALL("8", "RING") "," CALL("8", "TREE"), NULL},
        {CALL("64", "RING"), NULL},
        {CALL("64", "NVLS") "," CALL("8", "RING") "," CALL("8", "TREE"),
         "algorithm of NCCL for AllReduce of 64 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        char *base = mem_printf("{'nccl':{'calls':[%s]}}", rows[0].calls);
        char *arm = mem_printf("{'nccl':{'calls':[%s]}}", rows[i].calls);
        make(&f, env(bare));
        set_field(&f, "bare", "comm", base);
        set_field(&f, "podman", "comm", arm);
        analyse(&f);
        CU_ASSERT_EQUAL(f.env->comparable, rows[i].differs == NULL);
        if (rows[i].differs) {
            const struct finding *found = find(&f, rows[i].differs);
            CU_ASSERT_PTR_NOT_NULL_FATAL(found);
            CU_ASSERT_STRING_EQUAL(found->reference, "RING LL");
            CU_ASSERT_STRING_EQUAL(found->arm, "NVLS LL");
        }
        release(&f);
        free(base);
        free(arm);
    }
#undef CALL
}

/* Two arms of one kind are the same runtime: what it is must match, but for what every container
 * has of its own. */
static void treatment_between_arms_of_one_kind(void)
{
    for (int declared = 0; declared < 2; declared++) {
        struct fixture f;
        make(&f, env(podman));
        free(f.study.arms[0].kind);
        f.study.arms[0].kind = mem_strdup("podman");
        if (declared) {
            static const char *const keys[] = {"seccomp", "cap_effective", "fs_type", "nofile_hard",
                                               "nproc"};
            for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
                strv_push(&f.study.arms[1].differs, keys[i]);
        }
        analyse(&f);
        CU_ASSERT_EQUAL(f.env->comparable, declared);
        CU_ASSERT(finding_decisive(find(&f, "seccomp")) == !declared);
        CU_ASSERT(!finding_decisive(find(&f, "pid namespace")));
        CU_ASSERT(!finding_decisive(find(&f, "hostname")));
        release(&f);
    }
}

/* Identity cannot be excused. */
static void identity_is_not_excused(void)
{
    static const char *const keys[] = {"binary_sha256", "argv"};
    for (size_t k = 0; k < 2; k++) {
        struct fixture f;
        make(&f, env(podman));
        strv_push(&f.study.arms[1].differs, keys[k]);
        for (size_t i = 0; i < f.records.count; i++) {
            bool arm = !strcmp(f.records.items[i].runtime, "podman");
            json_put(f.records.items[i].json, keys[k],
                     k == 0 ? json_string(arm ? "beef" : "c0de")
                            : json_pack("[sss]", arm ? "/inside/nanochat" : "/outside/nanochat",
                                        "base-train", arm ? "--depth=3" : "--depth=2"));
        }
        analyse(&f);
        CU_ASSERT_EQUAL(verdict(&f), VERDICT_NOT_COMPARABLE);
        CU_ASSERT_EQUAL(f.env->items[0].class, ITEM_IDENTITY);
        CU_ASSERT(!f.env->items[0].excused);
        release(&f);
    }
}

static void the_place_of_the_program_is_no_difference(void)
{
    struct fixture f;
    make(&f, env(podman));
    for (size_t i = 0; i < f.records.count; i++)
        json_put(f.records.items[i].json, "argv",
                 json_pack("[ss]", i % 2 ? "/inside/nanochat" : "/outside/nanochat", "base-train"));
    analyse(&f);
    CU_ASSERT(f.env->comparable);
    release(&f);
}

static void without_evidence(void)
{
    struct study s;
    struct records r = {0};
    struct analysis a;
    static const double x[] = {1, 1.001, .999, 1, 1.0005, .9995};
    fixture_study(&s, "[6]", false);
    fixture_add_pairs(&r, "c00", x, x, 6);
    analysis_make(&s, &r, NULL, &a);
    CU_ASSERT(analysis_env(&a, 0, 1)->comparable);
    CU_ASSERT_EQUAL(analysis_env(&a, 0, 1)->compared, 0);
    CU_ASSERT_EQUAL(analysis_env(&a, 0, 1)->blocks, 6);
    analysis_release(&a);
    records_release(&r);
    study_release(&s);
}

/* One block of six is enough, and is counted. */
static void a_difference_in_one_block(void)
{
    struct fixture f;
    make(&f, env(podman));
    fixture_add(&f.records, (struct fixture_trial){"c00", "bare", 7, 0, OUTCOME_OK, 1, env(bare)});
    fixture_add(&f.records,
                (struct fixture_trial){"c00", "podman", 7, 0, OUTCOME_OK, 1,
                                       env_with(podman, "'thp':'madvise'", "'thp':'never'")});
    analyse(&f);
    CU_ASSERT_EQUAL(verdict(&f), VERDICT_NOT_COMPARABLE);
    CU_ASSERT_EQUAL(find(&f, "transparent huge pages")->blocks, 1);
    CU_ASSERT_STR(f.env->reason,
                  "transparent huge pages differs: never in podman, madvise in bare");
    release(&f);
}

/* Step times of c00's control arm, a·exp(d): its trials are every other one of the last twelve. */
static void set_control(struct records *r, const double a[6], const double d[6])
{
    for (size_t i = 0; i < 6; i++) {
        json_t *train = json_object_get(r->items[r->count - 12 + 2 * i].json, "train");
        json_object_set_new(json_object_get(train, "step_time_s"), "median",
                            json_real(a[i] * exp(d[i])));
    }
}

static void holm_and_control_of_a_session(void)
{
    static const double a[] = {1, 1.01, .99, 1.005, .995, 1};
    static const double b[] = {1.03, 1.041, 1.019, 1.034, 1.026, 1.029};
    struct study s;
    struct records r = {0};
    struct analysis x;
    fixture_study(&s, "[6]", true);
    fixture_add_pairs(&r, "c00", a, b, 6);
    fixture_add_pairs(&r, "c01", a, a, 6);
    for (int i = 0; i < 6; i++) {
        fixture_add(
            &r, (struct fixture_trial){"c00", "bare-control", i + 1, 0, OUTCOME_OK, a[i], NULL});
        fixture_add(
            &r, (struct fixture_trial){"c01", "bare-control", i + 1, 0, OUTCOME_OK, a[i], NULL});
    }
    analysis_make(&s, &r, NULL, &x);
    CU_ASSERT_EQUAL(x.family, 2);
    CU_ASSERT(x.control_ok && !x.untrustworthy);
    const struct comparison *c = analysis_find(&x, "step_time_s", 0, 1);
    CU_ASSERT_EQUAL(c->verdict, VERDICT_SLOWER);
    CU_ASSERT_NEAR(c->p_holm, 2 * c->paired.p_diff, 1e-12);
    struct scaling_point *p;
    CU_ASSERT_EQUAL(analysis_scaling(&x, 0, &p), 2);
    CU_ASSERT_NEAR(p[1].efficiency, 1, 1e-12);
    CU_ASSERT_NEAR(p[1].speedup, 2, 1e-12);
    free(p);
    analysis_release(&x);
    /* One cell of two with p = .036: above alpha for two cells, so chance explains it. */
    static const double odd[] = {.033, .003, .027, .0, .024, .009};
    set_control(&r, a, odd);
    analysis_make(&s, &r, NULL, &x);
    c = analysis_find(&x, "step_time_s", 0, 2);
    CU_ASSERT_EQUAL(c->verdict, VERDICT_SLOWER_UNCERTAIN);
    CU_ASSERT_NEAR(c->paired.p_diff, .036, .002);
    CU_ASSERT(x.control_ok && !x.untrustworthy);
    analysis_release(&x);
    /* A control that differs taints every verdict of the session. */
    static const double clear[] = {.03, .031, .029, .029, .031, .029};
    set_control(&r, a, clear);
    analysis_make(&s, &r, NULL, &x);
    CU_ASSERT(!x.control_ok);
    for (size_t i = 0; i < x.n_primary; i++)
        if (!analysis_is_control(&x, &x.items[i]))
            CU_ASSERT_EQUAL(x.items[i].verdict, VERDICT_UNTRUSTWORTHY);
    CU_ASSERT_EQUAL(analysis_exit(&x), NCBENCH_EXIT_UNTRUSTWORTHY);
    analysis_release(&x);
    records_release(&r);
    study_release(&s);
}

UNIT_MAIN({"a silent block hides no difference", a_silent_block_hides_no_difference},
          {"bare against podman is comparable", bare_against_podman_is_comparable},
          {"allocations decide", allocations_decide},
          {"libraries are known by what was asked for", libraries_are_known_by_what_was_asked_for},
          {"patterns excuse families", patterns_excuse_families},
          {"variables of gpu toolkits are treatment", variables_of_gpu_toolkits_are_treatment},
          {"apptainer's search path is treatment", apptainers_search_path_is_treatment},
          {"differences that are none", differences_that_are_none},
          {"helpers of the gpu driver", helpers_of_the_gpu_driver},
          {"limits of GPUs", limits_of_gpus}, {"choices of the device", choices_of_the_device},
          {"algorithms of NCCL", algorithms_of_nccl},
          {"treatment between arms of one kind", treatment_between_arms_of_one_kind},
          {"identity is not excused", identity_is_not_excused},
          {"the place of the program is no difference", the_place_of_the_program_is_no_difference},
          {"without evidence", without_evidence},
          {"a difference in one block", a_difference_in_one_block},
          {"holm and control of a session", holm_and_control_of_a_session})
