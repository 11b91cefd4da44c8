/* The machine itself. See doctor.h. */
#include "harness/doctor.h"

#include "common/cleanup.h"
#include "common/counters.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/pus.h"
#include "common/spawn.h"
#include "common/topo.h"
#include "harness/collectors/nvml_api.h"
#include "runtimes/host.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* Below these a session is likely to meet trouble; reasons in the fixes. */
#define SHM_WANTED_BYTES (1LL << 30)
#define NOFILE_WANTED 4096
#define STEAL_WARN 0.005 /* as the disturbance rule: 0.5 % */

void doctor_add(struct doctor *d, enum doctor_level level, const char *check, char *text, char *fix)
{
    struct finding one = {level, check, text, fix};
    vec_push(d, one);
}

void doctor_release(struct doctor *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i].text);
        free(d->items[i].fix);
    }
    free(d->items);
    *d = (struct doctor){0};
}

enum doctor_level doctor_worst(const struct doctor *d)
{
    enum doctor_level worst = DOCTOR_OK;
    for (size_t i = 0; i < d->count; i++)
        if (d->items[i].level > worst)
            worst = d->items[i].level;
    return worst;
}

const char *doctor_level_name(enum doctor_level level)
{
    static const char *const names[] = {"OK", "WARN", "FAIL"};
    return names[level];
}

static void ok(struct doctor *d, const char *check, char *text)
{
    doctor_add(d, DOCTOR_OK, check, text, NULL);
}

static void warn(struct doctor *d, const char *check, char *text, const char *fix)
{
    doctor_add(d, DOCTOR_WARN, check, text, mem_strdup(fix));
}

/* The file's text without blanks around it, or NULL. Caller frees. */
static char *read_line(const char *path)
{
    auto_str text = STR_INIT;
    if (!fs_sys_read(path, &text))
        return NULL;
    return mem_strdup(str_trim(text.data));
}

static void check_pus(struct doctor *d)
{
    auto_pus set = {0};
    int failed = pus_usable(&set);
    if (failed) {
        warn(d, "PUs", mem_printf("cannot be read: %s", strerror(failed)), "is this a sandbox?");
        return;
    }
    auto_free char *list = pus_text(&set);
    auto_free char *online = read_line("/sys/devices/system/cpu/online");
    ok(d, "PUs",
       mem_printf("%d usable (%s), online %s", pus_count(&set), list, online ? online : "unknown"));
}

static void check_governor(struct doctor *d)
{
    auto_free char *governor = read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if (!governor)
        ok(d, "governor", mem_strdup("no frequency scaling to be seen (as in a virtual machine)"));
    else if (!strcmp(governor, "performance"))
        ok(d, "governor", mem_strdup(governor));
    else
        warn(d, "governor", mem_strdup(governor), "cpupower frequency-set -g performance");
}

static void check_clocksource(struct doctor *d)
{
    static const char *const fast[] = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource",
                                       "timebase"};
    auto_free char *source =
        read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    bool good = false;
    for (size_t i = 0; source && i < sizeof fast / sizeof *fast; i++)
        good |= str_starts_with(source, fast[i]);
    if (!source)
        warn(d, "clocksource", mem_strdup("unknown"), "is /sys mounted?");
    else if (good)
        ok(d, "clocksource", mem_strdup(source));
    else
        warn(d, "clocksource", mem_printf("%s: each reading of the clock is a system call", source),
             "boot with clocksource=tsc where the hardware has a stable one");
}

static void check_thp(struct doctor *d)
{
    auto_free char *line = read_line("/sys/kernel/mm/transparent_hugepage/enabled");
    char *open = line ? strchr(line, '[') : NULL;
    if (!open) {
        ok(d, "THP", mem_strdup("not in this kernel"));
        return;
    }
    open[strcspn(open, "]")] = '\0';
    ok(d, "THP", mem_strdup(open + 1));
}

