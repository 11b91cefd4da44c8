/* What NCCL says of itself: its own log (NCCL_DEBUG_FILE, one file a rank) and topology dump.
 *
 * NCCL's lines are no interface, so they are matched by their tails and tolerantly: the prefix
 * (host:pid:tid [device] NCCL INFO) is not looked at, unknown lines are ignored, and what no line
 * told is null. The harness asks for both files in the environment of every trial on GPUs, the same
 * in every arm. */
#ifndef HARNESS_NCCL_LOG_H
#define HARNESS_NCCL_LOG_H

#include "common/json.h"
#include "common/str.h"

#include <stdbool.h>

/* Into env: NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE and NCCL_TOPO_DUMP_FILE below the
 * trial's directory. */
void nccl_log_ask(struct strv *env, const char *dir);

/* A log that is read line by line. */
struct nccl_log {
    json_t *json;                   /* being built */
    json_t *by_transport, *by_call; /* borrowed: counts */
    struct strv networks, comm_ids, bus_ids;
};
void nccl_log_init(struct nccl_log *log);
void nccl_log_line(struct nccl_log *log, const char *line);
/* The object, or NULL if no line was NCCL's. Frees the rest. Fields: version, networks[],
 * comm_ids_distinct, gpus_distinct, channels {coll, nvls, p2p …}, init [{rank, total_s, bootstrap_s
 * …}], environment {NCCL_X: value}, transports {"P2P/CUMEM": channels}, calls [{op, bytes,
 * algorithm, protocol, channels, n}], calls_other (beyond 64 kinds). */
json_t *nccl_log_finish(struct nccl_log *log);

/* All logs of a trial's directory and the topology's hash (topology_sha256); NULL without logs. */
json_t *nccl_log_read(const char *dir);
/* The dump of a topology, without what differs from run to run or by order: the hash of the host
 * taken out, lines trimmed and sorted. */
void nccl_topology_normalise(const char *xml, struct str *out);

#endif
