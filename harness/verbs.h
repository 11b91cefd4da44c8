/* The verbs of ncbench: option table and function of each, for the table in main.c. */
#ifndef HARNESS_VERBS_H
#define HARNESS_VERBS_H

#include "common/verb.h"

#endif
