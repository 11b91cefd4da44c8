/* Slurm's node lists, and what a node makes of Slurm's variables. */
#include "common/hostlist.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "common/protocol.h"
#include "tests/unit/unit.h"
#include "workload/launch_slurm.h"

#include <stdlib.h>
#include <string.h>

static void expect(const char *text, const char *joined)
{
    auto_strv names = STRV_INIT;
    auto_str all = STR_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(hostlist_expand(text, &names, 3, &err), 0);
    for (size_t i = 0; i < names.count; i++)
        str_appendf(&all, "%s%s", i ? " " : "", names.items[i]);
    CU_ASSERT_STR(all.data, joined);
}

static void lists(void)
{
    expect("n1", "n1");
    expect("nid[001-003,007],login1", "nid001 nid002 nid003 nid007 login1");
    expect("n[1-4]", "n1 n2 n3 n4");
    expect("n[8-11]", "n8 n9 n10 n11");
    expect("n[08-11]", "n08 n09 n10 n11");
    expect("a,b,c", "a b c");
    expect("rack[1-2]node[01-02]", "rack1node01 rack1node02 rack2node01 rack2node02");
    expect("n[1,3]-ib", "n1-ib n3-ib");
    expect("nid[099-101]", "nid099 nid100 nid101");
    expect("host-1.example.org", "host-1.example.org");
}

static void what_is_no_list(void)
{
    static const char *const texts[] = {"",       "n[",       "n[1",        "n]1",   "n[]",
                                        "n[a-b]", "n[3-1]",   "n[1-]",      "n[1,]", ",n1",
                                        "n1,",    "n[1-2-3]", "n[1-99999]", "n[-1]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        auto_strv names = STRV_INIT;
        auto_error struct error err = ERROR_INIT;
        if (hostlist_expand(texts[i], &names, 3, &err) != -3)
            printf("  accepted: %s\n", texts[i]);
        CU_ASSERT_EQUAL(err.code, 3);
    }
    /* a product that is too large, without the time to make it */
    auto_strv names = STRV_INIT;
    auto_error struct error err = ERROR_INIT;
    CU_ASSERT_EQUAL(hostlist_expand("a[1-50000]b[1-50000]", &names, 3, &err), -3);
}

/* ---- rendezvous -------------------------------------------------------------------------------
 */
static const char *const variables[] = {
    "SLURM_JOB_ID",         "SLURM_STEP_ID",       "SLURM_NODEID",       "SLURM_NNODES",
    "SLURM_STEP_NUM_NODES", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NUM_TASKS"};

static int rendezvous(const char *assignments, struct launch_place *r, char **message)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    auto_free char *copy = mem_strdup(assignments);
    char *save = NULL;
    for (char *a = strtok_r(copy, " ", &save); a; a = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(a, '=');
        *equals = '\0';
        setenv(a, equals + 1, 1);
    }
    struct error err = ERROR_INIT;
    launch_place_from_slurm(r, &err);
    int code = err.code;
    if (message)
        *message = mem_strdup(err.message ? err.message : "");
    error_release(&err);
    return code;
}

#define STEP                                                                                       \
    "SLURM_JOB_ID=77 SLURM_STEP_ID=3 SLURM_NODEID=2 SLURM_STEP_NUM_NODES=4 "                       \
    "SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NODELIST=nid[07-10]"

static void from_a_step(void)
{
    struct launch_place r = {.nnodes = 0, .node_rank = -1};
    CU_ASSERT_EQUAL(rendezvous(STEP, &r, NULL), 0);
    CU_ASSERT_EQUAL(r.nnodes, 4);
    CU_ASSERT_EQUAL(r.node_rank, 2);
    CU_ASSERT_STR(r.master_addr, "nid07");
    CU_ASSERT(r.master_port >= 20000 && r.master_port < 32000);
    int port = (int)r.master_port;
    launch_place_release(&r);
    /* another step of the job meets elsewhere */
    r = (struct launch_place){.node_rank = -1};
    rendezvous(STEP " SLURM_STEP_ID=4", &r, NULL);
    CU_ASSERT(r.master_port != port);
    launch_place_release(&r);
}

static void what_is_given_wins(void)
{
    struct launch_place r = {
        .nnodes = 4, .node_rank = -1, .master_addr = mem_strdup("head"), .master_port = 1234};
    CU_ASSERT_EQUAL(rendezvous("SLURM_NODEID=3", &r, NULL), 0);
    CU_ASSERT_EQUAL(r.nnodes, 4);
    CU_ASSERT_EQUAL(r.node_rank, 3);
    CU_ASSERT_STR(r.master_addr, "head");
    CU_ASSERT_EQUAL(r.master_port, 1234);
    launch_place_release(&r);
}

static void contradictions(void)
{
    static const char *const cases[][2] = {
        {"", "SLURM_NODEID"},
        {"SLURM_NODEID=1 SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NODELIST"},
        {"SLURM_NODEID=2 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2]", "less than"},
        {"SLURM_NODEID=x SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2]", "SLURM_NODEID"},
        {"SLURM_NODEID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-3]", "2 nodes"},
        {"SLURM_NODEID=0 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=n[1-2] SLURM_STEP_NUM_TASKS=8",
         "one task a node"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct launch_place r = {.node_rank = -1};
        auto_free char *message = NULL;
        CU_ASSERT_EQUAL(rendezvous(cases[i][0], &r, &message), NANOCHAT_EXIT_USAGE);
        if (!strstr(message, cases[i][1]))
            CU_ASSERT_STR(message, cases[i][1]);
        launch_place_release(&r);
    }
    struct launch_place r = {.nnodes = 2, .node_rank = -1};
    CU_ASSERT_EQUAL(rendezvous(STEP, &r, NULL), NANOCHAT_EXIT_USAGE);
    launch_place_release(&r);
}

UNIT_MAIN({"node lists", lists}, {"what is no node list", what_is_no_list},
          {"the rendezvous of a step", from_a_step}, {"what is given wins", what_is_given_wins},
          {"contradictions are usage errors", contradictions})
