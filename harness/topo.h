/* Topologies (common/topo.h) for people, as JSON, as a fingerprint, and two against each other. */
#ifndef HARNESS_TOPO_H
#define HARNESS_TOPO_H

#include "common/fs.h"
#include "common/json.h"
#include "common/topo.h"

#include <stdbool.h>

/* A tree in text: packages, NUMA nodes, shared caches, cores with their PUs, devices. all: every
 * core by itself, however many there are. plan: NULL, or where ranks would go. */
void topo_draw(const struct topo *t, const struct topo_plan *plan, bool all, struct str *out);
/* "1 package, 2 cores, 2 PUs, 1 NUMA node, 6.2 GiB"; appends. */
void topo_summary(const struct topo *t, struct str *out);
json_t *topo_json(const struct topo *t, const struct topo_plan *plan);
/* {bus id: "GPU 10de:2335 (card0)"}: GPUs and network (speed) or all others. */
json_t *topo_devices_json(const struct topo *t, bool fast);

/* What makes the machine, and nothing that changes from one look to the next: objects with their
 * PUs, sizes of caches, GPUs and network devices. Allowed sets are no part of it, nor is how much
 * memory a node has: virtual machines are given it while they run. A line each, in the order of the
 * tree. */
void topo_canonical(const struct topo *t, struct strv *lines);
/* SHA-256 over these lines; "" without hwloc. */
void topo_fingerprint(const struct topo *t, char out[static SHA256_HEX]);

enum topo_verdict { TOPO_SAME, TOPO_DIFFERS, TOPO_TOO_COMPLEX };
const char *topo_verdict_name(enum topo_verdict v); /* "same" "differs" "too_complex" */

struct topo_difference {
    char *what; /* "allowed PUs", "NUMANode 0: memory" */
    char *a, *b;
};
struct topo_comparison {
    enum topo_verdict
        verdict; /* of everything together; too_complex: the trees have other shapes */
    struct topo_difference *items;
    size_t count, cap;
};
/* Two files of hwloc's XML. Names of processes, hosts, cgroups and kernels do not count. */
int topo_compare(const char *a, const char *b, struct topo_comparison *out, struct error *err);
void topo_comparison_release(struct topo_comparison *c);

#endif