/* Of all CPU time since the machine started; a session measures its own. */
static void check_steal(struct doctor *d)
{
    auto_free char *text = read_line("/proc/stat");
    double total = 0, steal = 0;
    char *cursor = text;
    if (!text || !str_starts_with(text, "cpu ")) {
        ok(d, "steal", mem_strdup("unknown"));
        return;
    }
    cursor[strcspn(cursor, "\n")] = '\0';
    cursor += 3;
    for (int column = 0; column < 8; column++) {
        char *word;
        do
            word = strsep(&cursor, " ");
        while (word && !*word);
        double value = 0;
        if (!word || !num_parse_f64(word, &value))
            break;
        total += value;
        if (column == 7)
            steal = value;
    }
    double share = total > 0 ? steal / total : 0;
    if (share <= STEAL_WARN)
        ok(d, "steal", mem_printf("%.2f %% of CPU time since boot", 100 * share));
    else
        warn(d, "steal",
             mem_printf("%.2f %% of CPU time since boot went to other guests", 100 * share),
             "use a dedicated machine; more blocks help only if it is steady");
}

static void check_load(struct doctor *d)
{
    auto_free char *text = read_line("/proc/loadavg");
    double load;
    if (!text)
        return;
    text[strcspn(text, " ")] = '\0';
    if (!num_parse_f64(text, &load))
        return;
    if (load < 0.5)
        ok(d, "load", mem_printf("%.2f", load));
    else
        warn(d, "load", mem_printf("%.2f: other work runs on this machine", load),
             "let it end; disturbed blocks are repeated, up to a quarter of them");
}

static char *limit_text(int64_t value, bool bytes)
{
    char text[32];
    if (value == HOST_UNLIMITED)
        return mem_strdup("unlimited");
    if (bytes)
        return mem_strdup(num_format_size(text, sizeof text, (double)value));
    return mem_printf("%lld", (long long)value);
}

static void check_limit(struct doctor *d, const char *name, bool bytes, int64_t wanted,
                        const char *fix)
{
    int64_t soft, hard;
    if (!host_ulimit(name, &soft, &hard)) {
        warn(d, name, mem_strdup("unknown"), "is /proc mounted?");
        return;
    }
    auto_free char *soft_text = limit_text(soft, bytes);
    auto_free char *hard_text = limit_text(hard, bytes);
    char *text = mem_printf("soft %s, hard %s", soft_text, hard_text);
    if (soft >= wanted)
        ok(d, name, text);
    else
        warn(d, name, text, fix);
}

static void check_shm(struct doctor *d)
{
    struct statvfs fs;
    char size[32], free_text[32];
    if (statvfs("/dev/shm", &fs)) {
        warn(d, "/dev/shm", mem_strdup(strerror(errno)), "mount -t tmpfs tmpfs /dev/shm");
        return;
    }
    double bytes = (double)fs.f_blocks * (double)fs.f_frsize;
    char *text = mem_printf(
        "%s, %s free", num_format_size(size, sizeof size, bytes),
        num_format_size(free_text, sizeof free_text, (double)fs.f_bavail * (double)fs.f_frsize));
    if (bytes >= SHM_WANTED_BYTES)
        ok(d, "/dev/shm", text);
    else
        warn(d, "/dev/shm", text, "mount -o remount,size=50% /dev/shm: ranks exchange data there");
}

static char *rung_text(const char *rung, const struct counter_info *info)
{
    if (!info->source)
        return mem_printf("%s: no (%s)", rung, info->why);
    return mem_printf("%s: yes, by %s%s%s%s", rung, info->source, info->why ? " (" : "",
                      info->why ? info->why : "", info->why ? ")" : "");
}

