#include "harness/nccl_log.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/num.h"
#include "common/protocol.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_PREFIX "nccl."
#define LOG_SUFFIX ".log"
#define TOPOLOGY "nccl-topo.xml"
#define CALLS_MAX 64
#define NAME_MAX_BYTES 128

void nccl_log_ask(struct strv *env, const char *dir)
{
    auto_free char *log = mem_printf("%s/" LOG_PREFIX "%%h.%%p" LOG_SUFFIX, dir);
    auto_free char *topology = mem_printf("%s/" TOPOLOGY, dir);
    strv_env_set(env, "NCCL_DEBUG", "INFO");
    strv_env_set(env, "NCCL_DEBUG_SUBSYS", "INIT,GRAPH,ENV,NET,TUNING");
    strv_env_set(env, "NCCL_DEBUG_FILE", log);
    strv_env_set(env, "NCCL_TOPO_DUMP_FILE", topology);
}

/* ---- pieces of lines ---------------------------------------------------------------------------
 */

/* What stands behind `mark` in the line, or NULL. */
static const char *behind(const char *line, const char *mark)
{
    const char *at = strstr(line, mark);
    return at ? at + strlen(mark) : NULL;
}

/* The word at p, up to a blank or one of `ends`; false if there is none, or it is too long. */
static bool word_at(const char *p, const char *ends, char out[static NAME_MAX_BYTES])
{
    size_t n = 0;
    while (p[n] && !isspace((unsigned char)p[n]) && !strchr(ends, p[n]))
        n++;
    if (n == 0 || n >= NAME_MAX_BYTES)
        return false;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}

static bool int_at(const char *p, int64_t *out)
{
    char word[NAME_MAX_BYTES];
    return p && word_at(p, ",;:()[]{}", word) && num_parse_i64(word, out);
}

static void push_new(struct strv *v, const char *text)
{
    if (!strv_contains(v, text))
        strv_push(v, text);
}

static void count(json_t *counts, const char *key)
{
    int64_t n = json_integer_value(json_object_get(counts, key));
    json_object_set_new(counts, key, json_integer(n + 1));
}

/* ---- kinds of lines ----------------------------------------------------------------------------
 */

/* "NCCL version 2.28.9+cuda13.0" */
static bool take_version(struct nccl_log *log, const char *line)
{
    char word[NAME_MAX_BYTES];
    const char *p = behind(line, "NCCL version ");
    if (!p || !isdigit((unsigned char)*p) || !word_at(p, ",", word))
        return false;
    json_object_set_new(log->json, "version", json_string(word));
    return true;
}

/* "Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.35 (kernels 0.15, alloc 0.02, …)" */
static bool take_init(struct nccl_log *log, const char *line)
{
    const char *p = behind(line, "Init timings");
    int64_t rank;
    double seconds;
    if (!p || !int_at(behind(p, " rank "), &rank))
        return false;
    json_t *o = json_object();
    json_put_int(o, "rank", rank);
    const char *at = behind(p, " total ");
    char name[NAME_MAX_BYTES], number[NAME_MAX_BYTES], key[NAME_MAX_BYTES + 2];
    if (at && word_at(at, "(,)", number) && num_parse_f64(number, &seconds))
        json_put_f64(o, "total_s", seconds);
    for (p = strchr(p, '('); p && p[1]; p = strchr(p + 1, ',')) {
        p += strspn(p, "(, ");
        if (!word_at(p, ",)", name) || p[strlen(name)] != ' ' ||
            !word_at(p + strlen(name) + 1, ",)", number) || !num_parse_f64(number, &seconds))
            break;
        snprintf(key, sizeof key, "%.*s_s", (int)sizeof name - 1, name);
        json_object_set_new(o, key, json_real(seconds));
    }
    json_array_append_new(json_object_get(log->json, "init"), o);
    return true;
}

/* "… busId 18000 commId 0x1d… - Init COMPLETE" */
static bool take_complete(struct nccl_log *log, const char *line)
{
    char word[NAME_MAX_BYTES];
    const char *id = behind(line, "commId "), *bus = behind(line, "busId ");
    if (!strstr(line, "Init COMPLETE"))
        return false;
    if (id && word_at(id, ",", word))
        push_new(&log->comm_ids, word);
    if (bus && word_at(bus, ",", word))
        push_new(&log->bus_ids, word);
    return true;
}

/* "Using network Socket" */
static bool take_network(struct nccl_log *log, const char *line)
{
    const char *p = behind(line, "Using network ");
    if (!p)
        return false;
    auto_free char *name = mem_strdup(p); /* it may hold blanks: AWS Libfabric */
    name[strcspn(name, "\r\n")] = '\0';
    push_new(&log->networks, name);
    return true;
}

