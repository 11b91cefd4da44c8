/* The machine's topology as this process sees it, by hwloc; without hwloc, or where /sys shows no
 * processors (a sandbox), the PUs that sched_getaffinity gives and nothing else.
 *
 * Loaded so that a host and a container on it can be compared: disallowed parts included, no CPUID
 * (it shows caches that a container's view of /sys does not), important I/O devices. All errors
 * have exit code 4, "environment unusable" of ncbench and "device" of nanochat.
 *
 * Three sets of PUs:  pus      those that are online
 *                     allowed  those of them that the cgroup leaves us
 *                     usable   those of them that this process is bound to (sched_getaffinity); of
 *                              another machine (a file, a synthetic one): the allowed ones */
#ifndef COMMON_TOPO_H
#define COMMON_TOPO_H

#include "common/error.h"
#include "common/pus.h"
#include "common/str.h"

#include <stdbool.h>

struct topo {
    void *hwloc;       /* hwloc_topology_t; NULL: source is "affinity" */
    const char *why;   /* no hwloc: the reason */
    bool this_machine; /* false: a file, a synthetic one, or HWLOC_* stand for another one */
    char *from;        /* "this machine", the file, the description */
    struct pus pus, allowed, usable;
    struct pus nodes, allowed_nodes; /* NUMA nodes; empty without hwloc */
};

/* from: NULL for this machine, or what HWLOC_XMLFILE, HWLOC_SYNTHETIC or HWLOC_FSROOT put in its
 * place; an XML file; or a synthetic description such as "node:2 core:4 pu:2". */
int topo_load(const char *from, struct topo *out, struct error *err);
void topo_release(struct topo *t);
#define auto_topo __attribute__((cleanup(topo_release))) struct topo

/* Append hwloc's XML (readable by hwloc 2). */
int topo_export(const struct topo *t, struct str *out, struct error *err);
/* The API version that is really there, "2.8.0", or NULL in a build without hwloc. */
const char *topo_hwloc_version(void);
/* Is one of the variables set that put another machine in this one's place? Its name, or NULL. */
const char *topo_stand_in(void);

/* ---- devices ---------------------------------------------------------------------------------
 */
struct topo_device { /* PCI devices: GPUs, accelerators, network, storage … */
    char *bus_id;    /* "0000:1b:00.0" */
    char *names;     /* of the operating system: "eth0", "card0,renderD128"; "" if none */
    unsigned class_id, vendor_id, device_id;
    bool is_gpu, is_network;
    bool local_known; /* else the machine does not tell which PUs are near */
    struct pus local; /* PUs near it */
};
struct topo_devices {
    struct topo_device *items; /* by bus id */
    size_t count, cap;
};
void topo_devices(const struct topo *t, struct topo_devices *out);
void topo_devices_release(struct topo_devices *d);

/* ---- binding ---------------------------------------------------------------------------------
 */
enum topo_bind { TOPO_BIND_NONE, TOPO_BIND_CORES, TOPO_BIND_NUMA, TOPO_BIND_GPU_LOCAL };
#define TOPO_BIND_CHOICES "none|cores|numa|gpu-local"
extern const char *const topo_bind_names[]; /* by policy; ends with NULL */
const char *topo_bind_name(enum topo_bind policy);
enum topo_bind topo_bind_parse(const char *name); /* BUG on another word */

/* Where each rank of a node goes.
 *   cores      each its own share of the usable PUs, as near together as can be (hwloc_distrib)
 *   numa       all usable PUs of one NUMA node; nodes without memory, or without a PU that may be
 *              used, are left out; ranks in order, evenly. Memory follows by first touch.
 *   gpu-local  the PUs near the rank's GPU (the n-th of CUDA_VISIBLE_DEVICES, or of all by bus id);
 *              ranks that share them each get a share
 * What cannot be done as asked is done in the next best way, and `note` says why. */
struct topo_plan {
    struct pus *ranks; /* count of them; NULL: not bound */
    char **where;      /* "NUMA node 1", "GPU 0000:1b:00.0" */
    int count;
    char *note; /* NULL: as asked */
};
/* code: of the error "more ranks than usable PUs". */
int topo_plan_make(const struct topo *t, enum topo_bind policy, int count, int code,
                   struct topo_plan *out, struct error *err);
void topo_plan_release(struct topo_plan *plan);

#endif
