/* NCCL's own log and topology dump: our fixtures in its shapes, and lines that are not. */
#include "harness/nccl_log.h"

#include "common/cleanup.h"
#include "common/fs.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static json_t *of_lines(const char *const *lines)
{
    struct nccl_log log;
    nccl_log_init(&log);
    for (; *lines; lines++)
        nccl_log_line(&log, *lines);
    return nccl_log_finish(&log);
}

static double f64(const json_t *o, const char *path)
{
    double value = -1;
    json_read_f64(o, path, &value);
    return value;
}

static void a_run_of_two_ranks(void)
{
    auto_json *o = nccl_log_read(unit_fixture("nccl"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_STR(json_read_str(o, "version"), "2.28.9+cuda13.0");
    CU_ASSERT_EQUAL(json_array_size(json_at(o, "networks")), 1);
    CU_ASSERT_STR(json_string_value(json_array_get(json_at(o, "networks"), 0)), "Socket");
    CU_ASSERT_EQUAL(f64(o, "comm_ids_distinct"), 1);
    CU_ASSERT_EQUAL(f64(o, "gpus_distinct"), 2);
    CU_ASSERT_EQUAL(f64(o, "channels.coll"), 16); /* the least of the ranks */
    CU_ASSERT_EQUAL(f64(o, "channels.nvls"), 0);
    CU_ASSERT_EQUAL(f64(o, "channels.p2p"), 32);
    CU_ASSERT_EQUAL(f64(o, "channels.p2p_per_peer"), 32);
    CU_ASSERT_STR(json_read_str(o, "environment.NCCL_NVLS_ENABLE"), "0");
    CU_ASSERT_STR(json_read_str(o, "environment.NCCL_SOCKET_IFNAME"), "eth0");
    const json_t *transports = json_at(o, "transports");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(transports, "P2P/CUMEM/read")), 2);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(transports, "SHM/direct/direct")), 2);
    CU_ASSERT_EQUAL(json_object_size(transports), 2);
    CU_ASSERT_EQUAL(strlen(json_read_str(o, "topology_sha256")), 64);
}

static void the_time_of_init_in_parts(void)
{
    auto_json *o = nccl_log_read(unit_fixture("nccl"));
    const json_t *init = json_at(o, "init");
    CU_ASSERT_EQUAL_FATAL(json_array_size(init), 2);
    const json_t *first = json_array_get(init, 0), *second = json_array_get(init, 1);
    CU_ASSERT_EQUAL(f64(first, "rank") + f64(second, "rank"), 1);
    const json_t *zero = f64(first, "rank") == 0 ? first : second;
    CU_ASSERT_NEAR(f64(zero, "total_s"), 0.41, 1e-12);
    CU_ASSERT_NEAR(f64(zero, "kernels_s"), 0.16, 1e-12);
    CU_ASSERT_NEAR(f64(zero, "allgathers_s"), 0.01, 1e-12);
    CU_ASSERT_NEAR(f64(zero, "rest_s"), 0.01, 1e-12);
    CU_ASSERT_EQUAL(json_object_size(zero), 10);
}

static void calls_are_counted_by_kind(void)
{
    auto_json *o = nccl_log_read(unit_fixture("nccl"));
    const json_t *calls = json_at(o, "calls"), *call;
    size_t i, found = 0;
    CU_ASSERT_EQUAL(json_array_size(calls), 2);
    json_array_foreach(calls, i, call)
    {
        if (strcmp(json_read_str(call, "op"), "ReduceScatter") != 0)
            continue;
        found++;
        CU_ASSERT_EQUAL(f64(call, "bytes"), 67108864);
        CU_ASSERT_STR(json_read_str(call, "algorithm"), "RING");
        CU_ASSERT_STR(json_read_str(call, "protocol"), "SIMPLE");
        CU_ASSERT_STR(json_read_str(call, "channels"), "0..23");
        CU_ASSERT_EQUAL(f64(call, "n"), 4);
    }
    CU_ASSERT_EQUAL(found, 1);
    CU_ASSERT_EQUAL(f64(o, "calls_other"), 0);
}

static void too_many_kinds_are_only_counted(void)
{
    struct nccl_log log;
    char line[128];
    nccl_log_init(&log);
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof line, "x NCCL INFO AllReduce: %d Bytes -> Algo TREE proto LL128", i);
        nccl_log_line(&log, line);
    }
    auto_json *o = nccl_log_finish(&log);
    CU_ASSERT_EQUAL(json_array_size(json_at(o, "calls")), 64);
    CU_ASSERT_EQUAL(f64(o, "calls_other"), 36);
    CU_ASSERT_TRUE(json_is_null(json_at(json_array_get(json_at(o, "calls"), 0), "channels")));
}