/* "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per
 * peer": the least of all ranks. */
static bool take_channels(struct nccl_log *log, const char *line)
{
    const char *p = strstr(line, " coll channels");
    if (!p || p == line || !isdigit((unsigned char)p[-1]))
        return false;
    while (p > line && isdigit((unsigned char)p[-1]))
        p--;
    json_t *channels = json_object_get(log->json, "channels");
    if (!channels)
        json_object_set_new(log->json, "channels", channels = json_object());
    while (p) {
        char name[NAME_MAX_BYTES], key[NAME_MAX_BYTES + 16];
        int64_t n;
        p += strspn(p, ", ");
        const char *kind = strchr(p, ' ');
        if (!int_at(p, &n) || !kind || !word_at(kind + 1, ",", name))
            break;
        const char *next = strchr(p, ',');
        const char *per = strstr(kind, " per peer");
        bool per_peer = per && (!next || per < next);
        snprintf(key, sizeof key, "%s%s", name, per_peer ? "_per_peer" : "");
        const json_t *had = json_object_get(channels, key);
        if (!had || json_integer_value(had) > n)
            json_object_set_new(channels, key, json_integer(n));
        p = next;
    }
    return true;
}

/* "NCCL_NVLS_ENABLE set by environment to 0." */
static bool take_variable(struct nccl_log *log, const char *line)
{
    static const char mark[] = " set by environment to ";
    const char *at = strstr(line, mark), *name = at;
    if (!at)
        return false;
    while (name > line && (isupper((unsigned char)name[-1]) || isdigit((unsigned char)name[-1]) ||
                           name[-1] == '_'))
        name--;
    if (strncmp(name, "NCCL_", 5) != 0)
        return false;
    auto_free char *key = mem_strndup(name, (size_t)(at - name));
    auto_free char *value = mem_strdup(at + strlen(mark));
    size_t n = strcspn(value, "\r\n");
    value[n > 0 && value[n - 1] == '.' ? n - 1 : n] = '\0';
    json_t *all = json_object_get(log->json, "environment");
    json_object_del(all, key);
    json_put_str(all, key, value);
    return true;
}

/* "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read": a channel of this rank to a peer. */
static bool take_transport(struct nccl_log *log, const char *line)
{
    char word[NAME_MAX_BYTES];
    const char *p = behind(line, "Channel "), *via = p ? behind(p, " via ") : NULL;
    if (!via || !strstr(p, "->") || !word_at(via, ",", word))
        return false;
    count(log->by_transport, word);
    return true;
}

/* "AllReduce: 67108864 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}" */
static bool take_call(struct nccl_log *log, const char *line)
{
    char op[NAME_MAX_BYTES], algorithm[NAME_MAX_BYTES], protocol[NAME_MAX_BYTES], range[32] = "";
    const char *p = strstr(line, " Bytes -> Algo "), *start = p;
    int64_t bytes;
    if (!p || !word_at(behind(p, "Algo "), ",", algorithm) || !behind(p, "proto ") ||
        !word_at(behind(p, "proto "), ",", protocol))
        return false;
    while (start > line && start[-1] != ':')
        start--;
    const char *end = start > line ? start - 1 : start, *begin = end;
    while (begin > line && !isspace((unsigned char)begin[-1]))
        begin--;
    if (!int_at(start + strspn(start, " "), &bytes) || begin == end || !word_at(begin, ":", op))
        return false;
    const char *channels = behind(p, "={");
    if (channels)
        snprintf(range, sizeof range, "%.*s", (int)strcspn(channels, "}\n"), channels);
    auto_free char *key =
        mem_printf("%s %lld %s %s %s", op, (long long)bytes, algorithm, protocol, range);
    json_t *call = json_object_get(log->by_call, key);
    if (!call && json_object_size(log->by_call) == CALLS_MAX) {
        count(log->json, "calls_other");
        return true;
    }
    if (!call) {
        call = json_object();
        json_put_str(call, "op", op);
        json_put_int(call, "bytes", bytes);
        json_put_str(call, "algorithm", algorithm);
        json_put_str(call, "protocol", protocol);
        json_put_str(call, "channels", range[0] ? range : NULL);
        json_object_set_new(log->by_call, key, call);
    }
    count(call, "n");
    return true;
}

/* ---- a log --------------------------------------------------------------------------------------
 */

void nccl_log_init(struct nccl_log *log)
{
    *log = (struct nccl_log){json_object(), json_object(), json_object(),
                             STRV_INIT,     STRV_INIT,     STRV_INIT};
    json_object_set_new(log->json, "init", json_array());
    json_object_set_new(log->json, "environment", json_object());
}

