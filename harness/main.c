/* ncbench: the harness. Verbs are listed in one table; each is one file, cmd_<verb>.c. */
#include "common/log.h"
#include "common/protocol.h"
#include "common/verb.h"
#include "harness/verbs.h"

#include <signal.h>

static const struct verb verbs[] = {
    {"check", cmd_check, check_options, "FILE...", "judge a scenario; --dump shows what it means",
     "Every error is shown at once, with its line and a hint. Exit 3: the file can work nowhere; "
     "4: "
     "this machine lacks something (a mount source, an image, processing units).\n\n"
     "--portable judges the file alone, as a test of it should."},
    {"image", cmd_image, image_options, "build|import SOURCE|list|rm NAME...",
     "the local build as a container image; imports of others, timed",
     "`image build` puts nanochat and the closure of its shared libraries into podman's store as "
     "an image, into a directory (--dir), an OCI archive (--archive) or layout (--layout), a "
     "squashfs (--squashfs) or a SIF (--sif): the same bytes as bare metal, with no registry. The "
     "same build gives the same digest; the bytes of a SIF are apptainer's, and the same each time "
     "only from 1.5 on.\n\n"
     "`image import` brings an OCI archive or a registry's image into the store of podman or "
     "docker (--runtime), or makes a file of it for enroot or apptainer (--output), and tells how "
     "long that took: cold with --cold, else with what the runtime has already. Jobs that import "
     "the same thing wait for each other.\n\n"
     "`image list` shows the images made so, `image rm` removes them and no others."},
    {"plan", cmd_plan, plan_options, "FILE", "list the trials of a scenario in their order",
     "Nothing runs. The order depends on the scenario and its seed alone. For each cell the "
     "command "
     "of every runtime is shown, with /SESSION and TRIAL in place of the names that a session "
     "gives."},
    {"run", cmd_run, run_options, "FILE", "run a scenario: every trial, every record",
     "Makes a session below the results folder and runs the plan's blocks in random order. Prints "
     "the session's directory on standard output; everything for people goes to standard error. "
     "Exits 0 when the session is complete, whatever its verdict."},
    {"sbatch", cmd_sbatch, sbatch_options, "FILE", "write a Slurm job script for a scenario",
     "The script asks for the nodes of the largest cell and for what launch.slurm says, runs the "
     "scenario and goes on with its session when Slurm requeues the job. --submit hands it to "
     "sbatch and prints the job's number."},
    {"status", cmd_status, status_options, "SESSION", "what is done, what failed, and why", NULL},
    {"show", cmd_show, show_options, "SESSION[/TRIAL]",
     "a session's trials, or one trial's record, logs, environment", NULL},
    {"topo", cmd_topo, topo_options, "show [FILE|SYNTHETIC] | dump | diff A B",
     "the machine's topology: as a tree, as XML, two compared",
     "show draws packages, NUMA nodes, caches, cores, PUs and devices of this machine, of a file "
     "of "
     "hwloc's XML, or of a synthetic description such as \"node:2 core:4 pu:2\"; --ranks shows "
     "where ranks would be bound. dump writes XML, disallowed parts included, so that a host and a "
     "container can be compared. diff compares two files, or two runtimes of a session; exit 7 "
     "when they differ."},
    {"doctor", cmd_doctor, doctor_options, "", "what could stop or disturb a session here",
     "One line a check: OK, WARN or FAIL, what is, and what to do. Starts one container for a "
     "moment where a runtime is installed. Exit 4 if anything fails."},
    {"compare", cmd_compare, compare_options, "SESSION",
     "findings, verdicts and numbers of a session",
     "Judges every arm against the baseline, cell by cell: first whether what must match matches, "
     "then the ratio with its interval and a verdict in words. Exit 7 when anything is not "
     "comparable or untrustworthy, else 0."},
    {"gate", cmd_gate, gate_options, "SESSION", "evaluate the gates of a session, for CI",
     "Exit 0 when all gates pass, 1 when one fails, 6 when one is inconclusive, 5 when blocks are "
     "missing, 7 when a comparison is not comparable or untrustworthy."},
    {"report", cmd_report, report_options, "SESSION", "write the report of a session",
     "Without options both report.html and report.md, in the session's directory."},
    {"plot", cmd_plot, plot_options, "SESSION", "draw the plots of a session through gnuplot",
     "Writes NAME.dat and NAME.gp first; without gnuplot these are all, and a note says so."},
    {"export", cmd_export, export_options, "SESSION", "the records as flat CSV or JSON", NULL},
    {"merge", cmd_merge, merge_options, "SESSION SESSION…",
     "sessions of one scenario as strata of one: a claim about more than one occasion",
     "Makes a new session folder that every reading verb takes, prints it on standard output and "
     "the "
     "verdicts on standard error. Refuses sessions whose scenarios or programs differ "
     "(7), and any that hold the same trials (2)."},
    {"selftest", cmd_selftest, selftest_options, "",
     "verdicts of simulated trials with known truth",
     "Sends trials of the fake runtime through blocks, looks and verdicts: alike arms must come "
     "out "
     "equivalent, planted differences must be found. Exit 70 if any case fails."},
    {0},
};

static const struct program program = {
    .name = "ncbench",
    .version = NCBENCH_VERSION,
    .summary = "does this container runtime cost our training anything?",
    .verbs = verbs,
    .exit_codes = "  0    done\n"
                  "  1    a gate failed\n"
                  "  2    usage\n"
                  "  3    scenario invalid\n"
                  "  4    environment unusable\n"
                  "  5    trials failed or session incomplete\n"
                  "  6    inconclusive where a conclusion was required\n"
                  "  7    not comparable or untrustworthy\n"
                  "  8    results cannot be written or read\n"
                  "  70   bug\n"
                  "  124  session limit\n"
                  "  128+N  ended by signal N, after cleaning up\n",
};

int main(int argc, char **argv)
{
    log_init("ncbench", LOG_INFO);
    signal(SIGPIPE, SIG_IGN); /* a closed stdout is a write error (8), not a silent death */
    return verb_main(&program, argc, argv);
}