static void other_shapes_of_a_line(void)
{
    static const char *const lines[] = {
        "Using network AWS Libfabric\n",
        "Using network IB\r\n",
        "NCCL_ALGO set by environment to Ring,Tree",
        "NCCL_PROTO set by environment to ",
        "PATH set by environment to /bin",
        "Channel 03/1 : 5[1] -> 9[1] [send] via NET/IB/2/GDRDMA",
        "12 coll channels, 4 nvls channels, 16 p2p channels, 2 p2p channels per peer",
        "comm 0x1 rank 3 nranks 4 commId 0xa1 - Init COMPLETE",
        "comm 0x1 rank 2 nranks 4 commId 0xb2 localSize 0 used 0 bytes on core 4 - Init COMPLETE",
        "Init timings - ncclCommInitRank: rank 11 nranks 16 total 3.50",
        NULL};
    auto_json *o = of_lines(lines);
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_STR(json_string_value(json_array_get(json_at(o, "networks"), 0)), "AWS Libfabric");
    CU_ASSERT_STR(json_string_value(json_array_get(json_at(o, "networks"), 1)), "IB");
    CU_ASSERT_STR(json_read_str(o, "environment.NCCL_ALGO"), "Ring,Tree");
    CU_ASSERT_STR(json_read_str(o, "environment.NCCL_PROTO"), "");
    CU_ASSERT_EQUAL(json_object_size(json_at(o, "environment")), 2);
    CU_ASSERT_EQUAL(
        json_integer_value(json_object_get(json_at(o, "transports"), "NET/IB/2/GDRDMA")), 1);
    CU_ASSERT_EQUAL(f64(o, "channels.nvls"), 4);
    CU_ASSERT_EQUAL(f64(o, "channels.p2p_per_peer"), 2);
    CU_ASSERT_EQUAL(f64(o, "comm_ids_distinct"), 2);
    CU_ASSERT_NEAR(f64(json_array_get(json_at(o, "init"), 0), "total_s"), 3.5, 1e-12);
    CU_ASSERT_TRUE(json_is_null(json_at(o, "version")));
    CU_ASSERT_PTR_NOT_NULL(json_read_str(o, "version_why"));
}

/* Each is nearly one of the lines above: none may be believed, none may do harm. */
static void what_is_no_line_of_ours(void)
{
    static const char *const lines[] = {"",
                                        "\n",
                                        "Init timings",
                                        "Init timings - x: rank",
                                        "Init timings - x: rank seven nranks 2 total 1 (a 1, b 2)",
                                        " coll channels",
                                        "Channel 00/24 :    0   1",
                                        "Channel 00/0 : 0[0] -> 1[1] via ",
                                        "Using network",
                                        "AllReduce: many Bytes -> Algo RING proto SIMPLE",
                                        ": 12 Bytes -> Algo RING proto SIMPLE",
                                        " Bytes -> Algo ",
                                        "AllReduce: 12 Bytes -> Algo RING",
                                        "NCCL version ",
                                        "NCCL version unknown",
                                        "NCCL_X set by",
                                        "Init COMPLETE",
                                        "\xff\xfe\x01(((,,,)))",
                                        NULL};
    CU_ASSERT_PTR_NULL(of_lines(lines));
    CU_ASSERT_PTR_NULL(nccl_log_read("/nonexistent"));
    auto_free char *dir = unit_tmpdir();
    CU_ASSERT_PTR_NULL(nccl_log_read(dir));
}

static void a_topology_is_told_by_what_it_is(void)
{
    static const char a[] =
        "<system>\n  <cpu host_hash=\"0x1\" numaid=\"0\">\n    <gpu dev=\"0\"/>\n"
        "    <gpu dev=\"1\"/>\n  </cpu>\n</system>\n";
    static const char b[] =
        "<system>\r\n <cpu host_hash=\"0x2\" numaid=\"0\">\n<gpu dev=\"1\"/>\n\n"
        "<gpu dev=\"0\"/>\n</cpu>\n</system>";
    static const char other[] = "<system>\n<cpu host_hash=\"0x1\" numaid=\"0\">\n<gpu dev=\"0\"/>\n"
                                "</cpu>\n</system>\n";
    auto_str of_a = STR_INIT, of_b = STR_INIT, of_other = STR_INIT;
    nccl_topology_normalise(a, &of_a);
    nccl_topology_normalise(b, &of_b);
    nccl_topology_normalise(other, &of_other);
    CU_ASSERT_STR(of_a.data, of_b.data);
    CU_ASSERT_NOT_EQUAL(strcmp(of_a.data, of_other.data), 0);
    CU_ASSERT_PTR_NULL(strstr(of_a.data, "host_hash"));
    CU_ASSERT_PTR_NOT_NULL(strstr(of_a.data, "<cpu numaid=\"0\">"));
}

static void what_the_ranks_are_asked_for(void)
{
    auto_strv env = STRV_INIT;
    nccl_log_ask(&env, "/trials/7");
    CU_ASSERT_TRUE(strv_contains(&env, "NCCL_DEBUG=INFO"));
    CU_ASSERT_TRUE(strv_contains(&env, "NCCL_DEBUG_FILE=/trials/7/nccl.%h.%p.log"));
    CU_ASSERT_TRUE(strv_contains(&env, "NCCL_TOPO_DUMP_FILE=/trials/7/nccl-topo.xml"));
}

UNIT_MAIN({"a run of two ranks", a_run_of_two_ranks},
          {"the time of init in parts", the_time_of_init_in_parts},
          {"calls are counted by kind", calls_are_counted_by_kind},
          {"too many kinds are only counted", too_many_kinds_are_only_counted},
          {"other shapes of a line", other_shapes_of_a_line},
          {"what is no line of ours", what_is_no_line_of_ours},
          {"a topology is told by what it is", a_topology_is_told_by_what_it_is},
          {"what the ranks are asked for", what_the_ranks_are_asked_for})
