#include "workload/events_priv.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "common/topo.h"
#include "workload/build.h"
#include "workload/comm.h"

#include <gnu/libc-version.h>
#include <nettle/version.h>
#include <unistd.h>
#include <zlib.h>

static json_t *versions(void)
{
    json_t *v = json_object();
    json_put_str(v, "nanochat", NCBENCH_VERSION);
    json_put_str(v, "glibc", gnu_get_libc_version());
    json_put_str(v, "jansson", jansson_version_str());
    if (topo_hwloc_version())
        json_put_str(v, "hwloc_api", topo_hwloc_version());
    else
        json_put_null(v, "hwloc_api", "built without hwloc");
    auto_free char *nettle_text =
        mem_printf("%d.%d", nettle_version_major(), nettle_version_minor());
    json_put_str(v, "nettle", nettle_text);
    json_put_str(v, "zlib", zlibVersion());
    return v;
}

static json_t *executable(void)
{
    json_t *exe = json_object();
    auto_free char *path = fs_realpath("/proc/self/exe");
    if (path)
        json_put_str(exe, "path", path);
    else
        json_put_null(exe, "path", "/proc/self/exe cannot be read");
    char digest[SHA256_HEX];
    auto_error struct error err = ERROR_INIT;
    if (sha256_file("/proc/self/exe", digest, NANOCHAT_EXIT_BUG, &err))
        json_put_null(exe, "sha256", err.message);
    else
        json_put_str(exe, "sha256", digest);
    return exe;
}

json_t *events_hello(int rank, double entry_s, int argc, char *const *argv)
{
    json_t *h = json_object();
    auto_error struct error ignored = ERROR_INIT;
    struct comm_config ranks;
    char utc[CLOCK_UTC_MAX];
    json_put_str(h, "schema", EVENT_SCHEMA);
    json_put_f64(h, "entry_s", entry_s);
    double start = clock_process_start_s();
    if (start >= 0)
        json_put_f64(h, "process_start_s", start);
    else
        json_put_null(h, "process_start_s", "/proc/self/stat cannot be read");
    json_put_f64(h, "timens_offset_s", clock_timens_offset_s());
    json_put_str(h, "utc", clock_utc(utc));
    json_put_int(h, "pid", getpid());
    json_put_int(h, "rank", rank);
    if (comm_config_from_env(&ranks, &ignored))
        json_put_null(h, "world", ignored.message);
    else
        json_put_int(h, "world", ranks.world);
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    if (job && step) {
        auto_free char *id = mem_printf("%s.%s", job, step);
        json_put_str(h, "slurm_step", id);
    }
    json_t *args = json_array();
    for (int i = 0; i < argc; i++) {
        auto_json *arg = json_object(); /* json_put_str mends what is not UTF-8 */
        json_put_str(arg, "arg", argv[i]);
        json_array_append(args, json_object_get(arg, "arg"));
    }
    json_put(h, "argv", args);
    json_put(h, "exe", executable());
    json_put(h, "versions", versions());
    json_put(h, "build", build_json());
    return h;
}
