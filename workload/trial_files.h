/* Whose the files are that the ranks write into the directory of a trial: each rank's own, or one
 * of each kind for the ranks of a node (NCBENCH_TRIAL_FILES=node), which a parallel file system
 * creates faster than thousands. */
#ifndef WORKLOAD_TRIAL_FILES_H
#define WORKLOAD_TRIAL_FILES_H

#include "common/error.h"
#include "common/str.h"

#include <stdbool.h>
#include <sys/types.h>

/* Are they to be shared by the ranks of a node? */
bool trial_files_shared(void);
/* The number of this rank's node, by GROUP_RANK or SLURM_NODEID; -1: unknown. */
int trial_files_node(void);

/* The file of events. */
struct events_file {
    int fd; /* -1: none */
    char *path;
    bool shared;     /* with the other ranks of the node */
    int write_errno; /* != 0: it cannot be written */
    off_t whole;     /* bytes of whole lines of a file that is not shared */
};

/* Creates it; one that is there already is an error, unless ranks share it. */
int events_file_open(struct events_file *f, const char *dir, int rank, struct error *err);
/* Before the first line of a text that goes to the file. */
void events_file_begin(const struct events_file *f, struct str *text);
/* Appends whole lines in one write and empties the text. A failure is kept in write_errno; what a
 * full disk took of a line is cut off again, or, in a shared file, spoils no other line. */
void events_file_write(struct events_file *f, struct str *text);
/* Returns 0 or the errno of close. */
int events_file_close(struct events_file *f);
void events_file_release(struct events_file *f);

#endif
