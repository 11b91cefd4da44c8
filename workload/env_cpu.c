/* Where this rank may run, where it is bound, and how many threads it will use. */
#include "workload/env_priv.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/pus.h"
#include "workload/launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Memory policies of <linux/mempolicy.h>, which cannot be included beside libnuma's. */
#define POLICY_NODES 1024 /* the kernel's own limit is no larger */
static const char *const policies[] = {
    "default", "preferred", "bind", "interleave", "local", "preferred_many", "weighted_interleave"};

static void put_pus(json_t *group, const char *key, const struct pus *set)
{
    auto_free char *text = pus_text(set);
    json_put_str(group, key, text);
}

/* By the system call: a container's seccomp filter may forbid it, and that is a finding too. */
static void put_membind(json_t *group)
{
    unsigned long nodes[POLICY_NODES / (8 * sizeof(unsigned long))] = {0};
    int mode = 0;
    auto_pus set = {0};
    if (syscall(SYS_get_mempolicy, &mode, nodes, POLICY_NODES + 1, NULL, 0UL)) {
        const char *why = strerror(errno);
        json_put_null(group, "membind", why);
        json_put_null(group, "membind_policy", why);
        return;
    }
    mode &= 0xff; /* flags are above */
    for (unsigned i = 0; i < POLICY_NODES; i++)
        if (nodes[i / (8 * sizeof *nodes)] >> i % (8 * sizeof *nodes) & 1)
            pus_add(&set, i);
    auto_str status = STR_INIT, allowed = STR_INIT;
    if (pus_count(&set) > 0)
        put_pus(group, "membind", &set);
    else if (fs_sys_read("/proc/self/status", &status) &&
             env_find_field(status.data, "Mems_allowed_list", &allowed))
        json_put_str(group, "membind", str_trim(allowed.data));
    else
        json_put_null(group, "membind", "/proc/self/status does not tell Mems_allowed_list");
    json_put_str(group, "membind_policy",
                 (size_t)mode < sizeof policies / sizeof *policies ? policies[mode] : "unknown");
}

/* OpenMP's own binding, where it was asked for, moves the first thread within what it was given. */
static bool openmp_binds(void)
{
    static const char *const names[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
                                        "KMP_AFFINITY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && *getenv(names[i]))
            return true;
    return false;
}

/* What the launcher asked for, against what is. */
static void put_request(json_t *group, const struct pus *effective)
{
    const char *policy = getenv(ENV_BIND), *note = getenv(ENV_BIND_NOTE);
    const char *text = getenv(ENV_BIND_PUS);
    auto_pus asked = {0};
    json_put_str(group, "bind_policy", policy && *policy ? policy : "none");
    if (!text || !*text || !pus_parse(text, &asked)) {
        json_put_null(group, "bind_requested", "no binding was asked for");
        json_put_null(group, "bind_held", "no binding was asked for");
        return;
    }
    json_put_str(group, "bind_requested", text);
    json_put_bool(group, "bind_held",
                  pus_equal(effective, &asked) ||
                      (openmp_binds() && pus_within(effective, &asked)));
    if (note && *note)
        json_put_str(group, "bind_note", note);
}

void env_cpu(json_t *group, const struct env_context *context)
{
    (void)context;
    auto_pus pus = {0};
    int failed = pus_usable(&pus);
    if (failed) {
        json_put_null(group, "usable_pus", strerror(failed));
        json_put_null(group, "n_usable_pus", strerror(failed));
        json_put_null(group, "cpubind", strerror(failed));
    } else {
        put_pus(group, "usable_pus", &pus);
        json_put_int(group, "n_usable_pus", pus_count(&pus));
        put_pus(group, "cpubind", &pus);
    }
    put_membind(group);
    put_request(group, &pus);
}

/* The governors of the usable PUs, each once. */
static void put_governor(json_t *group)
{
    auto_pus pus = {0};
    auto_strv seen = STRV_INIT;
    pus_usable(&pus);
    for (int pu = pus_next(&pus, -1); pu >= 0; pu = pus_next(&pus, pu)) {
        auto_free char *path =
            mem_printf("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", pu);
        auto_str text = STR_INIT;
        if (fs_sys_read(path, &text) && !strv_contains(&seen, str_trim(text.data)))
            strv_push(&seen, str_trim(text.data));
    }
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
