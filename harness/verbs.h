/* The verbs of ncbench: option table and function of each, for the table in main.c. */
#ifndef HARNESS_VERBS_H
#define HARNESS_VERBS_H

#include "common/verb.h"

extern const struct option_spec check_options[];
int cmd_check(int argc, char **argv);
extern const struct option_spec image_options[];
int cmd_image(int argc, char **argv);
extern const struct option_spec plan_options[];
int cmd_plan(int argc, char **argv);
extern const struct option_spec sbatch_options[];
int cmd_sbatch(int argc, char **argv);
extern const struct option_spec run_options[];
int cmd_run(int argc, char **argv);
extern const struct option_spec status_options[];
int cmd_status(int argc, char **argv);
extern const struct option_spec show_options[];
int cmd_show(int argc, char **argv);
extern const struct option_spec topo_options[];
int cmd_topo(int argc, char **argv);
extern const struct option_spec doctor_options[];
int cmd_doctor(int argc, char **argv);
extern const struct option_spec compare_options[], export_options[], gate_options[], plot_options[],
    report_options[], selftest_options[];
int cmd_compare(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_gate(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
extern const struct option_spec merge_options[];
int cmd_merge(int argc, char **argv);

#endif
