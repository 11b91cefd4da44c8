/* Where this rank may run, where it is bound, and how many threads it will use. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MAX_PUS (1 << 20)

hwloc_bitmap_t env_usable_pus(void)
{
    /* sched_getaffinity refuses a set smaller than the kernel's own, which may exceed 1024 */
    for (int pus = 1024; pus <= MAX_PUS; pus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)pus);
        size_t bytes = CPU_ALLOC_SIZE((size_t)pus);
        if (!set)
            return NULL;
        if (sched_getaffinity(0, bytes, set) == 0) {
            hwloc_bitmap_t map = hwloc_bitmap_alloc();
            for (int i = 0; map && i < pus; i++)
                if (CPU_ISSET_S((size_t)i, bytes, set))
                    hwloc_bitmap_set(map, (unsigned)i);
            CPU_FREE(set);
            return map;
        }
        CPU_FREE(set);
        if (errno != EINVAL)
            return NULL;
    }
    return NULL;
}

void env_put_bitmap(json_t *group, const char *key, hwloc_const_bitmap_t bitmap)
{
    char *text = NULL;
    if (hwloc_bitmap_list_asprintf(&text, bitmap) >= 0)
        json_put_str(group, key, text);
    else
        json_put_null(group, key, "out of memory");
    free(text);
}

static const char *membind_name(hwloc_membind_policy_t policy)
{
    switch (policy) {
    case HWLOC_MEMBIND_DEFAULT: return "default";
    case HWLOC_MEMBIND_FIRSTTOUCH: return "first_touch";
    case HWLOC_MEMBIND_BIND: return "bind";
    case HWLOC_MEMBIND_INTERLEAVE: return "interleave";
    case HWLOC_MEMBIND_NEXTTOUCH: return "next_touch";
    default: return "mixed";
    }
}

static void put_binding(json_t *group, hwloc_topology_t topology)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_membind_policy_t policy;
    if (hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) == 0)
        env_put_bitmap(group, "cpubind", set);
    else
        json_put_null(group, "cpubind", strerror(errno));
    if (hwloc_get_membind(topology, set, &policy, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) ==
        0) {
        env_put_bitmap(group, "membind", set);
        json_put_str(group, "membind_policy", membind_name(policy));
    } else {
        json_put_null(group, "membind", strerror(errno));
        json_put_null(group, "membind_policy", strerror(errno));
    }
    hwloc_bitmap_free(set);
}

/* The smallest topology that binding can be asked of: PUs and NUMA nodes, no caches, no CPUID
 * (which would migrate this thread over all PUs). */
static void read_binding_back(json_t *group)
{
    hwloc_topology_t t;
    const char *why = "hwloc cannot read the topology";
    if (hwloc_topology_init(&t))
        goto failed;
    hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(t) == 0) {
        if (hwloc_topology_is_thissystem(t)) {
            put_binding(group, t);
            hwloc_topology_destroy(t);
            return;
        }
        why = "hwloc was told to show another machine (HWLOC_XMLFILE, HWLOC_SYNTHETIC)";
    }
    hwloc_topology_destroy(t);
failed:
    json_put_null(group, "cpubind", why);
    json_put_null(group, "membind", why);
    json_put_null(group, "membind_policy", why);
}

void env_cpu(json_t *group, const struct env_context *context)
{
    (void)context;
    hwloc_bitmap_t pus = env_usable_pus();
    if (pus) {
        env_put_bitmap(group, "usable_pus", pus);
        json_put_int(group, "n_usable_pus", hwloc_bitmap_weight(pus));
        hwloc_bitmap_free(pus);
    } else {
        json_put_null(group, "usable_pus", "sched_getaffinity failed");
        json_put_null(group, "n_usable_pus", "sched_getaffinity failed");
    }
    read_binding_back(group);
}

/* The governors of the usable PUs, each once. */
static void put_governor(json_t *group)
{
    hwloc_bitmap_t pus = env_usable_pus();
    auto_strv seen = STRV_INIT;
    for (int pu = pus ? hwloc_bitmap_first(pus) : -1; pu >= 0; pu = hwloc_bitmap_next(pus, pu)) {
        auto_free char *path =
            mem_printf("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", pu);
        auto_str text = STR_INIT;
        if (fs_sys_read(path, &text) && !strv_contains(&seen, str_trim(text.data)))
            strv_push(&seen, str_trim(text.data));
    }
    hwloc_bitmap_free(pus);
    auto_str all = STR_INIT;
    strv_sort(&seen);
    for (size_t i = 0; i < seen.count; i++)
        str_appendf(&all, "%s%s", i ? "," : "", seen.items[i]);
    if (seen.count)
        json_put_str(group, "governor", all.data);
    else
        json_put_null(group, "governor", "no cpufreq in /sys/devices/system/cpu");
}

void env_host(json_t *group, const struct env_context *context)
{
    (void)context;
    struct utsname name;
    if (uname(&name) == 0) {
        json_put_str(group, "hostname", name.nodename);
        json_put_str(group, "kernel_release", name.release);
    } else {
        json_put_null(group, "hostname", strerror(errno));
        json_put_null(group, "kernel_release", strerror(errno));
    }
    env_put_file(group, "clocksource",
                 "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    put_governor(group);
}

/* The library that is really there says what it is; its symbols are looked up because another
 * CBLAS may have been put in its place at run time. */
static void put_blas(json_t *group)
{
    char *(*openblas_config)(void) = (char *(*)(void))dlsym(RTLD_DEFAULT, "openblas_get_config");
    int (*openblas_threads)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
    const char *(*blis_version)(void) =
        (const char *(*)(void))dlsym(RTLD_DEFAULT, "bli_info_get_version_str");
    long (*blis_threads)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "bli_thread_get_num_threads");
    if (blis_version) {
        json_put_str(group, "blas_name", "blis");
        json_put_str(group, "blas_config", blis_version());
    } else if (openblas_config) {
        json_put_str(group, "blas_name", "openblas");
        json_put_str(group, "blas_config", openblas_config());
    } else {
        json_put_str(group, "blas_name", BLAS_NAME);
        json_put_null(group, "blas_config", "this BLAS does not tell");
    }
    if (blis_version && blis_threads)
        json_put_int(group, "blas_threads", blis_threads());
    else if (openblas_threads)
        json_put_int(group, "blas_threads", openblas_threads());
    else
        json_put_null(group, "blas_threads", "this BLAS does not tell");
}

void env_threads(json_t *group, const struct env_context *context)
{
    (void)context;
    static const char *const binds[] = {"false", "true", "primary", "close", "spread"};
    unsigned bind = (unsigned)omp_get_proc_bind();
    json_put_int(group, "omp_max_threads", omp_get_max_threads());
    json_put_str(group, "omp_proc_bind", bind < 5 ? binds[bind] : "unknown");
    json_put_int(group, "omp_places", omp_get_num_places());
    put_blas(group);
}
