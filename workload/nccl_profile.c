#include "workload/nccl_profile.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "workload/nccl_profiler/figures.h"

#include <dlfcn.h>
#include <stdlib.h>

static char *library_path(void)
{
    return fs_own_library("NANOCHAT_NCCL_PROFILER", "nanochat-nccl-profiler.so");
}

int nccl_profile_begin(const struct nccl_profiler **out, struct error *err)
{
    auto_free char *path = library_path();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* NCCL gets the same one by its path */
    if (!library) {
        error_set(err, NANOCHAT_EXIT_DEVICE, "NCCL's profiler cannot be opened: %s", dlerror());
        return error_hint(err, "`make` builds it, an image with the CUDA back end has it; "
                               "NANOCHAT_NCCL_PROFILER gives its path");
    }
    const struct nccl_profiler *p = dlsym(library, "nanochat_nccl_profiler");
    if (!p || p->abi != NCCL_PROFILE_ABI)
        return error_set(err, NANOCHAT_EXIT_DEVICE, "%s is no NCCL profiler of this program", path);
    setenv("NCCL_PROFILER_PLUGIN", path, 1);
    *out = p;
    return 0;
}

static json_t *kinds_json(const struct nccl_profile *f)
{
    json_t *list = json_array();
    for (int i = 0; i < NCCL_PROFILE_KINDS && f->kinds[i].name[0]; i++) {
        const struct nccl_profile_kind *k = &f->kinds[i];
        json_t *o = json_object();
        json_put_str(o, "name", k->name);
        json_put_int(o, "calls", (int64_t)k->calls);
        json_put_f64(o, "enqueue_us", (double)k->enqueue_ns / 1e3);
        json_put_int(o, "complete", (int64_t)k->complete);
        json_put_f64(o, "kernel_us", (double)k->kernel_ns / 1e3);
        json_put_f64(o, "kernel_max_us", (double)k->kernel_max_ns / 1e3);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *waits_json(const struct nccl_profile *f)
{
    static const char *const names[NCCL_PROFILE_WAITS] = {"send_gpu", "send_peer",  "send_net",
                                                          "recv_net", "recv_flush", "recv_gpu"};
    json_t *o = json_object();
    for (int i = 0; i < NCCL_PROFILE_WAITS; i++)
        json_put_f64(o, names[i], (double)f->wait_ns[i] / 1e3);
    return o;
}

int nccl_profile_end(const struct nccl_profiler *p, struct events *events, struct error *err)
{
    if (!p)
        return 0;
    struct nccl_profile f;
    p->read(&f);
    json_t *o = json_object();
    json_put_int(o, "communicators", (int64_t)f.communicators);
    if (!f.communicators) {
        json_put_null(o, "calls", "NCCL did not call: it was not used, or is older than 2.27.3");
        return events_put(events, EVENT_NCCL_PROFILE, o, err);
    }
    json_put(o, "calls", kinds_json(&f));
    json_put_int(o, "proxy_ops", (int64_t)f.proxy_ops);
    json_put_int(o, "proxy_steps", (int64_t)f.proxy_steps);
    json_put(o, "proxy_wait_us", waits_json(&f));
    json_put_int(o, "overwritten", (int64_t)f.overwritten);
    json_put_int(o, "stale", (int64_t)f.stale);
    json_put_int(o, "unknown", (int64_t)f.unknown);
    return events_put(events, EVENT_NCCL_PROFILE, o, err);
}
