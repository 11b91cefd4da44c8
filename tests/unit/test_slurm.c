/* What does not need a Slurm: command lines, texts, words. */
#include "harness/launchers/slurm.h"

#include "common/cleanup.h"
#include "common/mem.h"
#include "harness/job_script.h"
#include "harness/trial.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void times(void)
{
    static const struct {
        const char *text;
        double seconds;
    } cases[] = {
        {"0:30", 30},      {"12:34", 754},         {"1:00:00", 3600}, {"1-02:03:04", 93784},
        {"UNLIMITED", -1}, {"NOT_SET", -1},        {"", -1},          {"INVALID", -1},
        {"x-1:00", -1},    {"10-00:00:00", 864000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CU_ASSERT_EQUAL(slurm_parse_time(cases[i].text), cases[i].seconds);
    CU_ASSERT_EQUAL(slurm_least_cpus("288(x4)"), 288);
    CU_ASSERT_EQUAL(slurm_least_cpus("4,2(x3),8"), 2);
    CU_ASSERT_EQUAL(slurm_least_cpus(""), 0);
    CU_ASSERT_EQUAL(slurm_least_cpus(NULL), 0);
    CU_ASSERT_EQUAL(slurm_least_cpus("many"), 0);
}

/* squeue's columns RestartCnt and PreemptTime, as Slurm 22.05 prints them. */
static void taken_away(void)
{
    static const struct {
        const char *columns, *why;
        int64_t restarts;
    } cases[] = {
        {"0           N/A                     \n", NULL, 0},
        {"1           N/A                     \n", "job 7 of Slurm was requeued", 0},
        {"1           N/A                     \n", NULL, 1},
        {"1           2026-12-01T15:44:51     \n", "job 7 of Slurm was preempted", 0},
        {"0           2026-12-01T15:45:11     \n", "job 7 of Slurm was preempted", 0},
        {"2           None                    \n", "job 7 of Slurm was requeued", 1},
        {"0           Unknown", NULL, 0},
        {"2           ", "job 7 of Slurm was requeued", 1},
        {"", NULL, 0},
        {"Invalid job format specification", NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        auto_str why = STR_INIT;
        const struct slurm_allocation a = {.job_id = "7", .restarts = cases[i].restarts};
        CU_ASSERT_EQUAL(slurm_read_taken_away(cases[i].columns, &a, &why), cases[i].why != NULL);
        CU_ASSERT_STR(why.data, cases[i].why ? cases[i].why : "");
    }
}

/* The command line holds every size, whatever the environment says. */
static void step(void)
{
    struct slurm_allocation a = {.job_id = "77"};
    struct slurm_options o = {.gpus_per_node = 4, .network = "disable_rdzv_get"};
    auto_strv argv = STRV_INIT, runtime = STRV_INIT, warnings = STRV_INIT;
    auto_str line = STR_INIT;
    strv_push(&a.nodes, "n1");
    strv_push(&a.nodes, "n2");
    strv_push(&a.nodes, "n3");
    strv_push(&o.args, "--hint=nomultithread");
    strv_push(&runtime, "--environment=x.toml");
    struct slurm_step s = {.allocation = &a,
                           .options = &o,
                           .nodes = 2,
                           .tasks_per_node = 1,
                           .cpus_per_task = 288,
                           .bind = true,
                           .time_s = 601,
                           .name = "s.c00.b01.bare",
                           .cwd = "/r/t",
                           .runtime = &runtime};
    slurm_step_argv(&s, &argv);
    for (size_t i = 0; i < argv.count; i++)
        str_appendf(&line, "%s%s", i ? " " : "", argv.items[i]);
    CU_ASSERT_STR(line.data,
                  "srun --jobid=77 --job-name=s.c00.b01.bare --nodes=2 --nodelist=n1,n2 --ntasks=2 "
                  "--ntasks-per-node=1 --cpus-per-task=288 --mem=0 --gpus-per-node=4 "
                  "--cpu-bind=cores --mpi=none --network=disable_rdzv_get --time=11 --overlap "
                  "--exact --immediate=60 --kill-on-bad-exit=0 --wait=0 --chdir=/r/t --export=ALL "
                  "--input=none --hint=nomultithread --environment=x.toml");
    setenv("SLURM_CPUS_PER_TASK", "4", 1);
    setenv("SLURM_NTASKS_PER_NODE", "1", 1);
    unsetenv("SRUN_CPUS_PER_TASK");
    slurm_inherited(&s, &warnings);
    CU_ASSERT_EQUAL(warnings.count, 1);
    CU_ASSERT(strstr(warnings.items[0], "SLURM_CPUS_PER_TASK=4") != NULL);
    unsetenv("SLURM_CPUS_PER_TASK");
    unsetenv("SLURM_NTASKS_PER_NODE");
    strv_release(&a.nodes);
    strv_release(&o.args);
}

static void words(void)
{
    static const struct {
        const char *text;
        enum outcome outcome;
        bool over;
        int code, signal;
    } cases[] = {
        {"srun: error: n2: task 1: Exited with exit code 6\nsrun: error: n1: task 0: Exited with "
         "exit code 8\n",
         OUTCOME_COUNT, false, 6, 0},
        {"srun: error: n1: task 0: Exited with exit code 8\nsrun: error: n2: task 1: Killed\n",
         OUTCOME_COUNT, false, 8, 0},
        {"srun: error: n1: tasks 0-3: Segmentation fault (core dumped)\n", OUTCOME_COUNT, false, -1,
         SIGSEGV},
        /* srun ends the others after a failure: that is no cancelling */
        {"srun: error: n2: task 1: Exited with exit code 3\nsrun: Job step aborted: Waiting up to "
         "4 "
         "seconds\nslurmstepd-n1: error: *** STEP 2.1 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n",
         OUTCOME_COUNT, false, 3, 0},
        {"slurmstepd-n1: error: *** STEP 2.1 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\nsrun: "
         "error: n1: task 0: Exited with exit code 8\n",
         OUTCOME_CANCELLED, false, 8, 0},
        {"slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT "
         "***\n",
         OUTCOME_CANCELLED, true, -1, 0},
        {"slurmstepd: error: *** STEP 9.1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT "
         "***\n",
         OUTCOME_TIMEOUT, false, -1, 0},
        {"slurmstepd: error: *** STEP 9.1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE "
         "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n",
         OUTCOME_UNAVAILABLE, true, -1, 0},
        {"slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION "
         "***\n",
         OUTCOME_CANCELLED, true, -1, 0},
        {"slurmstepd: error: *** STEP 9.1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB "
         "REQUEUE ***\n",
         OUTCOME_CANCELLED, true, -1, 0},
        {"srun: error: Unable to create step for job 2: More processors requested than permitted\n",
         OUTCOME_UNAVAILABLE, false, -1, 0},
        {"nanochat: error: rank 1 ended with exit code 5\n", OUTCOME_COUNT, false, -1, 0},
        {"", OUTCOME_COUNT, false, -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slurm_word w;
        auto_str reason = STR_INIT;
        slurm_read_word(cases[i].text, &w, &reason);
        if (w.outcome != cases[i].outcome || w.exit_code != cases[i].code)
            printf("  case %zu: outcome %d, code %d\n", i, (int)w.outcome, w.exit_code);
        CU_ASSERT_EQUAL(w.outcome, cases[i].outcome);
        CU_ASSERT_EQUAL(w.job_over, cases[i].over);
        CU_ASSERT_EQUAL(w.exit_code, cases[i].code);
        CU_ASSERT_EQUAL(w.signal, cases[i].signal);
        CU_ASSERT_EQUAL(reason.len > 0, cases[i].outcome != OUTCOME_COUNT);
    }
}

static void quoting(void)
{
    auto_str out = STR_INIT;
    str_append_word(&out, "plain-1/x.y");
    str_append_char(&out, ' ');
    str_append_word(&out, "");
    str_append_char(&out, ' ');
    str_append_word(&out, "it's $HOME `x`");
    CU_ASSERT_STR(out.data, "plain-1/x.y '' 'it'\\''s $HOME `x`'");
}

/* What a killed session left is looked for under the ids that its containers were given. */
static void processes(void)
{
    struct scenario s = {.is_verb = true};
    struct cell cell = {.nodes = 2, .ranks_per_node = 3};
    CU_ASSERT_EQUAL(trial_process_count(&s, &cell), 1);
    s.is_verb = false;
    CU_ASSERT_EQUAL(trial_process_count(&s, &cell), 6);
    cell.is_slurm = true; /* one srun */
    CU_ASSERT_EQUAL(trial_process_count(&s, &cell), 1);
    auto_free char *only = trial_process_id("s.c00", 0, 1);
    auto_free char *second = trial_process_id("s.c00", 1, 6);
    CU_ASSERT_STR(only, "s.c00");
    CU_ASSERT_STR(second, "s.c00.r1");
}

/* What only one cell asks of the job would be lost, or be given to all. */
static void one_job(void)
{
    struct cell cells[2] = {
        {.id = (char *)"c00", .nodes = 1, .ranks_per_node = 1, .is_slurm = true},
        {.id = (char *)"c01", .nodes = 3, .ranks_per_node = 1, .is_slurm = true}};
    struct scenario s = {
        .name = (char *)"s", .path = (char *)"s.yaml", .cells = cells, .n_cells = 2};
    struct strv start = STRV_INIT;
    struct job_script_options o = {"/s.yaml", "/bin/ncbench", "/", NULL, &start};
    struct strv *lists[] = {&cells[1].slurm.sbatch, &cells[1].slurm.setup};
    for (size_t i = 0; i < 2; i++) {
        auto_error struct error err = ERROR_INIT;
        auto_str none = STR_INIT;
        strv_push(lists[i], "module load x");
        CU_ASSERT_EQUAL(job_script_write(&s, &o, &none, &err), -NCBENCH_EXIT_SCENARIO);
        CU_ASSERT(err.message && strstr(err.message, "c00 and c01 ask for different jobs"));
        strv_release(lists[i]);
    }
    auto_error struct error err = ERROR_INIT;
    auto_str script = STR_INIT;
    CU_ASSERT_EQUAL(job_script_write(&s, &o, &script, &err), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(script.data, "#SBATCH --nodes=3\n"));
}

/* Slurm's names of nodes and those of hosts differ in domains, or wholly. */
static void own_node(void)
{
    struct slurm_allocation a = {.job_id = "77"};
    strv_push(&a.nodes, "nid1");
    strv_push(&a.nodes, "nid12");
    unsetenv("SLURMD_NODENAME");
    CU_ASSERT_STR(slurm_own_node(&a, "nid12"), "nid12");
    CU_ASSERT_STR(slurm_own_node(&a, "nid12.cluster.example"), "nid12");
    CU_ASSERT_PTR_NULL(slurm_own_node(&a, "nid123"));
    CU_ASSERT_PTR_NULL(slurm_own_node(&a, "login.cluster.example"));
    CU_ASSERT_PTR_NULL(slurm_own_node(&a, ""));
    setenv("SLURMD_NODENAME", "nid1", 1);
    CU_ASSERT_STR(slurm_own_node(&a, "x1000c0s0b0n0"), "nid1");
    setenv("SLURMD_NODENAME", "nid7", 1); /* of another job */
    CU_ASSERT_STR(slurm_own_node(&a, "nid12.cluster.example"), "nid12");
    unsetenv("SLURMD_NODENAME");
    strv_release(&a.nodes);
}

UNIT_MAIN({"times and CPUs as Slurm writes them", times}, {"a job that is taken away", taken_away},
          {"the command line of a step", step}, {"what srun says", words},
          {"words of a shell", quoting}, {"processes of a trial and their ids", processes},
          {"cells of one job", one_job}, {"the node that ncbench is on", own_node})
