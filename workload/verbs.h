/* The verbs of nanochat: option table and function of each, for the table in main.c. */
#ifndef WORKLOAD_VERBS_H
#define WORKLOAD_VERBS_H

#include "common/verb.h"

/* clock_mono_s at the first statement of main. */
extern double program_entry_s;

#endif