/* The ladder of common/counters.h, a line a rung: what this process can count here. */
static void check_counters(struct doctor *d)
{
    static const struct {
        const char *rung, *counter;
    } ladder[] = {{"hardware events", "PAPI_TOT_CYC"},
                  {"software events", "perf::CONTEXT-SWITCHES"},
                  {"waiting for a CPU", "sched::RUN-DELAY-NS"},
                  {"switches, faults, CPU time", "rusage::MINOR-FAULTS"}};
    auto_strv names = STRV_INIT;
    auto_str forbidden = STR_INIT;
    bool denied = counters_forbidden(&forbidden);
    for (size_t i = 0; i < sizeof ladder / sizeof *ladder; i++)
        strv_push(&names, ladder[i].counter);
    struct counters *c = counters_open(&names);
    for (size_t i = 0; i < counters_count(c); i++) {
        char *text = rung_text(ladder[i].rung, counters_info(c, i));
        if (i == 1 && denied)
            warn(d, "counters", text, "sysctl kernel.perf_event_paranoid=2");
        else
            ok(d, "counters", text);
    }
    counters_close(c);
}

static void check_gpus(struct doctor *d)
{
    struct nvml_api api;
    auto_free char *why = NULL;
    char driver[96] = "?", name[96] = "?";
    nvml_device_t device;
    unsigned n = 0;
    if (!nvml_open(&api, &why)) {
        ok(d, "GPUs", steal(&why));
        return;
    }
    if (api.driver(driver, sizeof driver) || api.count(&n))
        n = 0;
    if (n && (api.by_index(0, &device) || api.name(device, name, sizeof name)))
        warn(d, "GPUs", mem_printf("driver %s, but GPU 0 of %u does not answer", driver, n),
             "nvidia-smi -q; has it fallen off the bus?");
    else if (n)
        ok(d, "GPUs", mem_printf("%u x %s, driver %s", n, name, driver));
    else
        ok(d, "GPUs", mem_printf("none, driver %s", driver));
    nvml_close(&api);
}

static void check_gnuplot(struct doctor *d)
{
    auto_free char *path = spawn_find_program("gnuplot");
    if (path)
        ok(d, "gnuplot", steal(&path));
    else
        warn(d, "gnuplot", mem_strdup("not found: no pictures"), "apt-get install gnuplot-nox");
}

static void check_hwloc(struct doctor *d)
{
    if (!topo_hwloc_version()) {
        warn(d, "hwloc", mem_strdup("not in this build: PUs by affinity only, no NUMA, no devices"),
             "build with HWLOC=1");
        return;
    }
    char *text = mem_printf("API %s", topo_hwloc_version());
    if (topo_stand_in())
        warn(d, "hwloc", text,
             "unset HWLOC_SYNTHETIC, HWLOC_XMLFILE and HWLOC_FSROOT: they stand for another "
             "machine");
    else
        ok(d, "hwloc", text);
}

static void check_nested(struct doctor *d)
{
    static const char *const marks[] = {"/run/.containerenv", "/.dockerenv"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        auto_free char *path = fs_sys_path(marks[i]);
        if (!fs_exists(path))
            continue;
        warn(d, "nested", mem_printf("%s: ncbench itself seems to run in a container", marks[i]),
             "start it on the host: here \"bare\" is not bare metal");
        return;
    }
    ok(d, "nested", mem_strdup("no sign of a container around us"));
}

void doctor_machine(struct doctor *d)
{
    check_pus(d);
    check_governor(d);
    check_clocksource(d);
    check_thp(d);
    check_steal(d);
    check_load(d);
    check_limit(d, "memlock", true, HOST_UNLIMITED,
                "only for GPUs and RDMA, which register memory: raise it in limits.conf or the "
                "unit's LimitMEMLOCK");
    check_limit(d, "nofile", false, NOFILE_WANTED, "ulimit -n 4096: each rank opens files");
    if (host_has_cap(HOST_CAP_SYS_RESOURCE))
        ok(d, "limits", mem_strdup("CAP_SYS_RESOURCE: hard limits can be raised"));
    else
        ok(d, "limits",
           mem_strdup("no CAP_SYS_RESOURCE: a container cannot have more than the hard limits"));
    check_shm(d);
    check_counters(d);
    check_gpus(d);
    check_gnuplot(d);
    check_hwloc(d);
    check_nested(d);
}