void nccl_log_line(struct nccl_log *log, const char *line)
{
    bool (*const takers[])(struct nccl_log *, const char *) = {
        take_call,     take_transport, take_version,  take_init,
        take_complete, take_network,   take_channels, take_variable,
    };
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
        if (takers[i](log, line))
            return;
}

static bool said_nothing(const struct nccl_log *log)
{
    return !json_object_get(log->json, "version") && !json_object_get(log->json, "channels") &&
           !json_array_size(json_object_get(log->json, "init")) && !log->comm_ids.count &&
           !log->networks.count && !json_object_size(log->by_transport) &&
           !json_object_size(log->by_call);
}

json_t *nccl_log_finish(struct nccl_log *log)
{
    static const char silent[] = "no line of NCCL's log says so";
    json_t *o = log->json, *calls = json_array(), *call;
    const char *key;
    bool empty = said_nothing(log);
    json_object_foreach(log->by_call, key, call) json_array_append(calls, call);
    if (!json_object_get(o, "version"))
        json_put_null(o, "version", silent);
    if (!json_object_get(o, "channels"))
        json_put_null(o, "channels", silent);
    json_put(o, "networks", json_strings(&log->networks));
    json_put_int(o, "comm_ids_distinct", (int64_t)log->comm_ids.count);
    json_put_int(o, "gpus_distinct", (int64_t)log->bus_ids.count);
    json_put(o, "transports", log->by_transport);
    json_put(o, "calls", calls);
    if (!json_object_get(o, "calls_other"))
        json_put_int(o, "calls_other", 0);
    json_decref(log->by_call);
    strv_release(&log->networks);
    strv_release(&log->comm_ids);
    strv_release(&log->bus_ids);
    if (!empty)
        return o;
    json_decref(o);
    return NULL;
}

/* ---- a trial's directory
 * ------------------------------------------------------------------------- */

static bool is_log(const char *name)
{
    size_t n = strlen(name), suffix = strlen(LOG_SUFFIX);
    return !strncmp(name, LOG_PREFIX, strlen(LOG_PREFIX)) && n > suffix &&
           !strcmp(name + n - suffix, LOG_SUFFIX);
}

static void read_log(struct nccl_log *log, const char *path)
{
    auto_fclose FILE *f = fopen(path, "re");
    char line[4096]; /* a longer one is cut into pieces: those that are meant are short */
    while (f && fgets(line, sizeof line, f))
        nccl_log_line(log, line);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void nccl_topology_normalise(const char *xml, struct str *out)
{
    auto_strv lines = STRV_INIT;
    while (*xml) {
        size_t n = strcspn(xml, "\n");
        auto_free char *line = mem_strndup(xml + strspn(xml, " \t"),
                                           n < strspn(xml, " \t") ? 0 : n - strspn(xml, " \t"));
        char *hash = strstr(line, " host_hash=\""), *end;
        if (hash && (end = strchr(hash + strlen(" host_hash=\""), '"')))
            memmove(hash, end + 1, strlen(end + 1) + 1);
        line[strcspn(line, "\r")] = '\0';
        if (*line)
            strv_push(&lines, line);
        xml += n + (xml[n] == '\n');
    }
    if (lines.count)
        qsort(lines.items, lines.count, sizeof *lines.items, by_text);
    for (size_t i = 0; i < lines.count; i++) {
        str_append(out, lines.items[i]);
        str_append_char(out, '\n');
    }
}

static void put_topology(json_t *o, const char *dir)
{
    auto_free char *path = mem_printf("%s/" TOPOLOGY, dir);
    auto_str xml = STR_INIT, normal = STR_INIT;
    auto_error struct error ignored = ERROR_INIT;
    char digest[SHA256_HEX];
    if (fs_read_file(path, &xml, NCBENCH_EXIT_RESULTS, &ignored) || !xml.len) {
        json_put_null(o, "topology_sha256", "NCCL dumped no topology");
        return;
    }
    nccl_topology_normalise(xml.data, &normal);
    sha256_hex(normal.data ? normal.data : "", normal.len, digest);
    json_put_str(o, "topology_sha256", digest);
}

json_t *nccl_log_read(const char *dir)
{
    auto_strv names = STRV_INIT;
    auto_error struct error ignored = ERROR_INIT;
    struct nccl_log log;
    if (fs_list_dir(dir, &names, NCBENCH_EXIT_RESULTS, &ignored))
        return NULL;
    nccl_log_init(&log);
    for (size_t i = 0; i < names.count; i++) {
        auto_free char *path = mem_printf("%s/%s", dir, names.items[i]);
        if (is_log(names.items[i]))
            read_log(&log, path);
    }
    json_t *o = nccl_log_finish(&log);
    if (o)
        put_topology(o, dir);
    return o;
}
