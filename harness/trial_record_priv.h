/* Parts of a trial's record, each a file: trial_record.c puts them together. */
#ifndef HARNESS_TRIAL_RECORD_PRIV_H
#define HARNESS_TRIAL_RECORD_PRIV_H

#include "harness/trial.h"

/* A finite number, or null with the reason. */
void put_number(json_t *obj, const char *key, double value, const char *why);
/* "phases_s", without warmup and steady, which record_apply_warmup fills. */
void trial_record_phases(const struct trial_facts *f, json_t *record);
/* "train" */
void trial_record_train(const struct trial_facts *f, json_t *record);
/* "comm" */
void trial_record_comm(const struct trial_facts *f, json_t *record);
/* "counters": per step, summed over the ranks; the counts follow from the warm-up
 * (record_apply_warmup). */
void trial_record_counters(const struct trial_facts *f, json_t *record);
/* phases_s.total and .unaccounted, once all phases are there. */
void trial_record_unaccounted(const struct trial_facts *f, json_t *record);

#endif
