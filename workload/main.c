/* nanochat: the workload. Verbs are listed in one table; each is one file, cmd_<verb>.c. */
#include "common/clock.h"
#include "common/log.h"
#include "common/protocol.h"
#include "common/verb.h"
#include "workload/verbs.h"

#include <signal.h>
#include <string.h>

static const struct verb verbs[] = {
    {"tok-train", cmd_tok_train, tok_train_options, "", "train a tokenizer on text",
     "Learns a byte-level BPE vocabulary from the training documents of --data and writes\n"
     "tokenizer.json. A document is a headword entry of a dictd database (X.dict.dz beside\n"
     "X.index), what stands between lines <|endoftext|> where a file has such lines, else a\n"
     "paragraph. Invalid UTF-8 is kept and counted."},
    {"tok-eval", cmd_tok_eval, tok_eval_options, "", "measure how well a tokenizer compresses",
     NULL},
    {"tok-pack", cmd_tok_pack, tok_pack_options, "", "write text as token files",
     "Tokenises --data once and writes the very streams that training on the text would read:\n"
     "`base-train --data-source=packed --data=DIR` then needs no tokenising in its time."},
    {"base-train", cmd_base_train, train_option_specs, "", "train a base model",
     "Flags and defaults are those of nanochat's base_train, with '-' or '_'. One process is one\n"
     "rank: `nanochat launch --nproc-per-node=N -- base-train ...` starts several. A step takes\n"
     "total-batch-size tokens, cut into micro-batches of device-batch-size x max-seq-len tokens\n"
     "over all ranks; its loss is the mean over all of them, the printed one a moving average.\n"
     "SIGTERM and SIGINT end the run after the step in progress (exit 8)."},
    {"base-loss", cmd_base_loss, base_loss_option_specs, "",
     "loss and bits per byte of a trained base model on both splits, and samples", NULL},
    {"comm-perf", cmd_comm_perf, comm_perf_option_specs, "", "measure the collectives alone",
     "By nccl-tests' conventions: the size is a rank's buffer for all_reduce and broadcast, the\n"
     "whole for reduce_scatter and all_gather; algbw is size/time, busbw what that is on the bus\n"
     "(no such with one rank). float32, in place; every element is compared with an exact sum.\n"
     "`nanochat launch --nproc-per-node=N -- comm-perf ...` measures between N ranks."},
    {"info", cmd_info, info_option_specs, "", "what this build and this machine have", NULL},
    {"launch", cmd_launch, launch_options, "-- VERB [ARGUMENT...]",
     "start the ranks of a node and end them together",
     "Starts --nproc-per-node processes of this very program with the given verb, as torchrun\n"
     "does: RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set,\n"
     "standard input is /dev/null. TERM, INT, HUP, USR1 and USR2 are forwarded. When a rank\n"
     "fails, or TERM, INT or HUP arrives, all ranks are ended; after the grace time, or at a\n"
     "second signal, they are killed. No process is left. OMP_NUM_THREADS is left as it is; when\n"
     "it is not set, each rank gets its share of the usable processing units (torchrun sets 1).\n"
     "The exit code is that of the rank that failed first, or 8 when a signal ended it."},
    {0},
};

bool program_has_verb(const char *name)
{
    for (const struct verb *v = verbs; v->name; v++)
        if (!strcmp(v->name, name))
            return true;
    return false;
}

static const struct program program = {
    .name = "nanochat",
    .version = NCBENCH_VERSION,
    .summary = "train, evaluate and run nanochat models",
    .verbs = verbs,
    .exit_codes = "  0   done\n"
                  "  2   usage\n"
                  "  3   impossible shape or plan\n"
                  "  4   device\n"
                  "  5   data\n"
                  "  6   non-finite loss\n"
                  "  7   checkpoint or tokenizer corrupt or mismatched\n"
                  "  8   peer lost, killed, or collective timed out\n"
                  "  9   out of memory\n"
                  "  10  cannot write\n"
                  "  70  bug\n",
};

int main(int argc, char **argv)
{
    program_entry_s = clock_mono_s(); /* hello reports it: everything before is start and exec */
    log_init("nanochat", LOG_INFO);
    signal(SIGPIPE, SIG_IGN); /* a closed stdout is a write error (10), not a silent death */
    return verb_main(&program, argc, argv);
}
