/* The verbs of nanochat: option table and function of each, for the table in main.c. */
#ifndef WORKLOAD_VERBS_H
#define WORKLOAD_VERBS_H

#include "common/verb.h"

/* clock_mono_s at the first statement of main. */
extern double program_entry_s;

int cmd_tok_train(int argc, char **argv);
extern const struct option_spec tok_train_options[];

int cmd_tok_eval(int argc, char **argv);
extern const struct option_spec tok_eval_options[];
int cmd_tok_pack(int argc, char **argv);
extern const struct option_spec tok_pack_options[];
extern const struct option_spec train_option_specs[]; /* base-train's */
int cmd_base_train(int argc, char **argv);
extern const struct option_spec base_loss_option_specs[];
int cmd_base_loss(int argc, char **argv);
extern const struct option_spec comm_perf_option_specs[];
int cmd_comm_perf(int argc, char **argv);
extern const struct option_spec info_option_specs[];
int cmd_info(int argc, char **argv);

/* Is there a verb of that name? */
bool program_has_verb(const char *name);

extern const struct option_spec launch_options[];
int cmd_launch(int argc, char **argv);

#endif
