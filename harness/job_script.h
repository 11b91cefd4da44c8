/* The job script of a scenario with scheduler: slurm. */
#ifndef HARNESS_JOB_SCRIPT_H
#define HARNESS_JOB_SCRIPT_H

#include "harness/scenario.h"

struct job_script_options {
    const char *scenario_path; /* absolute */
    const char *ncbench;       /* absolute path of the program */
    const char *directory;     /* where it runs */
    const char *out;           /* results folder; NULL: as the scenario says */
    const struct strv *start;  /* further arguments of `ncbench run` that begins a session */
};

/* Appends it. 3: the scenario does not run under Slurm, or its cells ask for different jobs. */
int job_script_write(const struct scenario *s, const struct job_script_options *o, struct str *out,
                     struct error *err);

#endif
